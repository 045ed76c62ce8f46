#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>

#include "core/base/datatype.h"
#include "tests/kernels/reference.h"

namespace foldcast::kernels::test {

/// Fresh data on each run. The seed is printed; FOLDCAST_TEST_SEED repeats it.
inline std::mt19937_64 fresh_generator() {
  const char* const given = std::getenv("FOLDCAST_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  return std::mt19937_64(seed);
}

/// One element of fresh data as bits. A quarter are any bits at all (for floats: any exponent, NaN and infinity too);
/// the rest are values whose sums and products mostly stay in range.
inline std::uint64_t random_element(Datatype dtype, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  if (dtype == Datatype::kBool) return (bits & 3) == 0 ? bits >> 8 : (bits >> 8) & 1;
  // As often zero as not, else logical ops would have nothing to tell apart.
  if (!is_floating(dtype)) return (bits >> 63) != 0 ? bits << 1 >> 1 : (bits & 1) << ((bits >> 1) & 31);
  if ((bits >> 62) == 0) return bits;
  const double value = (static_cast<double>(bits & 0xFFFF'FFFF) / 0x8000'0000 - 1.0) * ((bits >> 61) & 1 ? 1.0 : 100.0);
  switch (dtype) {
    case Datatype::kFloat16:
      return encode_float(value, 5, 10);
    case Datatype::kBfloat16:
      return encode_float(value, 8, 7);
    case Datatype::kFloat8E4m3:
      return encode_e4m3(value);
    case Datatype::kFloat8E5m2:
      return encode_float(value, 5, 2);
    case Datatype::kFloat32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    default:
      return std::bit_cast<std::uint64_t>(value);
  }
}

inline Bytes random_values(Datatype dtype, std::size_t count, std::mt19937_64& random) {
  const std::size_t size = size_of(dtype);
  Bytes bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t element = random_element(dtype, random);
    std::memcpy(bytes.data() + i * size, &element, size);  // little-endian: the low bytes come first
  }
  return bytes;
}

}  // namespace foldcast::kernels::test
