// SPDX-License-Identifier: MIT
// What the GPU draws while it does nothing but launch one kernel, and while it does nothing.
#pragma once

#include "driver/cuda_driver.h"
#include "driver/nvml.h"
#include "tuner/evaluator.h"
#include "tuner/measure/power_meter.h"

#include <functional>

namespace swr {

/// The counter of energy of a GPU and this machine's clock.
PowerSource power_source(const GpuMonitor& monitor);

/// Requires: the GPU counts energy, and has nothing to do.
PowerReading idle_power(const GpuMonitor& monitor);

/// Takes about a second. `launch` enqueues one launch on the stream, which takes `launch_us`,
/// roughly. Throws: what `launch` throws; DriverError. Requires: the GPU counts energy.
PowerReading power_of_launches(const GpuMonitor& monitor, const Stream& stream,
                               const std::function<void()>& launch, double launch_us);

}  // namespace swr
