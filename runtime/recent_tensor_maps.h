// SPDX-License-Identifier: MIT
// Tensor maps of the launches that a thread made last. The driver takes 65 to 125 ns to encode one
// and some launches take four; a program that serves calls with the same few hundred
// tensors again and again, and others often have the shape and strides of one before.
#pragma once

#include <cuda.h>

namespace swr {

/// From now on encode_recent_tensor_map() on this thread answers for this context.
void use_recent_tensor_maps_of(CUcontext context);

/// As cuTensorMapEncodeTiled, with its parameters and results; what this thread encoded before with
/// the same arguments and for the same context is taken from memory (512 maps per thread, a newer
/// one takes the place of an older; failures are not kept), and what differs by the address alone
/// is made by replacing that. Thread-safe: threads share nothing.
/// Requires: use_recent_tensor_maps_of() was called on this thread.
CUresult encode_recent_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                  void* address, const cuuint64_t* sizes,
                                  const cuuint64_t* strides_bytes, const cuuint32_t* box_sizes,
                                  const cuuint32_t* element_strides,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

}  // namespace swr
