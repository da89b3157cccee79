// SPDX-License-Identifier: MIT
// The configuration used when the portable GEMM template is compiled by hand; the generator shadows
// this file with the one it writes for a variant.
#pragma once

#include "gemm/portable/config.h"

namespace swr {

inline constexpr PortableGemmConfig kConfig{
    .dtype = DType::bf16,
    .output = OutputType::bf16,
    .layout = GemmLayout::nt,
    .reads_c = false,
    .alignment_bytes = 16,
    .tile_m = 128,
    .tile_n = 128,
    .tile_k = 32,
    .warps_m = 2,
    .warps_n = 2,
    .stages = 4,
    .persistence = Persistence::grid,
    .k_order = Order::cyclic,
    .split_k = false,
};

}  // namespace swr
