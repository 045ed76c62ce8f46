#include "core/bootstrap/pmi.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/bootstrap/socket.h"

namespace foldcast::bootstrap {
namespace {

constexpr std::size_t kMaxLine = 8192;

/// The value of word `name` in a line of name=value words; a value ends at a blank.
std::optional<std::string> word(std::string_view line, std::string_view name) {
  while (!line.empty()) {
    std::string_view pair = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(pair.size() + 1, line.size()));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return std::string(pair.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> PmiClient::publish_from_rank_0(int rank, const std::string& key, const std::string& value) {
  FOLDCAST_ASSIGN(auto version, ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"));
  if (word(version, "rc").value_or("0") != "0") {
    return unavailable("the process manager does not speak PMI version 1: " + version);
  }
  FOLDCAST_ASSIGN(auto maxes, ask("cmd=get_maxes", "maxes"));
  if (auto longest = word(maxes, "vallen_max");
      longest && std::atol(longest->c_str()) <= static_cast<long>(value.size())) {
    return unavailable(fmt::format("the process manager takes no value as long as \"{}\"", value));
  }
  FOLDCAST_ASSIGN(auto name_line, ask("cmd=get_my_kvsname", "my_kvsname"));
  auto space = word(name_line, "kvsname");
  if (!space) return unavailable("the process manager names no key space: " + name_line);
  // A second job context of the same processes finds the key taken, by rank 0's first choice; that one then stands.
  if (rank == 0) {
    auto put = ask(fmt::format("cmd=put kvsname={} key={} value={}", *space, key, value), "put_result");
    if (!put.ok()) return put.status();
  }
  FOLDCAST_ASSIGN(auto barrier, ask("cmd=barrier_in", "barrier_out"));
  FOLDCAST_ASSIGN(auto got, ask(fmt::format("cmd=get kvsname={} key={}", *space, key), "get_result"));
  auto result = word(got, "value");
  if (!result || word(got, "rc").value_or("0") != "0") {
    return unavailable(fmt::format("the process manager does not have rank 0's \"{}\": {}", key, got));
  }
  return *result;
}

Result<std::string> PmiClient::ask(const std::string& request, const std::string& expected) {
  std::string line = request + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    FOLDCAST_RETURN_IF_ERROR(wait_until_ready(fd_, POLLOUT, deadline_, "the process manager at PMI_FD"));
    ssize_t sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return system_error("write to the process manager at PMI_FD", errno);
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  FOLDCAST_ASSIGN(auto answer, read_line(request));
  if (word(answer, "cmd") == expected) return answer;
  return unavailable(fmt::format("the process manager answered \"{}\" to \"{}\"", answer, request));
}

Result<std::string> PmiClient::read_line(const std::string& what) {
  std::string line;
  // Byte by byte: what follows the line is for the MPI that shares the descriptor.
  while (line.size() < kMaxLine) {
    std::string waiting = fmt::format("the process manager to answer \"{}\"", what);
    FOLDCAST_RETURN_IF_ERROR(wait_until_ready(fd_, POLLIN, deadline_, waiting));
    char byte;
    ssize_t got = ::read(fd_, &byte, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return system_error("read from the process manager at PMI_FD", errno);
    if (got == 0)
      return unavailable(fmt::format("the process manager closed PMI_FD instead of answering \"{}\"", what));
    if (byte == '\n') return line;
    if (byte != '\0') line += byte;
  }
  return unavailable(fmt::format("the process manager's answer to \"{}\" has no end", what));
}

}  // namespace foldcast::bootstrap
