#pragma once

#include <cstdint>

namespace foldcast {

/// How many times this process has been forked from one that asked before: what was made under another number belongs
/// to the parent. Costs no system call.
std::uint32_t process_generation();

}  // namespace foldcast
