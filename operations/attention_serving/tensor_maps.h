// SPDX-License-Identifier: MIT
// Tensor maps of a launch for unequal sequences. Where a sequence ends only the device knows, so
// the maps let a kernel say with each box how many of its rows exist.
//
// Source of the dimension that wraps: Triton's ragged tensor descriptors.
#pragma once

#include "driver/launch_calls.h"
#include "operations/attention_serving/launch_plan.h"
#include "templates/attention_serving/hopper/config.h"
#include <swr/serving_attention_params.h>
#include <swr/tensor_map.h>

#include <cuda.h>

#include <initializer_list>
#include <numeric>

namespace swr {

/// Maps of the tensors of a launch, and how rows count in them.
struct ServingMaps {
  TensorMap q;
  TensorMap k;
  TensorMap v;
  TensorMap o;
  ServingMapSteps steps;
};

/// One tensor [containers, heads, rows, columns] of 2-byte elements as a map encodes it; strides in
/// elements. Dimensions that are not there have no stride.
struct CutTensor {
  const void* address = nullptr;
  TensorStrides strides;
  int heads = 1;
  bool has_rows = true;        ///< More than one.
  bool has_containers = true;  ///< More than one.
};

/// Sizes, strides and box of the five dimensions of a map.
struct MapShape {
  cuuint64_t sizes[5];
  cuuint64_t strides_bytes[4];
  cuuint32_t box[5];
};
inline CUresult encode_map(const LaunchCalls& calls, DType dtype, int swizzle_bytes,
                           const void* address, const MapShape& shape, TensorMap& map) {
  const cuuint32_t element_strides[] = {1, 1, 1, 1, 1};
  CUtensorMap encoded;
  const CUresult result = calls.tensor_map_encode_tiled(
      &encoded,
      dtype == DType::fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5,
      const_cast<void*>(address), shape.sizes, shape.strides_bytes, shape.box, element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  static_assert(sizeof map == sizeof encoded);
  __builtin_memcpy(&map, &encoded, sizeof map);
  return result;
}

inline constexpr long long kManyInMap = 0x7fffffff;
inline constexpr long long kMapElementBytes = 2;
inline constexpr long long kUnusedStride = 16;  // One that the driver accepts.

/// The map's five dimensions: columns, cut, row, head, back. A box at cut kCutLength - live has its
/// first `live` rows inside; the others read as zeros and are not written. Cut steps from row to
/// row. A box stands at kCutLength in back, whose stride brings the address back by as many rows,
/// modulo 2^64: so the map begins where the tensor does. Row steps by what divides the strides of
/// rows and containers (cut_place()). How many rows and containers there are nobody has to know.
inline CUresult encode_cut_map(const LaunchCalls& calls, const ServingMapPlan& plan,
                               const TensorBox& box, const CutTensor& tensor, TensorMap& map,
                               MapSteps& steps) {
  const long long row_bytes =
      tensor.has_rows ? tensor.strides.seq * kMapElementBytes : kUnusedStride;
  const long long container_bytes =
      tensor.has_containers ? tensor.strides.batch * kMapElementBytes : 0;
  const long long step_bytes = std::gcd(row_bytes, container_bytes);
  // kCutLength times it is 2^64 - kCutLength * row_bytes; it must be below 2^40.
  const long long back_bytes = (1LL << 34) - row_bytes;
  if (row_bytes <= 0 || container_bytes < 0 || row_bytes >= 1LL << 33 ||
      container_bytes / step_bytes > kManyInMap) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  steps = {static_cast<int>(row_bytes / step_bytes),
           static_cast<int>(container_bytes / step_bytes)};
  const auto head_bytes = static_cast<cuuint64_t>(
      tensor.heads > 1 ? tensor.strides.head * kMapElementBytes : kUnusedStride);
  return encode_map(
      calls, plan.dtype, box.swizzle_bytes, tensor.address,
      {.sizes = {static_cast<cuuint64_t>(plan.head_dim), kCutLength, kManyInMap,
                 static_cast<cuuint64_t>(tensor.heads), kManyInMap},
       .strides_bytes = {static_cast<cuuint64_t>(row_bytes), static_cast<cuuint64_t>(step_bytes),
                         head_bytes, static_cast<cuuint64_t>(back_bytes)},
       .box = {static_cast<cuuint32_t>(box.columns), static_cast<cuuint32_t>(box.rows), 1, 1, 1}},
      map);
}

/// The same for boxes of all panels, whose rows lie in octets: columns of a panel, rows of an
/// octet, panels, octets, place. Place steps by what divides the strides of rows, containers and
/// heads, so that one coordinate says where a box begins.
inline CUresult encode_octet_map(const LaunchCalls& calls, const ServingMapPlan& plan,
                                 const CutTensor& tensor, TensorMap& map, MapSteps& steps) {
  const long long row_bytes =
      tensor.has_rows ? tensor.strides.seq * kMapElementBytes : kUnusedStride;
  const long long container_bytes =
      tensor.has_containers ? tensor.strides.batch * kMapElementBytes : 0;
  const long long head_bytes = tensor.heads > 1 ? tensor.strides.head * kMapElementBytes : 0;
  const long long step_bytes = std::gcd(std::gcd(row_bytes, container_bytes), head_bytes);
  constexpr int kOctet = 8;
  if (row_bytes <= 0 || container_bytes < 0 || head_bytes < 0 || row_bytes >= 1LL << 37 ||
      row_bytes / step_bytes > kManyInMap || container_bytes / step_bytes > kManyInMap ||
      head_bytes / step_bytes > kManyInMap) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  steps = {static_cast<int>(row_bytes / step_bytes), static_cast<int>(container_bytes / step_bytes),
           static_cast<int>(head_bytes / step_bytes)};
  const auto columns = static_cast<cuuint32_t>(plan.kv_box.columns);
  const auto panels = static_cast<cuuint32_t>(plan.kv_panels);
  const auto octets = static_cast<cuuint32_t>(plan.kv_box.rows / kOctet);
  return encode_map(calls, plan.dtype, plan.kv_box.swizzle_bytes, tensor.address,
                    {.sizes = {columns, kOctet, panels, octets, kManyInMap},
                     .strides_bytes = {static_cast<cuuint64_t>(row_bytes),
                                       static_cast<cuuint64_t>(columns * kMapElementBytes),
                                       static_cast<cuuint64_t>(kOctet * row_bytes),
                                       static_cast<cuuint64_t>(step_bytes)},
                     .box = {columns, kOctet, panels, octets, 1}},
                    map);
}

/// The maps of a launch of a kernel that takes some. Requires: head_dim is that of V too.
inline CUresult encode_serving_maps(const LaunchCalls& calls, const ServingMapPlan& plan,
                                    const ServingAttentionParams& params, ServingMaps& maps) {
  const SequenceLengths& lengths = params.lengths;
  const bool is_paged = params.pages.page_size > 0;
  const bool is_ragged_q = lengths.cu_seqlens_q != nullptr;
  const bool is_ragged_k = lengths.cu_seqlens_k != nullptr;
  const auto queries = [&](const void* tensor, const TensorStrides& strides, TensorMap& map,
                           MapSteps& steps) {
    return encode_cut_map(calls, plan, plan.q_box,
                          {.address = tensor,
                           .strides = strides,
                           .heads = params.heads_q,
                           .has_rows = is_ragged_q || params.max_seq_q > 1,
                           .has_containers = !is_ragged_q && params.batch > 1},
                          map, steps);
  };
  const auto keys = [&](const void* tensor, const TensorStrides& strides, TensorMap& map,
                        MapSteps& steps) {
    const int rows = is_paged ? params.pages.page_size : params.max_seq_kv;
    const CutTensor shape{.address = tensor,
                          .strides = strides,
                          .heads = params.heads_kv,
                          .has_rows = is_ragged_k || rows > 1,
                          .has_containers = is_paged || !is_ragged_k};
    return plan.kv_panels > 0 ? encode_octet_map(calls, plan, shape, map, steps)
                              : encode_cut_map(calls, plan, plan.kv_box, shape, map, steps);
  };
  for (const CUresult result : {queries(params.q, params.q_strides, maps.q, maps.steps.q),
                                keys(params.k, params.k_strides, maps.k, maps.steps.k),
                                keys(params.v, params.v_strides, maps.v, maps.steps.v),
                                queries(params.o, params.o_strides, maps.o, maps.steps.o)}) {
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace swr
