#include "tests/hierarchy/node_group_fixture.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <sstream>
#include <thread>

#include "core/schedule/step.h"

namespace foldcast::hierarchy {
namespace {

constexpr std::size_t kGuard = 128;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// Of a number that the dtype holds exactly; integers wrap.
void encode(Datatype dtype, double value, std::byte* at) {
  const auto integer = static_cast<std::int64_t>(value);
  std::uint32_t bits = 0;
  const auto narrow = static_cast<float>(value);
  std::memcpy(&bits, &narrow, sizeof bits);
  switch (dtype) {
    case Datatype::kInt8:
    case Datatype::kUint8:
      return store(at, static_cast<std::uint8_t>(integer));
    case Datatype::kInt16:
    case Datatype::kUint16:
      return store(at, static_cast<std::uint16_t>(integer));
    case Datatype::kInt32:
    case Datatype::kUint32:
      return store(at, static_cast<std::uint32_t>(integer));
    case Datatype::kInt64:
    case Datatype::kUint64:
      return store(at, integer);
    case Datatype::kFloat16:
      // Positive normal numbers of few bits only: the exponent's bias goes from 127 to 15.
      return store(at, static_cast<std::uint16_t>((bits >> 13) - ((127 - 15) << 10)));
    case Datatype::kBfloat16:
      return store(at, static_cast<std::uint16_t>(bits >> 16));
    case Datatype::kFloat32:
      return store(at, narrow);
    case Datatype::kFloat64:
      return store(at, value);
  }
}

Result<Membership> share(const std::shared_ptr<Segment>& segment, const std::vector<UniqueFd>& doorbells) {
  Membership membership{segment, {}};
  for (const UniqueFd& doorbell : doorbells) membership.doorbells.emplace_back(::dup(doorbell.get()));
  return membership;
}

}  // namespace

std::uint64_t fresh_seed() {
  const std::uint64_t seed = (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

std::string fresh_name() {
  static std::atomic<int> number{0};
  return std::to_string(::getpid()) + "-" + std::to_string(number++) + "-" + std::to_string(std::random_device{}());
}

std::string describe(const Case& one) {
  static constexpr const char* kVerbs[] = {"send",       "recv",      "all_reduce", "reduce_scatter",
                                           "all_gather", "broadcast", "barrier"};
  std::ostringstream text;
  text << kVerbs[static_cast<int>(one.verb)] << " of " << one.count << " " << to_string(one.dtype) << " "
       << to_string(one.op) << ", owners " << one.owners << ", root " << one.root
       << (one.in_place ? ", in place" : ", not in place") << ", lane " << int{one.lane} << ", call " << one.sequence;
  return text.str();
}

Exchange::Exchange(const Case& one, std::uint32_t rank, std::uint32_t size, std::uint64_t seed)
    : case_(one), rank_(rank), size_(size), seed_(mix(seed ^ mix(one.sequence * 2 + one.lane))) {
  const std::size_t bytes = one.count * size_of(one.dtype);
  input_.resize(bytes);
  memory_.resize(bytes + 2 * kGuard);
  for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(mix(seed_ + i + rank));
  for (std::uint64_t i = 0; i < one.count; ++i) encode(one.dtype, value(rank, i), &input_[i * size_of(one.dtype)]);
  if (one.in_place && bytes != 0) std::memcpy(&memory_[kGuard], input_.data(), bytes);
  original_ = memory_;
}

double Exchange::value(std::uint32_t rank, std::uint64_t index) const {
  return 1.0 + static_cast<double>(mix(seed_ ^ mix(rank + 1) ^ index) & 1);
}

EngineCall Exchange::call() {
  EngineCall call;
  call.verb = case_.verb;
  call.lane = case_.lane;
  call.owners = case_.owners;
  call.peer = case_.root;
  call.output = memory_.data() + kGuard;
  call.input = case_.in_place ? call.output : input_.data();
  call.count = case_.count;
  call.key.sequence = case_.sequence;
  call.signature = {Collective::kAllReduce, case_.dtype, case_.op, WireFormat::kExact, 0, case_.count};
  return call;
}

double Exchange::expected(std::uint64_t index, double before) const {
  std::uint32_t owner = 0;
  while (index >= schedule::cut(case_.count, owner + 1, case_.owners)) ++owner;
  switch (case_.verb) {
    case Verb::kAllGather:
      return value(owner, index);
    case Verb::kBroadcast:
      return value(static_cast<std::uint32_t>(case_.root), index);
    case Verb::kReduceScatter:
      if (owner != rank_) return before;
      break;
    case Verb::kAllReduce:
      break;
    default:
      return before;
  }
  double total = value(0, index);
  for (std::uint32_t rank = 1; rank < size_; ++rank) {
    const double next = value(rank, index);
    switch (case_.op) {
      case ReduceOp::kProd:
        total *= next;
        break;
      case ReduceOp::kMin:
        total = std::min(total, next);
        break;
      case ReduceOp::kMax:
        total = std::max(total, next);
        break;
      default:
        total += next;
    }
  }
  return total;
}

std::string Exchange::compare(const std::vector<std::byte>& wanted) const {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (memory_[i] == wanted[i]) continue;
    const bool guard = i < kGuard || i >= memory_.size() - kGuard;
    return describe(case_) + ": local rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
           (guard ? ": guard" : ": output") + " byte " + std::to_string(static_cast<long>(i) - long{kGuard}) + " is " +
           std::to_string(static_cast<int>(memory_[i])) + ", not " + std::to_string(static_cast<int>(wanted[i])) +
           " (seed " + std::to_string(seed_) + ")";
  }
  return {};
}

std::string Exchange::check() const {
  std::vector<std::byte> wanted = original_;
  // A value no case produces marks what must keep its old bytes.
  constexpr double kKept = -1;
  for (std::uint64_t i = 0; i < case_.count; ++i) {
    const double result = expected(i, kKept);
    if (result != kKept) encode(case_.dtype, result, &wanted[kGuard + i * size_of(case_.dtype)]);
    const std::size_t at = i * size_of(case_.dtype);
    std::byte input[8];
    encode(case_.dtype, value(rank_, i), input);
    if (std::memcmp(input, &input_[at], size_of(case_.dtype)) != 0) return describe(case_) + ": the input was changed";
  }
  return compare(wanted);
}

std::string Exchange::check_untouched() const { return compare(original_); }

std::optional<std::vector<Completion>> finish(NodeGroup& group, std::size_t count) {
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  std::vector<Completion> ended;
  while (ended.size() < count) {
    Completion some[7];
    const std::size_t more = group.poll(some);
    for (std::size_t i = 0; i < more; ++i) ended.push_back(some[i]);
    if (more != 0 || ended.size() == count || !group.arm()) continue;
    pollfd sleep{group.descriptor(), POLLIN, 0};
    if (::poll(&sleep, 1, deadline.poll_timeout()) == 0 && deadline.passed()) return std::nullopt;
  }
  return ended;
}

std::string run_case(NodeGroup& group, const Case& one, std::uint64_t seed) {
  Exchange exchange(one, static_cast<std::uint32_t>(group.rank()), static_cast<std::uint32_t>(group.size()), seed);
  if (group.post(exchange.call(), 42) != Posted::kAccepted) return describe(one) + ": not accepted";
  auto ended = finish(group, 1);
  if (!ended) return describe(one) + ": hangs on local rank " + std::to_string(group.rank());
  if (!ended->front().status.ok()) return describe(one) + ": " + ended->front().status.to_string();
  if (ended->front().cookie != 42) return describe(one) + ": wrong cookie";
  return exchange.check();
}

void as_threads(const ShmOptions& options, Mapping mapping, const std::function<void(NodeGroup&)>& body) {
  ShmOptions common = options;
  if (common.name.empty()) common.name = fresh_name();
  std::shared_ptr<Segment> segment;
  std::vector<UniqueFd> doorbells;
  if (mapping == Mapping::kShared) {
    auto shape = SegmentShape::create(common.size, common.slot_bytes, common.slots);
    ASSERT_TRUE(shape.ok());
    auto memfd = Segment::allocate(*shape);
    ASSERT_TRUE(memfd.ok()) << memfd.status().to_string();
    segment = Segment::map(memfd->get(), *shape).value();
    for (int rank = 0; rank < common.size; ++rank) doorbells.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < common.size; ++rank) {
    threads.emplace_back([&, rank] {
      ShmOptions own = common;
      own.rank = rank;
      if (segment) {
        ShmNodeGroup group(share(segment, doorbells).value(), static_cast<std::uint32_t>(rank));
        return body(group);
      }
      auto group = make_shm_node_group(own);
      if (!group.ok()) {
        ADD_FAILURE() << group.status().to_string();
        return;
      }
      body(**group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace foldcast::hierarchy
