#include "offload/client/lease_keeper.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace foldcast::offload {
namespace {

using Clock = std::chrono::steady_clock;

/// For last words that their sockets do not take at once, all together.
constexpr std::chrono::milliseconds kLastWord{500};

void ring_bell(int bell) {
  const std::uint64_t one = 1;
  // Only a full counter could fail, and then the bell rings already.
  [[maybe_unused]] const auto written = ::write(bell, &one, sizeof one);
}

void hush_bell(int bell) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(bell, &count, sizeof count);
}

}  // namespace

Result<std::shared_ptr<Fate>> Fate::create() {
  std::shared_ptr<Fate> fate(new Fate);
  fate->bell_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fate->bell_) return system_error("eventfd for an offload group", errno);
  return fate;
}

void Fate::seal(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (!why_.ok()) return;
  why_ = why;
  sealed_.store(true, std::memory_order_release);
  ring_bell(bell_.get());
}

Status Fate::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

void Fate::ring() {
  const std::lock_guard lock(mutex_);
  ring_bell(bell_.get());
}

void Fate::hush() {
  const std::lock_guard lock(mutex_);
  hush_bell(bell_.get());
}

Result<std::shared_ptr<LeaseKeeper>> LeaseKeeper::create() {
  std::shared_ptr<LeaseKeeper> keeper(new LeaseKeeper);
  keeper->bell_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!keeper->bell_) return system_error("eventfd for the lease keeper", errno);
  try {
    keeper->thread_ = std::thread([raw = keeper.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return resource_exhausted(std::string("cannot start the lease keeper's thread: ") + error.what());
  }
  return keeper;
}

LeaseKeeper::~LeaseKeeper() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ring();
  thread_.join();
}

void LeaseKeeper::ring() { ring_bell(bell_.get()); }

std::uint64_t LeaseKeeper::keep(std::unique_ptr<bootstrap::Channel> channel, Membership membership,
                                std::shared_ptr<Fate> fate) {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = next_ticket_++;
    leases_.push_back({ticket, std::move(channel), std::move(membership), std::move(fate), std::nullopt});
  }
  ring();
  return ticket;
}

void LeaseKeeper::release(std::uint64_t ticket, ControlFrame last_word) {
  {
    const std::lock_guard lock(mutex_);
    for (auto& lease : leases_) {
      if (lease.ticket == ticket) lease.last_word = std::move(last_word);
    }
  }
  ring();
}

bool LeaseKeeper::serve(Lease& lease) {
  while (!lease.membership.ended()) {
    auto bytes = lease.channel->try_receive();
    if (!bytes.ok()) {
      lease.membership.on_link_lost(bytes.status());
      break;
    }
    if (!bytes->has_value()) break;
    auto frame = decode(**bytes);
    if (frame.ok()) {
      lease.membership.on_frame(*frame, Clock::now());
    } else {
      lease.membership.on_link_lost(frame.status());
    }
  }
  if (const auto renewal = lease.membership.on_time(Clock::now())) {
    if (Status sent = lease.channel->send(encode(*renewal)); !sent.ok()) lease.membership.on_link_lost(sent);
  }
  if (!lease.membership.ended()) return true;
  lease.fate->seal(lease.membership.failure());
  return false;
}

/// Failures no longer matter to anybody: the aggregators will see the connections close.
void LeaseKeeper::say_last_words(std::list<Lease>& leaving) {
  for (auto& lease : leaving) {
    [[maybe_unused]] const Status said = lease.channel->send(encode(*lease.last_word));
  }
  const Deadline deadline = Deadline::after(kLastWord);
  for (auto& lease : leaving) {
    [[maybe_unused]] const Status said = lease.channel->flush(deadline);
  }
  leaving.clear();
}

void LeaseKeeper::run() {
  std::vector<pollfd> fds;
  std::list<Lease> leaving;
  while (true) {
    bool stop = false;
    auto next = Clock::time_point::max();
    fds.assign(1, {bell_.get(), POLLIN, 0});
    {
      const std::lock_guard lock(mutex_);
      stop = stop_;
      for (auto lease = leases_.begin(); lease != leases_.end();) {
        const auto here = lease++;
        if (here->last_word) leaving.splice(leaving.end(), leases_, here);
      }
      leases_.remove_if([](Lease& lease) { return !serve(lease); });
      for (const auto& lease : leases_) {
        const short events = lease.channel->wants_write() ? POLLIN | POLLOUT : POLLIN;
        fds.push_back({lease.channel->descriptor(), events, 0});
        next = std::min(next, lease.membership.next_time());
      }
    }
    // Without the lock: a peer that does not read must not hold up a group's thread.
    say_last_words(leaving);
    if (stop) return;
    int wait = -1;
    if (next != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
      wait = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
    }
    if (::poll(fds.data(), fds.size(), wait) > 0 && fds[0].revents != 0) hush_bell(bell_.get());
  }
}

}  // namespace foldcast::offload
