// SPDX-License-Identifier: MIT
// Architectures (major * 10 + minor) that more than one place must know by name.
#pragma once

#include <swr/axes.h>

namespace swr {

/// The one that Family::hopper runs on.
inline constexpr int kHopperArch = 90;

/// How many times as many operations as of 16-bit types tensor cores do by mma.sync: on sm_90 FP8
/// is emulated; 246.5 of 123.1 TFLOP/s were measured on a GB10, 506 of 253 on an RTX 5090.
constexpr double fp8_rate(DType dtype, int sm_arch) {
  return is_fp8(dtype) && sm_arch != kHopperArch ? 2.0 : 1.0;
}

}  // namespace swr
