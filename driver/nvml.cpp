// SPDX-License-Identifier: MIT
#include "driver/nvml.h"

#include "core/dynamic_library.h"
#include "driver/devices.h"

#include <array>

namespace swr {
namespace {

// NVML's interface as far as it is used here (NVML API reference guide); its header is no part of
// the toolkit's minimal installation.
struct NvmlDevice;
using NvmlResult = int;
constexpr NvmlResult kNvmlSuccess = 0;
constexpr int kNvmlClockSm = 1;
constexpr int kNvmlClockMemory = 2;
constexpr int kNvmlTemperatureGpu = 0;

DynamicLibrary open_nvml() {
  const std::array<std::string, 2> candidates{"libnvidia-ml.so.1", "libnvidia-ml.so"};
  return DynamicLibrary(candidates, ErrorCode::no_driver, "NVML",
                        "it comes with the driver; clocks and throttling stay unknown");
}

using ReadNumber = NvmlResult(NvmlDevice*, unsigned*);
using ReadNumberOf = NvmlResult(NvmlDevice*, int, unsigned*);
using ReadBits = NvmlResult(NvmlDevice*, unsigned long long*);

template <typename Value>
std::optional<long long> read_value(NvmlResult (*function)(NvmlDevice*, Value*),
                                    NvmlDevice* device) {
  Value value{};
  return function(device, &value) == kNvmlSuccess ? std::optional(static_cast<long long>(value))
                                                  : std::nullopt;
}

std::optional<long long> read_value(ReadNumberOf* function, NvmlDevice* device, int what) {
  unsigned value = 0;
  return function(device, what, &value) == kNvmlSuccess
             ? std::optional(static_cast<long long>(value))
             : std::nullopt;
}

}  // namespace

/// NVML, initialised, with one device.
struct GpuMonitor::Impl {
  explicit Impl(const std::string& bus_id) {
    require(initialize(), "nvmlInit_v2");
    const NvmlResult found = device_by_bus_id(bus_id.c_str(), &device);
    if (found != kNvmlSuccess) {
      shut_down();
      require(found, "nvmlDeviceGetHandleByPciBusId_v2");
    }
  }
  ~Impl() { shut_down(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void require(NvmlResult result, const char* call) const {
    if (result != kNvmlSuccess) {
      throw Error(ErrorCode::no_driver, std::string(call) + " failed with " + error_text(result));
    }
  }

  DynamicLibrary library = open_nvml();
  const char* (*error_text)(NvmlResult) =
      library.function<const char*(NvmlResult)>("nvmlErrorString");
  NvmlResult (*initialize)() = library.function<NvmlResult()>("nvmlInit_v2");
  NvmlResult (*shut_down)() = library.function<NvmlResult()>("nvmlShutdown");
  NvmlResult (*device_by_bus_id)(const char*, NvmlDevice**) =
      library.function<NvmlResult(const char*, NvmlDevice**)>("nvmlDeviceGetHandleByPciBusId_v2");
  ReadNumberOf* clock = library.function<ReadNumberOf>("nvmlDeviceGetClockInfo");
  ReadNumberOf* highest_clock = library.function<ReadNumberOf>("nvmlDeviceGetMaxClockInfo");
  ReadNumberOf* temperature = library.function<ReadNumberOf>("nvmlDeviceGetTemperature");
  ReadNumber* power = library.function<ReadNumber>("nvmlDeviceGetPowerUsage");
  /// The name that old drivers have too; new ones also call it clocks event reasons.
  ReadBits* throttle_reasons =
      library.function<ReadBits>("nvmlDeviceGetCurrentClocksThrottleReasons");
  /// Old drivers lack it.
  ReadBits* total_energy = library.find_function<ReadBits>("nvmlDeviceGetTotalEnergyConsumption");
  NvmlDevice* device = nullptr;
};

GpuMonitor::GpuMonitor(int device_ordinal) {
  const std::string bus_id = device_details(device_ordinal).pci_bus_id;
  try {
    impl_ = std::make_unique<Impl>(bus_id);
    highest_sm_clock_mhz_ = read_value(impl_->highest_clock, impl_->device, kNvmlClockSm);
  } catch (const Error& error) {
    unavailable_because_ = error.what();
  }
}

GpuMonitor::~GpuMonitor() = default;

std::optional<long long> GpuMonitor::total_energy_mj() const {
  return impl_ && impl_->total_energy != nullptr ? read_value(impl_->total_energy, impl_->device)
                                                 : std::nullopt;
}

std::string GpuMonitor::energy_missing_because() const {
  if (!impl_) {
    return unavailable_because_;
  }
  constexpr const char* kCall = "nvmlDeviceGetTotalEnergyConsumption";
  if (impl_->total_energy == nullptr) {
    return std::string("this driver's NVML has no ") + kCall;
  }
  unsigned long long total_mj = 0;
  const NvmlResult result = impl_->total_energy(impl_->device, &total_mj);
  return result == kNvmlSuccess ? ""
                                : std::string(kCall) + " failed with " + impl_->error_text(result) +
                                      "; GPUs before Volta and virtual ones do not count it";
}

GpuCondition GpuMonitor::read() const {
  if (!impl_) {
    return {};
  }
  const Impl& nvml = *impl_;
  return {
      .sm_clock_mhz = read_value(nvml.clock, nvml.device, kNvmlClockSm),
      .memory_clock_mhz = read_value(nvml.clock, nvml.device, kNvmlClockMemory),
      .temperature_c = read_value(nvml.temperature, nvml.device, kNvmlTemperatureGpu),
      .power_mw = read_value(nvml.power, nvml.device),
      .throttle_reasons = read_value(nvml.throttle_reasons, nvml.device),
  };
}

}  // namespace swr
