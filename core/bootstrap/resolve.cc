#include "core/bootstrap/resolve.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace foldcast::bootstrap {
namespace {

using Addresses = std::vector<SocketAddress>;

Result<Addresses> look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    const char* reason = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
    return unavailable(fmt::format("cannot resolve \"{}\": {}", host, reason));
  }
  Addresses addresses;
  for (addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  if (addresses.empty()) return unavailable(fmt::format("\"{}\" has no address", host));
  return addresses;
}

/// Shared by the caller and the resolver's thread; whoever ends last frees it.
struct Query {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Result<Addresses>> answer;
};

}  // namespace

Result<HostPort> parse_host_port(std::string_view text, std::uint16_t lowest_port) {
  Status malformed = invalid_argument(fmt::format("\"{}\": expected host:port", text));
  auto colon = text.rfind(':');
  if (colon == text.npos) return malformed;
  std::string_view host = text.substr(0, colon), digits = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != host.npos) {
    return malformed.with_context("an IPv6 address needs brackets");
  }
  std::uint16_t port = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || error != std::errc{} || end != digits.data() + digits.size() || port < lowest_port) {
    return malformed;
  }
  return HostPort{std::string(host), port};
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port, Deadline deadline) {
  if (auto numeric = look_up(host, port, AI_NUMERICHOST); numeric.ok()) return numeric;
  auto query = std::make_shared<Query>();
  try {
    // getaddrinfo cannot be interrupted, and with a dead name server takes longer than most deadlines.
    std::thread([query, host, port] {
      auto answer = look_up(host, port, 0);
      std::lock_guard lock(query->mutex);
      query->answer = std::move(answer);
      query->answered.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, fmt::format("no thread to resolve \"{}\": {}", host, error.what()));
  }
  std::unique_lock lock(query->mutex);
  auto is_answered = [&] { return query->answer.has_value(); };
  // wait_until overflows on the end of time in some implementations; a day is as good.
  auto limit = std::min(deadline.at(), Deadline::Clock::now() + std::chrono::hours(24));
  if (!query->answered.wait_until(lock, limit, is_answered)) {
    return timeout(fmt::format("waiting for the name service to resolve \"{}\"", host));
  }
  return *std::move(query->answer);
}

}  // namespace foldcast::bootstrap
