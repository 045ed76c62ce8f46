// The loop all families share. Included once per instruction set, hence the toggled guard.
//
// A *pack* is what is computed at once: one vector of elements, or the two float vectors that a vector of 16-bit floats
// widens to. A family describes its arithmetic by a `Lanes` type:
//
//   kBytes                   bytes of memory per pack
//   Pack                     the pack in registers, in the precision of the accumulation
//   Pack load(const byte*)   any alignment
//   Pack fold(Pack, Pack)    the reduction of two packs
//   void store(Pack, byte*)  rounds to the stored type; any alignment
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

#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/families.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {

/// Fewer bytes than a pack: computed in a full pack on the stack, so that no byte beyond an operand is touched and the
/// tail gets the same arithmetic as the rest.
template <class Lanes>
HWY_NOINLINE void fold_tail(const Fold& fold, std::size_t offset) {
  const std::size_t bytes = fold.bytes - offset;
  alignas(64) std::byte staging[Lanes::kBytes] = {};
  std::memcpy(staging, fold.inputs[0] + offset, bytes);
  typename Lanes::Pack sum = Lanes::load(staging);
  for (std::size_t k = 1; k < fold.input_count; ++k) {
    std::memcpy(staging, fold.inputs[k] + offset, bytes);
    sum = Lanes::fold(sum, Lanes::load(staging));
  }
  Lanes::store(sum, staging);
  std::memcpy(fold.target + offset, staging, bytes);
}

/// `kInputs` is the number of inputs where it is known when compiling, else 0.
template <class Lanes, std::size_t kInputs>
HWY_NOINLINE void fold_packs(const Fold& fold) {
  constexpr std::size_t kPack = Lanes::kBytes;
  constexpr std::size_t kRun = 4 * kPack;
  using Pack = typename Lanes::Pack;
  const std::size_t input_count = kInputs == 0 ? fold.input_count : kInputs;
  const std::size_t bytes = fold.bytes;
  const std::byte* const* const inputs = fold.inputs;
  const std::byte* const first = inputs[0];
  const std::byte* const second = inputs[1];
  std::byte* const target = fold.target;

  std::size_t offset = 0;
  for (; offset + kRun <= bytes; offset += kRun) {
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
    Lanes::store(sum0, target + offset);
    Lanes::store(sum1, target + offset + kPack);
    Lanes::store(sum2, target + offset + 2 * kPack);
    Lanes::store(sum3, target + offset + 3 * kPack);
  }
  for (; offset + kPack <= bytes; offset += kPack) {
    Pack sum = Lanes::fold(Lanes::load(first + offset), Lanes::load(second + offset));
    for (std::size_t k = 2; k < input_count; ++k) sum = Lanes::fold(sum, Lanes::load(inputs[k] + offset));
    Lanes::store(sum, target + offset);
  }
  if (offset < bytes) fold_tail<Lanes>(fold, offset);
}

template <class Lanes>
void fold_all(const Fold& fold) {
  if (fold.input_count == 2) {
    fold_packs<Lanes, 2>(fold);
  } else {
    fold_packs<Lanes, 0>(fold);
  }
}

/// Divides every element by `divisor`, given in every lane of a pack.
template <class Lanes>
void divide_all(const Division& division, typename Lanes::Pack divisor) {
  constexpr std::size_t kPack = Lanes::kBytes;
  std::size_t offset = 0;
  for (; offset + kPack <= division.bytes; offset += kPack) {
    std::byte* const at = division.target + offset;
    Lanes::store(Lanes::divide(Lanes::load(at), divisor), at);
  }
  if (const std::size_t rest = division.bytes - offset; rest != 0) {
    alignas(64) std::byte staging[kPack] = {};
    std::memcpy(staging, division.target + offset, rest);
    Lanes::store(Lanes::divide(Lanes::load(staging), divisor), staging);
    std::memcpy(division.target + offset, staging, rest);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#endif
