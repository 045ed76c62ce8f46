#pragma once

// Which instruction sets the kernels are compiled for; to be included before any header of Highway.
//
// SSSE3 is left to the baseline: no machine of this field stops there. The vectors of SVE and RVV have no size at
// compile time and so cannot be members of a struct, which the 16-bit floats' pairs of vectors need; NEON serves Arm
// instead. AVX3_DL adds nothing that a reduction uses.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// The fallback without vectors is the same with every compiler: plain scalars, not emulated vectors.
#define HWY_BROKEN_EMU128 1
