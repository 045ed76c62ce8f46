#include "core/schedule/algorithms/algorithms.h"

#include <fmt/format.h>

#include <string>

#include "core/schedule/algorithms/all_gather.h"
#include "core/schedule/algorithms/all_reduce.h"
#include "core/schedule/algorithms/all_to_all.h"
#include "core/schedule/algorithms/broadcast.h"
#include "core/schedule/algorithms/gather.h"
#include "core/schedule/algorithms/reduce.h"
#include "core/schedule/algorithms/reduce_scatter.h"
#include "core/schedule/algorithms/scatter.h"
#include "core/schedule/algorithms/send_recv.h"

namespace foldcast::schedule {
namespace {

constexpr bool kKeepsOrder = true;
constexpr bool kAdjacent = true;

constexpr Algorithm kAllReduce[] = {
    {"ring", Collective::kAllReduce, !kKeepsOrder, !kAdjacent, all_reduce_ring},
    {"recursive_doubling", Collective::kAllReduce, kKeepsOrder, !kAdjacent, all_reduce_recursive_doubling},
    {"halving_doubling", Collective::kAllReduce, kKeepsOrder, !kAdjacent, all_reduce_halving_doubling},
    {"double_tree", Collective::kAllReduce, !kKeepsOrder, !kAdjacent, all_reduce_double_tree},
    {"direct", Collective::kAllReduce, kKeepsOrder, !kAdjacent, all_reduce_direct},
    {"gather_all", Collective::kAllReduce, kKeepsOrder, !kAdjacent, all_reduce_gather_all},
};

constexpr Algorithm kReduce[] = {
    {"knomial", Collective::kReduce, kKeepsOrder, !kAdjacent, reduce_knomial},
    {"knomial4", Collective::kReduce, kKeepsOrder, !kAdjacent, reduce_knomial4},
    {"reduce_scatter_gather", Collective::kReduce, kKeepsOrder, !kAdjacent, reduce_scatter_gather},
    {"chain", Collective::kReduce, !kKeepsOrder, !kAdjacent, reduce_chain},
    {"double_tree", Collective::kReduce, !kKeepsOrder, !kAdjacent, reduce_double_tree},
};

constexpr Algorithm kBroadcast[] = {
    {"knomial", Collective::kBroadcast, kKeepsOrder, !kAdjacent, broadcast_knomial},
    {"knomial4", Collective::kBroadcast, kKeepsOrder, !kAdjacent, broadcast_knomial4},
    {"scatter_allgather", Collective::kBroadcast, kKeepsOrder, !kAdjacent, broadcast_scatter_allgather},
    {"chain", Collective::kBroadcast, kKeepsOrder, !kAdjacent, broadcast_chain},
    {"double_tree", Collective::kBroadcast, kKeepsOrder, !kAdjacent, broadcast_double_tree},
};

constexpr Algorithm kReduceScatter[] = {
    {"ring", Collective::kReduceScatter, !kKeepsOrder, !kAdjacent, reduce_scatter_ring},
    {"halving", Collective::kReduceScatter, !kKeepsOrder, kAdjacent, reduce_scatter_halving},
    {"direct", Collective::kReduceScatter, kKeepsOrder, !kAdjacent, reduce_scatter_direct},
};

constexpr Algorithm kAllGather[] = {
    {"ring", Collective::kAllGather, kKeepsOrder, !kAdjacent, all_gather_ring},
    {"doubling", Collective::kAllGather, kKeepsOrder, kAdjacent, all_gather_doubling},
    {"bruck", Collective::kAllGather, kKeepsOrder, kAdjacent, all_gather_bruck},
    {"direct", Collective::kAllGather, kKeepsOrder, !kAdjacent, all_gather_direct},
};

constexpr Algorithm kAllToAll[] = {
    {"direct", Collective::kAllToAll, kKeepsOrder, !kAdjacent, all_to_all_direct},
    {"bruck", Collective::kAllToAll, kKeepsOrder, kAdjacent, all_to_all_bruck},
};

constexpr Algorithm kGather[] = {
    {"direct", Collective::kGather, kKeepsOrder, !kAdjacent, gather_direct},
    {"knomial", Collective::kGather, kKeepsOrder, kAdjacent, gather_knomial},
};

constexpr Algorithm kScatter[] = {
    {"direct", Collective::kScatter, kKeepsOrder, !kAdjacent, scatter_direct},
    {"knomial", Collective::kScatter, kKeepsOrder, kAdjacent, scatter_knomial},
};

constexpr Algorithm kSendRecv[] = {
    {"direct", Collective::kSendRecv, kKeepsOrder, !kAdjacent, send_recv_direct},
};

}  // namespace

std::span<const Algorithm> algorithms_of(Collective kind) {
  switch (scheduled_as(kind)) {
    case Collective::kAllReduce:
      return kAllReduce;
    case Collective::kReduce:
      return kReduce;
    case Collective::kBroadcast:
      return kBroadcast;
    case Collective::kReduceScatter:
      return kReduceScatter;
    case Collective::kAllGather:
      return kAllGather;
    case Collective::kAllToAll:
      return kAllToAll;
    case Collective::kGather:
      return kGather;
    case Collective::kScatter:
      return kScatter;
    case Collective::kSendRecv:
      return kSendRecv;
    default:
      return {};
  }
}

Result<Algorithm> find_algorithm(Collective kind, std::string_view name) {
  std::string known;
  for (const Algorithm& algorithm : algorithms_of(kind)) {
    if (algorithm.name == name) return algorithm;
    known += known.empty() ? "" : ", ";
    known += algorithm.name;
  }
  return invalid_argument(
      fmt::format("no algorithm of {} is called \"{}\"; the names are {}", to_string(kind), name, known));
}

}  // namespace foldcast::schedule
