// SPDX-License-Identifier: MIT
// Which variants to measure when the model may name a few.
#pragma once

#include <swr/variant.h>

#include <cstddef>
#include <span>
#include <vector>

namespace swr {

/// Indices of all variants, those to measure first in front: by predicted time, equal times in the
/// order of the variants. Of variants that differ in the order of tiles alone (swizzle, raster) and
/// are predicted within 0.2 %, which the model cannot tell apart, all but the first stand behind
/// the others: measuring one says what the model cannot. Requires: a time for each variant.
std::vector<std::size_t> shortlist(std::span<const Variant> variants,
                                   std::span<const double> predicted_us);

}  // namespace swr
