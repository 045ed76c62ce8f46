#include "core/runtime/context.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "core/base/log.h"
#include "core/base/wire.h"

namespace foldcast::runtime {
namespace {

constexpr std::chrono::microseconds kDefaultSpin{20};
/// What a notice is, its first byte.
constexpr std::uint8_t kAbortNotice = 1, kTopicNotice = 2;

Result<std::string> random_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  if (::getrandom(bytes.data(), size, 0) != static_cast<ssize_t>(size)) return system_error("getrandom", errno);
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Context>> Context::create(Config config, const bootstrap::LaunchInfo& launch,
                                                 const transports::TransportFactories& transports) {
  std::unique_ptr<Context> context(new Context(std::move(config)));
  FOLDCAST_RETURN_IF_ERROR(context->meet(launch));
  FOLDCAST_RETURN_IF_ERROR(context->agree_on_settings());
  FOLDCAST_RETURN_IF_ERROR(context->connect(transports));
  if (context->config_.progress_thread) FOLDCAST_RETURN_IF_ERROR(context->progress_->start_thread(context->gate_));
  return context;
}

Context::~Context() {
  if (progress_) progress_->stop_thread();
  // Farewell first, so that the connections which close below are not taken for a death.
  store_.reset();
}

Result<std::vector<std::string>> Context::gather(const std::string& name, std::string_view value) {
  const Lock lock(gate_);  // the progress thread reads the control plane's news
  std::vector<int> all(names_.size());
  std::iota(all.begin(), all.end(), 0);
  return store_->gather(name, all, value, setup_deadline_);
}

Status Context::meet(const bootstrap::LaunchInfo& launch) {
  rank_ = launch.rank;
  FOLDCAST_ASSIGN(auto identity, hierarchy::this_host(config_.hostname));
  if (!config_.host_id.empty()) identity.node = config_.host_id;
  set_log_identity(fmt::format("rank {} {}", rank_, identity.hostname));
  bootstrap::StoreOptions options;
  options.rank = launch.rank;
  options.size = launch.size;
  options.host = launch.store_host;
  options.port = launch.store_port;
  options.key = config_.job_key;
  options.name = identity.hostname;
  options.timeout = config_.setup_timeout;
  FOLDCAST_ASSIGN(store_, bootstrap::Store::create(options));
  names_.resize(static_cast<std::size_t>(launch.size));

  FOLDCAST_ASSIGN(const auto random, random_bytes(16));
  FOLDCAST_ASSIGN(const auto secrets, gather("context/job", rank_ == 0 ? random : ""));
  if (secrets.front().size() != 16) return internal_error("rank 0 sent a malformed job token");
  std::memcpy(&job_token_, secrets.front().data(), sizeof(job_token_));
  std::uint64_t id = 0;
  std::memcpy(&id, secrets.front().data() + 8, sizeof(id));
  job_id_ = fmt::format("{:016x}", id);

  FOLDCAST_ASSIGN(const auto hosts, gather("context/identity", identity.serialize()));
  std::vector<hierarchy::HostIdentity> identities;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    FOLDCAST_ASSIGN(auto one, hierarchy::HostIdentity::parse(hosts[rank]));
    names_[rank] = fmt::format("rank {} ({})", rank, one.hostname);
    identities.push_back(std::move(one));
  }
  layout_ = hierarchy::Layout::from(identities);
  return ok_status();
}

/// What decides which plan runs must be the same everywhere: a rank that differed would wait for messages nobody sends.
Status Context::agree_on_settings() {
  constexpr std::array<std::string_view, 8> kCommon = {
      "path", "plan", "transport", "fragment_bytes", "depth", "link_latency_us", "link_gbps", "wire_format"};
  WireWriter writer;
  for (std::string_view key : kCommon) writer.put_bytes(config_.text(key));
  FOLDCAST_ASSIGN(const auto settings, gather("context/settings", writer.take()));
  for (std::size_t rank = 0; rank < settings.size(); ++rank) {
    WireReader theirs(settings[rank]), rank0s(settings.front());
    for (std::string_view key : kCommon) {
      const std::string value = theirs.get_bytes(), expected = rank0s.get_bytes();
      if (value == expected) continue;
      return mismatch(fmt::format("{} is \"{}\" on {} and \"{}\" on {}: set it alike on all ranks", variable_of(key),
                                  expected, names_.front(), value, names_[rank]));
    }
  }
  return ok_status();
}

Status Context::connect(const transports::TransportFactories& transports) {
  executor_ = std::make_unique<Executor>();
  FOLDCAST_ASSIGN(progress_, Progress::create(*executor_, *store_, progress_options()));
  progress_->on_notice([this](const std::string& text) { on_notice(text); });
  routes_.assign(names_.size(), nullptr);
  peers_.assign(names_.size(), -1);
  if (layout_.nodes.size() > 1) {
    const auto network = [&](std::uint64_t) { return make_network(transports); };
    FOLDCAST_RETURN_IF_ERROR(connect_over(network, "context/address", false, network_));
  }
  const bool any_shares = layout_.size() > layout_.nodes.size();
  if (any_shares) {
    FOLDCAST_RETURN_IF_ERROR(connect_over(transports.node, "context/node_address", true, within_node_));
  }
  return ok_status();
}

Result<std::unique_ptr<transports::Transport>> Context::make_network(const transports::TransportFactories& transports) {
  if (transports.rails.empty()) return transports.network(job_token_);
  std::vector<std::unique_ptr<transports::Transport>> rails;
  for (std::size_t rail = 0; rail < transports.rails.size(); ++rail) {
    auto made = transports.rails[rail](job_token_);
    if (!made.ok()) return made.status().with_context(fmt::format("rail {} of FOLDCAST_RAILS", rail));
    rails.push_back(*std::move(made));
  }
  FOLDCAST_ASSIGN(auto striped, transports::StripedTransport::create(std::move(rails)));
  rails_ = striped.get();
  return std::unique_ptr<transports::Transport>(std::move(striped));
}

/// Collective over the job, although within nodes only some may need it.
Status Context::connect_over(const transports::TransportFactory& make, const std::string& name, bool within_node,
                             std::unique_ptr<transports::Transport>& transport) {
  const auto self = static_cast<std::size_t>(rank_);
  const auto is_reached = [&](std::size_t rank) {
    const bool shares = layout_.node_of[rank] == layout_.node_of[self];
    // To ourselves over whatever there is.
    if (rank == self) return !within_node || layout_.nodes.size() == 1;
    return shares == within_node;
  };
  const bool needed = !within_node || layout_.nodes[layout_.node_of[self]].size() > 1;
  if (needed) {
    FOLDCAST_ASSIGN(transport, make(job_token_));
  }
  FOLDCAST_ASSIGN(const auto addresses, gather(name, needed ? transport->address() : std::string()));
  if (!needed) return ok_status();
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    if (!is_reached(rank)) continue;
    routes_[rank] = transport.get();
    FOLDCAST_ASSIGN(peers_[rank], transport->connect(addresses[rank], names_[rank]));
  }
  return add_engine(*transport);
}

void Context::enter_communicator(std::uint32_t number, std::int32_t first) {
  communicators_[number] = first;
  next_communicator_ = std::max(next_communicator_, number + 1);
}

void Context::leave_communicator(std::uint32_t number) {
  communicators_.erase(number);
  executor_->forget(number);
}

void Context::abort(std::uint32_t number) {
  executor_->fail(number, aborted("the communicator was aborted on this rank"));
  const auto found = communicators_.find(number);
  if (found == communicators_.end()) return;
  WireWriter writer;
  writer.put(kAbortNotice).put(number).put(found->second).put(static_cast<std::int32_t>(rank_));
  (void)store_->publish(writer.take());  // who cannot be told finds out by time-out
  progress_->nudge();
}

void Context::tell(std::uint32_t topic, std::uint64_t value) {
  WireWriter writer;
  writer.put(kTopicNotice).put(topic).put(value);
  (void)store_->publish(writer.take());  // who cannot be told finds out by time-out
}

void Context::listen(std::uint32_t topic, std::function<void(std::uint64_t)> listener) {
  listeners_[topic] = std::move(listener);
}

void Context::on_notice(const std::string& text) {
  WireReader reader(text);
  const auto kind = reader.get<std::uint8_t>();
  const auto number = reader.get<std::uint32_t>();
  if (kind == kAbortNotice) {
    const auto first = reader.get<std::int32_t>();
    const auto by = reader.get<std::int32_t>();
    if (reader.complete()) on_abort(number, first, by);
  } else if (kind == kTopicNotice) {
    const auto value = reader.get<std::uint64_t>();
    const auto listener = listeners_.find(number);
    if (reader.complete() && listener != listeners_.end()) listener->second(value);
  }
}

void Context::on_abort(std::uint32_t number, std::int32_t first, std::int32_t by) {
  const auto found = communicators_.find(number);
  if (found == communicators_.end() || found->second != first || by < 0 || by >= size()) return;
  executor_->fail(number, aborted(fmt::format("the communicator was aborted on {}", names_[by])));
}

ProgressOptions Context::progress_options() const {
  ProgressOptions options;
  options.timeout = config_.timeout;
  if (config_.spin_us >= 0) {
    options.spin = std::chrono::microseconds(config_.spin_us);
  } else {
    // With more ranks than cores a spinning rank takes the core that the one it waits for needs.
    options.spin = layout_.oversubscribed ? std::chrono::microseconds(0) : kDefaultSpin;
  }
  return options;
}

std::chrono::milliseconds Context::setup_time_left() const {
  return std::chrono::milliseconds(setup_deadline_.poll_timeout());
}

Status Context::add_engine(Engine& engine) {
  executor_->add_engine(&engine);
  return progress_->watch(engine);
}

void Context::remove_engine(Engine& engine) {
  executor_->remove_engine(&engine);
  if (!executor_->sleeps_on(engine.descriptor())) progress_->unwatch(engine);  // node groups share a doorbell
}

}  // namespace foldcast::runtime
