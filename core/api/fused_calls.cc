#include "core/api/fused_calls.h"

#include <cstring>

namespace foldcast::api {
namespace {

std::uint64_t bytes_of(const CollectiveCall& call) { return call.count * size_of(call.dtype); }

const void* input_of(const CollectiveCall& call) { return call.send == kInPlace ? call.recv : call.send; }

}  // namespace

bool FusedCalls::takes(const CollectiveCall& call) {
  const bool plain = is_valid(call.op) || is_user(call.op);
  return call.kind == Collective::kAllReduce && plain && call.count > 0 && call.count <= kLargestCall &&
         bytes_of(call) <= kLargestCall;
}

bool FusedCalls::takes_next(const CollectiveCall& next) const {
  return takes(next) && next.dtype == calls_.front().dtype && next.op == calls_.front().op &&
         bytes() + bytes_of(next) <= kLargest;
}

std::uint64_t FusedCalls::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& call : calls_) sum += bytes_of(call);
  return sum;
}

Status FusedCalls::start(Communicator& communicator) {
  communicator_ = &communicator;
  buffer_.resize(bytes());
  std::uint64_t at = 0;
  for (const auto& call : calls_) {
    std::memcpy(buffer_.data() + at, input_of(call), bytes_of(call));
    at += bytes_of(call);
  }
  CollectiveCall together = calls_.front();
  together.send = together.recv = buffer_.data();
  together.count = buffer_.size() / size_of(together.dtype);
  status_ = communicator.start(together, operation_);
  finished_ = !status_.ok();
  return status_;
}

bool FusedCalls::test() { return finished_ || communicator_->test(operation_); }

Status FusedCalls::finish() {
  if (finished_) return status_;
  finished_ = true;
  status_ = communicator_->finish(operation_);
  if (!status_.ok()) return status_;
  std::uint64_t at = 0;
  for (const auto& call : calls_) {
    std::memcpy(call.recv, buffer_.data() + at, bytes_of(call));
    at += bytes_of(call);
  }
  return status_;
}

}  // namespace foldcast::api
