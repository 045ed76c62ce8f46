// The loops all families share. Included once per instruction set, hence the toggled guard.
//
// A *pack* is what is computed at once: one vector of elements, or the two or four float vectors that a vector of small
// floats widens to. A family describes its arithmetic by a `Lanes` type:
//
//   kBytes                          bytes of memory per pack
//   kRun                            packs per turn of the loop: 4, or 1 where a pack needs many registers
//   Pack                            the pack in registers, in the precision of the accumulation
//   Pack load(const byte*)          any alignment
//   Pack fold(Pack, Pack)           the reduction of two packs
//   Pack leave(Pack)                what is left to do once after all inputs
//   bool suspect(Pack...)           whether one of the packs may hold a NaN; false alarms cost time only
//   void store<Store>(Pack, byte*)  rounds to the stored type, and stores as `Store` says; not for suspects
//   void store_suspect(Pack, byte*) the same for any pack: writes each NaN as the one quiet NaN
//
// NaNs are rare, so they are looked for in a whole run at once.
//
// The target is written once per fold: for each run of packs the accumulators stay in registers while the loop goes
// over the inputs. Every input's run is loaded before the target's run is stored, which is why the target may be an
// input.

#if defined(FOLDCAST_KERNELS_CPU_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLDCAST_KERNELS_CPU_FOLD_INL_H_
#undef FOLDCAST_KERNELS_CPU_FOLD_INL_H_
#else
#define FOLDCAST_KERNELS_CPU_FOLD_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

/// Fewer bytes than a pack: computed in a full pack on the stack, so that no byte beyond an operand is touched and the
/// tail gets the same arithmetic as the rest.
template <class Lanes>
HWY_NOINLINE void fold_tail(const Fold& fold, std::size_t offset, std::size_t bytes) {
  alignas(64) std::byte staging[Lanes::kBytes] = {};
  std::memcpy(staging, fold.inputs[0] + offset, bytes);
  typename Lanes::Pack sum = Lanes::load(staging);
  for (std::size_t k = 1; k < fold.input_count; ++k) {
    std::memcpy(staging, fold.inputs[k] + offset, bytes);
    sum = Lanes::fold(sum, Lanes::load(staging));
  }
  Lanes::store_suspect(Lanes::leave(sum), staging);
  std::memcpy(fold.target + offset, staging, bytes);
}

/// The packs of [begin, end). `kInputs` is the number of inputs where it is known when compiling, else 0.
/// Asks for what will be read `kAhead` bytes later: the hardware's own prefetching ends at each page, and arithmetic
/// between the loads leaves room for few of them at a time. Beyond the operand's end it does nothing.
template <std::size_t kBytes>
HWY_INLINE void prefetch(const std::byte* from) {
  constexpr std::size_t kAhead = 1024;
  for (std::size_t i = 0; i < kBytes; i += 64) hwy::Prefetch(from + kAhead + i);
}

template <class Lanes, std::size_t kInputs, class Store>
HWY_NOINLINE void fold_packs(const Fold& fold, std::size_t begin, std::size_t end) {
  constexpr std::size_t kPack = Lanes::kBytes;
  using Pack = typename Lanes::Pack;
  const std::size_t input_count = kInputs == 0 ? fold.input_count : kInputs;
  const std::byte* const* const inputs = fold.inputs;
  const std::byte* const first = inputs[0];
  const std::byte* const second = inputs[1];
  std::byte* const target = fold.target;

  std::size_t offset = begin;
  if constexpr (Lanes::kRun == 4) {
    for (; offset + 4 * kPack <= end; offset += 4 * kPack) {
      if constexpr (std::is_same_v<Store, Streamed>) {
        for (std::size_t k = 0; k < input_count; ++k) prefetch<4 * kPack>(inputs[k] + offset);
      }
      Pack sum0 = Lanes::fold(Lanes::load(first + offset), Lanes::load(second + offset));
      Pack sum1 = Lanes::fold(Lanes::load(first + offset + kPack), Lanes::load(second + offset + kPack));
      Pack sum2 = Lanes::fold(Lanes::load(first + offset + 2 * kPack), Lanes::load(second + offset + 2 * kPack));
      Pack sum3 = Lanes::fold(Lanes::load(first + offset + 3 * kPack), Lanes::load(second + offset + 3 * kPack));
      for (std::size_t k = 2; k < input_count; ++k) {
        const std::byte* const next = inputs[k] + offset;
        sum0 = Lanes::fold(sum0, Lanes::load(next));
        sum1 = Lanes::fold(sum1, Lanes::load(next + kPack));
        sum2 = Lanes::fold(sum2, Lanes::load(next + 2 * kPack));
        sum3 = Lanes::fold(sum3, Lanes::load(next + 3 * kPack));
      }
      sum0 = Lanes::leave(sum0);
      sum1 = Lanes::leave(sum1);
      sum2 = Lanes::leave(sum2);
      sum3 = Lanes::leave(sum3);
      if (HWY_LIKELY(!Lanes::suspect(sum0, sum1, sum2, sum3))) {
        Lanes::template store<Store>(sum0, target + offset);
        Lanes::template store<Store>(sum1, target + offset + kPack);
        Lanes::template store<Store>(sum2, target + offset + 2 * kPack);
        Lanes::template store<Store>(sum3, target + offset + 3 * kPack);
      } else {
        Lanes::store_suspect(sum0, target + offset);
        Lanes::store_suspect(sum1, target + offset + kPack);
        Lanes::store_suspect(sum2, target + offset + 2 * kPack);
        Lanes::store_suspect(sum3, target + offset + 3 * kPack);
      }
    }
  }
  for (; offset + kPack <= end; offset += kPack) {
    Pack sum = Lanes::fold(Lanes::load(first + offset), Lanes::load(second + offset));
    for (std::size_t k = 2; k < input_count; ++k) sum = Lanes::fold(sum, Lanes::load(inputs[k] + offset));
    sum = Lanes::leave(sum);
    if (HWY_LIKELY(!Lanes::suspect(sum))) {
      Lanes::template store<Store>(sum, target + offset);
    } else {
      Lanes::store_suspect(sum, target + offset);
    }
  }
  if (offset < end) fold_tail<Lanes>(fold, offset, end - offset);
}

template <class Lanes>
void fold_all(const Fold& fold) {
  const auto address = reinterpret_cast<std::uintptr_t>(fold.target);
  if (HWY_TARGET != HWY_SCALAR && fold.streamed && address % size_of(fold.dtype) == 0) {
    const std::size_t head = (0 - address) % kStreamAlignment;
    fold_packs<Lanes, 0, Cached>(fold, 0, head);
    fold_packs<Lanes, 0, Streamed>(fold, head, fold.bytes);
    hwy::FlushStream();
  } else if (Lanes::kRun == 4 && fold.input_count == 2) {
    fold_packs<Lanes, 2, Cached>(fold, 0, fold.bytes);
  } else {
    fold_packs<Lanes, 0, Cached>(fold, 0, fold.bytes);
  }
}

/// What integers have in common: there are no NaNs.
struct WithoutNan {
  static constexpr std::size_t kRun = 4;
  template <class... Packs>
  static bool suspect(const Packs&...) {
    return false;
  }
};

/// What a transform does to a pack, beside the same number in every lane.
struct Multiply {
  template <class Lanes>
  static typename Lanes::Pack apply(const typename Lanes::Pack& value, const typename Lanes::Pack& number) {
    return Lanes::fold(value, number);  // of lanes that fold by multiplication
  }
};
struct Divide {
  template <class Lanes>
  static typename Lanes::Pack apply(const typename Lanes::Pack& value, const typename Lanes::Pack& number) {
    return Lanes::divide(value, number);
  }
};

template <class Lanes, class Step>
void transform_all(const Transform& transform, const typename Lanes::Pack& number) {
  constexpr std::size_t kPack = Lanes::kBytes;
  std::size_t offset = 0;
  for (; offset + kPack <= transform.bytes; offset += kPack) {
    const auto result = Step::template apply<Lanes>(Lanes::load(transform.source + offset), number);
    Lanes::store_suspect(result, transform.target + offset);
  }
  if (const std::size_t rest = transform.bytes - offset; rest != 0) {
    alignas(64) std::byte staging[kPack] = {};
    std::memcpy(staging, transform.source + offset, rest);
    Lanes::store_suspect(Step::template apply<Lanes>(Lanes::load(staging), number), staging);
    std::memcpy(transform.target + offset, staging, rest);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#endif
