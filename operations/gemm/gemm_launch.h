// SPDX-License-Identifier: MIT
// The one place where a GEMM kernel is launched: the tuner's measurements, the runtime and exported
// packages, which carry this very file, call these functions.
#pragma once

#include "driver/kernel_launch.h"
#include "templates/gemm/hopper/config.h"
#include "templates/gemm/portable/config.h"
#include "templates/gemm/row_copies.h"
#include <swr/gemm_params.h>
#include <swr/tensor_map.h>

#include <cuda.h>

#include <cstdint>
#include <initializer_list>

namespace swr {

/// The maps a Hopper kernel takes after GemmParams.
struct GemmTensorMaps {
  TensorMap a;
  TensorMap b;
  TensorMap c;
};

/// A matrix of a strided batch as the copy engine sees it.
struct MappedMatrix {
  const void* address = nullptr;
  MatrixStrides strides;
  int batch = 1;
  int rows = 1;
  int columns = 1;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  int element_bytes = 2;
};

/// Elements outside read as zeros and are not written. The address and the strides of dimensions
/// longer than 1 must be multiples of 16 bytes.
inline CUresult encode_matrix_map(const LaunchCalls& calls, const MappedMatrix& matrix,
                                  const TensorBox& box, TensorMap& map) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.columns),
                              static_cast<cuuint64_t>(matrix.rows),
                              static_cast<cuuint64_t>(matrix.batch)};
  // The stride of a dimension of length 1 is never used, yet must be one the driver accepts.
  const auto stride_bytes = [&](int length, long long stride) {
    return length == 1 ? cuuint64_t{16} : static_cast<cuuint64_t>(stride * matrix.element_bytes);
  };
  const cuuint64_t strides_bytes[] = {stride_bytes(matrix.rows, matrix.strides.row),
                                      stride_bytes(matrix.batch, matrix.strides.batch)};
  const cuuint32_t box_sizes[] = {static_cast<cuuint32_t>(box.columns),
                                  static_cast<cuuint32_t>(box.rows), 1};
  const cuuint32_t element_strides[] = {1, 1, 1};
  const CUtensorMapSwizzle swizzle = box.swizzle_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : box.swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                               : CU_TENSOR_MAP_SWIZZLE_32B;
  // Of 256 bytes asked for at once, rows at other pitches than of whole lines lose more than they
  // gain: a stream at 10,000 bytes took 71.7 us, 62.9 with 128 (H100, experiments/gemm).
  const bool has_whole_lines = strides_bytes[0] % 128 == 0;
  CUtensorMap encoded;
  const CUresult result = calls.tensor_map_encode_tiled(
      &encoded, matrix.type, 3, const_cast<void*>(matrix.address), sizes, strides_bytes, box_sizes,
      element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
      has_whole_lines ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  static_assert(sizeof map == sizeof encoded);
  __builtin_memcpy(&map, &encoded, sizeof map);
  return result;
}

/// Nothing where the copy engine takes the matrix as it is. The rows of `to` are whole lines.
inline RowCopy row_copy(const void* matrix, const MatrixStrides& strides, int items, int rows,
                        int columns, int element_bytes) {
  constexpr std::uintptr_t kEngineBytes = 16;
  const auto stride_of = [&](int length, long long stride) {
    return length > 1 ? static_cast<std::uintptr_t>(stride * element_bytes) : 0;
  };
  const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(matrix) |
                                stride_of(rows, strides.row) | stride_of(items, strides.batch);
  if (places % kEngineBytes == 0) {
    return {};
  }
  return {.from = static_cast<const char*>(matrix),
          .item_stride = strides.batch * element_bytes,
          .row_stride = strides.row * element_bytes,
          .items = items,
          .rows = rows,
          .row_bytes = columns * element_bytes};
}

/// Where partial sums end in the memory of a launch.
template <typename Config>
long long partials_end(const Config& config, const GemmParams& params) {
  return (config.partials_bytes(params) + RowCopy::kLineBytes - 1) / RowCopy::kLineBytes *
         RowCopy::kLineBytes;
}

/// What a launch copies first, to memory behind the partial sums.
inline RowCopies row_copies(const HopperGemmConfig& config, const GemmParams& params) {
  RowCopies copies;
  if (config.has_odd_rows()) {
    const int columns = config.gated ? 2 * params.n : params.n;
    copies.a = config.a_along_k() ? row_copy(params.a, params.a_strides, params.batch, params.m,
                                             params.k, config.element_bytes())
                                  : row_copy(params.a, params.a_strides, params.batch, params.k,
                                             params.m, config.element_bytes());
    copies.b = config.b_along_k() ? row_copy(params.b, params.b_strides, params.batch, columns,
                                             params.k, config.element_bytes())
                                  : row_copy(params.b, params.b_strides, params.batch, params.k,
                                             columns, config.element_bytes());
    copies.a.to = reinterpret_cast<char*>(params.partials) + partials_end(config, params);
    copies.b.to = copies.a.to + copies.a.bytes();
  }
  return copies;
}

/// The portable family takes all rows.
inline RowCopies row_copies(const PortableGemmConfig& /*config*/, const GemmParams& /*params*/) {
  return {};
}

/// Bytes of GemmParams::partials: partial sums, and rows that are copied.
template <typename Config>
long long workspace_bytes(const Config& config, const GemmParams& params) {
  const long long copied = row_copies(config, params).bytes();
  return copied > 0 ? partials_end(config, params) + copied : config.partials_bytes(params);
}

/// The product of what was copied.
inline GemmParams of_copies(GemmParams params, const RowCopies& copies, int element_bytes) {
  const auto use = [&](const RowCopy& copy, const void*& matrix, MatrixStrides& strides) {
    if (copy.items > 0) {
      const long long row = copy.pitch() / element_bytes;
      matrix = copy.to;
      strides = {row * copy.rows, row};
    }
  };
  use(copies.a, params.a, params.a_strides);
  use(copies.b, params.b, params.b_strides);
  return params;
}

/// The maps depend on the addresses, strides and sizes of `given` alone.
inline CUresult encode_gemm_maps(const LaunchCalls& calls, const HopperGemmConfig& config,
                                 const GemmParams& given, GemmTensorMaps& maps) {
  const GemmParams params = of_copies(given, row_copies(config, given), config.element_bytes());
  const CUtensorMapDataType input = is_fp8(config.dtype) ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                    : config.dtype == DType::fp16
                                        ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                        : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUtensorMapDataType output =
      config.output == OutputType::fp8    ? CU_TENSOR_MAP_DATA_TYPE_UINT8
      : config.output == OutputType::fp32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
      : config.output == OutputType::fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                          : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const int matrices = has_matrix_per_item(config.groups) ? params.batch : 1;
  const MappedMatrix a{params.a,
                       params.a_strides,
                       matrices,
                       config.a_along_k() ? params.m : params.k,
                       config.a_along_k() ? params.k : params.m,
                       input,
                       config.element_bytes()};
  // The rows of an item's gate and those of its `up` are two items to the copy engine.
  const MatrixStrides halves{params.n * params.b_strides.row, params.b_strides.row};
  const MappedMatrix b{params.b,
                       config.gated ? halves : params.b_strides,
                       config.gated ? 2 * params.batch : params.batch,
                       config.b_along_k() ? params.n : params.k,
                       config.b_along_k() ? params.k : params.n,
                       input,
                       config.element_bytes()};
  const MappedMatrix c{params.c, params.c_strides,     matrices, params.m, params.n,
                       output,   config.output_bytes()};
  for (const CUresult result : {encode_matrix_map(calls, a, config.a_box(params.m), maps.a),
                                encode_matrix_map(calls, b, config.b_box(), maps.b)}) {
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  return config.has_odd_rows() ? CUDA_SUCCESS : encode_matrix_map(calls, c, config.c_box(), maps.c);
}

/// Kernels of the portable family take no maps.
inline CUresult encode_gemm_maps(const LaunchCalls& /*calls*/, const PortableGemmConfig& /*config*/,
                                 const GemmParams& /*params*/, GemmTensorMaps& /*maps*/) {
  return CUDA_SUCCESS;
}

/// Once for a loaded function, before its first launch.
template <typename Config>
CUresult prepare_gemm(const LaunchCalls& calls, CUfunction function, const Config& config) {
  return allow_dynamic_smem(calls, function, config.smem_bytes());
}

/// Enqueues one product, two launches where rows are copied; `workers` counts the CTAs of a
/// persistent one, and of copies. Neither allocates nor synchronises, so it may be captured in a
/// graph. `maps` is read by kernels with maps only. Requires: the function's context is current and
/// the function was prepared.
template <typename Config>
CUresult launch_gemm(const LaunchCalls& calls, CUfunction function, const Config& config,
                     GemmParams params, GemmExtras extras, const GemmTensorMaps& maps, int workers,
                     LaunchOverlap overlap, CUstream stream) {
  const GemmSchedule schedule = config.schedule(params);
  const CtaGrid grid{
      .ctas = static_cast<int>(schedule.clusters(workers) * schedule.ctas_per_cluster()),
      .threads = config.threads(),
      .dynamic_smem_bytes = config.smem_bytes(),
      .ctas_per_cluster = schedule.ctas_per_cluster()};
  LastGemmParameter<true> last{extras, row_copies(config, params)};
  // The driver copies its arguments, and takes them by pointers that are not const.
  GemmTensorMaps copied = maps;
  void* arguments[] = {&params, &copied.a, &copied.b, &copied.c, &last};
  if constexpr (!Config::kTakesMaps) {
    arguments[1] = &last;
  }
  if (last.copies.chunks() > 0 && params.alpha != 0.0F) {
    const CtaGrid copying{.ctas = workers, .threads = config.threads()};
    const CUresult result = launch_grid(calls, function, copying, overlap, stream, arguments);
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  last.copies = {};
  return launch_grid(calls, function, grid, overlap, stream, arguments);
}

}  // namespace swr
