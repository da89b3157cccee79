// SPDX-License-Identifier: MIT
// The configuration used when the template is compiled by hand; the generator shadows this file
// with the one it writes for a variant.
#pragma once

#include "attention_serving/config.h"

namespace swr {

inline constexpr ServingAttentionConfig kConfig{
    .head_dim = 128,
    .head_dim_v = 128,
    .dtype = DType::bf16,
    .mask = ServingMask::causal,
    .softcap = Softcap::none,
    .kv_source = KvSource::pages,
    .page_copy = PageCopy::row,
    .tile_m = 16,
    .tile_n = 64,
    .warps = 4,
    .stages = 2,
    .order = Order::cyclic,
    .persistence = Persistence::grid,
    .smem_swizzle = true,
    .pack_gqa = true,
    .deal = Deal::ranges,
    .wgmma = false,
};

}  // namespace swr
