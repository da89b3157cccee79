// SPDX-License-Identifier: MIT
// The points of the study of block scheduling in GEMM.
#include "core/architectures.h"
#include "experiments/studies/gemm_study.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <array>
#include <string>
#include <utility>

namespace swr {
namespace {

/// Source C's: 0, and 512 to 8192 with 1792.
constexpr std::array kStrides{0, 512, 1024, 1536, 1792, 2048, 3072, 4096, 5120, 6144, 8192};
constexpr std::array kCubes{512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384};

/// m, n and k of projections: Llama 3 8B (attention, up and down) and 70B (down).
constexpr std::array<std::array<int, 3>, 4> kProjections{
    {{4096, 6144, 4096}, {4096, 28672, 4096}, {2048, 4096, 14336}, {2048, 8192, 28672}}};

/// For the order over k: cubes, few rows, and little but k.
constexpr std::array<std::array<int, 3>, 5> kKOrderShapes{{{4096, 4096, 4096},
                                                           {8192, 8192, 8192},
                                                           {16384, 16384, 16384},
                                                           {2048, 4096, 14336},
                                                           {1024, 1024, 65536}}};

GemmProblem problem_of(const std::array<int, 3>& size) {
  return {.m = size[0], .n = size[1], .k = size[2]};
}

std::string size_text(const std::array<int, 3>& size) {
  return std::to_string(size[0]) + " x " + std::to_string(size[1]) + " x " +
         std::to_string(size[2]);
}

GemmVariant hopper(int tile_m, int tile_n, GemmMainloop mainloop, int cluster_m, int cluster_n,
                   int stages) {
  return {.family = Family::hopper,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .tile_k = 64,
          .stages = stages,
          .mainloop = mainloop,
          .consumers = tile_m == 64 && mainloop == GemmMainloop::cooperative ? 1 : 2,
          .cluster_m = cluster_m,
          .cluster_n = cluster_n,
          .persistence = Persistence::persistent,
          .raster = Raster::along_n};
}

GemmVariant portable(int tile_m, int tile_n, int warps_n, Persistence persistence) {
  return {.family = Family::portable,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .tile_k = 32,
          .stages = 3,
          .warps_m = 2,
          .warps_n = warps_n,
          .persistence = persistence,
          .raster = Raster::along_n};
}

/// The form that won against cuBLASLt at this size (experiments/gemm); from 4096 on one form,
/// the widest tile with a cluster that shares B: it won at 4096 and 12288, and the winners of the
/// other sizes are within a few per cent of it.
GemmVariant hopper_of_size(int size) {
  constexpr auto kCooperative = GemmMainloop::cooperative;
  constexpr auto kPingpong = GemmMainloop::pingpong;
  return size <= 512    ? hopper(64, 64, kCooperative, 1, 1, 12)
         : size <= 1024 ? hopper(64, 128, kPingpong, 1, 2, 8)
         : size <= 2048 ? hopper(128, 128, kPingpong, 1, 2, 6)
         : size <= 3072 ? hopper(128, 192, kPingpong, 1, 2, 4)
                        : hopper(128, 256, kCooperative, 2, 1, 4);
}

/// A CTA per tile, as in source C; small tiles where large ones would leave most SMs empty.
GemmVariant portable_of_size(int size) {
  return size <= 1024 ? portable(64, 64, 2, Persistence::grid)
                      : portable(128, 128, 2, Persistence::grid);
}

/// The kernel whose strides are swept: `size` is the cube's with as many elements of C.
GemmVariant swept_variant(int size, const DeviceInfo& device) {
  return device.sm_arch == kHopperArch ? hopper_of_size(size) : portable_of_size(size);
}

void add_strides(Experiment& experiment, const std::array<int, 3>& size, GemmVariant variant) {
  const GemmProblem problem = problem_of(size);
  for (const int stride : kStrides) {
    if (stride < problem.n) {  // Else it is the order of stride 0.
      variant.swizzle_stride = stride;
      experiment.points.push_back({problem, variant, size_text(size), stride * 1.0});
    }
  }
}

Experiment swizzle_cubes(const DeviceInfo& device) {
  Experiment experiment{.id = "stride",
                        .title = "Swizzle strides over cubes",
                        .x_title = "stride",
                        .points = {},
                        .swept = "swizzle_stride",
                        .write_section = write_strides};
  for (const int size : kCubes) {
    add_strides(experiment, {size, size, size}, swept_variant(size, device));
  }
  return experiment;
}

Experiment swizzle_projections(const DeviceInfo& device) {
  constexpr int kLargeCube = 4096;
  Experiment experiment{.id = "stride_projections",
                        .title = "Swizzle strides over projections of language models",
                        .x_title = "stride",
                        .points = {},
                        .swept = "swizzle_stride",
                        .write_section = write_strides};
  for (const auto& size : kProjections) {
    add_strides(experiment, size, swept_variant(kLargeCube, device));
  }
  return experiment;
}

/// A CTA per SM; tiles so small that every CTA has several, without which the order of a second
/// tile cannot matter.
GemmVariant persistent_form(Family family, const std::array<int, 3>& size,
                            const DeviceInfo& device) {
  constexpr int kStride = 2048;
  const bool few_tiles = static_cast<long long>(size[0]) * size[1] <= 1024 * 1024;
  GemmVariant variant = family == Family::hopper
                            ? (few_tiles ? hopper(64, 64, GemmMainloop::cooperative, 1, 1, 12)
                                         : hopper(128, 256, GemmMainloop::cooperative, 2, 1, 4))
                            : (few_tiles ? portable(64, 64, 2, Persistence::persistent)
                                         : portable(128, 256, 4, Persistence::persistent));
  variant.workers = device.sm_count;
  variant.swizzle_stride = kStride < size[1] ? kStride : 0;
  return variant;
}

Experiment k_orders(const DeviceInfo& device) {
  Experiment experiment{.id = "k_order",
                        .title = "Sawtooth against cyclic over k",
                        .x_title = "m x n x k",
                        .points = {},
                        .swept = "k_order",
                        .write_section = write_k_orders};
  for (std::size_t place = 0; place < kKOrderShapes.size(); ++place) {
    const auto& size = kKOrderShapes.at(place);
    for (const Family family : {Family::hopper, Family::portable}) {
      if (family == Family::hopper && device.sm_arch != kHopperArch) {
        continue;
      }
      GemmVariant variant = persistent_form(family, size, device);
      for (const Order order : {Order::cyclic, Order::sawtooth}) {
        variant.k_order = order;
        experiment.points.push_back(
            {problem_of(size), variant,
             std::string(to_string(family)) + " " + std::string(to_string(order)),
             static_cast<double>(place), size_text(size)});
      }
    }
  }
  return experiment;
}

}  // namespace

std::span<const int> swizzle_strides() { return kStrides; }

Study gemm_swizzle_study(const DeviceInfo& device) {
  return {.name = "gemm-swizzle",
          .title = "Block scheduling in GEMM",
          .experiments = {swizzle_cubes(device), swizzle_projections(device), k_orders(device)},
          .judges_model = true,
          // At the power limit samples of one stride spread by 4 to 7 %, strides differ by 1 %.
          .races = 20};
}

}  // namespace swr
