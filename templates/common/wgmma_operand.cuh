// SPDX-License-Identifier: MIT
// Operands of wgmma in shared memory: swizzled lines, and the descriptors that name their swizzle
// and strides (PTX ISA, "Matrix Descriptor Format" and "Strides").
#pragma once

namespace swr::hopper {

/// Descriptors hold addresses and strides in units of 16 bytes.
__device__ __forceinline__ constexpr unsigned long long in_units(unsigned bytes) {
  return bytes >> 4;
}

/// Descriptor of an operand whose lines are `SwizzleBytes` long: groups of eight lines are
/// `GroupBytes` apart, panels `panel_bytes`.
template <int SwizzleBytes, int GroupBytes = 8 * SwizzleBytes>
__device__ __forceinline__ constexpr unsigned long long descriptor(unsigned shared,
                                                                   unsigned panel_bytes) {
  constexpr unsigned long long kSwizzle = SwizzleBytes == 128 ? 1 : SwizzleBytes == 64 ? 2 : 3;
  constexpr unsigned long long kGroup = in_units(GroupBytes) << 32;
  return kSwizzle << 62 | kGroup | in_units(panel_bytes) << 16 | in_units(shared & 0x3ffffU);
}

}  // namespace swr::hopper
