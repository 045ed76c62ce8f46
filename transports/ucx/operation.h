#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "transports/ucx/wire.h"

namespace foldcast::transports {

class UcxTransport;

/// A send or a rendezvous receive that UCX works on. It stays at its address until UCX is done with it.
struct Operation {
  UcxTransport* owner = nullptr;
  bool control = false;  ///< one of ours: nobody waits for it
  bool send = false;
  bool completed = false;  ///< its completion was given early; only the memory is still UCX's
  bool active = false;
  std::int32_t peer = -1;
  std::uint64_t cookie = 0;
  WireHeader header;  ///< of the message; UCX reads it until a send is complete
};

/// Operations, reused. A few thousand at most are looked through when a communicator or a peer ends.
class OperationPool {
 public:
  Operation& take() {
    if (free_.empty()) {
      operations_.emplace_back();
      free_.push_back(&operations_.back());
    }
    Operation& operation = *free_.back();
    free_.pop_back();
    operation = {};
    operation.active = true;
    ++active_;
    return operation;
  }
  void give_back(Operation& operation) {
    operation.active = false;
    free_.push_back(&operation);
    --active_;
  }
  std::size_t active() const { return active_; }

  template <typename Visit>
  void for_each_active(Visit visit) {
    for (Operation& operation : operations_) {
      if (operation.active) visit(operation);
    }
  }

 private:
  std::deque<Operation> operations_;
  std::vector<Operation*> free_;
  std::size_t active_ = 0;
};

}  // namespace foldcast::transports
