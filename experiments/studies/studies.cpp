// SPDX-License-Identifier: MIT
// Every study that swr can carry out, by its name on the command line.
#include "experiments/studies/gemm_study.h"
#include "experiments/studies/tile_choices.h"

#include <array>

namespace swr {

std::span<const StudyEntry> studies() {
  static constexpr std::array all{
      StudyEntry{"sawtooth",
                 "sectors against the formula, where misses begin, hit rate over active SMs, "
                 "cyclic against sawtooth",
                 sawtooth_study},
      StudyEntry{"tiled-attention", "80 shapes, best tile by shape and what it gains",
                 tiled_attention_study},
      StudyEntry{"gemm-swizzle",
                 "GEMM over swizzle strides and the order over k; the model's choice of stride",
                 gemm_swizzle_study}};
  return all;
}

}  // namespace swr
