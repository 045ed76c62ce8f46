#include "core/runtime/progress.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/epoll.h"

namespace foldcast::runtime {
namespace {

/// A transport may see a broken connection before the control plane says who died: two ranks that stop because a third
/// died look dead to each other as well. So the control plane is given this long to name the first.
constexpr std::chrono::milliseconds kVerdict{700};
/// How long one look at what another rank has said may take.
constexpr std::chrono::milliseconds kGlance{10};
/// While spinning, the control plane is asked so often.
constexpr std::uint32_t kPassesPerCheck = 1024;
/// And the clock is looked at.
constexpr std::uint32_t kPassesPerClock = 16;
/// A caller that comes back to test() after so long was computing; its silence is not the peers'.
constexpr std::chrono::seconds kCallerGap{1};
/// A parked thread looks at its own deadline so often.
constexpr std::chrono::milliseconds kParked{200};

Status add_to(const UniqueFd& epoll, int descriptor) {
  if (descriptor < 0) return ok_status();
  return epoll_add(epoll, descriptor);
}

}  // namespace

Result<std::unique_ptr<Progress>> Progress::create(Executor& executor, bootstrap::Store& store,
                                                   ProgressOptions options) {
  std::unique_ptr<Progress> progress(new Progress(executor, store, options));
  FOLDCAST_ASSIGN(progress->epoll_, make_epoll());
  progress->nudge_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!progress->nudge_) return system_error("eventfd", errno);
  FOLDCAST_RETURN_IF_ERROR(add_to(progress->epoll_, progress->nudge_.get()));
  FOLDCAST_RETURN_IF_ERROR(add_to(progress->epoll_, store.descriptor()));
  return progress;
}

Progress::~Progress() { stop_thread(); }

Status Progress::watch(Engine& engine) { return add_to(epoll_, engine.descriptor()); }

void Progress::unwatch(Engine& engine) {
  if (engine.descriptor() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, engine.descriptor(), nullptr);
}

std::optional<Status> Progress::verdict(const Execution& execution) {
  const auto& members = execution.endpoints().world_ranks;
  for (const auto& failure : store_.failures()) {
    if (std::find(members.begin(), members.end(), failure.rank) == members.end()) continue;
    return peer_failed(fmt::format("call {}: rank {} ({}) failed: {}", execution.sequence(), failure.rank, failure.name,
                                   failure.reason));
  }
  return std::nullopt;
}

void Progress::check_peers() {
  for (const auto& notice : store_.take_notices()) {
    if (on_notice_) on_notice_(notice);
  }
  if (store_.failures().empty()) return;
  executor_.for_each_unfinished([this](const Execution& execution) {
    if (auto known = verdict(execution)) executor_.fail(execution.endpoints().communicator, *known);
  });
}

void Progress::check_deadline(Execution& execution, Clock::time_point since) {
  if (execution.finished() || !execution.status().ok()) return;
  const auto quiet_since = std::max(last_move(), since);
  if (Clock::now() - quiet_since < options_.timeout) return;
  Status status = timeout(fmt::format("call {}: nothing moved for {} ms while waiting for {}", execution.sequence(),
                                      options_.timeout.count(), executor_.waiting_for(execution)));
  if (auto found = mismatch(execution)) status = *found;
  executor_.fail(execution.endpoints().communicator, status);
}

/// Ranks whose calls differ so much that they took different plans, or different paths, wait for messages that nobody
/// sends. When their patience ends they tell each other over the control plane what they were asked for.
std::optional<Status> Progress::mismatch(const Execution& execution) {
  const Endpoints& endpoints = execution.endpoints();
  const auto key_of = [&](std::size_t rank) {
    return fmt::format("stuck/{}/{}/{}", endpoints.communicator, execution.sequence(), rank);
  };
  const Signature& mine = execution.signature();
  const std::string_view bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  const Deadline deadline = Deadline::after(kVerdict);
  if (!store_.set_by(key_of(static_cast<std::size_t>(endpoints.rank)), bytes, deadline).ok()) return std::nullopt;
  // In rounds: ranks lose patience one after the other, and one that is not stuck never answers.
  while (!deadline.passed()) {
    for (std::size_t rank = 0; rank < endpoints.names.size() && !deadline.passed(); ++rank) {
      const auto answer = store_.get(key_of(rank), Deadline::after(kGlance));
      Signature theirs;
      if (!answer.ok() || answer->size() != sizeof theirs) continue;
      std::memcpy(&theirs, answer->data(), sizeof theirs);
      if (theirs == mine) continue;
      return foldcast::mismatch(fmt::format("call {}: {} called {}, {} called {}", execution.sequence(),
                                            endpoints.names[static_cast<std::size_t>(endpoints.rank)], to_string(mine),
                                            endpoints.names[rank], to_string(theirs)));
    }
  }
  return std::nullopt;
}

bool Progress::sleep(Clock::time_point until, Lock& lock) {
  if (!executor_.arm()) return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  constexpr int kEvents = 8;
  epoll_event events[kEvents];
  asleep_ = true;
  lock.unlock();
  const int ready =
      ::epoll_wait(epoll_.get(), events, kEvents, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)));
  lock.lock();
  asleep_ = false;
  bool news = false;
  bool nudged = false;
  for (int i = 0; i < ready; ++i) {
    news |= events[i].data.fd == store_.descriptor();
    nudged |= events[i].data.fd == nudge_.get();
    executor_.wake(events[i].data.fd);
  }
  if (nudged) {
    std::uint64_t ignored;
    (void)!::read(nudge_.get(), &ignored, sizeof ignored);
  }
  // Who spins looks at everything; and after a silence, or more news than fitted, so does everybody.
  if (options_.spin.count() > 0 || nudged || ready <= 0 || ready == kEvents) executor_.look_at_all();
  return news;
}

void Progress::nudge() {
  if (!asleep_) return;
  std::uint64_t one = 1;
  (void)!::write(nudge_.get(), &one, sizeof one);
}

void Progress::let_others_in(Lock& lock) {
  Gate& gate = *lock.mutex();
  lock.unlock();
  while (gate.wanted()) std::this_thread::yield();
  lock.lock();
}

Status Progress::settle(const Execution& execution, Lock& lock) {
  if (execution.status().code() != Code::kPeerFailed) return execution.status();
  for (const Deadline deadline = Deadline::after(kVerdict);;) {
    if (auto known = verdict(execution)) {
      executor_.fail(execution.endpoints().communicator, *known);  // later calls hear the same
      return *known;
    }
    if (deadline.passed() || store_.descriptor() < 0) return execution.status();
    pollfd waiting{store_.descriptor(), POLLIN, 0};
    lock.unlock();
    ::poll(&waiting, 1, deadline.poll_timeout());
    lock.lock();
  }
}

Progress::Clock::time_point Progress::last_move() {
  if (executor_.moves() != moves_seen_) {
    moves_seen_ = executor_.moves();
    last_move_ = Clock::now();
  }
  return last_move_;
}

template <typename Done, typename Watch>
void Progress::drive(Lock& lock, const Done& done, const Watch& watch) {
  // Short calls end before the first look at the clock.
  std::optional<Clock::time_point> since;
  auto idle_since = Clock::time_point::max();
  for (std::uint32_t passes = 1; !done(); ++passes) {
    if (executor_.progress()) {
      if (parked_ > 0) turn_.notify_all();  // one of theirs may have finished
      idle_since = Clock::time_point::max();
      continue;
    }
    if (lock.mutex()->wanted()) let_others_in(lock);
    if (done()) break;
    if (options_.spin.count() > 0) {
      if (passes % kPassesPerCheck == 0) check_peers();
      if (passes % kPassesPerClock != 0) continue;
      const auto now = Clock::now();
      idle_since = std::min(idle_since, now);
      if (now - idle_since < options_.spin) continue;
    }
    if (!since) since = Clock::now();
    if (sleep(std::max(last_move(), *since) + options_.timeout, lock)) check_peers();
    watch(*since);
  }
}

Status Progress::wait(Execution& execution, Lock& lock) {
  std::optional<Clock::time_point> parked_since;
  while (!execution.finished()) {
    if (driven_) {
      // The thread of its own makes room for us; who waits for another call drives ours along with it.
      if (!parked_since) parked_since = Clock::now();
      nudge();
      ++parked_;
      turn_.wait_for(lock, kParked, [&] { return execution.finished() || !driven_; });
      --parked_;
      check_deadline(execution, *parked_since);
      continue;
    }
    driven_ = true;
    drive(
        lock, [&] { return execution.finished(); }, [&](Clock::time_point from) { check_deadline(execution, from); });
    driven_ = false;
    if (parked_ > 0 || thread_.joinable()) turn_.notify_all();
  }
  return settle(execution, lock);
}

void Progress::poll(Execution& execution) {
  const auto now = Clock::now();
  if (now - last_poll_ > kCallerGap) polled_since_ = now;
  last_poll_ = now;
  if (!driven_) {
    executor_.look_at_all();
    executor_.progress();
    if (!execution.finished()) check_peers();
  }
  if (!execution.finished()) check_deadline(execution, polled_since_);
}

Status Progress::start_thread(Gate& gate) {
  try {
    thread_ = std::thread([this, &gate] { serve(gate); });
  } catch (const std::system_error& error) {
    return resource_exhausted(fmt::format("no thread to make progress: {}", error.what()));
  }
  return ok_status();
}

void Progress::serve(Gate& gate) {
  Lock lock(gate);
  while (!stopping_) {
    if (driven_ || parked_ > 0) {
      turn_.wait_for(lock, kParked, [&] { return stopping_ || (!driven_ && parked_ == 0); });
      continue;
    }
    driven_ = true;
    drive(
        lock, [&] { return stopping_ || parked_ > 0; }, [](Clock::time_point) {});
    driven_ = false;
    turn_.notify_all();
  }
}

/// Without the gate: nobody else uses the context any more.
void Progress::stop_thread() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  std::uint64_t one = 1;
  (void)!::write(nudge_.get(), &one, sizeof one);
  turn_.notify_all();
  thread_.join();
}

}  // namespace foldcast::runtime
