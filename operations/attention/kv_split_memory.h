// SPDX-License-Identifier: MIT
// What the splits of an attention kernel leave for each other, for launches one after the other.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/attention/launch_plan.h"
#include <swr/attention_params.h>

#include <cstddef>

namespace swr {

class KvSplitMemory {
 public:
  /// For launches of the sizes of `params`. Nothing is allocated for kernels without splits.
  /// Throws: DriverError, also when the device is out of memory.
  KvSplitMemory(const AttentionLaunchPlan& plan, const AttentionParams& params,
                const Stream& stream) {
    const LaunchGeometry geometry = launch_geometry(plan, params);
    if (geometry.partials_bytes > 0) {
      constexpr unsigned char kNaN = 0xff;
      partials_ = DeviceBuffer(static_cast<std::size_t>(geometry.partials_bytes));
      partials_.fill(kNaN, stream);  // What no split writes shows.
      arrivals_ = DeviceBuffer(static_cast<std::size_t>(geometry.arrival_words) * 4);
      arrivals_.fill(0, stream);
    }
  }

  AttentionParams of_launch(AttentionParams params) const {
    // NOLINTBEGIN(performance-no-int-to-ptr): device addresses are integers.
    params.partials = reinterpret_cast<float*>(partials_.address());
    params.arrivals = reinterpret_cast<unsigned*>(arrivals_.address());
    // NOLINTEND(performance-no-int-to-ptr)
    return params;
  }

 private:
  DeviceBuffer partials_;
  DeviceBuffer arrivals_;
};

}  // namespace swr
