#include "core/api/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/api/premul.h"
#include "kernels/reducer.h"
#include "kernels/user_op.h"

namespace foldcast::api {
namespace {

/// What 64-bit user space can address.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

std::byte* writable(const void* buffer) { return static_cast<std::byte*>(const_cast<void*>(buffer)); }

std::byte* moved(const void* buffer, std::uint64_t bytes) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(buffer) + bytes);
}

bool takes_sent_counts(Collective kind) { return kind == Collective::kAllToAllV || kind == Collective::kScatterV; }

}  // namespace

Status validate_shape(const CollectiveCall& call) {
  if (!is_valid(call.dtype)) {
    return invalid_argument(fmt::format("unknown datatype {}", static_cast<int>(call.dtype)));
  }
  if (call.count > kMostBytes / size_of(call.dtype)) {
    return invalid_argument(
        fmt::format("a count of {} x {} does not fit an address space", call.count, to_string(call.dtype)));
  }
  if (!reduces(call.kind)) return ok_status();
  if (is_premul(call.op) || is_user(call.op)) {
    const bool exists =
        is_premul(call.op) ? find_multiplier(call.op).has_value() : kernels::find_user_op(call.op) != nullptr;
    if (exists) return ok_status();
    return invalid_argument(
        fmt::format("unknown op {}: it was not created, or is destroyed", static_cast<int>(call.op)));
  }
  if (!is_valid(call.op) || call.op == ReduceOp::kPremulSum) {
    return invalid_argument(fmt::format("unknown op {}", static_cast<int>(call.op)));
  }
  if (!is_defined(call.dtype, call.op)) {
    return unsupported(
        fmt::format("{} has no {}: logical and bitwise ops are for integers and bool, avg is for numbers",
                    to_string(call.dtype), to_string(call.op)));
  }
  return ok_status();
}

Status Operation::prepare(const CollectiveCall& call, std::int32_t rank, std::int32_t size) {
  call_ = call;
  rank_ = rank;
  size_ = size;
  gaps_ = result_to_front_ = false;
  if (call_.kind == Collective::kBarrier) {
    call_.send = call_.recv = &barrier_;
    call_.count = 1;
    call_.op = ReduceOp::kMax;
  }
  FOLDCAST_RETURN_IF_ERROR(validate_shape(call_));
  const bool rooted = has_root(call_.kind) || call_.kind == Collective::kSendRecv;
  if (rooted && (call_.root < 0 || call_.root >= size)) {
    return invalid_argument(fmt::format("{} {} does not exist: ranks are 0 to {}",
                                        call_.kind == Collective::kSendRecv ? "peer" : "root", call_.root, size - 1));
  }
  if (has_variable_counts(call_.kind)) FOLDCAST_RETURN_IF_ERROR(make_tables());
  if (has_blocks(call_.kind) && !has_variable_counts(call_.kind) &&
      call_.count > kMostBytes / element_bytes() / static_cast<std::uint64_t>(size)) {
    return invalid_argument(
        fmt::format("{} blocks of {} x {} do not fit an address space", size, call_.count, to_string(call_.dtype)));
  }
  FOLDCAST_RETURN_IF_ERROR(resolve_in_place());
  FOLDCAST_RETURN_IF_ERROR(check_buffers());
  bind();
  return check_op();
}

bool Operation::is_plain() const {
  const bool own_memory = call_.kind == Collective::kBarrier || has_variable_counts(call_.kind) || !staged_.empty();
  return !own_memory && !result_to_front_ && call_.kind != Collective::kSendRecv && is_valid(call_.op);
}

/// Replaces kInPlace by the pointer it stands for, and says what each buffer spans.
Status Operation::resolve_in_place() {
  const bool is_root = rank_ == call_.root;
  const std::uint64_t own = static_cast<std::uint64_t>(rank_) * call_.count * element_bytes();
  const bool sends_in_place = call_.send == kInPlace;
  const bool receives_in_place = call_.recv == kInPlace;
  const std::uint64_t n = static_cast<std::uint64_t>(size_);
  if (receives_in_place && !(scheduled_as(call_.kind) == Collective::kScatter && is_root)) {
    return invalid_argument("in place is for the send buffer; for the receive buffer only of a scatter's root");
  }
  const auto offset_in = [&](const runtime::BlockTable& table) { return table.offsets[rank_] * element_bytes(); };
  send_elements_ = recv_elements_ = call_.count;
  switch (call_.kind) {
    case Collective::kReduce:
      if (sends_in_place && !is_root) return invalid_argument("only the root of a reduce has its input in recv");
      recv_elements_ = is_root ? call_.count : 0;
      break;
    case Collective::kBroadcast:
      send_elements_ = is_root ? call_.count : 0;
      break;
    case Collective::kReduceScatter:
      send_elements_ = n * call_.count;
      break;
    case Collective::kAllGather:
      recv_elements_ = n * call_.count;
      if (sends_in_place) call_.send = moved(call_.recv, own);
      break;
    case Collective::kAllToAll:
      send_elements_ = recv_elements_ = n * call_.count;
      break;
    case Collective::kGather:
      recv_elements_ = is_root ? n * call_.count : 0;
      if (sends_in_place && !is_root) return invalid_argument("only the root of a gather has its block in recv");
      if (sends_in_place) call_.send = moved(call_.recv, own);
      break;
    case Collective::kScatter:
      send_elements_ = is_root ? n * call_.count : 0;
      if (receives_in_place) call_.recv = moved(call_.send, own);
      break;
    case Collective::kSendRecv:
      (call_.sends ? recv_elements_ : send_elements_) = 0;
      break;
    case Collective::kReduceScatterV:
      send_elements_ = sent_.offsets.back();
      recv_elements_ = sent_.counts[rank_];
      break;
    case Collective::kAllGatherV:
      send_elements_ = received_.counts[rank_];
      recv_elements_ = 0;  // may have gaps: not compared
      if (sends_in_place) call_.send = moved(call_.recv, offset_in(received_));
      break;
    case Collective::kAllToAllV:
      send_elements_ = recv_elements_ = 0;
      break;
    case Collective::kGatherV:
      recv_elements_ = 0;
      if (sends_in_place && !is_root) return invalid_argument("only the root of a gather has its block in recv");
      if (sends_in_place) call_.send = moved(call_.recv, offset_in(received_));
      break;
    case Collective::kScatterV:
      send_elements_ = 0;
      if (receives_in_place) call_.recv = moved(call_.send, offset_in(sent_));
      break;
    default:
      break;
  }
  if (call_.send == kInPlace) {
    const bool over_whole = call_.kind == Collective::kReduceScatter || call_.kind == Collective::kReduceScatterV;
    result_to_front_ = over_whole && rank_ != 0;
    call_.send = call_.recv;
  }
  return ok_status();
}

Status Operation::check_buffers() const {
  if (recv_elements_ > 0 && call_.recv == nullptr) {
    return invalid_argument("the receive buffer is NULL and the count is not 0");
  }
  if (send_elements_ > 0 && call_.send == nullptr) {
    return invalid_argument("the send buffer is NULL and the count is not 0");
  }
  if (send_elements_ == 0 || recv_elements_ == 0 || call_.kind == Collective::kBarrier) return ok_status();
  const auto send = reinterpret_cast<std::uintptr_t>(call_.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(call_.recv);
  const std::uint64_t send_bytes = send_elements_ * element_bytes(), recv_bytes = recv_elements_ * element_bytes();
  if (send >= recv + recv_bytes || recv >= send + send_bytes) return ok_status();
  // Overlapping is right where the same elements of the whole are in the same memory.
  std::uint64_t own = 0;
  if (has_blocks(call_.kind) && call_.kind != Collective::kAllToAll) {
    own = sent_.offsets.empty() ? static_cast<std::uint64_t>(rank_) * call_.count : sent_.offsets[rank_];
  }
  const bool send_is_whole = send_elements_ > recv_elements_;
  const std::uintptr_t expected = send_is_whole ? send + own * element_bytes() : recv + own * element_bytes();
  const std::uintptr_t given = send_is_whole ? recv : send;
  if (given == expected || result_to_front_) return ok_status();
  return invalid_argument(
      fmt::format("send and receive buffers overlap by {} bytes: pass FOLDCAST_IN_PLACE or separate buffers",
                  std::min(send + send_bytes, recv + recv_bytes) - std::max(send, recv)));
}

Status Operation::make_table(const BlockList& list, const char* what, runtime::BlockTable& table) const {
  if (list.counts == nullptr) return invalid_argument(fmt::format("the {} counts are NULL", what));
  const auto n = static_cast<std::size_t>(size_);
  const std::uint64_t most = kMostBytes / element_bytes();
  table.counts.assign(list.counts, list.counts + n);
  table.offsets.assign(n + 1, 0);
  table.largest = 0;
  table.dense = true;
  std::uint64_t next = 0;
  for (std::size_t block = 0; block < n; ++block) {
    const std::uint64_t at = list.displacements == nullptr ? next : list.displacements[block];
    if (table.counts[block] > most || at > most - table.counts[block] || next > most - table.counts[block]) {
      return invalid_argument(
          fmt::format("the {} count {} of rank {} does not fit an address space", what, table.counts[block], block));
    }
    // Where an empty block is matters to nobody.
    table.dense = table.dense && (at == next || table.counts[block] == 0);
    table.offsets[block] = table.counts[block] == 0 && list.displacements != nullptr ? next : at;
    table.largest = std::max(table.largest, table.counts[block]);
    next += table.counts[block];
  }
  table.offsets[n] = next;
  return ok_status();
}

Status Operation::make_tables() {
  const bool is_root = rank_ == call_.root;
  const auto only_own = [&](runtime::BlockTable& table) {
    table.counts.assign(static_cast<std::size_t>(size_), 0);
    table.offsets.assign(static_cast<std::size_t>(size_) + 1, 0);
    table.counts[rank_] = table.largest = call_.count;
    table.dense = true;
  };
  switch (call_.kind) {
    case Collective::kReduceScatterV:
      call_.sent = {call_.received.counts, nullptr};
      return make_table(call_.sent, "block", sent_);
    case Collective::kAllGatherV:
      FOLDCAST_RETURN_IF_ERROR(make_table(call_.received, "receive", received_));
      call_.count = received_.counts[rank_];
      return ok_status();
    case Collective::kGatherV:
      if (!is_root) return only_own(received_), ok_status();
      FOLDCAST_RETURN_IF_ERROR(make_table(call_.received, "receive", received_));
      break;
    case Collective::kScatterV:
      if (!is_root) return only_own(sent_), ok_status();
      FOLDCAST_RETURN_IF_ERROR(make_table(call_.sent, "send", sent_));
      break;
    default:
      if (call_.send == kInPlace) call_.sent = call_.received;
      FOLDCAST_RETURN_IF_ERROR(make_table(call_.sent, "send", sent_));
      return make_table(call_.received, "receive", received_);
  }
  const auto& own = (takes_sent_counts(call_.kind) ? sent_ : received_).counts[rank_];
  if (own == call_.count) return ok_status();
  return invalid_argument(fmt::format("the root's own count is {} in its list and {} in the call", own, call_.count));
}

void Operation::bind() {
  const bool is_root = rank_ == call_.root;
  const bool blocks = has_blocks(call_.kind);
  binding_ = {};
  binding_.count = call_.count;
  binding_.blocks = blocks ? static_cast<std::uint32_t>(size_) : 1;
  binding_.input.data = writable(call_.send);
  binding_.output.data = static_cast<std::byte*>(call_.recv);
  const auto table_or_null = [](const runtime::BlockTable& table) { return table.counts.empty() ? nullptr : &table; };
  std::uint64_t total = call_.count;
  switch (scheduled_as(call_.kind)) {
    case Collective::kReduceScatter:
      binding_.output.only_block = rank_;
      binding_.input.table = binding_.output.table = table_or_null(sent_);
      if (binding_.input.table != nullptr) total = sent_.offsets.back();
      break;
    case Collective::kAllGather:
      binding_.input.only_block = rank_;
      binding_.input.table = binding_.output.table = table_or_null(received_);
      if (binding_.input.table != nullptr) total = received_.offsets.back();
      gaps_ = binding_.input.table != nullptr && !received_.dense;
      break;
    case Collective::kAllToAll:
      binding_.input.table = table_or_null(sent_);
      binding_.output.table = table_or_null(received_);
      if (binding_.input.table != nullptr) total = 0;
      break;
    case Collective::kGather:
      binding_.input.only_block = rank_;
      binding_.input.table = binding_.output.table = table_or_null(received_);
      if (binding_.input.table != nullptr) total = 0;
      break;
    case Collective::kScatter:
      binding_.output.only_block = rank_;
      binding_.input.table = binding_.output.table = table_or_null(sent_);
      if (binding_.input.table != nullptr) total = 0;
      break;
    default:
      break;
  }
  if (result_to_front_) binding_.output.data = moved(call_.recv, send_offset_of_own());
  if (binding_.blocks == 1 && blocks) {
    // A job of one rank: its block is the whole.
    const auto alone = [&](runtime::Side& side) {
      if (side.table == nullptr) return;
      binding_.count = side.table->counts[0];
      if (side.only_block < 0) side.data = moved(side.data, side.table->offsets[0] * element_bytes());
      side.table = nullptr;
    };
    alone(binding_.input);
    alone(binding_.output);
  }
  binding_.signature = {call_.kind, call_.dtype, call_.op, WireFormat::kExact, 0, total};
  if (has_root(call_.kind)) binding_.signature.root = call_.root;
  if (!reduces(call_.kind) && call_.kind != Collective::kBarrier) binding_.signature.op = ReduceOp::kSum;

  shape_ = {};
  shape_.kind = call_.kind;
  shape_.dtype = call_.dtype;
  shape_.op = binding_.signature.op;
  shape_.root = binding_.signature.root;
  shape_.count =
      has_variable_counts(call_.kind) ? (total + static_cast<std::uint64_t>(size_) - 1) / size_ : call_.count;
  // Into how many fragments a call is cut follows from it, so it must be the same everywhere.
  if (binding_.blocks > 1) binding_.count = shape_.count;
  shape_.in_place = shares_memory();
  const bool has_result = call_.kind != Collective::kReduce || is_root;
  if (call_.op == ReduceOp::kAvg && reduces(call_.kind) && has_result) {
    binding_.divisor = static_cast<std::uint64_t>(size_);
  }
}

/// Of uneven blocks only all_to_all looks, since its schedule in place costs memory.
bool Operation::shares_memory() const {
  if (call_.kind == Collective::kAllToAllV) return call_.send == call_.recv;
  if (has_variable_counts(call_.kind)) return true;
  const auto send = reinterpret_cast<std::uintptr_t>(call_.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(call_.recv);
  return send < recv + recv_elements_ * element_bytes() && recv < send + send_elements_ * element_bytes();
}

std::uint64_t Operation::send_offset_of_own() const {
  const auto block = static_cast<std::size_t>(rank_);
  return (sent_.offsets.empty() ? block * call_.count : sent_.offsets[block]) * element_bytes();
}

Status Operation::check_op() {
  if (!reduces(call_.kind)) return ok_status();
  if (is_user(call_.op)) {
    const auto* op = kernels::find_user_op(call_.op);
    if (op == nullptr) return invalid_argument("the op was destroyed");
    shape_.in_order = !op->commutative;
  }
  if (is_premul(call_.op)) return scale_input();
  return ok_status();
}

Status Operation::scale_input() {
  const auto multiplier = find_multiplier(call_.op);
  if (!multiplier) {
    return invalid_argument(fmt::format("op {} was not created or is destroyed", static_cast<int>(call_.op)));
  }
  if (multiplier->dtype != call_.dtype) {
    return invalid_argument(fmt::format("the op multiplies by a {} and cannot reduce {}", to_string(multiplier->dtype),
                                        to_string(call_.dtype)));
  }
  binding_.signature.op = shape_.op = ReduceOp::kPremulSum;
  staged_.resize(send_elements_ * element_bytes());
  kernels::scale(call_.dtype, staged_.data(), binding_.input.data, send_elements_, multiplier->value.data());
  binding_.input.data = staged_.data();
  return ok_status();
}

void Operation::close_gaps() {
  spread_ = received_;
  std::uint64_t next = 0;
  for (std::size_t block = 0; block < received_.counts.size(); ++block) {
    received_.offsets[block] = next;
    next += received_.counts[block];
  }
  received_.offsets.back() = next;
  staged_.resize(next * element_bytes());
  binding_.output.data = staged_.data();
}

void Operation::finish() {
  if (result_to_front_) {
    const std::uint64_t count = sent_.counts.empty() ? call_.count : sent_.counts[rank_];
    if (count > 0) std::memmove(call_.recv, moved(call_.recv, send_offset_of_own()), count * element_bytes());
  }
  for (std::size_t block = 0; block < spread_.counts.size(); ++block) {
    if (spread_.counts[block] == 0) continue;
    std::memcpy(moved(call_.recv, spread_.offsets[block] * element_bytes()),
                staged_.data() + received_.offsets[block] * element_bytes(), spread_.counts[block] * element_bytes());
  }
}

}  // namespace foldcast::api
