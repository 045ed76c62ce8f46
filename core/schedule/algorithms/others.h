#pragma once

#include <cstdint>

namespace foldcast::schedule {

/// The members without the root, numbered densely.
struct Others {
  std::uint32_t root = 0;
  std::uint32_t number_of(std::uint32_t member) const { return member < root ? member : member - 1; }
  std::uint32_t member(std::uint32_t number) const { return number < root ? number : number + 1; }
};

}  // namespace foldcast::schedule
