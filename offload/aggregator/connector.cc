#include "offload/aggregator/connector.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "offload/tree.h"

namespace foldcast::offload {
namespace {

/// A blocking attempt is cut into such slices, so that the daemon's end does not have to wait for longer.
constexpr std::chrono::milliseconds kSlice{1000};

}  // namespace

Result<std::unique_ptr<Connector>> Connector::create(bootstrap::ChannelOptions options) {
  std::unique_ptr<Connector> connector(new Connector(std::move(options)));
  connector->bell_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!connector->bell_) return system_error("eventfd for connections to parents", errno);
  return connector;
}

Connector::~Connector() {
  stop_.store(true);
  for (auto& attempt : attempts_) attempt.thread.join();
}

Result<std::unique_ptr<bootstrap::Channel>> Connector::attempt(const std::string& host, std::uint16_t port,
                                                               Deadline deadline) {
  while (true) {
    const auto slice = std::min(deadline.at(), Deadline::Clock::now() + kSlice) - Deadline::Clock::now();
    const Deadline until = Deadline::after(slice);
    auto channel = bootstrap::Channel::connect(host, port, options_, until);
    // An answer before the slice is over is the final one: refused by name, or a host that does not exist.
    if (channel.ok() || !until.passed() || deadline.passed() || stop_.load()) return channel;
  }
}

Status Connector::connect(std::uint32_t ticket, const std::string& control, Deadline deadline) {
  for (auto done = attempts_.begin(); done != attempts_.end();) {
    if (done->over.load()) {
      done->thread.join();
      done = attempts_.erase(done);
    } else {
      ++done;
    }
  }
  FOLDCAST_ASSIGN(auto address, split_control(control));
  auto& attempt = attempts_.emplace_back();
  try {
    attempt.thread = std::thread([this, &attempt, ticket, deadline, address] {
      report({ticket, this->attempt(address.host, address.port, deadline)});
      attempt.over.store(true);
    });
  } catch (const std::system_error& error) {
    attempts_.pop_back();
    return resource_exhausted(std::string("cannot start a thread to connect to the parent: ") + error.what());
  }
  return ok_status();
}

void Connector::report(Outcome outcome) {
  {
    const std::lock_guard lock(mutex_);
    outcomes_.push_back(std::move(outcome));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof one);
}

std::vector<Connector::Outcome> Connector::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(bell_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(outcomes_, {});
}

}  // namespace foldcast::offload
