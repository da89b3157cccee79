// SPDX-License-Identifier: MIT
// The configuration of one variant, written by swr's generator; do not edit.
#pragma once

#include "gemm/portable/config.h"

namespace swr {

inline constexpr PortableGemmConfig kConfig{
    .dtype = DType::bf16,
    .output = OutputType::fp16,
    .layout = GemmLayout::nn,
    .reads_c = false,
    .alignment_bytes = 2,
    .tile_m = 64,
    .tile_n = 48,
    .tile_k = 32,
    .warps_m = 2,
    .warps_n = 1,
    .stages = 3,
    .persistence = Persistence::grid,
    .k_order = Order::cyclic,
    .split_k = false,
    .scaling = Scaling::none,
    .promote_every = 0,
    .has_bias = false,
    .activation = Activation::none,
    .gated = false,
    .output_scaling = Scaling::none,
    .groups = GemmGroups::none,
};

}  // namespace swr
