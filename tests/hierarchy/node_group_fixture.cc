#include "tests/hierarchy/node_group_fixture.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <sstream>
#include <thread>

#include "core/schedule/step.h"
#include "kernels/user_op.h"

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

/// A positive normal number, rounded to nearest even.
std::uint32_t small_float(double value, int mantissa_bits, int bias) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  const auto scaled = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(fraction, mantissa_bits + 1)));
  // A mantissa that was rounded up to two carries into the exponent by itself.
  return (static_cast<std::uint32_t>(exponent - 1 + bias) << mantissa_bits) + scaled - (1u << mantissa_bits);
}

/// Of a small number; integers wrap.
void encode(Datatype dtype, double value, std::byte* at) {
  const auto integer = static_cast<std::int64_t>(value);
  switch (dtype) {
    case Datatype::kInt8:
    case Datatype::kUint8:
    case Datatype::kBool:
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
      return store(at, static_cast<std::uint16_t>(small_float(value, 10, 15)));
    case Datatype::kBfloat16:
      return store(at, static_cast<std::uint16_t>(small_float(value, 7, 127)));
    case Datatype::kFloat8E4m3:
      return store(at, static_cast<std::uint8_t>(small_float(value, 3, 7)));
    case Datatype::kFloat8E5m2:
      return store(at, static_cast<std::uint8_t>(small_float(value, 2, 15)));
    case Datatype::kFloat32:
      return store(at, static_cast<float>(value));
    case Datatype::kFloat64:
      return store(at, value);
  }
}

Membership share(const std::shared_ptr<Segment>& segment, const std::vector<UniqueFd>& bells, std::uint32_t rank,
                 bool cross_memory) {
  std::vector<UniqueFd> own;
  std::vector<std::uint32_t> bell_of;
  for (const UniqueFd& bell : bells) {
    bell_of.push_back(static_cast<std::uint32_t>(own.size()));
    own.emplace_back(::dup(bell.get()));
  }
  return {segment, std::make_shared<Doorbells>(std::move(own), rank), std::move(bell_of), cross_memory};
}

void take_left(const void* left, void* right, std::size_t count, Datatype dtype, void*) {
  std::memcpy(right, left, count * size_of(dtype));
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
  std::ostringstream text;
  text << to_string(one.verb) << " of " << one.count << " " << to_string(one.dtype) << " " << to_string(one.op)
       << ", owners " << one.owners << (one.cuts.empty() ? "" : " (uneven)") << ", root " << one.root
       << (one.in_place ? ", in place" : ", not in place") << (one.lean ? ", lean" : "") << ", lane " << int{one.lane}
       << ", call " << one.sequence;
  return text.str();
}

Case fit(Case one, int size) {
  const auto n = static_cast<std::uint64_t>(size);
  if (one.verb == Verb::kAllToAll) one.count = (one.count + n - 1) / n * n;
  const bool takes_owners = one.verb == Verb::kReduceScatter || one.verb == Verb::kAllGather;
  if (!takes_owners) {
    one.owners = static_cast<std::uint16_t>(n);
    one.cuts.clear();
  }
  if (!is_user(one.op) && !is_defined(one.dtype, one.op)) one.op = ReduceOp::kMax;
  return one;
}

ReduceOp left_op() {
  static const ReduceOp op = kernels::register_user_op({.function = take_left}).value();
  return op;
}

Exchange::Exchange(const Case& one, std::uint32_t rank, std::uint32_t size, std::uint64_t seed)
    : case_(one), rank_(rank), size_(size), seed_(mix(seed ^ mix(one.sequence * 2 + one.lane))) {
  // Every other call has buffers of the worst alignment, on some ranks.
  const std::size_t shift = one.sequence % 2 == 0 ? 0 : (one.sequence / 2 + rank) % 8;
  begin_ = kGuard + shift;
  const std::size_t bytes = one.count * size_of(one.dtype);
  input_.resize(begin_ + bytes);
  memory_.resize(begin_ + bytes + kGuard);
  for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(mix(seed_ + i + rank));
  for (std::uint64_t i = 0; i < one.count; ++i) {
    encode(one.dtype, value(rank, i), &input_[begin_ + i * size_of(one.dtype)]);
  }
  if (one.in_place && bytes != 0) std::memcpy(&memory_[begin_], &input_[begin_], bytes);
  original_ = memory_;
}

double Exchange::value(std::uint32_t rank, std::uint64_t index) const {
  const std::uint64_t random = mix(seed_ ^ mix(rank + 1) ^ index);
  if (case_.dtype == Datatype::kBool) return static_cast<double>(random & 1);
  if (case_.op >= ReduceOp::kLand && case_.op <= ReduceOp::kBxor) return static_cast<double>(random & 3);
  return 1.0 + static_cast<double>(random & 1);
}

std::uint64_t Exchange::cut(std::uint64_t owner) const {
  return case_.cuts.empty() ? schedule::cut(case_.count, owner, case_.owners) : case_.cuts[owner];
}

bool Exchange::reads_input() const {
  const bool is_root = case_.root == static_cast<std::int32_t>(rank_);
  const bool owns = rank_ < case_.owners && cut(rank_) != cut(rank_ + 1);
  if (case_.verb == Verb::kBroadcast || case_.verb == Verb::kScatter) return is_root;
  if (case_.verb == Verb::kAllGather || case_.verb == Verb::kGather) return owns;
  return case_.verb != Verb::kBarrier;
}

bool Exchange::writes_output() const {
  const bool is_root = case_.root == static_cast<std::int32_t>(rank_);
  const bool owns = rank_ < case_.owners && cut(rank_) != cut(rank_ + 1);
  if (case_.verb == Verb::kReduce || case_.verb == Verb::kGather) return is_root;
  if (case_.verb == Verb::kReduceScatter || case_.verb == Verb::kScatter) return owns;
  return case_.verb != Verb::kBarrier;
}

EngineCall Exchange::call() {
  EngineCall call;
  call.verb = case_.verb;
  call.lane = case_.lane;
  call.owners = case_.owners;
  call.peer = case_.root;
  call.output = memory_.data() + begin_;
  call.input = case_.in_place ? call.output : input_.data() + begin_;
  if (case_.lean && !reads_input()) call.input = nullptr;
  if (case_.lean && !writes_output()) call.output = nullptr;
  call.count = case_.count;
  if (!case_.cuts.empty()) call.cuts = case_.cuts.data();
  call.key.sequence = case_.sequence;
  call.signature = {Collective::kAllReduce, case_.dtype, case_.op, WireFormat::kExact, 0, case_.count};
  return call;
}

double Exchange::combine(double left, double right) const {
  if (is_user(case_.op)) return left;
  const auto a = static_cast<std::uint64_t>(left);
  const auto b = static_cast<std::uint64_t>(right);
  switch (case_.op) {
    case ReduceOp::kProd:
      return left * right;
    case ReduceOp::kMin:
      return std::min(left, right);
    case ReduceOp::kMax:
      return std::max(left, right);
    case ReduceOp::kLand:
      return a != 0 && b != 0 ? 1 : 0;
    case ReduceOp::kLor:
      return a != 0 || b != 0 ? 1 : 0;
    case ReduceOp::kLxor:
      return (a != 0) != (b != 0) ? 1 : 0;
    case ReduceOp::kBand:
      return static_cast<double>(a & b);
    case ReduceOp::kBor:
      return static_cast<double>(a | b);
    case ReduceOp::kBxor:
      return static_cast<double>(a ^ b);
    default:
      return case_.dtype == Datatype::kBool ? std::max(left, right) : left + right;
  }
}

double Exchange::expected(std::uint64_t index, double before) const {
  std::uint32_t owner = 0;
  while (owner + 1 < case_.owners && index >= cut(owner + 1)) ++owner;
  const auto root = static_cast<std::uint32_t>(case_.root);
  switch (case_.verb) {
    case Verb::kAllGather:
      return value(owner, index);
    case Verb::kGather:
      return rank_ == root ? value(owner, index) : before;
    case Verb::kBroadcast:
      return value(root, index);
    case Verb::kScatter:
      return owner == rank_ ? value(root, index) : before;
    case Verb::kAllToAll: {
      const std::uint64_t shard = case_.count / size_;
      return value(owner, rank_ * shard + index % shard);
    }
    case Verb::kReduceScatter:
      if (owner != rank_) return before;
      break;
    case Verb::kReduce:
      if (rank_ != root) return before;
      break;
    case Verb::kAllReduce:
      break;
    default:
      return before;
  }
  double total = value(0, index);
  for (std::uint32_t rank = 1; rank < size_; ++rank) total = combine(total, value(rank, index));
  // Logical ops give 0 or 1 of a single operand as well, but a group of one copies.
  return total;
}

std::string Exchange::compare(const std::vector<std::byte>& wanted) const {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (memory_[i] == wanted[i]) continue;
    const bool guard = i < begin_ || i >= memory_.size() - kGuard;
    return describe(case_) + ": local rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
           (guard ? ": guard" : ": output") + " byte " +
           std::to_string(static_cast<long>(i) - static_cast<long>(begin_)) + " is " +
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
    if (result != kKept) encode(case_.dtype, result, &wanted[begin_ + i * size_of(case_.dtype)]);
    const std::size_t at = begin_ + i * size_of(case_.dtype);
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
    for (int rank = 0; rank < common.size; ++rank) {
      ASSERT_TRUE(segment->claim(memfd->get(), static_cast<std::uint32_t>(rank)).ok());
      doorbells.push_back(std::move(Doorbells::make_one()).value());
    }
    segment->prefault();
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < common.size; ++rank) {
    threads.emplace_back([&, rank] {
      ShmOptions own = common;
      own.rank = rank;
      if (segment) {
        const auto own_rank = static_cast<std::uint32_t>(rank);
        ShmNodeGroup group(share(segment, doorbells, own_rank, own.cross_memory), own_rank);
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
