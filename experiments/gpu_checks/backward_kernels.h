// SPDX-License-Identifier: MIT
// The kernels of attention backward that backward_check runs: every tile of the list, every way of
// summing dQ, both types, both masks.
#pragma once

#include "attention_backward/config.h"
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
    backward_kernels("128 atomic causal bf16", {5, 7, DType::bf16, true, DqSum::atomic}),
    backward_kernels("128 ordered causal bf16", {5, 7, DType::bf16, true, DqSum::ordered}),
    backward_kernels("128 two passes causal bf16", {5, 7, DType::bf16, true, DqSum::none}),
    backward_kernels("128 atomic fp16", {5, 7, DType::fp16, false, DqSum::atomic, QOrder::sawtooth,
                                         Persistence::persistent}),
    backward_kernels("128 ordered rotated bf16",
                     {5, 7, DType::bf16, false, DqSum::ordered, QOrder::rotated}),
    backward_kernels("64 atomic causal bf16", {0, 0, DType::bf16, true, DqSum::atomic}),
    backward_kernels("64 two passes fp16", {0, 0, DType::fp16, false, DqSum::none}),
    backward_kernels("96 ordered bf16", {2, 2, DType::bf16, false, DqSum::ordered}),
    backward_kernels("192/128 ordered causal bf16", {8, 10, DType::bf16, true, DqSum::ordered}),
    backward_kernels("256 atomic causal bf16", {11, 11, DType::bf16, true, DqSum::atomic}),
};
inline constexpr std::size_t kBackwardCount =
    sizeof(kBackwardKernels) / sizeof(kBackwardKernels[0]);

/// Entries of one of them.
struct BackwardEntries {
  const void* prepare;
  const void* query_pass;
  const void* key_pass;
  const void* finish;
};

/// Of kBackwardKernels[Part].
template <std::size_t Part>
BackwardEntries backward_entries();

}  // namespace swr::gpu
