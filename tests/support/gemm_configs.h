// SPDX-License-Identifier: MIT
// Configurations of GEMM kernels that tests change a member or two of.
#pragma once

#include "templates/gemm/hopper/config.h"
#include "templates/gemm/portable/config.h"

namespace swr::test {

/// A deep enough ring, one tile after the other, no cluster and nothing fused.
constexpr HopperGemmConfig hopper_gemm(int tile_m, int tile_n, int consumers,
                                       GemmMainloop mainloop = GemmMainloop::cooperative) {
  return {.dtype = DType::bf16,
          .output = OutputType::bf16,
          .layout = GemmLayout::nt,
          .reads_c = false,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .tile_k = 64,
          .stages = 3,
          .mainloop = mainloop,
          .consumers = consumers,
          .cluster_m = 1,
          .cluster_n = 1,
          .cluster_k = 1,
          .persistence = Persistence::persistent,
          .k_order = Order::cyclic,
          .split_k = false};
}

constexpr PortableGemmConfig portable_gemm(int tile_m, int tile_n, int warps_m, int warps_n) {
  return {.dtype = DType::bf16,
          .output = OutputType::bf16,
          .layout = GemmLayout::nt,
          .reads_c = false,
          .alignment_bytes = 16,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .tile_k = 32,
          .warps_m = warps_m,
          .warps_n = warps_n,
          .stages = 3,
          .persistence = Persistence::grid,
          .k_order = Order::cyclic,
          .split_k = false};
}

}  // namespace swr::test
