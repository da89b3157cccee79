// SPDX-License-Identifier: MIT
// swr-tune doctor: what this machine can do for swr, what it cannot, and what to do about it.
#include "core/gpu_condition.h"
#include "core/json.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "db/history.h"
#include "driver/cuda_driver.h"
#include "driver/devices.h"
#include "driver/nvml.h"
#include "driver/range_profiler.h"
#include "generator/cubin_cache.h"
#include "model/profile/gpu_profile.h"
#include "report/report.h"
#include "tuner/calibrate/calibration_bench.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/options.h"
#include <swr/error.h>
#include <swr/generator.h>
#include <swr/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ostream>
#include <unistd.h>

namespace swr::cli {
namespace {

namespace fs = std::filesystem;

enum class Health {
  ok,
  note,    ///< Something is left out, and swr works without it.
  broken,  ///< swr cannot do its work.
};

std::string_view to_string(Health health) {
  constexpr std::array<std::string_view, 3> kNames{"ok", "note", "broken"};
  return kNames.at(static_cast<std::size_t>(health));
}

struct Finding {
  std::string what;  ///< driver, NVRTC, counters, clocks, database, cache.
  Health health = Health::ok;
  std::string text;
  std::string advice = {};  ///< What to do; empty where nothing is to be done.
};

// ---- The GPUs

std::vector<Finding> check_gpus(std::vector<DeviceInfo>& devices) {
  try {
    devices = list_devices();
  } catch (const Error& error) {
    return {{"driver", Health::note, std::string("no GPU to measure on: ") + error.what(),
             "predict for a GPU that is not here with --gpu (swr-tune devices lists profiles); to "
             "measure, install NVIDIA's driver (Debian: nvidia-driver) and see that nvidia-smi "
             "lists the GPU"}};
  }
  std::vector<Finding> findings{
      {"driver", Health::ok,
       "supports CUDA " + driver_version() + ", " + std::to_string(devices.size()) + " GPUs"}};
  constexpr int kOldestArch = 80;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const bool is_too_old = devices[i].sm_arch < kOldestArch;
    findings.push_back({"GPU " + std::to_string(i), is_too_old ? Health::broken : Health::ok,
                        describe(devices[i]),
                        is_too_old ? "kernels need sm_80 or newer; choose another GPU" : ""});
  }
  return findings;
}

Finding check_counters(const std::vector<DeviceInfo>& devices) {
  if (devices.empty()) {
    return {"counters", Health::note, "not tried: no GPU"};
  }
  try {
    const PrimaryContext context(0);
    const RangeProfiler profiler(context.handle(), 0);
    const std::string& missing = profiler.missing();
    return {"counters", missing.empty() ? Health::ok : Health::note,
            missing.empty() ? "CUPTI counts L2 misses" : "this chip does not count " + missing};
  } catch (const Error& error) {
    return {"counters", Health::note, error.what(),
            "times are measured all the same, L2 misses are not. Allow counters: options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then load the driver anew; "
            "or run as root; or say --no-counters"};
  }
}

std::string condition_text(const GpuMonitor& monitor, const GpuCondition& condition) {
  const auto part = [](const std::optional<long long>& value, const char* unit) {
    return value ? std::to_string(*value) + unit : std::string("unknown");
  };
  return "SM clock " + part(condition.sm_clock_mhz, " MHz") + " of " +
         part(monitor.highest_sm_clock_mhz(), " MHz") + ", memory clock " +
         part(condition.memory_clock_mhz, " MHz") + ", " + part(condition.temperature_c, " C");
}

std::vector<Finding> check_clocks(const std::vector<DeviceInfo>& devices) {
  if (devices.empty()) {
    return {{"clocks", Health::note, "not read: no GPU"}};
  }
  std::vector<Finding> findings;
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    const std::string what = "clocks of " + std::to_string(i);
    try {
      const GpuMonitor monitor(i);
      if (!monitor.unavailable_because().empty()) {
        findings.push_back({what, Health::note, monitor.unavailable_because(),
                            "measuring goes on without a watch over throttling"});
        continue;
      }
      const GpuCondition condition = monitor.read();
      const std::string degraded = degraded_because(condition, std::nullopt);
      findings.push_back(
          {what, degraded.empty() ? Health::ok : Health::broken,
           condition_text(monitor, condition) + (degraded.empty() ? "" : "; " + degraded),
           degraded.empty() ? ""
                            : "times taken now would be worthless: let the GPU cool "
                              "down, check power and fans (nvidia-smi -q -d "
                              "PERFORMANCE)"});
    } catch (const Error& error) {
      findings.push_back({what, Health::note, error.what()});
    }
  }
  return findings;
}

/// A loop of mma.sync, as the clock of a profile is measured.
Finding check_clock_under_load(const Session& session, const DeviceInfo& device, int ordinal) {
  const std::string what = "load on " + std::to_string(ordinal);
  try {
    const Generator generator(generator_options(session));
    const CalibrationBench bench(generator, device, ordinal);
    const GpuMonitor monitor(ordinal);
    const double clock_mhz = bench.mma_rate().clock_mhz;
    GpuCondition condition = monitor.read();
    condition.sm_clock_mhz = std::llround(clock_mhz);
    const auto expected_mhz = profiled_clock_mhz(device);
    const auto slow = expected_mhz ? slow_clock(condition, *expected_mhz) : std::nullopt;
    if (slow) {
      return {what, Health::note, slow->because, slow->advice};
    }
    return {what, Health::ok,
            "SM clock " + std::to_string(*condition.sm_clock_mhz) + " MHz in a loop of mma.sync" +
                (expected_mhz ? ", as expected" : ", no profile says what to expect")};
  } catch (const Error& error) {
    return {what, Health::note, error.what()};
  }
}

std::vector<Finding> check_load(const Session& session, const std::vector<DeviceInfo>& devices) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    findings.push_back(check_clock_under_load(session, devices[i], static_cast<int>(i)));
  }
  return findings;
}

// ---- The compiler

/// One kernel takes a second or two: what the first operation runs where nothing was tuned, on the
/// oldest chip, which every compiler knows.
Finding check_nvrtc(const Session& session) {
  using Clock = std::chrono::steady_clock;
  try {
    GeneratorOptions options = generator_options(session);
    options.cache_dir.reset();  // What is tried is the compiler.
    const Generator generator(options);
    const DeviceInfo device = load_profile("a100").device;
    const Operation& operation = *operations().front();
    Problem problem = operation.default_problem();
    operation.enlarge(problem);
    const Variant variant = operation.default_variant(problem, device);
    const auto started = Clock::now();
    static_cast<void>(generator.compile(problem, variant, device.sm_arch));
    const std::chrono::duration<double> elapsed = Clock::now() - started;
    return {"NVRTC", Health::ok,
            generator.nvrtc_version() + ", compiles a kernel in " +
                significant_text(elapsed.count(), 2) + " s"};
  } catch (const Error& error) {
    return {"NVRTC", Health::broken, error.what(),
            "install the CUDA toolkit's cuda-nvrtc package, or `pip install nvidia-cuda-nvrtc`, "
            "and name the library in SWR_NVRTC where it is not found"};
  }
}

// ---- Files

/// The directory, or the nearest one above it that exists.
fs::path existing(fs::path directory) {
  std::error_code ignored;
  while (!directory.empty() && !fs::exists(directory, ignored) &&
         directory != directory.parent_path()) {
    directory = directory.parent_path();
  }
  return directory.empty() ? fs::path(".") : directory;
}

/// Why nothing can be written there; empty when it can.
std::string unwritable_because(const fs::path& directory) {
  const fs::path nearest = existing(directory);
  std::error_code failure;
  if (!fs::is_directory(nearest, failure)) {
    return nearest.string() + " is no directory";
  }
  return access(nearest.c_str(), W_OK | X_OK) == 0 ? "" : nearest.string() + " is not writable";
}

Finding check_database(const Session& session) {
  constexpr const char* kAdvice = "name another with --db or SWR_DB";
  try {
    const fs::path path = database_path(session);
    const std::string unwritable = unwritable_because(fs::absolute(path).parent_path());
    if (!unwritable.empty()) {
      return {"database", Health::broken, unwritable, kAdvice};
    }
    if (!fs::exists(path)) {
      return {"database", Health::ok, path.string() + ", which the first tuning creates"};
    }
    const History history = read_history(path);
    std::size_t rows = 0;
    for (const RecordedPlace& place : history.places) {
      rows += place.results.size();
    }
    return {"database", Health::ok,
            path.string() + ", " + bytes_text(static_cast<long long>(fs::file_size(path))) + ": " +
                grouped_text(static_cast<long long>(rows)) + " results of " +
                std::to_string(history.places.size()) +
                (history.places.size() == 1 ? " problem" : " problems")};
  } catch (const std::exception& error) {
    return {"database", Health::broken, error.what(), kAdvice};
  }
}

Finding check_cache(const Session& session) {
  constexpr const char* kAdvice = "name another with --cache-dir or SWR_CACHE_DIR";
  constexpr std::uintmax_t kLeastFree = 1ULL << 30;
  try {
    const GeneratorOptions options = generator_options(session);
    const fs::path& directory = *options.cache_dir;
    const std::string unwritable = unwritable_because(directory);
    if (!unwritable.empty()) {
      return {"cache", Health::broken, unwritable, kAdvice};
    }
    require_trusted_cache(directory, sharing(options.shared_cache));
    std::uintmax_t bytes = 0;
    std::size_t files = 0;
    if (fs::exists(directory)) {
      for (const auto& entry : fs::recursive_directory_iterator(directory)) {
        bytes += entry.is_regular_file() ? entry.file_size() : 0;
        files += entry.is_regular_file() ? 1 : 0;
      }
    }
    const std::uintmax_t free = fs::space(existing(directory)).available;
    const bool is_full = free < kLeastFree;
    return {
        "cache", is_full ? Health::note : Health::ok,
        directory.string() + ": " +
            (files > 0
                 ? std::to_string(files) + " files, " + bytes_text(static_cast<long long>(bytes))
                 : std::string("empty")) +
            "; " + bytes_text(static_cast<long long>(free)) + " free",
        is_full ? std::string("little room is left: its files can be deleted at any time, or ") +
                      kAdvice
                : ""};
  } catch (const std::exception& error) {
    return {"cache", Health::broken, error.what(), kAdvice};
  }
}

std::vector<Finding> findings_of(const Session& session) {
  std::vector<DeviceInfo> devices;
  std::vector<Finding> findings = check_gpus(devices);
  findings.push_back(check_nvrtc(session));
  findings.push_back(check_counters(devices));
  std::ranges::move(check_clocks(devices), std::back_inserter(findings));
  std::ranges::move(check_load(session, devices), std::back_inserter(findings));
  findings.push_back(check_database(session));
  findings.push_back(check_cache(session));
  return findings;
}

void print_findings(std::ostream& out, const std::vector<Finding>& findings) {
  constexpr std::size_t kWhatWidth = 12;
  constexpr std::size_t kHealthWidth = 8;
  out << "swr " << SWR_VERSION << "\n";
  for (const Finding& finding : findings) {
    std::string what = finding.what;
    std::string health(to_string(finding.health));
    what.resize(std::max(kWhatWidth, what.size() + 2), ' ');
    health.resize(kHealthWidth, ' ');
    out << what << health << finding.text << "\n";
    if (!finding.advice.empty()) {
      out << "  to do: " << finding.advice << "\n";
    }
  }
}

Json findings_json(const std::vector<Finding>& findings) {
  Json json = {{"swr_version", SWR_VERSION}, {"findings", Json::array()}};
  for (const Finding& finding : findings) {
    json["findings"].push_back({{"what", finding.what},
                                {"health", std::string(to_string(finding.health))},
                                {"text", finding.text},
                                {"advice", finding.advice}});
  }
  return json;
}

struct DoctorArguments {};

int run_doctor(const Session& session, const DoctorArguments& /*asked*/) {
  const std::vector<Finding> findings = findings_of(session);
  if (session.common.json) {
    session.out << json_document(findings_json(findings));
  } else {
    print_findings(session.out, findings);
  }
  const bool is_broken = std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.health == Health::broken; });
  return is_broken ? kExitFailure : kExitSuccess;
}

}  // namespace

void add_doctor(CommandLine& line) {
  OptionList options =
      line.add<DoctorArguments>(
              {.name = "doctor",
               .meaning = "Check driver, NVRTC, counters, clocks, database and cache, and say what "
                          "to do",
               .footer = "Exit code 1 when something is broken. A machine without a GPU is not: it "
                         "predicts.\n\n"
                         "Example: swr-tune doctor --db tuned.db",
               .group = "GPUs and this machine",
               .is_prose = true},
              run_doctor)
          .first;
  add_database_option(options);
  add_generator_options(options);
  add_json_option(options);
}

}  // namespace swr::cli
