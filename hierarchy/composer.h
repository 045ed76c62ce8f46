#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/schedule/algorithms/algorithms.h"
#include "core/schedule/builder.h"
#include "hierarchy/planner.h"

namespace foldcast::hierarchy {

/// Writes one rank's schedule for a composition. The request and the composition fit the layout (see compose()).
///
/// A *column* is one rank of each node: those that work between the nodes for one share. Leaders are one column; in
/// rooted collectives the root is its node's member of it.
class Composer {
 public:
  Composer(const Layout& layout, const Request& request, const Composition& composition, std::int32_t rank);
  Result<schedule::Schedule> run();

 private:
  Status node_only();
  Status flat();
  Status with_nodes();

  Status all_reduce();
  Status reduce();
  Status broadcast();
  Status reduce_scatter();
  Status all_gather();
  Status all_to_all();
  Status gather();
  Status scatter();

  /// Local rank `shard` of each node; the root instead on its node where leaders work.
  std::vector<std::int32_t> column(std::uint32_t shard) const;
  /// What each member of this rank's column has of the whole: its block or, of leaders, its node's.
  std::vector<schedule::Part> column_blocks() const;
  bool leads() const;  ///< this rank is in the leaders' column
  /// A node's ranks as a part of the whole.
  schedule::Part span_of(std::size_t node) const;
  schedule::Part block_of(std::int32_t rank) const;
  void node_step(Verb verb, std::uint8_t lane, const schedule::Chunk& source, const schedule::Chunk& target,
                 std::int32_t root = -1, std::uint32_t owners = 0);
  Status network(const schedule::Stage& stage);
  Status network(const schedule::BlockStage& stage);

  const Layout& layout_;
  const Request& request_;
  const Composition& composition_;
  schedule::Builder builder_;
  const std::int32_t rank_;
  const std::uint32_t size_;
  const std::uint32_t node_;
  const std::uint32_t local_;
  const std::vector<std::int32_t>& mates_;  ///< the ranks of this node
  const bool sharded_;
};

}  // namespace foldcast::hierarchy
