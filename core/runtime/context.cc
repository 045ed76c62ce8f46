#include "core/runtime/context.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "core/base/log.h"
#include "core/base/wire.h"

namespace foldcast::runtime {
namespace {

constexpr std::chrono::microseconds kDefaultSpin{20};

Result<std::string> random_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  if (::getrandom(bytes.data(), size, 0) != static_cast<ssize_t>(size)) return system_error("getrandom", errno);
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Context>> Context::create(Config config, const bootstrap::LaunchInfo& launch,
                                                 const transports::TransportFactory& make_transport) {
  std::unique_ptr<Context> context(new Context(std::move(config)));
  FOLDCAST_RETURN_IF_ERROR(context->meet(launch));
  FOLDCAST_RETURN_IF_ERROR(context->agree_on_settings());
  FOLDCAST_RETURN_IF_ERROR(context->connect(make_transport));
  return context;
}

Context::~Context() {
  // Farewell first, so that the connections which close below are not taken for a death.
  store_.reset();
}

Result<std::vector<std::string>> Context::gather(const std::string& name, std::string_view value) {
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
  constexpr std::array<std::string_view, 7> kCommon = {
      "path", "plan", "transport", "fragment_bytes", "depth", "link_latency_us", "link_gbps"};
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

Status Context::connect(const transports::TransportFactory& make_transport) {
  executor_ = std::make_unique<Executor>();
  FOLDCAST_ASSIGN(progress_, Progress::create(*executor_, *store_, progress_options()));
  peers_.assign(names_.size(), -1);
  if (layout_.nodes.size() > 1) {
    FOLDCAST_ASSIGN(transport_, make_transport(job_token_));
    FOLDCAST_ASSIGN(const auto addresses, gather("context/address", transport_->address()));
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
      // Ranks of one node meet in its shared memory only.
      if (layout_.node_of[rank] == layout_.node_of[rank_]) continue;
      FOLDCAST_ASSIGN(peers_[rank], transport_->connect(addresses[rank], names_[rank]));
    }
    FOLDCAST_RETURN_IF_ERROR(add_engine(*transport_));
  }
  return ok_status();
}

ProgressOptions Context::progress_options() const {
  ProgressOptions options;
  options.timeout = config_.timeout;
  if (config_.spin_us >= 0) {
    options.spin = std::chrono::microseconds(config_.spin_us);
  } else {
    // With more ranks than cores a spinning rank takes the core that the one it waits for needs.
    options.spin = layout_.ranks_per_kernel <= layout_.cores ? kDefaultSpin : std::chrono::microseconds(0);
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
  progress_->unwatch(engine);
  executor_->remove_engine(&engine);
}

}  // namespace foldcast::runtime
