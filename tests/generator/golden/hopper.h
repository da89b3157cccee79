// SPDX-License-Identifier: MIT
// The configuration of one variant, written by swr's generator; do not edit.
#pragma once

#include "attention/hopper/config.h"

namespace swr {

inline constexpr HopperAttentionConfig kConfig{
    .head_dim = 96,
    .dtype = DType::fp16,
    .causal = true,
    .tile_m = 192,
    .tile_n = 128,
    .stages = 2,
    .mainloop = Mainloop::overlap_ordered,
    .order = Order::right_to_left,
    .persistence = Persistence::snake,
    .p_operand = POperand::shared,
    .exp2_fma_eighths = 0,
    .unroll = 1,
};

}  // namespace swr
