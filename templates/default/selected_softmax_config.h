// SPDX-License-Identifier: MIT
// The configuration used when the softmax template is compiled by hand; the generator shadows this
// file with the one it writes for a variant.
#pragma once

#include "softmax/config.h"

namespace swr {

inline constexpr SoftmaxConfig kConfig{
    .dtype = DType::bf16,
    .tile_rows = 1,
    .threads_per_row = 256,
    .vector = 8,
    .held = 0,
    .stages = 4,
    .order = Order::sawtooth,
    .persistence = Persistence::persistent,
};

}  // namespace swr
