#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/bootstrap/store.h"

namespace foldcast::bootstrap {

/// Of one rank of a job on this machine.
inline StoreOptions options_of(int rank, int size, std::uint16_t port) {
  StoreOptions options;
  options.rank = rank;
  options.size = size;
  options.host = "127.0.0.1";
  options.port = port;
  options.name = "node" + std::to_string(rank);
  options.timeout = std::chrono::seconds(10);
  return options;
}

inline std::vector<int> everyone(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace foldcast::bootstrap
