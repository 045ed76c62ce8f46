#include "offload/aggregator/daemon.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/epoll.h"
#include "core/base/log.h"

namespace foldcast::offload {
namespace {

/// What an epoll event is about: the kind in the top byte, a number below it.
enum class Source : std::uint64_t { kInterrupt = 1, kListener, kConnector, kLink, kJob };

std::uint64_t tag_of(Source source, std::uint64_t number = 0) { return std::uint64_t(source) << 56 | number; }

/// A job's transport outlives its last group for this long: the next group often follows.
constexpr std::chrono::milliseconds kJobGrace{5000};
constexpr std::chrono::milliseconds kFarewell{1000};

Time now_time() { return std::chrono::steady_clock::now(); }

}  // namespace

std::uint64_t Daemon::link_tag(std::uint64_t id) { return tag_of(Source::kLink, id); }

Result<std::unique_ptr<Daemon>> Daemon::create(DaemonOptions options, TransportFactory make_transport) {
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), std::move(make_transport)));
  FOLDCAST_RETURN_IF_ERROR(daemon->open());
  return daemon;
}

Daemon::Daemon(DaemonOptions options, TransportFactory make_transport)
    : options_(std::move(options)), make_transport_(std::move(make_transport)), quota_(options_.name, options_.limits) {
  traits_.window = options_.window;
  traits_.fragment = options_.fragment;
  traits_.lease = options_.lease;
  traits_.caps.dtypes = GroupCaps::kAllDtypes;
  traits_.caps.ops = GroupCaps::kAllOps;
  traits_.caps.deterministic = true;
}

Daemon::~Daemon() {
  // Groups stop on their job's transport, so they go first.
  groups_.clear();
}

Status Daemon::open() {
  FOLDCAST_RETURN_IF_ERROR(check_window(options_.window, options_.fragment));
  FOLDCAST_ASSIGN(epoll_, make_epoll());
  const bootstrap::ChannelOptions channel{
      .key = options_.key, .service = std::string(kService), .max_frame = kMaxControlFrame};
  FOLDCAST_ASSIGN(listener_, bootstrap::ChannelListener::listen(options_.host, options_.port, channel));
  FOLDCAST_ASSIGN(connector_, Connector::create(channel));
  FOLDCAST_RETURN_IF_ERROR(watch(listener_->descriptor(), tag_of(Source::kListener)));
  FOLDCAST_RETURN_IF_ERROR(watch(connector_->descriptor(), tag_of(Source::kConnector)));
  if (options_.interrupt_fd < 0) return ok_status();
  return watch(options_.interrupt_fd, tag_of(Source::kInterrupt));
}

Status Daemon::watch(int fd, std::uint64_t tag) { return epoll_add(epoll_, fd, tag); }

int Daemon::sleep_ms(std::chrono::milliseconds patience) const {
  for (const auto& [token, job] : jobs_) {
    if (job->awake) return 0;
  }
  auto wait = patience;
  if (next_time_ != Time::max()) {
    wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(next_time_ - now_time()));
  }
  return static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, 1 << 30));
}

bool Daemon::step(std::chrono::milliseconds patience) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), sleep_ms(patience));
  const Time now = now_time();
  bool interrupted = false;
  // Control before data: a child's farewell must be heard before its closed data connection is noticed.
  for (int i = 0; i < count; ++i) interrupted |= dispatch(events[i].data.u64, now);
  poll_jobs(now);
  if (now >= next_time_) on_time(now);
  while (!touched_.empty()) {
    const auto group = groups_.find(touched_.back());
    touched_.pop_back();
    if (group != groups_.end()) perform_control(group->second, now);
  }
  return !interrupted;
}

/// True for the interrupt descriptor.
bool Daemon::dispatch(std::uint64_t tag, Time now) {
  const std::uint64_t number = tag & ((std::uint64_t{1} << 56) - 1);
  switch (static_cast<Source>(tag >> 56)) {
    case Source::kInterrupt:
      return true;
    case Source::kListener:
      accept_links(now);
      break;
    case Source::kConnector:
      take_uplinks();
      break;
    case Source::kLink:
      serve_link(number, now);
      break;
    case Source::kJob:
      for (const auto& [token, job] : jobs_) job->awake |= job->serial == number;
      break;
  }
  return false;
}

void Daemon::poll_jobs(Time now) {
  for (const auto& [token, job] : jobs_) {
    if (job->awake) job->awake = !poll_job(*job, now);
  }
}

/// True when the job may sleep; false when its share of this step is used up and there is more.
bool Daemon::poll_job(Job& job, Time now) {
  std::array<Completion, 64> batch;
  for (int round = 0; round < 64; ++round) {
    const std::size_t count = job.transport->poll(batch);
    for (std::size_t i = 0; i < count; ++i) {
      const auto cookie = DataCookie::unpack(batch[i].cookie);
      const auto group = groups_.find(cookie.group);
      if (group == groups_.end()) continue;
      auto& hosted = *group->second.hosted;
      hosted.on_completion(cookie, batch[i], now);
      if (hosted.machine().has_control()) touched_.push_back(cookie.group);
      if (!batch[i].status.ok()) schedule(hosted.machine().next_time());
    }
    if (count == 0) {
      for (const auto& [id, group] : job.groups) group->perform();
      if (job.transport->arm()) return true;
    }
  }
  return false;
}

void Daemon::on_time(Time now) {
  next_time_ = Time::max();
  for (auto& [number, group] : groups_) {
    auto& machine = group.hosted->machine();
    machine.on_time(now);
    schedule(machine.next_time());
    if (machine.has_control()) touched_.push_back(number);
  }
  std::vector<std::uint64_t> expired;
  for (const auto& [id, link] : links_) {
    if (link.group != 0) continue;
    link.until <= now ? expired.push_back(id) : schedule(link.until);
  }
  for (const std::uint64_t id : expired) drop_link(id);
  std::erase_if(jobs_, [&](const auto& entry) {
    const Job& job = *entry.second;
    if (!job.groups.empty()) return false;
    if (job.idle_since + kJobGrace > now) {
      schedule(job.idle_since + kJobGrace);
      return false;
    }
    totals_.dropped += job.transport->counters().dropped;
    return true;
  });
}

Result<Daemon::Job*> Daemon::job_for(std::uint64_t token, Time now) {
  if (const auto known = jobs_.find(token); known != jobs_.end()) return known->second.get();
  FOLDCAST_ASSIGN(auto transport, make_transport_(token));
  if (transport->descriptor() < 0) return unsupported("a transport that cannot be slept on");
  auto job = std::make_unique<Job>();
  job->token = token;
  job->serial = next_job_++;
  job->transport = std::move(transport);
  job->idle_since = now;
  FOLDCAST_RETURN_IF_ERROR(watch(job->transport->descriptor(), tag_of(Source::kJob, job->serial)));
  schedule(now + kJobGrace);
  return jobs_.emplace(token, std::move(job)).first->second.get();
}

Result<Daemon::Group*> Daemon::group_for(const Join& join, Time now) {
  if (const auto job = jobs_.find(join.job_token); job != jobs_.end()) {
    if (const auto known = job->second->groups.find(join.group); known != job->second->groups.end()) {
      auto& machine = known->second->machine();
      if (machine.incarnation() != join.incarnation) {
        return unavailable("aggregator " + options_.name + " serves group " + std::to_string(join.group) +
                           " in incarnation " + std::to_string(machine.incarnation()) + ", not " +
                           std::to_string(join.incarnation));
      }
      return &groups_.at(known->second->number());
    }
    if (job->second->spent.contains(join.group)) {
      return unavailable("aggregator " + options_.name + ": group " + std::to_string(join.group) +
                         " has ended; join again with a new group id");
    }
  }
  AggregatorTraits traits = traits_;
  const auto& vertex = join.tree.vertices[join.vertex];
  const std::uint64_t children = vertex.children.size() + vertex.members.size();
  const std::uint64_t memory =
      group_memory(std::min(traits.window, join.window), std::min(traits.fragment, join.fragment),
                   slot_buffers(children, vertex.parent < 0));
  FOLDCAST_RETURN_IF_ERROR(quota_.reserve(join.job_token, memory));
  auto job = job_for(join.job_token, now);
  if (!job.ok()) {
    quota_.release(join.job_token, memory);
    return job.status().with_context("aggregator " + options_.name);
  }
  // 24 bits are what a cookie has for it; a number in use or 0 is skipped.
  do {
    next_group_ = (next_group_ + 1) & 0xffffff;
  } while (next_group_ == 0 || groups_.contains(next_group_));
  auto& group = groups_[next_group_];
  group.job = *job;
  group.reserved = memory;
  group.child_links.resize(children, 0);
  group.hosted = std::make_unique<HostedGroup>(
      next_group_, GroupMachine(join, std::move(traits), group.job->transport->address(), now), *group.job->transport,
      data_);
  group.job->groups.emplace(join.group, group.hosted.get());
  schedule(group.hosted->machine().next_time());
  return &group;
}

void Daemon::on_join(std::uint64_t id, const Join& join, Time now) {
  auto found = group_for(join, now);
  if (!found.ok()) {
    const bool full = found.status().code() == Code::kResourceExhausted;
    return refuse(id, join.group, found.status(), full ? "full" : "unavailable");
  }
  Group& group = **found;
  auto& machine = group.hosted->machine();
  const auto number = machine.on_join(join, now);
  touched_.push_back(group.hosted->number());
  if (!number.ok()) {
    const bool other = number.status().code() == Code::kMismatch;
    return refuse(id, join.group, number.status(), other ? "mismatch" : "duplicate");
  }
  auto& link = links_.at(id);
  link.group = group.hosted->number();
  link.party = *number;
  group.child_links[*number] = id;
}

void Daemon::perform_control(Group& group, Time now) {
  auto& machine = group.hosted->machine();
  // Performing may bring new actions: a start that fails, a grant.
  while (machine.has_control()) {
    for (auto& action : machine.take_control()) {
      if (action.kind == ControlAction::Kind::kEnd) return reap(group, now);
      perform_one(group, action, now);
    }
  }
  schedule(machine.next_time());
}

void Daemon::perform_one(Group& group, ControlAction& action, Time now) {
  auto& machine = group.hosted->machine();
  const auto link_of = [&] { return action.party == kParent ? group.parent_link : group.child_links[action.party]; };
  switch (action.kind) {
    case ControlAction::Kind::kSend:
      if (std::holds_alternative<Grant>(action.frame) && action.party == 0) ++totals_.groups_granted;
      send(link_of(), encode(action.frame));
      break;
    case ControlAction::Kind::kConnect: {
      group.parent_join = encode(action.frame);
      Status status = connector_->connect(group.hosted->number(), machine.parent_control(),
                                          Deadline::after(machine.next_time() - now));
      if (!status.ok()) machine.on_link_lost(kParent, status);
      break;
    }
    case ControlAction::Kind::kStart:
      if (Status status = group.hosted->start(now); !status.ok()) machine.fail(status);
      group.job->awake = true;
      break;
    case ControlAction::Kind::kEnd:
      break;
  }
}

void Daemon::take_uplinks() {
  for (auto& outcome : connector_->take()) {
    const auto found = groups_.find(outcome.ticket);
    if (found == groups_.end()) continue;
    Group& group = found->second;
    touched_.push_back(outcome.ticket);
    if (!outcome.channel.ok()) {
      group.hosted->machine().on_link_lost(kParent, outcome.channel.status());
      continue;
    }
    group.parent_link = add_link(std::move(*outcome.channel), {.group = outcome.ticket, .party = kParent});
    send(group.parent_link, std::exchange(group.parent_join, {}));
  }
}

/// Frees what an ended group held. Its links stay until their last frame is out and the other side has closed.
void Daemon::reap(Group& group, Time now) {
  const std::uint32_t number = group.hosted->number();
  const auto& machine = group.hosted->machine();
  if (!machine.failure().ok()) {
    ++totals_.groups_failed;
    log().info("{}: group {} ended: {}", options_.name, machine.group(), machine.failure().to_string());
  }
  for (const std::uint64_t id : group.child_links) close_link(id, now);
  close_link(group.parent_link, now);
  Job& job = *group.job;
  if (group.hosted->was_started()) job.spent.insert(machine.group());
  job.groups.erase(machine.group());
  job.idle_since = now;
  job.awake = true;  // what stop() gives back is to be taken
  if (job.groups.empty()) schedule(now + kJobGrace);
  quota_.release(job.token, group.reserved);
  connector_->cancel(number);
  group.hosted->stop();
  groups_.erase(number);
}

void Daemon::farewell() {
  const Time now = now_time();
  for (auto& [number, group] : groups_) {
    group.hosted->machine().farewell("aggregator " + options_.name + " is shutting down");
    touched_.push_back(number);
  }
  for (const std::uint32_t number : std::exchange(touched_, {})) {
    if (const auto group = groups_.find(number); group != groups_.end()) perform_control(group->second, now);
  }
  const Deadline deadline = Deadline::after(kFarewell);
  for (auto& [id, link] : links_) {
    // Who does not listen any more will notice that the connection is closed.
    if (link.channel->wants_write()) [[maybe_unused]]
      const Status flushed = link.channel->flush(deadline);
  }
  links_.clear();
}

DaemonStats Daemon::stats() const {
  DaemonStats stats = totals_;
  stats.data = data_;
  stats.groups = quota_.groups();
  stats.jobs = static_cast<std::uint32_t>(jobs_.size());
  stats.memory = quota_.memory();
  stats.peak_memory = quota_.peak_memory();
  stats.strangers = listener_->rejected();
  for (const auto& [token, job] : jobs_) stats.dropped += job->transport->counters().dropped;
  return stats;
}

}  // namespace foldcast::offload
