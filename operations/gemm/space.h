// SPDX-License-Identifier: MIT
// The points each GEMM family is tuned over.
#pragma once

#include <swr/device.h>
#include <swr/gemm_problem.h>
#include <swr/generator.h>

#include <vector>

namespace swr {

/// The points of a family for a problem, legal or not: tiles with everything that fits them (stages
/// that fill shared memory, clusters, splits of k where tiles are few, orders of tiles where they
/// are many). A restricted axis takes its values instead.
/// Requires: restrictions name axes and values of theirs.
/// Throws: Error{invalid_argument} for tiles that name warps, or sizes outside of the axes.
std::vector<Variant> gemm_variants(Family family, const GemmProblem& problem,
                                   const DeviceInfo& device, const SpaceOptions& options);

}  // namespace swr
