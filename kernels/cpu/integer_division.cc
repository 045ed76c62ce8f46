#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/families.h"

namespace foldcast::kernels {
namespace {

/// Quotients of magnitudes by one divisor (two or more), without a division per element where the width allows.
template <class Unsigned>
class Divisor {
 public:
  // Up to 32 bits: floor(x / d) is the high half of x * (floor(2^64 / d) + 1), since the error x / 2^64 per unit is too
  // small to reach the next integer (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019).
  explicit Divisor(std::uint64_t divisor)
      : reciprocal_(std::has_single_bit(divisor) ? std::uint64_t{1} << (64 - std::countr_zero(divisor))
                                                 : std::numeric_limits<std::uint64_t>::max() / divisor + 1) {}

  Unsigned quotient(Unsigned magnitude) const {
    return static_cast<Unsigned>((static_cast<unsigned __int128>(reciprocal_) * magnitude) >> 64);
  }

 private:
  std::uint64_t reciprocal_;
};

template <>
class Divisor<std::uint64_t> {
 public:
  explicit Divisor(std::uint64_t divisor)
      : divisor_(divisor), shift_(std::has_single_bit(divisor) ? std::countr_zero(divisor) : 0) {}

  // The number of ranks is a power of two more often than not.
  std::uint64_t quotient(std::uint64_t magnitude) const {
    return shift_ != 0 ? magnitude >> shift_ : magnitude / divisor_;
  }

 private:
  std::uint64_t divisor_;
  int shift_;
};

template <class T>
void divide_each(const Transform& transform, std::uint64_t by) {
  using Unsigned = std::make_unsigned_t<T>;
  const Divisor<Unsigned> divisor(by);
  for (std::size_t offset = 0; offset < transform.bytes; offset += sizeof(T)) {
    T value;
    std::memcpy(&value, transform.source + offset, sizeof(value));
    Unsigned bits = static_cast<Unsigned>(value);
    // Rounding toward zero is rounding magnitudes down. The magnitude of the most negative value fits the unsigned
    // type.
    const bool negative = std::is_signed_v<T> && value < 0;
    if (negative) bits = static_cast<Unsigned>(Unsigned{0} - bits);
    bits = divisor.quotient(bits);
    if (negative) bits = static_cast<Unsigned>(Unsigned{0} - bits);
    std::memcpy(transform.target + offset, &bits, sizeof(bits));
  }
}

}  // namespace

void divide_integers(const Transform& transform, std::uint64_t divisor) {
  switch (transform.dtype) {
    case Datatype::kInt8:
      return divide_each<std::int8_t>(transform, divisor);
    case Datatype::kUint8:
      return divide_each<std::uint8_t>(transform, divisor);
    case Datatype::kInt16:
      return divide_each<std::int16_t>(transform, divisor);
    case Datatype::kUint16:
      return divide_each<std::uint16_t>(transform, divisor);
    case Datatype::kInt32:
      return divide_each<std::int32_t>(transform, divisor);
    case Datatype::kUint32:
      return divide_each<std::uint32_t>(transform, divisor);
    case Datatype::kInt64:
      return divide_each<std::int64_t>(transform, divisor);
    default:
      return divide_each<std::uint64_t>(transform, divisor);
  }
}

}  // namespace foldcast::kernels
