// SPDX-License-Identifier: MIT
// Single elements of C: in memory, and what is done to a sum before it becomes one. Of both
// families.
#pragma once

#include "common/cta_schedule.h"
#include "common/ptx.cuh"
#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>

namespace swr {

template <OutputType Type>
__device__ __forceinline__ float load_output(const void* c, long long index) {
  if constexpr (Type == OutputType::fp32) {
    return static_cast<const float*>(c)[index];
  } else if constexpr (Type == OutputType::bf16) {
    return __uint_as_float(static_cast<unsigned>(static_cast<const unsigned short*>(c)[index])
                           << 16);
  } else {
    return ptx::cvt_f32_f16(static_cast<const unsigned short*>(c)[index]);
  }
}

/// Two floats as neighbours of a 16-bit type, the first in the lower half.
template <OutputType Type>
__device__ __forceinline__ unsigned pack_output(float low, float high) {
  return ptx::cvt_rn_x2 < Type == OutputType::fp16 ? DType::fp16 : DType::bf16 > (low, high);
}

/// Two neighbouring elements at an even index.
template <OutputType Type>
__device__ __forceinline__ float2 load_output_pair(const void* c, long long index) {
  if constexpr (Type == OutputType::fp32) {
    return __ldg(reinterpret_cast<const float2*>(static_cast<const float*>(c) + index));
  } else {
    const unsigned both =
        __ldg(reinterpret_cast<const unsigned*>(static_cast<const unsigned short*>(c) + index));
    return make_float2(load_output<Type>(&both, 0), load_output<Type>(&both, 1));
  }
}

/// The type of bias and addend.
template <auto C>
__device__ constexpr OutputType addend_type() {
  return C.output == OutputType::fp8 ? OutputType::bf16 : C.output;
}

/// alpha and the scales that all elements of a row share.
template <auto C>
__device__ __forceinline__ float row_factor(const GemmParams& params, const GemmExtras& extras,
                                            int row) {
  if constexpr (C.scaling == Scaling::tensor) {
    return params.alpha * (__ldg(extras.a_scales) * __ldg(extras.b_scales));
  } else if constexpr (C.scaling == Scaling::row) {
    return params.alpha * __ldg(extras.a_scales + (row < params.m ? row : params.m - 1));
  } else {
    return params.alpha;
  }
}

/// True where C is known to have an even number of columns.
template <auto C>
__device__ constexpr bool has_column_pairs() {
  return C.kTakesMaps && C.alignment_bytes >= 2 * C.output_bytes();
}

/// The column of the product that column `column` of `Columns` is, of which those of C begin at
/// `first`: with a gate, the first half of them and the second belong to the same columns of C.
/// Past the end it is the last one, or of pairs the same column of the last.
template <auto C, int Columns>
__device__ __forceinline__ int product_column(const GemmParams& params, int first, int column) {
  const bool is_up = C.gated && column >= Columns / 2;
  const int of_c = first + column - (is_up ? Columns / 2 : 0);
  const int last = has_column_pairs<C>() ? params.n - 2 + column % 2 : params.n - 1;
  return min_of(of_c, last) + (is_up ? params.n : 0);
}

/// What two neighbouring columns of the product are multiplied by, and their bias.
struct ColumnTerms {
  float2 scale;
  float2 bias;
};

/// Two neighbouring elements of a vector, the second where `has_next`.
template <auto C, OutputType Type>
__device__ __forceinline__ float2 load_neighbours(const void* from, long long index,
                                                  bool has_next) {
  return has_column_pairs<C>() || (has_next && index % 2 == 0)
             ? load_output_pair<Type>(from, index)
             : make_float2(load_output<Type>(from, index),
                           has_next ? load_output<Type>(from, index + 1) : 0.0F);
}

/// Of a column of the product and the next one, which counts where `has_next`.
template <auto C>
__device__ __forceinline__ ColumnTerms column_terms(const GemmExtras& extras, int column,
                                                    bool has_next) {
  ColumnTerms terms{make_float2(1.0F, 1.0F), make_float2(0.0F, 0.0F)};
  if constexpr (C.scaling == Scaling::row) {
    terms.scale = load_neighbours<C, OutputType::fp32>(extras.b_scales, column, has_next);
  }
  if constexpr (C.has_bias) {
    terms.bias = load_neighbours<C, addend_type<C>()>(extras.bias, column, has_next);
  }
  return terms;
}

/// Element `i` (0 or 1) of the product, from its sum.
template <auto C>
__device__ __forceinline__ float scaled(float sum, float row, const ColumnTerms& terms, int i) {
  float value = sum * row;
  if constexpr (C.scaling == Scaling::row) {
    value *= i == 0 ? terms.scale.x : terms.scale.y;
  }
  if constexpr (C.has_bias) {
    value += i == 0 ? terms.bias.x : terms.bias.y;
  }
  return value;
}

/// tanh to the last bits of a 16-bit type, or of fp32.
template <OutputType Output>
__device__ __forceinline__ float tanh_for(float x) {
  return Output == OutputType::fp32 ? tanhf(x) : ptx::tanh_approx(x);
}

/// Phi(x), within 1.5e-7: Abramowitz and Stegun, 7.1.26, of the tail, so that it stays exact where
/// that is all there is.
__device__ __forceinline__ float normal_distribution(float x) {
  const float t = __fdividef(1.0F, fmaf(0.23164189F, fabsf(x), 1.0F));
  float polynomial = fmaf(1.061405429F, t, -1.453152027F);
  polynomial = fmaf(polynomial, t, 1.421413741F);
  polynomial = fmaf(polynomial, t, -0.284496736F);
  polynomial = fmaf(polynomial, t, 0.254829592F);
  const float tail = 0.5F * polynomial * t * ptx::ex2_approx(-0.72134752F * x * x);
  return x < 0.0F ? tail : 1.0F - tail;
}

/// atanh(erf(x / sqrt(2))) / x by x^2 up to 16, fitted so that gelu is within 4e-5: less than
/// tanh.approx leaves, and half the instructions of the tail.
__device__ __forceinline__ float error_function_slope(float square) {
  return fmaf(fmaf(-3.5151710e-4F, square, 3.7005648e-2F), square, 0.79750788F);
}

template <auto C>
__device__ __forceinline__ float activated(float x) {
  const float half = 0.5F * x;  // half + half tanh(...) takes one instruction more.
  if constexpr (C.activation == Activation::gelu) {
    return C.output == OutputType::fp32
               ? x * normal_distribution(x)
               : fmaf(half, ptx::tanh_approx(x * error_function_slope(fminf(x * x, 16.0F))), half);
  } else if constexpr (C.activation == Activation::gelu_tanh) {
    return fmaf(half, tanh_for<C.output>(x * fmaf(0.035677408F * x, x, 0.79788456F)), half);
  } else if constexpr (C.activation == Activation::silu) {
    return fmaf(half, tanh_for<C.output>(half), half);
  } else {
    return x;
  }
}

/// The line of C, or of what is read instead of it, from column `column` on; null where nothing is
/// added to the row.
template <auto C>
__device__ __forceinline__ const char* addend_line(const GemmParams& params,
                                                   const GemmExtras& extras, int batch, int row,
                                                   int column) {
  if (!C.reads_c || params.beta == 0.0F || row >= params.m) {
    return nullptr;
  }
  const void* const from = extras.addend != nullptr ? extras.addend : params.c;
  const long long index = batch * params.c_strides.batch + row * params.c_strides.row + column;
  return static_cast<const char*>(from) + index * output_bytes(addend_type<C>());
}

/// Two neighbouring elements of a line of C, the second where `has_next`. Unlike scales and bias it
/// may begin anywhere.
template <auto C>
__device__ __forceinline__ float2 load_of_c(const char* line, int index, bool has_next) {
  return has_next && C.alignment_bytes >= 2 * C.output_bytes()
             ? load_output_pair<C.output>(line, index)
             : make_float2(load_output<C.output>(line, index),
                           has_next ? load_output<C.output>(line, index + 1) : 0.0F);
}

/// A thread's sums of rows `row` and `row` + 8 become elements of C, all done that GemmExtras says:
/// element 4 j + 2 h + i is column `column` + 8 j + i of row half h. Of a gated product the second
/// half of the `Columns` columns is used up.
template <auto C, int Columns>
__device__ __forceinline__ void finish_rows(float* sums, const GemmParams& params,
                                            const GemmExtras& extras, int batch, int row,
                                            int first_column, int lane_column) {
  constexpr int kColumnsOfC = C.gated ? Columns / 2 : Columns;
  constexpr bool kAdds = C.reads_c && !C.kTakesMaps;  // The Hopper family adds later.
  constexpr int kQuadsAtOnce = 4;                     // Of which loads are under way together.
  const float factors[2] = {row_factor<C>(params, extras, row),
                            row_factor<C>(params, extras, row + 8)};
  const char* const lines[2] = {
      addend_line<C>(params, extras, batch, row, first_column + lane_column),
      addend_line<C>(params, extras, batch, row + 8, first_column + lane_column)};
#pragma unroll
  for (int quad = 0; quad < kColumnsOfC / 8; ++quad) {
    const int column = first_column + 8 * quad + lane_column;
    const bool has_next = column + 1 < params.n;
    const auto terms_of = [&](int offset) {
      return column_terms<C>(
          extras, product_column<C, Columns>(params, first_column, offset + 8 * quad + lane_column),
          has_next);
    };
    const ColumnTerms terms = terms_of(0);
    const ColumnTerms of_up = C.gated ? terms_of(kColumnsOfC) : terms;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* const pair = sums + 4 * quad + 2 * half;
      float2 added = make_float2(0.0F, 0.0F);
      if constexpr (kAdds) {
        if (lines[half] != nullptr && column < params.n) {
          added = load_of_c<C>(lines[half], 8 * quad, has_next);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float value = activated<C>(scaled<C>(pair[i], factors[half], terms, i));
        if constexpr (C.gated) {
          value *= scaled<C>(pair[kColumnsOfC / 2 + i], factors[half], of_up, i);
        }
        pair[i] = kAdds ? fmaf(params.beta, i == 0 ? added.x : added.y, value) : value;
      }
    }
    // Loads of all columns at once would take more registers than there are.
    constexpr bool kLoads = kAdds || C.has_bias || C.scaling == Scaling::row;
    if (kLoads && quad % kQuadsAtOnce == kQuadsAtOnce - 1) {
      __syncwarp();
    }
  }
}

/// By what a thread's elements of an FP8 C are multiplied, of two rows as above. With
/// Scaling::block the largest of `Columns` (128) columns becomes 448, and what a reader has to
/// multiply by is written for the row.
template <auto C, int Columns>
__device__ __forceinline__ void scale_output(float (&scale)[2], const float* values,
                                             const GemmParams& params, const GemmExtras& extras,
                                             int row, int first_column, int lane_column) {
  constexpr float kLargest = 448.0F;
  constexpr float kLeast = 1e-4F;  // Zeros have a scale, too.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if constexpr (C.output_scaling == Scaling::tensor) {
      scale[half] = __ldg(extras.c_scales);
    } else {
      float largest = kLeast;
#pragma unroll
      for (int i = 0; i < Columns / 4; ++i) {
        largest = ptx::max_nan(largest, fabsf(values[i / 2 * 4 + 2 * half + i % 2]));
      }
      largest = ptx::max_nan(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
      largest = ptx::max_nan(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
      scale[half] = kLargest / largest;
      if (lane_column == 0 && row + 8 * half < params.m && first_column < params.n) {
        extras.c_scales[first_column / kScaleBlock * extras.c_scale_stride + row + 8 * half] =
            largest / kLargest;
      }
    }
  }
}

}  // namespace swr
