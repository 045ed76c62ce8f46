#include "tools/foldcast/perf_layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace foldcast::tools {
namespace {

bool is_variable(Collective kind) { return kind >= Collective::kReduceScatterV; }

std::vector<std::size_t> starts_of(const std::vector<std::size_t>& counts, std::size_t gap) {
  std::vector<std::size_t> starts;
  std::size_t at = 0;
  for (std::size_t count : counts) {
    starts.push_back(at);
    at += count + gap;
  }
  return starts;
}

std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// The layout of one call, collective by collective.
class Planner {
 public:
  explicit Planner(const PerfCall& call) : call_(call), me_(static_cast<std::size_t>(call.rank)) {
    bool gaps = call.gaps && is_variable(call.kind) && call.kind != Collective::kReduceScatterV;
    gap_ = gaps ? 1 : 0;
  }

  CallLayout plan() {
    switch (call_.kind) {
      case Collective::kAllReduce:
      case Collective::kReduce:
      case Collective::kBroadcast:
      case Collective::kSendRecv:
        whole_buffers();
        break;
      case Collective::kReduceScatter:
      case Collective::kReduceScatterV:
        reduce_scatter();
        break;
      case Collective::kAllGather:
      case Collective::kAllGatherV:
      case Collective::kGather:
      case Collective::kGatherV:
        gather();
        break;
      case Collective::kScatter:
      case Collective::kScatterV:
        scatter();
        break;
      case Collective::kAllToAll:
      case Collective::kAllToAllV:
        all_to_all();
        break;
      default:  // a barrier has no buffers
        break;
    }
    return std::move(layout_);
  }

 private:
  bool is_root() const { return call_.rank == call_.root; }

  /// By rank.
  std::vector<std::size_t> counts() const {
    return counts_by([](int r) { return r; });
  }
  /// `turn`: which number of the pattern rank r has.
  std::vector<std::size_t> counts_by(const std::function<int(int)>& turn) const {
    std::vector<std::size_t> list;
    for (int r = 0; r < call_.ranks; ++r) {
      int at = around(turn(r), call_.ranks);
      list.push_back(is_variable(call_.kind) ? variable_count(call_.count, at, call_.ranks) : call_.count);
    }
    return list;
  }

  void whole_buffers() {
    bool gives = call_.kind != Collective::kBroadcast || is_root();
    bool gets = call_.kind != Collective::kReduce || is_root();
    bool rooted = has_root(call_.kind);
    int source = call_.kind == Collective::kBroadcast  ? call_.root
                 : call_.kind == Collective::kSendRecv ? around(call_.rank - 1, call_.ranks)
                                                       : call_.rank;
    if (gives) layout_.inputs.push_back({0, call_.count, call_.rank, 0});
    if (gets) layout_.outputs.push_back({0, call_.count, source, 0});
    layout_.input_in_recv = call_.in_place && (!rooted || is_root());
    layout_.own_count = layout_.data_size = layout_.room = call_.count;
  }

  void reduce_scatter() {
    layout_.send_counts = counts();
    std::size_t all = sum(layout_.send_counts);
    std::size_t first = starts_of(layout_.send_counts, 0)[me_];
    layout_.own_count = layout_.send_counts[me_];
    layout_.inputs.push_back({0, all, call_.rank, 0});
    layout_.outputs.push_back({0, layout_.own_count, call_.rank, first});
    layout_.input_in_recv = layout_.may_use_recv = call_.in_place;
    layout_.data_size = layout_.room = all;
  }

  void gather() {
    bool gets = !has_root(call_.kind) || is_root();
    layout_.recv_counts = counts();
    layout_.recv_starts = starts_of(layout_.recv_counts, gap_);
    layout_.own_count = layout_.recv_counts[me_];
    layout_.input_in_recv = call_.in_place && gets;
    layout_.inputs.push_back({layout_.input_in_recv ? layout_.recv_starts[me_] : 0, layout_.own_count, call_.rank, 0});
    for (std::size_t r = 0; gets && r < layout_.recv_counts.size(); ++r) {
      layout_.outputs.push_back({layout_.recv_starts[r], layout_.recv_counts[r], static_cast<int>(r), 0});
    }
    layout_.room = sum(layout_.recv_counts) + gap_ * layout_.recv_counts.size();
  }

  void scatter() {
    layout_.send_counts = counts();
    layout_.send_starts = starts_of(layout_.send_counts, gap_);
    layout_.own_count = layout_.send_counts[me_];
    std::vector<std::size_t> first = starts_of(layout_.send_counts, 0);
    for (std::size_t r = 0; is_root() && r < first.size(); ++r) {
      layout_.inputs.push_back({layout_.send_starts[r], layout_.send_counts[r], call_.rank, first[r]});
    }
    layout_.writes_recv = !(call_.in_place && is_root());
    if (layout_.writes_recv) layout_.outputs.push_back({0, layout_.own_count, call_.root, first[me_]});
    layout_.room = sum(layout_.send_counts) + gap_ * first.size();
  }

  /// Which number of the pattern the block from `source` to `target` has. In place both ways must be equal; otherwise
  /// they are not, so that a mix-up of the two is found.
  int turn(int source, int target) const { return call_.in_place ? source + target : target - source; }

  void all_to_all() {
    layout_.send_counts = counts_by([&](int r) { return turn(call_.rank, r); });
    layout_.recv_counts = counts_by([&](int r) { return turn(r, call_.rank); });
    layout_.send_starts = starts_of(layout_.send_counts, gap_);
    layout_.recv_starts = starts_of(layout_.recv_counts, gap_);
    std::vector<std::size_t> first = starts_of(layout_.send_counts, 0);
    for (int r = 0; r < call_.ranks; ++r) {
      auto at = static_cast<std::size_t>(r);
      layout_.inputs.push_back({layout_.send_starts[at], layout_.send_counts[at], call_.rank, first[at]});
      std::size_t first_there = starts_of(counts_by([&](int other) { return turn(r, other); }), 0)[me_];
      layout_.outputs.push_back({layout_.recv_starts[at], layout_.recv_counts[at], r, first_there});
    }
    layout_.input_in_recv = call_.in_place;
    layout_.own_count = call_.count;
    layout_.room = sum(layout_.send_counts) + gap_ * first.size();
  }

  const PerfCall& call_;
  std::size_t me_;
  std::size_t gap_ = 0;
  CallLayout layout_;
};

}  // namespace

std::size_t variable_count(std::size_t mean, int r, int ranks) {
  std::size_t half = mean / 2 + mean % 2;
  int whole_turns = ranks / 4 * 4;
  // What is left of the last turn keeps the mean, too.
  int left = r < whole_turns ? 4 : ranks - whole_turns;
  if (left == 1) return mean;
  switch (r % 4) {
    case 0:
      return mean + half;
    case 1:
      return left == 3 ? 0 : mean - half;
    case 2:
      return left == 3 ? 2 * mean - half : 0;
    default:
      return 2 * mean;
  }
}

CallLayout CallLayout::of(const PerfCall& call) { return Planner(call).plan(); }

}  // namespace foldcast::tools
