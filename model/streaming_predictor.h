// SPDX-License-Identifier: MIT
// An analytic model of operations that stream their inputs once or twice and compute little: a
// roofline of memory, L2 and exponentials, with the bytes in flight that Little's law asks for.
#pragma once

#include "model/predictor.h"
#include "model/profile/gpu_profile.h"

#include <functional>
#include <memory>

namespace swr {

/// What one launch streams.
struct StreamedLaunch {
  LaunchGeometry geometry;
  CompulsoryBytes bytes;           ///< Inputs read once, outputs written.
  double reread_bytes = 0.0;       ///< Inputs read a second time.
  double reread_miss_share = 0.0;  ///< Of these, what L2 no longer holds.
  double exponentials = 0.0;
  double tile_bytes_in_flight = 0.0;  ///< That the threads of a CTA ask for at once.
};

/// Share of the second reading that misses when CTAs together read `footprint_bytes`, write as many
/// and read them again: by stack distances in an LRU cache. Forward every byte returns after all of
/// the footprint and what was written until there; backward after twice what lies behind it.
double reread_miss_share(double footprint_bytes, bool backward, double l2_bytes);

/// `describe` says what a variant streams with so many CTAs per SM.
using DescribeStream =
    std::function<StreamedLaunch(const Problem&, const Variant&, const GpuProfile&, int)>;

std::unique_ptr<Predictor> make_streaming_predictor(const GpuProfile& profile,
                                                    DescribeStream describe);

}  // namespace swr
