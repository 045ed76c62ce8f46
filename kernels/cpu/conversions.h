#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/datatype.h"

namespace foldcast::kernels {

// Between arrays of float32 and their shorter forms, compiled once per instruction set. Any alignment of all pointers;
// `count` may be zero.

/// float16 and bfloat16.
void narrow_half_floats(Datatype dtype, std::byte* target, const float* source, std::size_t count);
/// Also replaces `values` by what widening gives.
void narrow_and_round_half_floats(Datatype dtype, std::byte* target, float* values, std::size_t count);
void widen_half_floats(Datatype dtype, float* target, const std::byte* source, std::size_t count);

/// The 8-bit datatypes.
void narrow_float8(Datatype dtype, std::byte* target, const float* source, std::size_t count);
void widen_float8(Datatype dtype, float* target, const std::byte* source, std::size_t count);

// The wire's blocks (wire_format.h).
inline constexpr std::size_t kBlockValues = 32;
inline constexpr std::size_t kBlockBytes = 1 + kBlockValues;
void encode_blocks(std::byte* wire, const float* values, std::size_t count);
void encode_and_round_blocks(std::byte* wire, float* values, std::size_t count);
void decode_blocks(float* values, const std::byte* wire, std::size_t count);

// One block of up to kBlockValues in plain scalars: what vector code must equal, and what it leaves to do where there
// are infinities or NaNs. `rounded` gets what decoding gives unless it is null; it may be `values`.
void encode_block(std::byte* wire, const float* values, float* rounded, std::size_t count);
void decode_block(float* values, const std::byte* wire, std::size_t count);

}  // namespace foldcast::kernels
