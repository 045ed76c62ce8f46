#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/collective.h"
#include "core/base/datatype.h"
#include "core/base/reduce_op.h"

namespace foldcast::tools {

/// One call as one rank makes it.
struct PerfCall {
  Collective kind = Collective::kAllReduce;
  Datatype dtype = Datatype::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t count = 0;  ///< of variable counts: their mean
  int ranks = 1;
  int rank = 0;
  int root = 0;
  bool in_place = false;
  /// One element between the blocks of a buffer, where displacements can say so.
  bool gaps = false;
};

/// `count` elements at element `at` of a buffer are elements `first` on of the data of rank `source`, or (of a
/// reduction's result) of the reduced data.
struct Piece {
  std::size_t at = 0;
  std::size_t count = 0;
  int source = 0;
  std::size_t first = 0;
};

/// What a call does to this rank's buffers, in elements, as foldcast.h defines it.
///
/// Every rank has data of its own: its send buffer, or the blocks of that one after the other. Pieces say which part of
/// whose data lies where, before and after the call.
///
/// Variable counts go up and down round their mean, in turns of four ranks: half as much again, half, nothing, twice.
/// So some ranks and pairs have nothing, and the sum is n times the mean.
struct CallLayout {
  // The call's arguments. Empty where it has none of the kind.
  std::vector<std::size_t> send_counts, send_starts;
  std::vector<std::size_t> recv_counts, recv_starts;
  std::size_t own_count = 0;  ///< of the rank itself, where its own buffer has no blocks

  std::vector<Piece> inputs;  ///< of this rank's data, in send or (see below) in recv
  bool input_in_recv = false;
  std::vector<Piece> outputs;  ///< in recv; ascending
  bool writes_recv = true;     ///< false: recv is not given to the call (a root that scatters in place)
  bool may_use_recv = false;   ///< what of recv is no output may have anything in it afterwards
  std::size_t data_size = 0;   ///< of each rank's data, where it is reduced
  std::size_t room = 0;        ///< that either buffer needs

  static CallLayout of(const PerfCall& call);
};

/// Elements that rank `r` of `ranks` has when the mean is `mean`.
std::size_t variable_count(std::size_t mean, int r, int ranks);

/// A rank's number on a ring, for any whole `rank`.
constexpr int around(int rank, int ranks) { return (rank % ranks + ranks) % ranks; }

}  // namespace foldcast::tools
