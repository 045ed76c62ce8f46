#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/collective.h"

namespace foldcast::kernels {

// float32 in fewer bytes, for the way between nodes. All of these may be called from any thread and never block; float
// and wire pointers of any alignment; the two never overlap.
//
// Every format is idempotent: encoding what decode() gave yields the same bytes again, so a message may be forwarded by
// encoding it anew. Of kFloat8 that holds for the same blocks: of parts that begin at multiples of wire_granule().
//
// kExact     the floats as they are.
// kBfloat16, kFloat16
//            as formats.h: to nearest even, overflow to infinity, which nobody takes for a number; NaN becomes the one
//            quiet NaN. Error of v: at most |v| 2^-8 (bfloat16; below 2^-126, 2^-134) and |v| 2^-11 (float16; below
//            2^-14, 2^-25; from 65520 on, infinity).
// kFloat8    blocks of 32 values (the last may be shorter): one byte s, then a byte for each value, worth
//            code 2^(s-127). The codes have the layout of OCP's E4M3, as in its microscaling formats, but infinity and
//            NaN as in IEEE: S.1111.000 is infinity, other S.1111.xxx are NaN, and the largest number is 240. s is
//            chosen from the block's largest finite magnitude M so that M's code is in [128, 256). Rounding saturates
//            at 240 and so never leaves M's binade: hence idempotence, and a code for every infinity.
//            Error of v: at most |v| / 16 or, for small ones beside a large M, M 2^-17: never more than M / 16. (Where
//            M < 2^-120, for which there is no s: |v| / 16 or 2^-137.) The sign of zeros is kept.

/// Elements that are encoded as one: parts of a message that begin at multiples of it are the same bytes as the whole.
constexpr std::uint64_t wire_granule(WireFormat format) { return format == WireFormat::kFloat8 ? 32 : 1; }

/// Bytes of `count` encoded values.
std::uint64_t wire_bytes(WireFormat format, std::uint64_t count);

void encode(WireFormat format, std::byte* wire, const float* values, std::uint64_t count);
void decode(WireFormat format, float* values, const std::byte* wire, std::uint64_t count);
/// Encodes, and replaces `values` by what decode() will give.
void encode_and_round(WireFormat format, std::byte* wire, float* values, std::uint64_t count);

}  // namespace foldcast::kernels
