// SPDX-License-Identifier: MIT
// In the place of the templates': nothing that runs on the CPU multiplies with wgmma.
#pragma once

namespace swr::ptx {

template <int Columns>
struct Wgmma;

}  // namespace swr::ptx
