// SPDX-License-Identifier: MIT
// The GPU's clocks, temperature, power and reasons for throttling, through NVML (libnvidia-ml),
// opened at run time. A machine without it measures all the same.
#pragma once

#include <swr/result.h>

#include <memory>
#include <optional>
#include <string>

namespace swr {

class GpuMonitor {
 public:
  /// Watches a CUDA device. Never throws for a missing or refusing NVML.
  /// Throws: DriverError when the CUDA driver does not know the device.
  explicit GpuMonitor(int device_ordinal);
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  /// Fields that the GPU does not report are empty; all are when NVML is unavailable.
  GpuCondition read() const;
  /// Millijoule that the GPU has taken since its driver was loaded, counted from Volta on. Empty
  /// where it is not; energy_missing_because() says why.
  std::optional<long long> total_energy_mj() const;
  std::string energy_missing_because() const;
  /// What the chip's SMs can be clocked at; read once, because asking takes milliseconds.
  std::optional<long long> highest_sm_clock_mhz() const { return highest_sm_clock_mhz_; }

  /// Why there is nothing to read; empty when there is.
  const std::string& unavailable_because() const { return unavailable_because_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::optional<long long> highest_sm_clock_mhz_;
  std::string unavailable_because_;
};

}  // namespace swr
