// SPDX-License-Identifier: MIT
// What normalises a row of O, with the sink that it may have, and its log-sum-exp.
#pragma once

#include "attention/portable/softmax.cuh"
#include "attention_serving/item.cuh"
#include "common/ptx.cuh"
#include "common/serving_schedule.h"
#include <swr/serving_attention_params.h>

namespace swr::serving {

/// What becomes of a row at the end.
struct RowResult {
  float factor;    ///< Numerators times V are multiplied with it.
  float log2_sum;  ///< Logarithm, base 2, of the softmax' denominator.
};

/// A row whose numerators have been shifted by `shift` and add up to `sum`, with a further score
/// `sink_log2` that has no value. The shift may lag behind the sink, so both are brought under one.
__device__ inline RowResult finish_row(float shift, float sum, float sink_log2) {
  const float top = fmaxf(shift, sink_log2);
  const float rescale = ptx::ex2_approx(shift - top);
  const float total = fmaf(sum, rescale, ptx::ex2_approx(sink_log2 - top));
  if (total == 0.0F) {
    return {0.0F, portable::minus_infinity()};
  }
  return {rescale / total, top + log2f(total)};
}

/// The sinks of an item's rows, and where their log-sum-exps go.
template <auto C>
class RowEnds {
 public:
  __device__ RowEnds(const ServingAttentionParams& params, const Item<C>& item)
      : params_(params),
        heads_(packed_heads(C.tiles(), params)),
        first_head_(item.first_head()),
        lse_(params.lse == nullptr ? nullptr : item.first_lse()) {}

  /// The result of row `row` of the item's head.
  __device__ RowResult finish(int row, float shift, float sum) const {
    const float sink = params_.sinks == nullptr ? portable::minus_infinity()
                                                : sink_log2(first_head_ + head_of(row));
    return finish_row(shift, sum, sink);
  }
  __device__ void write_lse(int row, const RowResult& result) const {
    if (lse_ != nullptr) {
      lse_[row / heads_ * params_.lse_strides.seq + head_of(row) * params_.lse_strides.head] =
          result.log2_sum * params_.lse_unit;
    }
  }

 private:
  __device__ int head_of(int row) const { return C.pack_gqa ? row % heads_ : 0; }
  __device__ float sink_log2(int head) const {
    constexpr float kLog2E = 1.4426950408889634F;
    switch (params_.sink_type) {
      case SinkType::fp32:
        break;
      case SinkType::fp16:
        return ptx::cvt_f32_f16(static_cast<const unsigned short*>(params_.sinks)[head]) * kLog2E;
      case SinkType::bf16:
        return __uint_as_float(
                   static_cast<unsigned>(static_cast<const unsigned short*>(params_.sinks)[head])
                   << 16) *
               kLog2E;
    }
    return static_cast<const float*>(params_.sinks)[head] * kLog2E;
  }

  const ServingAttentionParams& params_;
  int heads_;
  int first_head_;
  float* lse_;
};

}  // namespace swr::serving
