// Vectors from and to memory of any alignment. Included once per instruction set.

#if defined(FOLDCAST_KERNELS_CPU_MEMORY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOLDCAST_KERNELS_CPU_MEMORY_INL_H_
#undef FOLDCAST_KERNELS_CPU_MEMORY_INL_H_
#else
#define FOLDCAST_KERNELS_CPU_MEMORY_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace foldcast::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// A single lane is loaded by dereferencing, which wants alignment.
template <class D>
HWY_INLINE hn::Vec<D> get(D d, const std::byte* from) {
  hn::TFromD<D> value;
  std::memcpy(&value, from, sizeof(value));
  return hn::Set(d, value);
}

struct Cached {
  template <class D>
  static HWY_INLINE void put(hn::Vec<D> vector, D, std::byte* to) {
    const auto value = hn::GetLane(vector);
    std::memcpy(to, &value, sizeof(value));
  }
};
using Streamed = Cached;

#else

template <class D>
HWY_INLINE hn::Vec<D> get(D d, const std::byte* from) {
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(from));
}

/// How a result is stored: to be read again soon.
struct Cached {
  template <class D>
  static HWY_INLINE void put(hn::Vec<D> vector, D d, std::byte* to) {
    hn::StoreU(vector, d, reinterpret_cast<hn::TFromD<D>*>(to));
  }
};

/// Or past the caches: a target too large for them need not be read before it is overwritten. `to` is aligned to the
/// vector; ends with hwy::FlushStream.
struct Streamed {
  template <class D>
  static HWY_INLINE void put(hn::Vec<D> vector, D d, std::byte* to) {
    hn::Stream(vector, d, reinterpret_cast<hn::TFromD<D>*>(to));
  }
};

#endif

}  // namespace HWY_NAMESPACE
}  // namespace foldcast::kernels
HWY_AFTER_NAMESPACE();

#endif
