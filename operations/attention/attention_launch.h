// SPDX-License-Identifier: MIT
// The one place where an attention kernel is launched: the tuner's measurements, the runtime and
// exported packages, which carry this very file, call these functions. What a kernel family needs
// beside AttentionParams (further parameters, clusters) is added here and to AttentionLaunchPlan.
#pragma once

#include "driver/kernel_launch.h"
#include "driver/launch_calls.h"
#include "driver/split_memory.h"
#include "operations/attention/launch_plan.h"
#include <swr/attention_params.h>
#include <swr/tensor_map.h>

#include <cuda.h>

namespace swr {

/// A tensor [batch, heads, seq, columns] of 2-byte elements.
struct MappedTensor {
  const void* address;
  const TensorStrides& strides;
  int batch;
  int heads;
  int seq;
  int columns;
};

/// Describes a tensor to the copy engine, which fills what lies outside with zeros. The address and
/// the strides of dimensions longer than 1 must be multiples of 16 bytes.
inline CUresult encode_tensor_map(const LaunchCalls& calls, DType dtype, const TensorBox& box,
                                  const MappedTensor& tensor, TensorMap& map) {
  const auto& [address, strides, batch, heads, seq, columns] = tensor;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(seq),
                              static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(batch)};
  // The stride of a dimension of length 1 is never used, yet must be one the driver accepts.
  const auto stride_bytes = [](int length, long long stride) {
    return length == 1 ? cuuint64_t{16} : static_cast<cuuint64_t>(stride) * 2;
  };
  const cuuint64_t strides_bytes[] = {stride_bytes(seq, strides.seq),
                                      stride_bytes(heads, strides.head),
                                      stride_bytes(batch, strides.batch)};
  const cuuint32_t box_sizes[] = {static_cast<cuuint32_t>(box.columns),
                                  static_cast<cuuint32_t>(box.rows), 1, 1};
  const cuuint32_t element_strides[] = {1, 1, 1, 1};
  CUtensorMap encoded;
  const CUresult result = calls.tensor_map_encode_tiled(
      &encoded,
      dtype == DType::fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4,
      const_cast<void*>(address), sizes, strides_bytes, box_sizes, element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE,
      box.swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  static_assert(sizeof map == sizeof encoded);
  __builtin_memcpy(&map, &encoded, sizeof map);
  return result;
}

/// Maps of the tensors; one without a box in the plan is left as it is.
struct AttentionMaps {
  TensorMap q;
  TensorMap k;
  TensorMap v;
  TensorMap o;
};

inline CUresult encode_attention_maps(const LaunchCalls& calls, const AttentionLaunchPlan& plan,
                                      const AttentionParams& params, AttentionMaps& maps) {
  const auto encode = [&](const TensorBox& box, const void* tensor, const TensorStrides& strides,
                          int heads, int seq, TensorMap& map) {
    return box.columns == 0
               ? CUDA_SUCCESS
               : encode_tensor_map(calls, plan.dtype, box,
                                   {tensor, strides, params.batch, heads, seq, plan.head_dim}, map);
  };
  const CUresult results[] = {
      encode(plan.q_box, params.q, params.q_strides, params.heads_q, params.seq_q, maps.q),
      encode(plan.kv_box, params.k, params.k_strides, params.heads_kv, params.seq_kv, maps.k),
      encode(plan.kv_box, params.v, params.v_strides, params.heads_kv, params.seq_kv, maps.v),
      encode(plan.q_box, params.o, params.o_strides, params.heads_q, params.seq_q, maps.o)};
  for (const CUresult result : results) {
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

/// Once for a loaded function, before its first launch.
inline CUresult prepare_attention(const LaunchCalls& calls, CUfunction function,
                                  const AttentionLaunchPlan& plan) {
  return allow_dynamic_smem(calls, function, plan.dynamic_smem_bytes);
}

/// Enqueues one launch, which overlaps the one before where it may and its CTAs fall evenly on the
/// SMs all the same; what the plan says of the schedule is filled into `params` here. Neither
/// allocates nor synchronises, so it may be captured in a graph.
/// Requires: the function's context is current and the function was prepared; for
/// Persistence::dynamic a tile counter, for splits partials and arrivals as large as
/// launch_geometry() says (CUDA_ERROR_INVALID_VALUE without).
inline CUresult launch_attention(const LaunchCalls& calls, CUfunction function,
                                 const AttentionLaunchPlan& plan, AttentionParams params,
                                 LaunchOverlap overlap, CUstream stream) {
  const LaunchGeometry geometry = launch_geometry(plan, params);
  params.section_heads = geometry.section_heads;
  params.kv_splits = plan.kv_splits;
  params.longest_first = plan.longest_first ? 1 : 0;
  const bool lacks_counter =
      plan.persistence == Persistence::dynamic && params.tile_counter == nullptr;
  const bool lacks_partials =
      plan.kv_splits > 1 && (params.partials == nullptr || params.arrivals == nullptr);
  if (lacks_counter || lacks_partials) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  AttentionMaps maps{};
  if (plan.takes_tensor_maps()) {
    const CUresult encoded = encode_attention_maps(calls, plan, params, maps);
    if (encoded != CUDA_SUCCESS) {
      return encoded;
    }
  }
  // Hopper kernels take all of them. Portable kernels take the first alone, and of it without maps
  // no more than the parameters.
  MappedAttentionParams mapped{params, maps.k, maps.v};
  void* arguments[] = {&mapped, &maps.q, &maps.k, &maps.v, &maps.o};
  const CtaGrid grid{.ctas = geometry.grid_x,
                     .threads = geometry.block_x,
                     .dynamic_smem_bytes = geometry.dynamic_smem_bytes};
  return launch_grid(calls, function, grid,
                     must_fall_evenly(plan, grid.ctas) ? overlap : LaunchOverlap::none, stream,
                     arguments);
}

/// Gives an attention launch with splits what it needs, unless the caller brought it.
inline CUresult find_split_memory(SplitMemory& memory, const AttentionLaunchPlan& plan,
                                  CUstream stream, AttentionParams& params) {
  if (params.partials != nullptr && params.arrivals != nullptr) {
    return CUDA_SUCCESS;
  }
  const LaunchGeometry geometry = launch_geometry(plan, params);
  SplitMemory::Part part;
  const CUresult result =
      memory.of_launch(stream, static_cast<std::size_t>(geometry.partials_bytes),
                       static_cast<std::size_t>(geometry.arrival_words), part);
  params.partials = part.partials;
  params.arrivals = part.arrivals;
  return result;
}

}  // namespace swr
