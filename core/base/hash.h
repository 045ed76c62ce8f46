#pragma once

#include <cstdint>
#include <string_view>

namespace foldcast {

/// FNV-1a, 64 bits: unlike std::hash the same on every rank and build. Not for what an adversary chooses.
constexpr std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace foldcast
