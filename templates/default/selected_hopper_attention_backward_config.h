// SPDX-License-Identifier: MIT
// The configuration used when the Hopper template is compiled by hand; the generator shadows this
// file with the one it writes for a variant.
#pragma once

#include "attention_backward/hopper/config.h"

namespace swr {

inline constexpr HopperAttentionBackwardConfig kConfig{
    .form = BackwardForm::fused,
    .key = {.head_dim = 128,
            .value_dim = 128,
            .dtype = DType::bf16,
            .causal = true,
            .tile_m = 64,
            .tile_n = 128,
            .warps = 8,
            .stages = 2,
            .dq_sum = DqSum::atomic,
            .order = QOrder::cyclic,
            .persistence = Persistence::grid},
    .query = {.head_dim = 128,
              .value_dim = 128,
              .dtype = DType::bf16,
              .causal = true,
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
