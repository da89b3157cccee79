// SPDX-License-Identifier: MIT
// The one place where a kernel for unequal sequences is launched, by the tuner's measurements and
// by the runtime.
#pragma once

#include "driver/kernel_launch.h"
#include "driver/ready_launch.h"
#include "operations/attention_serving/tensor_maps.h"
#include <swr/serving_attention_call.h>

namespace swr {

/// Enqueues one launch; neither allocates nor synchronises, so it may be captured in a graph, which
/// then replays with other lengths: maps hold addresses and strides alone.
/// Throws: Error{cuda} when the driver refuses a map or the launch.
inline void launch_serving_attention(const LaunchSite& site, const ServingMapPlan& plan,
                                     const CtaGrid& grid, ServingAttentionParams params) {
  ServingMaps maps{};
  if (plan.takes_tensor_maps()) {
    require_success(encode_serving_maps(site.calls, plan, params, maps), "cuTensorMapEncodeTiled");
  }
  // Portable kernels take the first alone.
  void* arguments[] = {&params, &maps.q, &maps.k, &maps.v, &maps.o, &maps.steps};
  require_success(launch_grid(site.calls, site.entry(), grid, site.overlap, site.stream, arguments),
                  "cuLaunchKernelEx");
}

// The launch of the kernel that merges attention over different keys.

/// Throws: Error{invalid_argument} naming what is wrong with the call.
void validate(const MergeStatesCall& call);

/// Enqueues one merge. Requires: a valid call. Throws: as FixedKernels::function(); DriverError.
void launch_merge(const MergeStatesCall& call, const FixedSite& site, CUstream stream);

}  // namespace swr
