// SPDX-License-Identifier: MIT
// The tensor map a kernel that copies by TMA takes by value for each tensor. Self-contained:
// kernels see the opaque descriptor, host code fills it with the driver's cuTensorMapEncodeTiled.
#pragma once

namespace swr {

/// A CUtensorMap, opaque. Passed as a __grid_constant__ parameter, whose address the copy
/// instructions take.
///
/// Maps are 4-D, innermost first: (head_dim, seq, heads, batch), with the tensor's own strides. Out
/// of bounds elements read as zeros (a NaN fill would poison P V) and are not written.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

/// What a tensor map copies at once, and how it lies in shared memory.
struct TensorBox {
  int columns = 0;        ///< Elements of head_dim.
  int rows = 0;           ///< Elements of the sequence; heads and batch are 1.
  int swizzle_bytes = 0;  ///< 64 or 128: CU_TENSOR_MAP_SWIZZLE_64B or _128B.
};

}  // namespace swr
