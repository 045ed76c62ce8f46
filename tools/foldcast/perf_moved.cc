#include "tools/foldcast/perf_moved.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tools/foldcast/perf_numbers.h"

namespace foldcast::tools {
namespace {

std::string bits_of(const std::byte* element, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, bytes);
  return fmt::format("{:#0{}x}", bits, 2 + 2 * bytes);
}

}  // namespace

void Wrong::add(const Wrong& other) {
  if (elements == 0) first = other.first;
  elements += other.elements;
}

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void MovedData::fill(std::byte* buffer, std::size_t first, std::size_t count) const {
  std::size_t bytes = size_of(shape_.dtype);
  std::uint64_t stream = mix(shape_.seed + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(rank_ + 2));
  std::uint64_t mask = shape_.dtype == Datatype::kBool ? 1 : ~std::uint64_t{0};
  std::size_t drawn = std::min(count, kPeriod);
  for (std::size_t i = 0; i < drawn; ++i) {
    encode_integer(shape_.dtype, mix(stream + (first + i) % kPeriod) & mask, buffer + i * bytes);
  }
  for (std::size_t done = drawn; done < count; done += std::min(kPeriod, count - done)) {
    std::memcpy(buffer + done * bytes, buffer, std::min(kPeriod, count - done) * bytes);
  }
}

Wrong MovedData::check(const std::byte* buffer, std::size_t first, std::size_t count) const {
  std::size_t bytes = size_of(shape_.dtype);
  std::vector<std::byte> expected(std::min(count, kPeriod) * bytes);
  fill(expected.data(), first, std::min(count, kPeriod));
  Wrong wrong;
  for (std::size_t done = 0; done < count; done += std::min(kPeriod, count - done)) {
    std::size_t elements = std::min(kPeriod, count - done);
    const std::byte* block = buffer + done * bytes;
    if (std::memcmp(block, expected.data(), elements * bytes) == 0) continue;
    for (std::size_t i = 0; i < elements; ++i) {
      const std::byte* got = block + i * bytes;
      const std::byte* want = expected.data() + i * bytes;
      if (std::memcmp(got, want, bytes) == 0 || wrong.elements++ > 0) continue;
      wrong.first = fmt::format("element {}: {}, expected {}", done + i, bits_of(got, bytes), bits_of(want, bytes));
    }
  }
  return wrong;
}

}  // namespace foldcast::tools
