// SPDX-License-Identifier: MIT
// The problem that tests of attention over unequal sequences vary.
#pragma once

#include "operations/attention_serving/serving_attention.h"

namespace swr::test {

/// Four sequences of up to 2048 new tokens each.
inline constexpr ServingAttentionProblem kServingPrompt{.batch = 4,
                                                        .heads_q = 32,
                                                        .heads_kv = 8,
                                                        .seq_q = 2048,
                                                        .seq_kv = 2048,
                                                        .head_dim = 128,
                                                        .head_dim_v = 128,
                                                        .dtype = DType::bf16};

}  // namespace swr::test
