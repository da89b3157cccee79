// SPDX-License-Identifier: MIT
// The configuration of one variant, written by swr's generator; do not edit.
#pragma once

#include "attention/config.h"

namespace swr {

inline constexpr PortableAttentionConfig kConfig{
    .head_dim = 128,
    .dtype = DType::bf16,
    .causal = true,
    .alignment_bytes = 2,
    .tile_m = 80,
    .tile_n = 48,
    .warps = 5,
    .stages = 3,
    .order = Order::sawtooth,
    .persistence = Persistence::persistent,
    .smem_swizzle = false,
    .split_kv = false,
    .pack_gqa = false,
    .kv_copy = KvCopy::cp_async,
};

}  // namespace swr
