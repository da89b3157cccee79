// SPDX-License-Identifier: MIT
// The configuration of one variant, written by swr's generator; do not edit.
#pragma once

#include "attention/config.h"

namespace swr {

inline constexpr PortableAttentionConfig kConfig{
    .head_dim = 256,
    .dtype = DType::fp16,
    .causal = false,
    .alignment_bytes = 16,
    .tile_m = 128,
    .tile_n = 32,
    .warps = 8,
    .stages = 1,
    .order = Order::sawtooth,
    .persistence = Persistence::pairs,
    .smem_swizzle = true,
    .split_kv = false,
    .pack_gqa = false,
    .kv_copy = KvCopy::cp_async,
};

}  // namespace swr
