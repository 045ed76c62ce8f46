#include "offload/aggregator/connector.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace foldcast::offload {
namespace {

/// A blocking attempt is cut into such slices, so that whoever ends it does not have to wait for longer.
constexpr std::chrono::milliseconds kSlice{1000};

}  // namespace

Result<std::unique_ptr<Connector>> Connector::create(bootstrap::ChannelOptions options) {
  std::unique_ptr<Connector> connector(new Connector(std::move(options)));
  connector->bell_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!connector->bell_) return system_error("eventfd for connections to parents", errno);
  return connector;
}

Connector::~Connector() {
  for (auto& attempt : attempts_) attempt.stop.store(true);
  for (auto& attempt : attempts_) attempt.thread.join();
}

Result<std::unique_ptr<bootstrap::Channel>> Connector::run(const Attempt& attempt) const {
  while (true) {
    const auto start = Deadline::Clock::now();
    const auto slice = std::min<Deadline::Clock::duration>(kSlice, attempt.deadline.at() - start);
    auto channel =
        bootstrap::Channel::connect(attempt.address.host, attempt.address.port, options_, Deadline::after(slice));
    if (channel.ok() || attempt.deadline.passed() || attempt.stop.load()) return channel;
    // While nobody listens the channel tries until less time is left than its next pause, a quarter of a slice at most.
    // What comes sooner is a final answer: refused by name, or nothing that could be connected to.
    if (Deadline::Clock::now() - start < slice / 2) return channel;
  }
}

void Connector::join_finished() {
  attempts_.remove_if([](Attempt& attempt) {
    if (!attempt.over.load()) return false;
    attempt.thread.join();
    return true;
  });
}

Status Connector::connect(std::uint32_t ticket, const std::string& control, Deadline deadline) {
  join_finished();
  if (attempts_.size() >= kMaxAttempts) {
    return resource_exhausted("all " + std::to_string(kMaxAttempts) + " connections to parents at a time are in use");
  }
  FOLDCAST_ASSIGN(auto address, split_control(control));
  auto& attempt = attempts_.emplace_back(ticket, std::move(address), deadline);
  try {
    attempt.thread = std::thread([this, &attempt] {
      report({attempt.ticket, run(attempt)});
      attempt.over.store(true);
    });
  } catch (const std::system_error& error) {
    attempts_.pop_back();
    return resource_exhausted(std::string("cannot start a thread to connect to the parent: ") + error.what());
  }
  return ok_status();
}

void Connector::cancel(std::uint32_t ticket) {
  for (auto& attempt : attempts_) {
    if (attempt.ticket == ticket) attempt.stop.store(true);
  }
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
