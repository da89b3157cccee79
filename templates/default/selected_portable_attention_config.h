// SPDX-License-Identifier: MIT
// The configuration used when a template is compiled by hand; the generator shadows this file with
// the one it writes for a variant.
#pragma once

#include "attention/config.h"

namespace swr {

inline constexpr PortableAttentionConfig kConfig{
    .head_dim = 64,
    .dtype = DType::fp16,
    .causal = false,
    .alignment_bytes = 16,
    .tile_m = 64,
    .tile_n = 64,
    .warps = 4,
    .stages = 2,
    .order = Order::cyclic,
    .persistence = Persistence::grid,
    .smem_swizzle = true,
    .split_kv = false,
    .pack_gqa = false,
    .kv_copy = KvCopy::cp_async,
};

}  // namespace swr
