// SPDX-License-Identifier: MIT
// Where the launcher of serving_check finds its kernels, which are compiled in several parts.
#pragma once

#include <cstddef>

namespace swr::gpu {

inline constexpr std::size_t kKernelsPerPart = 4;
inline constexpr std::size_t kParts = 11;

/// Entries of kCheckedKernels [Part * kKernelsPerPart, ...), in their order.
template <std::size_t Part>
const void* entry_in_part(std::size_t index);

}  // namespace swr::gpu
