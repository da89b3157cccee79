// SPDX-License-Identifier: MIT
// The configuration used when the Hopper template is compiled by hand; the generator shadows this
// file with the one it writes for a variant.
#pragma once

#include "attention/hopper/config.h"

namespace swr {

inline constexpr HopperAttentionConfig kConfig{
    .head_dim = 128,
    .dtype = DType::bf16,
    .causal = false,
    .tile_m = 128,
    .tile_n = 128,
    .stages = 2,
    .mainloop = Mainloop::overlap_ordered,
    .order = Order::cyclic,
    .persistence = Persistence::persistent,
    .p_operand = POperand::registers,
    .exp2_fma_eighths = 0,
    .unroll = 1,
};

}  // namespace swr
