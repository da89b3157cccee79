// SPDX-License-Identifier: MIT
// The types that the portable kernels take over from the dense family.
#pragma once

#include "attention/portable/matrix.cuh"
#include "attention/portable/softmax.cuh"
#include "attention_serving/config.h"

namespace swr::serving {

/// What a kernel takes over from the dense family, by name: compilers cannot spell such types where
/// they depend on two functions of C.
template <ServingAttentionConfig C>
struct Fragments {
  using Scores = portable::Scores<C.qk()>;
  using Output = portable::Output<C.pv()>;
  using Softmax = portable::SoftmaxState<C.pv()>;
};

}  // namespace swr::serving
