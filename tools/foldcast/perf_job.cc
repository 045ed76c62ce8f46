#include "tools/foldcast/perf_job.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace foldcast::tools {
namespace {

/// What ranks tell each other of themselves.
struct PlaceWire {
  std::int32_t node;
  std::int32_t pid;
  char host[64];
};

/// Differs with near certainty when one bit does.
std::uint64_t fingerprint(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ bytes.size();
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

int exit_code_of(const std::exception& error) {
  auto* failed_call = dynamic_cast<const api::Error*>(&error);
  return failed_call != nullptr && failed_call->code() == FOLDCAST_INVALID_ARGUMENT ? 2 : 1;
}

PerfJob::PerfJob() : rank_(comm_.rank()), size_(comm_.size()), nodes_(comm_.node_count()) {}

void PerfJob::use(PerfPath path, const std::string& plan, WireFormat wire) {
  constexpr std::array<foldcast_path_t, 3> paths = {FOLDCAST_PATH_AUTO, FOLDCAST_PATH_OFFLOAD, FOLDCAST_PATH_HOST};
  comm_.set_path(paths[static_cast<std::size_t>(path)]);
  comm_.set_plan(plan);
  if (wire == wire_) return;
  comm_.set_wire_format(static_cast<foldcast_wire_format_t>(wire));
  wire_ = wire;
}

void PerfJob::agree(std::span<double> values, foldcast_op_t op) {
  use(PerfPath::kHost, "");
  comm_.all_reduce(values, op);
}

void PerfJob::agree(std::span<std::int64_t> values, foldcast_op_t op) {
  use(PerfPath::kHost, "");
  comm_.all_reduce(values, op);
}

double PerfJob::agree_max(double value) {
  agree(std::span(&value, 1), FOLDCAST_MAX);
  return value;
}

std::int64_t PerfJob::agree_sum(std::int64_t value) {
  agree(std::span(&value, 1), FOLDCAST_SUM);
  return value;
}

bool PerfJob::are_equal_everywhere(std::span<const std::byte> bytes) {
  // The least of x and of ~x: they are x and ~x themselves only when there is one x.
  auto mine = std::bit_cast<std::int64_t>(fingerprint(bytes));
  std::array<std::int64_t, 2> least = {mine, ~mine};
  agree(least, FOLDCAST_MIN);
  return least[0] == ~least[1];
}

std::uint64_t PerfJob::share(std::uint64_t value) {
  return static_cast<std::uint64_t>(agree_sum(rank_ == 0 ? std::bit_cast<std::int64_t>(value) : 0));
}

std::vector<RankPlace> PerfJob::places() {
  use(PerfPath::kHost, "");
  std::vector<PlaceWire> wire(static_cast<std::size_t>(size_), PlaceWire{});
  PlaceWire& mine = wire[static_cast<std::size_t>(rank_)];
  mine.node = comm_.node();
  mine.pid = getpid();
  (void)gethostname(mine.host, sizeof mine.host - 1);
  // Everybody else's row is zero, so that the sum is everybody's row.
  comm_.all_reduce(std::span(reinterpret_cast<std::uint8_t*>(wire.data()), wire.size() * sizeof(PlaceWire)));
  std::vector<RankPlace> places;
  for (const PlaceWire& row : wire) {
    places.push_back({row.node, row.pid, std::string(row.host, strnlen(row.host, sizeof row.host))});
  }
  return places;
}

}  // namespace foldcast::tools
