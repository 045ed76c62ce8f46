#include "core/api/link_measure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/base/log.h"

namespace foldcast::api {

select::CalibrationFile LinkMeasure::file() const {
  const auto& config = communicator_.context().config();
  const auto& model = communicator_.selector().model();
  const std::string transport = fmt::format("{} {}", config.transport, fmt::join(config.rails, ","));
  return {config.calibration, communicator_.layout(), transport, model.tree ? model.tree_description : ""};
}

select::Rails LinkMeasure::rails() {
  transports::StripedTransport* const striped = communicator_.context().rails();
  if (striped == nullptr || communicator_.size() != communicator_.context().size()) return {};
  return {striped->size(), [this, striped](std::span<const double> speeds, double message_us) {
            const runtime::Lock lock = communicator_.lock();
            striped->set_speeds(speeds, message_us);
          }};
}

Result<double> LinkMeasure::timed_call(const hierarchy::Composition& composition, std::uint64_t bytes) {
  if (buffer_.size() < bytes) buffer_.resize(bytes);
  FOLDCAST_ASSIGN(double us, communicator_.timed_call(composition, buffer_.data(), bytes));
  CollectiveCall slowest;
  slowest.send = slowest.recv = &us;
  slowest.count = 1;
  slowest.dtype = Datatype::kFloat64;
  slowest.op = ReduceOp::kMax;
  FOLDCAST_RETURN_IF_ERROR(communicator_.run(slowest));
  return us;
}

select::TimedCall LinkMeasure::caller() {
  return
      [this](const hierarchy::Composition& composition, std::uint64_t bytes) { return timed_call(composition, bytes); };
}

Result<bool> LinkMeasure::share(select::LinkModel& model, bool has_numbers) {
  const std::size_t rail_count = rails().count;
  if (rail_count > 1 && model.rails.size() != rail_count) has_numbers = false;
  std::vector<double> numbers = {has_numbers ? 1.0 : 0.0, model.latency_us,        model.bytes_per_us,
                                 model.node_latency_us,   model.node_bytes_per_us, model.tree_latency_us,
                                 model.tree_bytes_per_us};
  const std::size_t fixed = numbers.size();
  if (rail_count > 1) {
    model.rails.resize(rail_count);
    numbers.insert(numbers.end(), model.rails.begin(), model.rails.end());
  }
  CollectiveCall call;
  call.kind = Collective::kBroadcast;
  call.send = call.recv = numbers.data();
  call.count = numbers.size();
  call.dtype = Datatype::kFloat64;
  FOLDCAST_RETURN_IF_ERROR(communicator_.run(call));
  if (numbers[0] == 0) return false;
  model.latency_us = numbers[1];
  model.bytes_per_us = numbers[2];
  model.node_latency_us = numbers[3];
  model.node_bytes_per_us = numbers[4];
  model.tree_latency_us = numbers[5];
  model.tree_bytes_per_us = numbers[6];
  model.rails.assign(numbers.begin() + static_cast<std::ptrdiff_t>(fixed), numbers.end());
  return true;
}

Status LinkMeasure::load_or_run() {
  if (communicator_.size() == 1) return ok_status();
  const auto& config = communicator_.context().config();
  if (config.link_latency_us > 0 && config.link_gbps > 0 && !communicator_.selector().model().tree) return run();
  select::LinkModel model = communicator_.selector().model();
  const auto kept = communicator_.rank() == 0 ? file().load(model) : std::nullopt;
  if (kept) model = *kept;
  FOLDCAST_ASSIGN(const bool known, share(model, kept.has_value()));
  if (known) {
    if (!model.rails.empty()) rails().use(model.rails, model.latency_us);
    FOLDCAST_ASSIGN(const bool holds, select::still_holds(communicator_.layout(), model, caller()));
    if (holds) {
      communicator_.set_link_model(std::move(model));
      return ok_status();
    }
    if (communicator_.rank() == 0) log().info("the links are not what {} says: measuring them", file().path());
  }
  return run();
}

Status LinkMeasure::run() {
  if (communicator_.size() == 1) return ok_status();
  const auto& config = communicator_.context().config();
  const select::KnownLinks known{config.link_latency_us, config.link_gbps * 1000 / 8};
  FOLDCAST_ASSIGN(auto model, select::calibrate(communicator_.layout(), communicator_.selector().model(), known,
                                                caller(), rails()));
  const bool measured = known.latency_us == 0 && known.bytes_per_us == 0;
  if (communicator_.rank() == 0 && measured) {
    if (Status saved = file().save(model); !saved.ok())
      log().info("the links' numbers are not kept: {}", saved.message());
  }
  communicator_.set_link_model(std::move(model));
  return ok_status();
}

}  // namespace foldcast::api
