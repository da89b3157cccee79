// SPDX-License-Identifier: MIT
// The configuration used when the template is compiled by hand; the generator shadows this file
// with the one it writes for a variant.
#pragma once

#include "attention_backward/config.h"

namespace swr {

inline constexpr AttentionBackwardConfig kConfig{
    .form = BackwardForm::fused,
    .key = {.head_dim = 128,
            .value_dim = 128,
            .dtype = DType::bf16,
            .causal = false,
            .alignment_bytes = 16,
            .tile_m = 32,
            .tile_n = 128,
            .warps = 8,
            .rows_at_once = 16,
            .column_groups = 1,
            .stages = 1,
            .dq_sum = DqSum::atomic,
            .wide_adds = true,
            .order = QOrder::cyclic,
            .persistence = Persistence::grid,
            .smem_swizzle = true},
    .query = {.head_dim = 128,
              .value_dim = 128,
              .dtype = DType::bf16,
              .causal = false,
              .alignment_bytes = 16,
              .tile_m = 64,
              .tile_n = 64,
              .warps = 4,
              .keys_at_once = 32,
              .stages = 1,
              .order = Order::cyclic,
              .persistence = Persistence::grid,
              .smem_swizzle = true},
};

}  // namespace swr
