#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convert.cc"
#include "hwy/foreach_target.h"
// The loop over the instruction sets comes first.
#include "hwy/highway.h"
#include "kernels/cpu/conversions.h"
#include "kernels/cpu/float8-inl.h"
#include "kernels/cpu/float_ops-inl.h"
#include "kernels/cpu/memory-inl.h"
#include "kernels/cpu/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

// A converter turns kCount floats at `values` into kBytes at `small` (`narrow`) and back (`widen`).

#if HWY_TARGET == HWY_SCALAR

template <auto kWiden, auto kNarrow>
struct ScalarConverter {
  using Bits = decltype(kNarrow(0.0F));
  static constexpr std::size_t kCount = 1;
  static constexpr std::size_t kBytes = sizeof(Bits);

  static void narrow(std::byte* small, const std::byte* values) {
    const Bits bits = kNarrow(hn::GetLane(canonical_nan(DFloat(), get(DFloat(), values))));
    std::memcpy(small, &bits, sizeof(bits));
  }
  static void widen(std::byte* values, const std::byte* small) {
    Bits bits;
    std::memcpy(&bits, small, sizeof(bits));
    const float value = kWiden(bits);
    std::memcpy(values, &value, sizeof(value));
  }
};
using HalfConverter = ScalarConverter<float_from_half, half_from_float>;
using Bfloat16Converter = ScalarConverter<float_from_bfloat16, bfloat16_from_float>;
using E4m3Converter = ScalarConverter<float_from_e4m3, e4m3_from_float>;
using E5m2Converter = ScalarConverter<float_from_e5m2, e5m2_from_float>;

#else

constexpr std::size_t kVector = hn::MaxLanes(DFloat()) * sizeof(float);

template <class Format>
struct PairConverter {
  static constexpr std::size_t kCount = 2 * hn::MaxLanes(DFloat());
  static constexpr std::size_t kBytes = Format::kBytes;

  static void narrow(std::byte* small, const std::byte* values) {
    Format::narrow_in_order(
        {canonical_nan(DFloat(), get(DFloat(), values)), canonical_nan(DFloat(), get(DFloat(), values + kVector))},
        small);
  }
  static void widen(std::byte* values, const std::byte* small) {
    const FloatPair pair = Format::widen_in_order(small);
    Cached::put(pair.first, DFloat(), values);
    Cached::put(pair.second, DFloat(), values + kVector);
  }
};
using HalfConverter = PairConverter<Float16>;
using Bfloat16Converter = PairConverter<Bfloat16>;

template <class Format>
struct QuadConverter {
  using Codec = Float8<Format, DFloat>;
  using DByte = typename Codec::DByte;
  using Order = StackedOrder<DByte>;
  static constexpr std::size_t kCount = 4 * hn::MaxLanes(DFloat());
  static constexpr std::size_t kBytes = Codec::kBytes;

  static void narrow(std::byte* small, const std::byte* values) {
    const FloatQuad<DFloat> quad{get(DFloat(), values), get(DFloat(), values + kVector),
                                 get(DFloat(), values + 2 * kVector), get(DFloat(), values + 3 * kVector)};
    Cached::put(Order::in_order(Codec::with_nan(Codec::narrow(quad), quad)), DByte(), small);
  }
  static void widen(std::byte* values, const std::byte* small) {
    const auto quad = Codec::widen(Order::stacked(get(DByte(), small)));
    Cached::put(canonical_nan(DFloat(), quad.a), DFloat(), values);
    Cached::put(canonical_nan(DFloat(), quad.b), DFloat(), values + kVector);
    Cached::put(canonical_nan(DFloat(), quad.c), DFloat(), values + 2 * kVector);
    Cached::put(canonical_nan(DFloat(), quad.d), DFloat(), values + 3 * kVector);
  }
};
using E4m3Converter = QuadConverter<E4m3>;
using E5m2Converter = QuadConverter<E5m2>;

#endif

/// Narrows, and with kRound widens again in place, while the values are at hand.
template <class Converter, bool kRound>
void narrow_all(std::byte* small, const std::byte* values, std::byte* rounded, std::size_t count) {
  constexpr std::size_t kFloats = Converter::kCount * sizeof(float);
  for (; count >= Converter::kCount; count -= Converter::kCount) {
    Converter::narrow(small, values);
    if constexpr (kRound) {
      Converter::widen(rounded, small);
      rounded += kFloats;
    }
    values += kFloats;
    small += Converter::kBytes;
  }
  if (count == 0) return;
  std::byte staged_values[kFloats] = {};
  std::byte staged[Converter::kBytes];
  std::memcpy(staged_values, values, count * sizeof(float));
  Converter::narrow(staged, staged_values);
  std::memcpy(small, staged, count * (Converter::kBytes / Converter::kCount));
  if constexpr (kRound) {
    Converter::widen(staged_values, staged);
    std::memcpy(rounded, staged_values, count * sizeof(float));
  }
}

template <class Converter>
void widen_all(std::byte* values, const std::byte* small, std::size_t count) {
  constexpr std::size_t kFloats = Converter::kCount * sizeof(float);
  for (; count >= Converter::kCount; count -= Converter::kCount) {
    Converter::widen(values, small);
    values += kFloats;
    small += Converter::kBytes;
  }
  if (count == 0) return;
  std::byte staged_values[kFloats];
  std::byte staged[Converter::kBytes] = {};
  std::memcpy(staged, small, count * (Converter::kBytes / Converter::kCount));
  Converter::widen(staged_values, staged);
  std::memcpy(values, staged_values, count * sizeof(float));
}

void narrow_half_floats(Datatype dtype, std::byte* target, const float* source, std::size_t count) {
  const auto* const values = reinterpret_cast<const std::byte*>(source);
  dtype == Datatype::kFloat16 ? narrow_all<HalfConverter, false>(target, values, nullptr, count)
                              : narrow_all<Bfloat16Converter, false>(target, values, nullptr, count);
}

void narrow_and_round_half_floats(Datatype dtype, std::byte* target, float* values, std::size_t count) {
  auto* const at = reinterpret_cast<std::byte*>(values);
  dtype == Datatype::kFloat16 ? narrow_all<HalfConverter, true>(target, at, at, count)
                              : narrow_all<Bfloat16Converter, true>(target, at, at, count);
}

void widen_half_floats(Datatype dtype, float* target, const std::byte* source, std::size_t count) {
  auto* const values = reinterpret_cast<std::byte*>(target);
  dtype == Datatype::kFloat16 ? widen_all<HalfConverter>(values, source, count)
                              : widen_all<Bfloat16Converter>(values, source, count);
}

void narrow_float8(Datatype dtype, std::byte* target, const float* source, std::size_t count) {
  const auto* const values = reinterpret_cast<const std::byte*>(source);
  dtype == Datatype::kFloat8E4m3 ? narrow_all<E4m3Converter, false>(target, values, nullptr, count)
                                 : narrow_all<E5m2Converter, false>(target, values, nullptr, count);
}

void widen_float8(Datatype dtype, float* target, const std::byte* source, std::size_t count) {
  auto* const values = reinterpret_cast<std::byte*>(target);
  dtype == Datatype::kFloat8E4m3 ? widen_all<E4m3Converter>(values, source, count)
                                 : widen_all<E5m2Converter>(values, source, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foldcast::kernels {

HWY_EXPORT(narrow_half_floats);
HWY_EXPORT(narrow_and_round_half_floats);
HWY_EXPORT(widen_half_floats);
HWY_EXPORT(narrow_float8);
HWY_EXPORT(widen_float8);

void narrow_half_floats(Datatype dtype, std::byte* target, const float* source, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_half_floats)(dtype, target, source, count);
}
void narrow_and_round_half_floats(Datatype dtype, std::byte* target, float* values, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_and_round_half_floats)(dtype, target, values, count);
}
void widen_half_floats(Datatype dtype, float* target, const std::byte* source, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(widen_half_floats)(dtype, target, source, count);
}
void narrow_float8(Datatype dtype, std::byte* target, const float* source, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_float8)(dtype, target, source, count);
}
void widen_float8(Datatype dtype, float* target, const std::byte* source, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(widen_float8)(dtype, target, source, count);
}

}  // namespace foldcast::kernels
#endif
