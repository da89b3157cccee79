// SPDX-License-Identifier: MIT
// The launch of the kernel that merges attention over different keys.
#pragma once

#include "driver/ready_launch.h"
#include <swr/serving_attention_call.h>

namespace swr {

/// Throws: Error{invalid_argument} naming what is wrong with the call.
void validate(const MergeStatesCall& call);

/// Enqueues one merge. Requires: a valid call. Throws: as FixedKernels::function(); DriverError.
void launch_merge(const MergeStatesCall& call, const FixedSite& site, CUstream stream);

}  // namespace swr
