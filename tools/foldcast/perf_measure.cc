#include "tools/foldcast/perf_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>

namespace foldcast::tools {
namespace {

constexpr std::size_t kAlignment = 4096;
/// Every byte of a result before it is written.
constexpr int kNoResult = 0xa5;
/// Warming up for longer than this warms nothing more.
constexpr double kWarmupShare = 0.5;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t largest(const PerfOptions& options) {
  std::uint64_t bytes = 0;
  for (const PerfSize& size : options.sizes) bytes = std::max(bytes, size.bytes);
  return bytes;
}

foldcast_datatype_t abi(Datatype dtype) { return static_cast<foldcast_datatype_t>(dtype); }
foldcast_op_t abi(ReduceOp op) { return static_cast<foldcast_op_t>(op); }

std::size_t count_of(const PerfCase& one) { return one.bytes / size_of(one.dtype); }

/// How many calls of `each_us` fit in `left_us`, at most `most`.
std::uint64_t fitting(double left_us, double each_us, std::uint64_t most) {
  if (left_us <= 0) return 0;
  double fit = each_us > 0 ? left_us / each_us : static_cast<double>(most);
  return fit >= static_cast<double>(most) ? most : static_cast<std::uint64_t>(fit);
}

}  // namespace

PerfMeasurement::Buffer::Buffer(std::size_t size) : bytes(nullptr, std::free) {
  std::size_t room = (std::max<std::size_t>(size, 1) + kAlignment - 1) / kAlignment * kAlignment;
  bytes.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, room)));
  if (bytes == nullptr) throw std::bad_alloc();
  std::memset(bytes.get(), 0, room);  // so that no page is first touched while the clock runs
}

PerfMeasurement::PerfMeasurement(PerfJob& job, const PerfOptions& options, std::uint64_t seed)
    : job_(job), options_(options), seed_(seed), send_(largest(options)), recv_(largest(options)) {}

void PerfMeasurement::use(const PerfCase& one) {
  job_.use(one.path, plan_applies(options_.plan, one.path) ? options_.plan : std::string());
}

foldcast_plan_info_t PerfMeasurement::plan_of(const PerfCase& one) {
  use(one);
  return job_.comm().all_reduce_plan(count_of(one), abi(one.dtype), abi(one.op));
}

void PerfMeasurement::call(const PerfCase& one, bool in_place) {
  job_.comm().all_reduce(in_place ? FOLDCAST_IN_PLACE : send_.bytes.get(), recv_.bytes.get(), count_of(one),
                         abi(one.dtype), abi(one.op));
}

Reference PerfMeasurement::fresh_data(const PerfCase& one) {
  return Reference({one.dtype, one.op, job_.size(), job_.rank(), ++seed_}, count_of(one));
}

std::int64_t PerfMeasurement::check(const PerfCase& one, const foldcast_plan_info_t& plan, bool in_place) {
  Reference reference = fresh_data(one);
  reference.fill(in_place ? recv_.bytes.get() : send_.bytes.get());
  if (!in_place) std::memset(recv_.bytes.get(), kNoResult, one.bytes);
  use(one);
  call(one, in_place);
  return judge(one, reference, fmt::format("{}, plan {}", in_place ? "in place" : "out of place", plan.name));
}

std::int64_t PerfMeasurement::judge(const PerfCase& one, const Reference& reference, const std::string& how) {
  Wrong wrong = reference.check(recv_.bytes.get());
  bool equal = job_.are_equal_everywhere({recv_.bytes.get(), one.bytes});
  auto elements = static_cast<std::int64_t>(wrong.elements);
  std::string what = fmt::format("{} bytes {} {}, path {}, {}", one.bytes, to_string(one.dtype), to_string(one.op),
                                 to_string(one.path), how);
  if (elements > 0) {
    fmt::print(stderr, "foldcast perf: rank {}: {} of {} elements wrong ({}); first {}\n", job_.rank(), elements,
               count_of(one), what, wrong.first);
  }
  std::int64_t all = job_.agree_sum(elements);
  if (all == 0 && !equal) {
    all = 1;
    if (job_.rank() == 0) fmt::print(stderr, "foldcast perf: ranks ended with different bits ({})\n", what);
  }
  // The local count too: the sum went through the library that is being judged.
  return std::max(all, elements);
}

void PerfMeasurement::warm_up(const PerfCase& one) {
  if (options_.warmup == 0) return;
  (void)plan_of(one);
  double start = now_us();
  call(one, options_.in_place);
  double first = job_.agree_max(now_us() - start);
  std::uint64_t more = options_.warmup - 1;
  if (options_.seconds > 0) more = fitting(options_.seconds * kWarmupShare * 1e6 - first, first, more);
  use(one);
  for (std::uint64_t i = 0; i < more; ++i) call(one, options_.in_place);
}

WireBytes PerfMeasurement::read_counters() const {
  if (!job_.reads_counters()) return {};
  Result<WireBytes> bytes = read_wire();
  if (!bytes.ok()) throw std::runtime_error(bytes.status().to_string());
  return *bytes;
}

void PerfMeasurement::run_batch(const PerfCase& one, std::uint64_t iterations, Batches& batches) {
  (void)plan_of(one);  // chosen here, not inside the first timed call
  job_.comm().barrier();
  WireBytes before = read_counters();
  for (std::uint64_t i = 0; i < iterations; ++i) {
    double start = now_us();
    call(one, options_.in_place);
    batches.times_us.push_back(now_us() - start);
    if (options_.blocking) job_.comm().barrier();
  }
  job_.comm().barrier();
  WireBytes after = read_counters();
  batches.wire.tx += after.tx - before.tx;
  batches.wire.rx += after.rx - before.rx;
}

PerfMeasurement::Batches PerfMeasurement::time(const PerfCase& one) {
  warm_up(one);
  Batches batches;
  std::uint64_t least = std::min(options_.iterations, kLeastIterations);
  double start = now_us();
  run_batch(one, least, batches);
  double spent = job_.agree_max(now_us() - start);
  std::uint64_t more = options_.iterations - least;
  if (options_.seconds > 0) more = fitting(options_.seconds * 1e6 - spent, spent / static_cast<double>(least), more);
  if (more > 0) run_batch(one, more, batches);
  return batches;
}

PerfRecord PerfMeasurement::measure(const PerfCase& one, const std::function<void(std::string_view)>& says) {
  foldcast_plan_info_t plan = plan_of(one);
  PerfRecord record;
  record.bytes = one.bytes;
  record.count = count_of(one);
  record.occurrences = one.occurrences;
  record.dtype = one.dtype;
  record.op = one.op;
  record.nranks = job_.size();
  record.nnodes = job_.nodes();
  record.asked = one.path;
  record.in_place = options_.in_place;
  if (options_.check) {
    says("checking");
    record.wrong = check(one, plan, false) + check(one, plan, true);
  }
  says("timing");
  // Zeros stay zeros under every op: in place, anything else would grow to infinity from call to call.
  std::optional<Reference> data;
  if (!options_.in_place) data = fresh_data(one);
  if (data) data->fill(send_.bytes.get());
  std::memset(recv_.bytes.get(), data ? kNoResult : 0, one.bytes);
  Batches batches = time(one);
  if (data && record.wrong) *record.wrong += judge(one, *data, "the last timed call");
  // Asked again: what was planned before the first call may have been lost with a tree since.
  plan = plan_of(one);
  record.ran = plan.path == FOLDCAST_PATH_OFFLOAD ? PerfPath::kOffload : PerfPath::kHost;
  record.plan = plan.name;
  agree_on_times(batches.times_us);
  record.time_us = summarize(batches.times_us);
  auto calls = static_cast<std::int64_t>(batches.times_us.size());
  std::array<std::int64_t, 2> wire = {batches.wire.tx, batches.wire.rx};
  job_.agree(wire, FOLDCAST_MAX);
  record.wire_tx_bytes = wire[0] / calls;
  record.wire_rx_bytes = wire[1] / calls;
  return record;
}

void PerfMeasurement::agree_on_times(std::vector<double>& times_us) {
  switch (options_.across) {
    case PerfAcross::kRank0:
      if (job_.rank() != 0) std::fill(times_us.begin(), times_us.end(), 0.0);
      job_.agree(times_us, FOLDCAST_SUM);
      break;
    case PerfAcross::kAverage:
      job_.agree(times_us, FOLDCAST_SUM);
      for (double& us : times_us) us /= job_.size();
      break;
    case PerfAcross::kLeast:
      job_.agree(times_us, FOLDCAST_MIN);
      break;
    case PerfAcross::kMost:
      job_.agree(times_us, FOLDCAST_MAX);
      break;
  }
}

}  // namespace foldcast::tools
