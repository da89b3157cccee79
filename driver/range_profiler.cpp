// SPDX-License-Identifier: MIT
#include "driver/range_profiler.h"

#include "core/dynamic_library.h"

#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace swr {
namespace {

constexpr std::array kMetrics{
    CounterMetric{"l1tex__m_xbar2l1tex_read_sectors.sum", &Counters::sectors_demanded,
                  "read sectors that the SMs received from L2"},
    CounterMetric{"lts__t_sectors.sum", &Counters::l2_lookups, "sectors looked up in L2"},
    CounterMetric{"lts__t_sectors_lookup_miss.sum", &Counters::l2_misses, "lookups that missed"},
    CounterMetric{"lts__t_sectors_srcunit_ltcfabric.sum", &Counters::l2_fabric_sectors,
                  "lookups on behalf of the other L2 partition", true},
    CounterMetric{"dram__bytes_read.sum", &Counters::dram_read_bytes, "bytes read from DRAM"},
    CounterMetric{"dram__bytes_write.sum", &Counters::dram_write_bytes, "bytes written to DRAM"},
};

/// The names of GH100, which all chips from GA100 to GB20B share but for those marked. cp.async and
/// wgmma have wavefronts of their own; ldmatrix and stmatrix are among loads and stores.
constexpr std::array kAccessMetrics{
    AccessMetric{"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
                 &AccessCounters::smem_load_wavefronts, "passes of LD, LDS and LDSM"},
    AccessMetric{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
                 &AccessCounters::smem_load_conflicts, "of these, for bank conflicts"},
    AccessMetric{"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
                 &AccessCounters::smem_store_wavefronts, "passes of ST, STS and STSM"},
    AccessMetric{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
                 &AccessCounters::smem_store_conflicts, "of these, for bank conflicts"},
    AccessMetric{"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
                 &AccessCounters::smem_copy_wavefronts, "passes in which LDGSTS writes"},
    AccessMetric{"smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
                 &AccessCounters::smem_copy_conflicts, "of these, for bank conflicts"},
    AccessMetric{"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
                 &AccessCounters::smem_wgmma_wavefronts, "passes in which HGMMA reads", true},
    AccessMetric{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum",
                 &AccessCounters::smem_wgmma_conflicts, "of these, for bank conflicts", true},
    AccessMetric{"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
                 &AccessCounters::global_load_requests, "requests of LDG"},
    AccessMetric{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
                 &AccessCounters::global_load_sectors, "sectors that LDG asks L1 for"},
    AccessMetric{"smsp__sass_data_bytes_mem_global_op_ld.sum", &AccessCounters::global_load_bytes,
                 "bytes that threads ask for by LDG"},
    AccessMetric{"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
                 &AccessCounters::global_store_requests, "requests of STG"},
    AccessMetric{"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
                 &AccessCounters::global_store_sectors, "sectors that STG writes"},
    AccessMetric{"smsp__sass_data_bytes_mem_global_op_st.sum", &AccessCounters::global_store_bytes,
                 "bytes that threads write by STG"},
    AccessMetric{"smsp__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum",
                 &AccessCounters::global_copy_requests, "requests of LDGSTS"},
    AccessMetric{"smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
                 &AccessCounters::global_copy_sectors, "sectors that LDGSTS asks for"},
    AccessMetric{"smsp__sass_data_bytes_mem_global_op_ldgsts.sum",
                 &AccessCounters::global_copy_bytes, "bytes that threads ask for by LDGSTS"},
    AccessMetric{"l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
                 &AccessCounters::tma_load_sectors, "sectors that the copy engine reads", true},
};

DynamicLibrary open_cupti() {
  const std::array<std::string, 5> candidates{
      std::string(SWR_CUPTI_LIBRARY_DIR) + "/libcupti.so", "libcupti.so.13", "libcupti.so",
      "/usr/local/cuda/lib64/libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"};
  return DynamicLibrary(candidates, ErrorCode::no_counters, "CUPTI",
                        "install the CUDA toolkit's cuda-cupti package");
}

/// One entry point of CUPTI. All those used here take one parameter block.
template <typename Function>
class CuptiCall;

template <typename Params>
class CuptiCall<CUptiResult(Params*)> {
 public:
  CuptiCall(const DynamicLibrary& library, const char* name)
      : function_(library.function<CUptiResult(Params*)>(name)), name_(name) {}

  CUptiResult result_of(Params& params) const { return function_(&params); }
  const char* name() const { return name_; }

 private:
  CUptiResult (*function_)(Params*);
  const char* name_;
};

/// CUPTI's entry points.
struct Cupti {
  DynamicLibrary library = open_cupti();

  decltype(&cuptiGetResultString) get_result_string =
      library.function<decltype(cuptiGetResultString)>("cuptiGetResultString");
  CuptiCall<decltype(cuptiProfilerInitialize)> initialize{library, "cuptiProfilerInitialize"};
  CuptiCall<decltype(cuptiDeviceGetChipName)> get_chip_name{library, "cuptiDeviceGetChipName"};
  CuptiCall<decltype(cuptiProfilerGetCounterAvailability)> get_availability{
      library, "cuptiProfilerGetCounterAvailability"};

  CuptiCall<decltype(cuptiProfilerHostInitialize)> host_initialize{library,
                                                                   "cuptiProfilerHostInitialize"};
  CuptiCall<decltype(cuptiProfilerHostDeinitialize)> host_deinitialize{
      library, "cuptiProfilerHostDeinitialize"};
  CuptiCall<decltype(cuptiProfilerHostConfigAddMetrics)> add_metrics{
      library, "cuptiProfilerHostConfigAddMetrics"};
  CuptiCall<decltype(cuptiProfilerHostGetConfigImageSize)> get_config_image_size{
      library, "cuptiProfilerHostGetConfigImageSize"};
  CuptiCall<decltype(cuptiProfilerHostGetConfigImage)> get_config_image{
      library, "cuptiProfilerHostGetConfigImage"};
  CuptiCall<decltype(cuptiProfilerHostGetNumOfPasses)> get_passes{
      library, "cuptiProfilerHostGetNumOfPasses"};
  CuptiCall<decltype(cuptiProfilerHostEvaluateToGpuValues)> evaluate{
      library, "cuptiProfilerHostEvaluateToGpuValues"};

  CuptiCall<decltype(cuptiRangeProfilerEnable)> enable{library, "cuptiRangeProfilerEnable"};
  CuptiCall<decltype(cuptiRangeProfilerDisable)> disable{library, "cuptiRangeProfilerDisable"};
  CuptiCall<decltype(cuptiRangeProfilerGetCounterDataSize)> get_counter_data_size{
      library, "cuptiRangeProfilerGetCounterDataSize"};
  CuptiCall<decltype(cuptiRangeProfilerCounterDataImageInitialize)> initialize_counter_data{
      library, "cuptiRangeProfilerCounterDataImageInitialize"};
  CuptiCall<decltype(cuptiRangeProfilerSetConfig)> set_config{library,
                                                              "cuptiRangeProfilerSetConfig"};
  CuptiCall<decltype(cuptiRangeProfilerStart)> start{library, "cuptiRangeProfilerStart"};
  CuptiCall<decltype(cuptiRangeProfilerStop)> stop{library, "cuptiRangeProfilerStop"};
  CuptiCall<decltype(cuptiRangeProfilerPushRange)> push_range{library,
                                                              "cuptiRangeProfilerPushRange"};
  CuptiCall<decltype(cuptiRangeProfilerPopRange)> pop_range{library, "cuptiRangeProfilerPopRange"};
  CuptiCall<decltype(cuptiRangeProfilerDecodeData)> decode{library, "cuptiRangeProfilerDecodeData"};
  CuptiCall<decltype(cuptiRangeProfilerCounterDataGetRangeInfo)> get_range_info{
      library, "cuptiRangeProfilerCounterDataGetRangeInfo"};
};

/// Kept until the process ends, like the driver whose calls CUPTI intercepts.
const Cupti& cupti() {
  static const Cupti* const library = std::make_unique<Cupti>().release();
  return *library;
}

std::string advice(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "; the driver keeps counters for administrators: run as root, or load it with "
             "NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return "; counters are not available on this virtual GPU";
    default:
      return "";
  }
}

template <typename Params>
void call(const CuptiCall<CUptiResult(Params*)>& function, Params& params) {
  const CUptiResult result = function.result_of(params);
  if (result != CUPTI_SUCCESS) {
    const char* text = nullptr;
    cupti().get_result_string(result, &text);
    throw Error(ErrorCode::no_counters, std::string(function.name()) + " failed with " +
                                            (text != nullptr ? text : "an unknown error") +
                                            advice(result));
  }
}

/// What the chip can count, as the host interface wants to know it.
struct ChipInfo {
  const char* name = nullptr;
  /// Empty for everything.
  std::vector<std::uint8_t> availability;
};

std::vector<std::uint8_t> ask_for_availability(CUcontext context) {
  CUpti_Profiler_GetCounterAvailability_Params available{};
  available.structSize = CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE;
  available.ctx = context;
  call(cupti().get_availability, available);
  std::vector<std::uint8_t> image(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = image.data();
  call(cupti().get_availability, available);
  return image;
}

ChipInfo read_chip(CUcontext context, int device_ordinal, Availability availability) {
  CUpti_Profiler_Initialize_Params initialize{};
  initialize.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
  call(cupti().initialize, initialize);

  CUpti_Device_GetChipName_Params chip_name{};
  chip_name.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE;
  chip_name.deviceIndex = static_cast<std::size_t>(device_ordinal);
  call(cupti().get_chip_name, chip_name);

  return {chip_name.pChipName, availability == Availability::asked ? ask_for_availability(context)
                                                                   : std::vector<std::uint8_t>{}};
}

/// A host object: turns metric names into a configuration and raw data into values.
class Host {
 public:
  explicit Host(const ChipInfo& chip) {
    CUpti_Profiler_Host_Initialize_Params params{};
    params.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE;
    params.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    params.pChipName = chip.name;
    params.pCounterAvailabilityImage = chip.availability.data();
    call(cupti().host_initialize, params);
    host_ = params.pHostObject;
  }
  ~Host() {
    CUpti_Profiler_Host_Deinitialize_Params params{};
    params.structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE;
    params.pHostObject = host_;
    cupti().host_deinitialize.result_of(params);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  CUptiResult add(std::vector<const char*>& metrics) {
    CUpti_Profiler_Host_ConfigAddMetrics_Params params{};
    params.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE;
    params.pHostObject = host_;
    params.ppMetricNames = metrics.data();
    params.numMetrics = metrics.size();
    return cupti().add_metrics.result_of(params);
  }

  std::vector<std::uint8_t> config_image() {
    CUpti_Profiler_Host_GetConfigImageSize_Params size{};
    size.structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE;
    size.pHostObject = host_;
    call(cupti().get_config_image_size, size);
    std::vector<std::uint8_t> image(size.configImageSize);
    CUpti_Profiler_Host_GetConfigImage_Params params{};
    params.structSize = CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE;
    params.pHostObject = host_;
    params.configImageSize = image.size();
    params.pConfigImage = image.data();
    call(cupti().get_config_image, params);
    return image;
  }

  std::vector<double> values(std::vector<const char*>& metrics,
                             const std::vector<std::uint8_t>& counter_data, std::size_t range) {
    std::vector<double> result(metrics.size());
    CUpti_Profiler_Host_EvaluateToGpuValues_Params params{};
    params.structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE;
    params.pHostObject = host_;
    params.pCounterDataImage = counter_data.data();
    params.counterDataImageSize = counter_data.size();
    params.ppMetricNames = metrics.data();
    params.numMetrics = metrics.size();
    params.rangeIndex = range;
    params.pMetricValues = result.data();
    call(cupti().evaluate, params);
    return result;
  }

 private:
  CUpti_Profiler_Host_Object* host_ = nullptr;
};

/// True when the chip can count the metric. Each is tried on a host object of its own, because a
/// rejected name may leave the object half configured.
bool is_supported(const ChipInfo& chip, const char* metric) {
  Host host(chip);
  std::vector<const char*> metrics{metric};
  if (host.add(metrics) != CUPTI_SUCCESS) {
    return false;
  }
  try {
    return !host.config_image().empty();
  } catch (const Error&) {
    return false;
  }
}

/// What of an array of metrics this chip counts, configured to be counted together.
template <typename Metric>
struct MetricSet {
  MetricSet(const ChipInfo& chip, std::span<const Metric> wanted) : host(chip) {
    for (const Metric& metric : wanted) {
      if (is_supported(chip, metric.metric)) {
        collected.push_back(metric);
        names.push_back(metric.metric);
      } else if (metric.zero_when_absent) {
        zeros.push_back(metric);
      } else {
        missing += (missing.empty() ? "" : ", ") + std::string(metric.metric);
      }
    }
    if (names.empty() || host.add(names) != CUPTI_SUCCESS) {
      throw Error(ErrorCode::no_counters,
                  std::string("CUPTI knows none of the counters on ") + chip.name);
    }
    config = host.config_image();
  }

  Host host;
  std::vector<Metric> collected;
  std::vector<Metric> zeros;  ///< Of what this chip does not have.
  std::vector<const char*> names;
  std::vector<std::uint8_t> config;
  std::string missing;
};

std::string range_name(std::size_t index) { return "launch" + std::to_string(index); }

/// The range profiler while it is enabled on a context.
class EnabledProfiler {
 public:
  explicit EnabledProfiler(CUcontext context) {
    CUpti_RangeProfiler_Enable_Params params{};
    params.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE;
    params.ctx = context;
    call(cupti().enable, params);
    profiler_ = params.pRangeProfilerObject;
  }
  ~EnabledProfiler() {
    CUpti_RangeProfiler_Disable_Params params{};
    params.structSize = CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE;
    params.pRangeProfilerObject = profiler_;
    cupti().disable.result_of(params);
  }
  EnabledProfiler(const EnabledProfiler&) = delete;
  EnabledProfiler& operator=(const EnabledProfiler&) = delete;

  /// Room for these metrics of every range.
  std::vector<std::uint8_t> counter_data(std::vector<const char*>& metrics, std::size_t ranges) {
    CUpti_RangeProfiler_GetCounterDataSize_Params size{};
    size.structSize = CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE;
    size.pRangeProfilerObject = profiler_;
    size.pMetricNames = metrics.data();
    size.numMetrics = metrics.size();
    size.maxNumOfRanges = ranges;
    size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(ranges);
    call(cupti().get_counter_data_size, size);
    std::vector<std::uint8_t> image(size.counterDataSize);
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params params{};
    params.structSize = CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE;
    params.pRangeProfilerObject = profiler_;
    params.counterDataSize = image.size();
    params.pCounterData = image.data();
    call(cupti().initialize_counter_data, params);
    return image;
  }

  /// One range per launch, and all of them in each pass, because beginning a pass costs most.
  void configure(const std::vector<std::uint8_t>& config, std::vector<std::uint8_t>& data,
                 std::size_t ranges) {
    CUpti_RangeProfiler_SetConfig_Params params{};
    params.structSize = CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE;
    params.pRangeProfilerObject = profiler_;
    params.configSize = config.size();
    params.pConfig = config.data();
    params.counterDataImageSize = data.size();
    params.pCounterDataImage = data.data();
    params.range = CUPTI_UserRange;
    params.replayMode = CUPTI_UserReplay;
    params.maxRangesPerPass = ranges;
    params.numNestingLevels = 1;
    params.minNestingLevel = 1;
    call(cupti().set_config, params);
  }

  /// True when the launches must run again for a further pass.
  bool run_pass(std::span<const CountedLaunch> launches) {
    start();
    for (std::size_t i = 0; i < launches.size(); ++i) {
      launches[i].prepare();
      push_range(range_name(i));
      launches[i].launch();
      pop_range();
    }
    return !stop();
  }

  void decode() {
    CUpti_RangeProfiler_DecodeData_Params params{};
    params.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE;
    params.pRangeProfilerObject = profiler_;
    call(cupti().decode, params);
    if (params.numOfRangeDropped != 0) {
      throw Error(ErrorCode::no_counters, "CUPTI dropped a counted launch");
    }
  }

 private:
  void start() {
    CUpti_RangeProfiler_Start_Params params{};
    params.structSize = CUpti_RangeProfiler_Start_Params_STRUCT_SIZE;
    params.pRangeProfilerObject = profiler_;
    call(cupti().start, params);
  }

  void push_range(const std::string& name) {
    CUpti_RangeProfiler_PushRange_Params params{};
    params.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE;
    params.pRangeProfilerObject = profiler_;
    params.pRangeName = name.c_str();
    call(cupti().push_range, params);
  }

  void pop_range() {
    CUpti_RangeProfiler_PopRange_Params params{};
    params.structSize = CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE;
    params.pRangeProfilerObject = profiler_;
    call(cupti().pop_range, params);
  }

  /// True when every pass has run.
  bool stop() {
    CUpti_RangeProfiler_Stop_Params params{};
    params.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE;
    params.pRangeProfilerObject = profiler_;
    call(cupti().stop, params);
    return params.isAllPassSubmitted != 0;
  }

  CUpti_RangeProfiler_Object* profiler_ = nullptr;
};

}  // namespace

std::span<const CounterMetric> counter_metrics() { return kMetrics; }
std::span<const AccessMetric> access_metrics() { return kAccessMetrics; }

namespace {

template <typename Metric>
ChipMetrics metrics_of_chip(const std::string& chip_name, std::span<const Metric> metrics) {
  const ChipInfo chip{chip_name.c_str(), {}};
  MetricSet<Metric> set(chip, metrics);
  CUpti_Profiler_Host_GetNumOfPasses_Params params{};
  params.structSize = CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE;
  params.pConfigImage = set.config.data();
  params.configImageSize = set.config.size();
  call(cupti().get_passes, params);
  return {set.missing, params.numOfPasses};
}

}  // namespace

ChipMetrics counters_of_chip(const std::string& chip_name) {
  return metrics_of_chip(chip_name, counter_metrics());
}

ChipMetrics accesses_of_chip(const std::string& chip_name) {
  return metrics_of_chip(chip_name, access_metrics());
}

struct RangeProfiler::Impl {
  Impl(CUcontext counted_context, int device_ordinal, Availability availability)
      : context(counted_context), chip(read_chip(counted_context, device_ordinal, availability)) {}

  /// Made when it is first asked for: configuring the host costs time.
  MetricSet<AccessMetric>& accesses() {
    if (!access_set) {
      access_set = std::make_unique<MetricSet<AccessMetric>>(chip, kAccessMetrics);
    }
    return *access_set;
  }

  CUcontext context;
  ChipInfo chip;
  MetricSet<CounterMetric> counters{chip, kMetrics};
  std::unique_ptr<MetricSet<AccessMetric>> access_set;
};

RangeProfiler::RangeProfiler(CUcontext context, int device_ordinal, Availability availability)
    : impl_(std::make_unique<Impl>(context, device_ordinal, availability)) {}

RangeProfiler::~RangeProfiler() = default;

const std::string& RangeProfiler::missing() const { return impl_->counters.missing; }
const std::string& RangeProfiler::missing_accesses() const { return impl_->accesses().missing; }

namespace {

/// That ranges are numbered in the order pushed is CUPTI's habit, not its promise.
void require_name(const std::vector<std::uint8_t>& data, std::size_t range) {
  CUpti_RangeProfiler_CounterData_GetRangeInfo_Params params{};
  params.structSize = CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE;
  params.pCounterDataImage = data.data();
  params.counterDataImageSize = data.size();
  params.rangeIndex = range;
  params.rangeDelimiter = "/";
  call(cupti().get_range_info, params);
  if (params.rangeName != range_name(range)) {
    throw Error(ErrorCode::no_counters, "CUPTI reports " + std::string(params.rangeName) +
                                            " in place of " + range_name(range));
  }
}

/// The values of a set of metrics for each launch.
template <typename Values, typename Metric>
std::vector<Values> counted(EnabledProfiler& enabled, MetricSet<Metric>& set,
                            std::span<const CountedLaunch> launches) {
  auto data = enabled.counter_data(set.names, launches.size());
  enabled.configure(set.config, data, launches.size());
  while (enabled.run_pass(launches)) {
  }
  enabled.decode();
  std::vector<Values> all;
  for (std::size_t range = 0; range < launches.size(); ++range) {
    require_name(data, range);
    const std::vector<double> values = set.host.values(set.names, data, range);
    Values& one = all.emplace_back();
    for (std::size_t i = 0; i < values.size(); ++i) {
      one.*(set.collected[i].counter) = std::llround(values[i]);
    }
    for (const Metric& metric : set.zeros) {
      one.*(metric.counter) = 0;
    }
  }
  return all;
}

/// cp.async past L1 takes wavefronts for its conflicts and reports none (seen on an H200): those
/// that exceed its bytes are taken for them.
void add_unseen_conflicts(AccessCounters& counted) {
  constexpr long long kWavefrontBytes = 128;
  if (counted.smem_copy_wavefronts && counted.smem_copy_conflicts && counted.global_copy_bytes) {
    const long long needed = (*counted.global_copy_bytes + kWavefrontBytes - 1) / kWavefrontBytes;
    counted.smem_copy_conflicts =
        std::max(*counted.smem_copy_conflicts, *counted.smem_copy_wavefronts - needed);
  }
}

void take_out(std::optional<long long>& whole, std::optional<long long> part) {
  whole = whole && part ? std::optional(std::max(0LL, *whole - *part)) : std::nullopt;
}

}  // namespace

struct CountingSession::Impl {
  explicit Impl(RangeProfiler::Impl& counted) : profiler(counted), enabled(profiler.context) {}

  RangeProfiler::Impl& profiler;
  EnabledProfiler enabled;
};

CountingSession::CountingSession(const RangeProfiler& profiler)
    : impl_(std::make_unique<Impl>(*profiler.impl_)) {}

CountingSession::~CountingSession() = default;

std::vector<Counters> CountingSession::count(std::span<const CountedLaunch> launches) {
  auto all = counted<Counters>(impl_->enabled, impl_->profiler.counters, launches);
  for (Counters& one : all) {
    one.l2_hits = std::max(0LL, one.l2_lookups - one.l2_misses);
  }
  return all;
}

std::vector<AccessCounters> CountingSession::count_accesses(
    std::span<const CountedLaunch> launches) {
  auto all = counted<AccessCounters>(impl_->enabled, impl_->profiler.accesses(), launches);
  for (AccessCounters& one : all) {
    // The loads' metrics count cp.async too.
    take_out(one.global_load_requests, one.global_copy_requests);
    take_out(one.global_load_sectors, one.global_copy_sectors);
    add_unseen_conflicts(one);
  }
  return all;
}

}  // namespace swr
