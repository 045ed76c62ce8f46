#pragma once

#include <cstddef>
#include <cstdint>

namespace foldcast::hierarchy {

/// Writes what others will read, through the caches or past them, whichever is faster now.
///
/// Where writer and reader share a cache, both halves of a hand-over run at its speed. Where they do not, every line
/// written takes a round trip to take it away from the reader, and going through memory is several times faster
/// (16 KiB at a time in a ring of 2 MiB: 30 through and 13 GB/s past with a common cache, 5 to 7 and 14 without). Which
/// of the two holds is not to be had from the topology: a virtual machine shows one common cache while its cores move
/// about. So now and then a write is timed, and now and then it is done the other way. It is nobody else's business
/// which way it was.
class SlotWriter {
 public:
  void write(std::byte* target, const std::byte* source, std::size_t bytes);

 private:
  enum Way : std::uint8_t { kThrough = 0, kPast = 1 };
  void write_timed(Way way, std::byte* target, const std::byte* source, std::size_t bytes);

  Way way_ = kThrough;
  std::uint32_t writes_ = 0;
  double nanoseconds_per_kib_[2] = {0, 0};  ///< running means; 0 where never measured
};

}  // namespace foldcast::hierarchy
