// SPDX-License-Identifier: MIT
// The configuration of one variant, written by swr's generator; do not edit.
#pragma once

#include "gemm/hopper/config.h"

namespace swr {

inline constexpr HopperGemmConfig kConfig{
    .dtype = DType::fp16,
    .output = OutputType::fp32,
    .layout = GemmLayout::tn,
    .reads_c = true,
    .tile_m = 64,
    .tile_n = 176,
    .tile_k = 128,
    .stages = 2,
    .mainloop = GemmMainloop::pingpong,
    .consumers = 2,
    .cluster_m = 1,
    .cluster_n = 2,
    .cluster_k = 1,
    .persistence = Persistence::persistent,
    .k_order = Order::sawtooth,
    .split_k = true,
    .scaling = Scaling::none,
    .promote_every = 0,
    .has_bias = false,
    .activation = Activation::none,
    .gated = false,
    .output_scaling = Scaling::none,
    .groups = GemmGroups::none,
    .alignment_bytes = 16,
};

}  // namespace swr
