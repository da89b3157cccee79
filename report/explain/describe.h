// SPDX-License-Identifier: MIT
// Variants and devices in a line of prose.
#pragma once

#include <swr/device.h>
#include <swr/variant.h>

#include <string>

namespace swr {

/// Sizes of the tile in short: "64x64x4", "128x256x64".
std::string tile_text(const Variant& variant);

/// "64x64x4 stages 2 sawtooth persistent q_fastest": every choice.
std::string describe(const Variant& variant);

/// "NVIDIA GB10 (sm_121, 48 SMs, 24.00 MiB L2)".
std::string describe(const DeviceInfo& device);

}  // namespace swr
