#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "core/base/status.h"
#include "core/select/call_shape.h"
#include "core/select/link_model.h"
#include "hierarchy/planner.h"

namespace foldcast::select {

/// How a plan's fragments flow.
struct Pipelining {
  std::uint64_t fragment_bytes = 0;  ///< the whole call when it is not cut
  std::uint32_t depth = 1;           ///< fragments in flight
  friend bool operator==(const Pipelining&, const Pipelining&) = default;
};

/// What a plan is expected to take for one size, and the pipelining that makes it so.
struct Price {
  double us = 0;
  Pipelining pipelining;
};

/// Prices plans over one layout. The cost terms of the schedules (rounds, bytes on the critical path, bytes per rank)
/// come from the schedules themselves and are kept, so that a second size costs next to nothing.
///
/// A plan is a pipeline of three stages (node up, network, node down) through which fragments flow: the first pays
/// every stage in full, each further one the slowest stage. A network stage pays per round a latency and per byte the
/// link.
class Estimator {
 public:
  Estimator(const hierarchy::Layout& layout, LinkModel model) : layout_(layout), model_(std::move(model)) {}

  /// The cheapest fragment size and depth for a call of `bytes`, and its price. `composition` must be buildable. What
  /// of `forced` is not 0 is taken as it is.
  Result<Price> price(const CallShape& shape, const hierarchy::Composition& composition,
                      const Pipelining& forced = {0, 0});
  const LinkModel& model() const { return model_; }
  void set_model(LinkModel model) { model_ = std::move(model); }

  /// Messages in a row, and bytes in a row as a fraction of the call, of a host algorithm among `members`.
  struct Terms {
    double rounds = 0;
    double serial_bytes = 0;  ///< on the critical path, fraction of the payload
    double sent_bytes = 0;    ///< by the busiest rank, fraction of the payload
    double messages = 0;      ///< sent by the busiest rank
    double reduced_bytes = 0;
  };
  Result<Terms> terms_of(Collective kind, const std::string& network, std::size_t members);

 private:
  struct Stages {
    double up = 0, network_first = 0, network_next = 0, down = 0;
  };
  Result<Stages> stages(const CallShape& shape, const hierarchy::Composition& composition, double fragment);
  void add_node_stages(Collective kind, const hierarchy::Composition& composition, double fragment,
                       Stages& stages) const;

  const hierarchy::Layout& layout_;
  LinkModel model_;
  std::map<std::tuple<Collective, std::string, std::size_t>, Terms> terms_;
};

}  // namespace foldcast::select
