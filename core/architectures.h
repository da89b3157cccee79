// SPDX-License-Identifier: MIT
// Architectures (major * 10 + minor) that more than one place must know by name.
#pragma once

namespace swr {

/// The one that Family::hopper runs on.
inline constexpr int kHopperArch = 90;

}  // namespace swr
