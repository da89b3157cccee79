// SPDX-License-Identifier: MIT
// The configuration used when the Hopper GEMM template is compiled by hand; the generator shadows
// this file with the one it writes for a variant.
#pragma once

#include "gemm/hopper/config.h"

namespace swr {

inline constexpr HopperGemmConfig kConfig{
    .dtype = DType::bf16,
    .output = OutputType::bf16,
    .layout = GemmLayout::nt,
    .reads_c = false,
    .tile_m = 128,
    .tile_n = 256,
    .tile_k = 64,
    .stages = 4,
    .mainloop = GemmMainloop::cooperative,
    .consumers = 2,
    .cluster_m = 2,
    .cluster_n = 1,
    .cluster_k = 1,
    .persistence = Persistence::persistent,
    .k_order = Order::cyclic,
    .split_k = false,
};

}  // namespace swr
