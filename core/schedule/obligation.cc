#include "core/schedule/obligation.h"

#include <fmt/format.h>

namespace foldcast::schedule {

Status Obligation::check(const Contract& contract, std::size_t ranks) {
  if (ranks == 0) return invalid_argument("a program without ranks cannot be verified");
  const Collective kind = scheduled_as(contract.kind);
  const bool is_pair = kind == Collective::kSendRecv;
  if (kind == Collective::kNone) return invalid_argument("a contract names a collective");
  if (is_pair && ranks != 2) return invalid_argument(fmt::format("send_recv has two ranks, not {}", ranks));
  if (!has_root(kind) && !is_pair) return ok_status();
  if (contract.root >= 0 && static_cast<std::size_t>(contract.root) < ranks) return ok_status();
  return invalid_argument(fmt::format("the root {} is none of {} ranks", contract.root, ranks));
}

Cells::Range Obligation::range(const Cells& cells, Extent extent, std::uint32_t rank) const {
  switch (extent) {
    case Extent::kNone:
      break;
    case Extent::kOwnBlock:
      return cells.of({Region::kData, {rank, ranks_}, {rank + 1, ranks_}});
    case Extent::kWhole:
      return {0, cells.count()};
  }
  return {};
}

Cells::Range Obligation::input(const Cells& cells, std::uint32_t rank) const {
  const Extent roots = rank == root_ ? Extent::kWhole : Extent::kNone;
  switch (kind_) {
    case Collective::kBroadcast:
    case Collective::kScatter:
    case Collective::kSendRecv:
      return range(cells, roots, rank);
    case Collective::kAllGather:
    case Collective::kGather:
      return range(cells, Extent::kOwnBlock, rank);
    default:
      return range(cells, Extent::kWhole, rank);
  }
}

Cells::Range Obligation::output(const Cells& cells, std::uint32_t rank) const {
  switch (kind_) {
    case Collective::kReduce:
    case Collective::kGather:
      return range(cells, rank == root_ ? Extent::kWhole : Extent::kNone, rank);
    case Collective::kSendRecv:
      return range(cells, rank == root_ ? Extent::kNone : Extent::kWhole, rank);
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return range(cells, Extent::kOwnBlock, rank);
    default:
      return range(cells, Extent::kWhole, rank);
  }
}

std::uint32_t Obligation::input_number(const Cells& cells, std::uint32_t rank, std::uint32_t cell) const {
  return blocks().crosses ? rank * ranks_ + cells.block_of(cell) : rank;
}

std::uint32_t Obligation::expected(const Cells& cells, std::uint32_t rank, std::uint32_t cell) const {
  switch (kind_) {
    case Collective::kAllGather:
    case Collective::kGather:
      return cells.block_of(cell);
    case Collective::kAllToAll:
      return cells.block_of(cell) * ranks_ + rank;
    default:
      return root_;
  }
}

std::string Obligation::name(std::uint32_t input_number) const {
  if (!blocks().crosses) return fmt::format("rank {}", input_number);
  return fmt::format("block {} of rank {}", input_number % ranks_, input_number / ranks_);
}

}  // namespace foldcast::schedule
