#include "tests/core/schedule/reference.h"

namespace foldcast::schedule {
namespace {

class Reference {
 public:
  Reference(const std::vector<Memories>& ranks, const RunOptions& options)
      : ranks_(ranks),
        options_(options),
        kind_(scheduled_as(options.contract.kind)),
        block_(options.count / ranks.size()) {}

  std::string compare() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Memories& memories = ranks_[rank];
      const auto& output = memories.in_place ? memories.input : memories.output;
      const auto& before = memories.in_place ? memories.input_before : memories.output_before;
      for (std::uint64_t i = 0; i < options_.count; ++i) {
        std::string wrong;
        if (!memories.in_place && memories.input[i] != memories.input_before[i]) wrong = "the input was changed";
        if (!in_output(rank, i)) {
          if (output[i] != before[i]) wrong = "what is no output was changed";
        } else {
          wrong += reduces(kind_) ? check_sum(rank, i, output[i]) : check_copy(rank, i, output[i]);
        }
        if (!wrong.empty()) return "rank " + std::to_string(rank) + ", element " + std::to_string(i) + ": " + wrong;
      }
    }
    return {};
  }

 private:
  bool is_root(std::size_t rank) const { return static_cast<std::int32_t>(rank) == options_.contract.root; }

  bool in_output(std::size_t rank, std::uint64_t i) const {
    switch (kind_) {
      case Collective::kReduce:
      case Collective::kGather:
        return is_root(rank);
      case Collective::kSendRecv:
        return !is_root(rank);
      case Collective::kReduceScatter:
      case Collective::kScatter:
        return i / block_ == rank;
      default:
        return true;
    }
  }

  std::string check_sum(std::size_t rank, std::uint64_t i, const Element& found) const {
    Element expected = ranks_[0].input_before[i];
    for (std::size_t other = 1; other < ranks_.size(); ++other) {
      expected = combine(expected, ranks_[other].input_before[i]);
    }
    if (found.sum != expected.sum) return "wrong sum";
    if (options_.in_order && (found.mul != expected.mul || found.add != expected.add)) return "wrong order";
    return check_bits(rank, i, found);
  }

  std::string check_copy(std::size_t rank, std::uint64_t i, const Element& found) const {
    std::size_t from = static_cast<std::size_t>(options_.contract.root);
    std::uint64_t element = i;
    if (kind_ == Collective::kAllGather || kind_ == Collective::kGather) from = i / block_;
    if (kind_ == Collective::kAllToAll) {
      from = i / block_;
      element = rank * block_ + i % block_;
    }
    const Element& expected = ranks_[from].input_before[element];
    if (found != expected && !(ranks_[rank].rounds && rounded(found) == rounded(expected))) return "wrong value";
    return check_bits(rank, i, found);
  }

  std::string check_bits(std::size_t rank, std::uint64_t i, const Element& found) const {
    const bool replicates =
        kind_ == Collective::kAllReduce || kind_ == Collective::kBroadcast || kind_ == Collective::kAllGather;
    if (!replicates || rank == 0) return {};
    const Memories& first = ranks_[0];
    return found == (first.in_place ? first.input : first.output)[i] ? "" : "other bits than on rank 0";
  }

  const std::vector<Memories>& ranks_;
  const RunOptions& options_;
  Collective kind_;
  std::uint64_t block_;
};

}  // namespace

std::string compare(const std::vector<Memories>& ranks, const RunOptions& options) {
  return Reference(ranks, options).compare();
}

}  // namespace foldcast::schedule
