// SPDX-License-Identifier: MIT
// The configuration used when the Hopper template for unequal sequences is compiled by hand; the
// generator shadows this file with the one it writes for a variant.
#pragma once

#include "attention_serving/hopper/config.h"

namespace swr {

inline constexpr HopperServingConfig kConfig{};

}  // namespace swr
