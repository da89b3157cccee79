// SPDX-License-Identifier: MIT
// The kernels of attention backward that backward_check runs: every tile of the list, every way of
// summing dQ, both types, both masks.
#pragma once

#include "attention_backward/config.h"
#include "attention_backward/hopper/config.h"
#include "attention_backward/offered.h"
#include "operations/attention_backward/launch_plan.h"
#include <swr/attention_backward_params.h>

#include <cstddef>

namespace swr::gpu {

/// `query` counts for DqSum::none.
struct BackwardKernels {
  const char* name;
  KeyPassConfig key;
  QueryPassConfig query;
};

struct BackwardChoices {
  int key_tiles;
  int query_tiles;
  DType dtype;
  bool causal;
  DqSum dq_sum;
  QOrder order = QOrder::cyclic;
  Persistence persistence = Persistence::grid;
};

constexpr BackwardKernels backward_kernels(const char* name, const BackwardChoices& c) {
  return {name,
          backward::key_pass_config(backward::kKeyTiles[c.key_tiles], c.dtype, c.causal, c.dq_sum,
                                    true, c.order, c.persistence),
          backward::query_pass_config(backward::kQueryTiles[c.query_tiles], c.dtype, c.causal,
                                      Order::cyclic, Persistence::grid)};
}

inline constexpr BackwardKernels kBackwardKernels[] = {
    backward_kernels("128 atomic causal bf16", {9, 7, DType::bf16, true, DqSum::atomic}),
    backward_kernels("128 ordered causal bf16", {10, 7, DType::bf16, true, DqSum::ordered}),
    backward_kernels("128 two passes causal bf16", {7, 7, DType::bf16, true, DqSum::none}),
    backward_kernels("128 atomic fp16", {10, 7, DType::fp16, false, DqSum::atomic, QOrder::sawtooth,
                                         Persistence::persistent}),
    backward_kernels("64 atomic causal bf16", {2, 0, DType::bf16, true, DqSum::atomic}),
    backward_kernels("64 two passes fp16", {2, 0, DType::fp16, false, DqSum::none}),
    backward_kernels("96 ordered bf16", {5, 2, DType::bf16, false, DqSum::ordered}),
    backward_kernels("192/128 ordered causal bf16", {13, 10, DType::bf16, true, DqSum::ordered}),
    backward_kernels("256 atomic causal bf16", {16, 11, DType::bf16, true, DqSum::atomic}),
};
inline constexpr std::size_t kPortableCount =
    sizeof(kBackwardKernels) / sizeof(kBackwardKernels[0]);

struct HopperBackwardKernels {
  const char* name;
  HopperKeyPassConfig key;
  QueryPassConfig query;
};

struct HopperBackwardChoices {
  int head_dim;
  int tile_m;
  int query_tiles;
  DType dtype;
  bool causal;
  DqSum dq_sum = DqSum::atomic;
  int stages = 2;
  QOrder order = QOrder::cyclic;
  Persistence persistence = Persistence::grid;
  int value_dim = 0;  ///< 0: head_dim.
};

constexpr HopperBackwardKernels hopper_kernels(const char* name, const HopperBackwardChoices& c) {
  return {name,
          {.head_dim = c.head_dim,
           .value_dim = c.value_dim > 0 ? c.value_dim : c.head_dim,
           .dtype = c.dtype,
           .causal = c.causal,
           .tile_m = c.tile_m,
           .tile_n = c.head_dim > 128 ? 64 : 128,
           .warps = 8,
           .stages = c.stages,
           .dq_sum = c.dq_sum,
           .order = c.order,
           .persistence = c.persistence},
          backward::query_pass_config(backward::kQueryTiles[c.query_tiles], c.dtype, c.causal,
                                      Order::cyclic, Persistence::grid)};
}

inline constexpr HopperBackwardKernels kHopperKernels[] = {
    hopper_kernels("hopper 128 causal bf16", {128, 64, 7, DType::bf16, true}),
    hopper_kernels("hopper 128 bf16", {128, 64, 7, DType::bf16, false}),
    hopper_kernels("hopper 128 fp16, 3 Q tiles, persistent sawtooth",
                   {128, 64, 7, DType::fp16, false, DqSum::atomic, 3, QOrder::sawtooth,
                    Persistence::persistent}),
    hopper_kernels("hopper 128 two passes causal bf16",
                   {128, 64, 7, DType::bf16, true, DqSum::none}),
    hopper_kernels("hopper 64 causal bf16", {64, 128, 0, DType::bf16, true}),
    hopper_kernels("hopper 64 fp16", {64, 128, 0, DType::fp16, false}),
    hopper_kernels("hopper 96 causal bf16", {96, 64, 2, DType::bf16, true}),
    hopper_kernels("hopper 112 fp16", {112, 64, 4, DType::fp16, false}),
    hopper_kernels("hopper 80/48 causal bf16", {80, 64, 4, DType::bf16, true, DqSum::atomic, 3,
                                                QOrder::rotated, Persistence::grid, 48}),
    hopper_kernels("hopper 256 causal bf16", {256, 64, 11, DType::bf16, true}),
    hopper_kernels("hopper 256 fp16", {256, 64, 11, DType::fp16, false}),
    hopper_kernels("hopper 192/128 causal bf16", {192, 64, 10, DType::bf16, true, DqSum::atomic, 2,
                                                  QOrder::cyclic, Persistence::persistent, 128}),
    hopper_kernels(
        "hopper 192/128 causal bf16, grid",
        {192, 64, 10, DType::bf16, true, DqSum::atomic, 2, QOrder::cyclic, Persistence::grid, 128}),
    hopper_kernels("hopper 128 ordered causal bf16",
                   {128, 64, 7, DType::bf16, true, DqSum::ordered}),
    hopper_kernels("hopper 128 ordered bf16", {128, 64, 7, DType::bf16, false, DqSum::ordered}),
    hopper_kernels("hopper 64 ordered causal bf16",
                   {64, 128, 0, DType::bf16, true, DqSum::ordered}),
    hopper_kernels("hopper 64 ordered fp16", {64, 128, 0, DType::fp16, false, DqSum::ordered}),
    hopper_kernels("hopper 96 ordered causal bf16", {96, 64, 2, DType::bf16, true, DqSum::ordered}),
    hopper_kernels("hopper 80/48 ordered fp16", {80, 64, 4, DType::fp16, false, DqSum::ordered, 2,
                                                 QOrder::right_to_left, Persistence::grid, 48}),
    hopper_kernels("hopper 256 ordered causal bf16",
                   {256, 64, 11, DType::bf16, true, DqSum::ordered}),
    hopper_kernels("hopper 256 ordered fp16", {256, 64, 11, DType::fp16, false, DqSum::ordered}),
    hopper_kernels("hopper 192/128 ordered causal bf16",
                   {192, 64, 10, DType::bf16, true, DqSum::ordered, 2, QOrder::cyclic,
                    Persistence::grid, 128}),
};
inline constexpr std::size_t kBackwardCount =
    kPortableCount + sizeof(kHopperKernels) / sizeof(kHopperKernels[0]);

/// Of number I, whatever its family.
template <std::size_t I>
constexpr auto backward_kernels_of() {
  if constexpr (I < kPortableCount) {
    return kBackwardKernels[I];
  } else {
    return kHopperKernels[I - kPortableCount];
  }
}

/// Entries of one of them.
struct BackwardEntries {
  const void* prepare;
  const void* query_pass;
  const void* key_pass;
  const void* finish;
};

/// Of number Part.
template <std::size_t Part>
BackwardEntries backward_entries();

}  // namespace swr::gpu
