// SPDX-License-Identifier: MIT
#include "tuner/cli/gpu_choice.h"

#include "core/reject.h"
#include "tuner/cli/options.h"
#include "tuner/distribute/gpu_team.h"
#include "tuner/measure/measuring_evaluator.h"
#include "tuner/supervise/supervised_compiler.h"
#include "tuner/supervise/supervised_evaluator.h"
#include <swr/error.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace swr::cli {
namespace {

GpuChoice first_device() {
  GpuChoice choice;
  choice.device = list_devices().at(0);
  return choice;
}

/// Without a driver nothing is present, which is no failure for a GPU that was named.
std::vector<DeviceInfo> devices_present() {
  try {
    return list_devices();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_driver) {
      throw;
    }
    return {};
  }
}

GpuProfile profile_named(const std::string& gpu) {
  try {
    return load_profile(gpu);
  } catch (const Error& error) {
    // A wrong name is a wrong value of --gpu.
    throw Error(error.code() == ErrorCode::not_found ? ErrorCode::invalid_argument : error.code(),
                error.what());
  }
}

std::string difference_of(const PresentGpu& a, const PresentGpu& b) {
  const auto in_value = [](const char* name, auto left, auto right) {
    return left == right ? ""
                         : std::string(name) + " is " + std::to_string(left) + " and " +
                               std::to_string(right);
  };
  for (const std::string& what :
       {difference(a.device, b.device),
        in_value("sm_clock_khz", a.details.sm_clock_khz, b.details.sm_clock_khz),
        in_value("memory_clock_khz", a.details.memory_clock_khz, b.details.memory_clock_khz),
        in_value("ecc", a.details.ecc, b.details.ecc)}) {
    if (!what.empty()) {
      return what;
    }
  }
  return "";
}

}  // namespace

std::vector<int> parse_gpus(const std::string& gpus, int present) {
  if (gpus == "all") {
    std::vector<int> all(static_cast<std::size_t>(present));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int> numbers;
  for (const std::string& part : split(gpus, ',')) {
    const int number = whole_number(part, "--gpus");
    if (number < 0 || number >= present) {
      reject("--gpus: there is no GPU " + part + "; this machine has " + std::to_string(present) +
             ", counted from 0 (see swr-tune devices)");
    }
    if (std::ranges::find(numbers, number) != numbers.end()) {
      reject("--gpus names GPU " + part + " twice; a GPU measures one variant at a time");
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::string visible_alone(const std::optional<std::string>& visible, int number) {
  return visible ? split(*visible, ',').at(static_cast<std::size_t>(number))
                 : std::to_string(number);
}

void require_equal(std::span<const PresentGpu> gpus) {
  for (const PresentGpu& gpu : gpus) {
    const std::string what = difference_of(gpus.front(), gpu);
    if (!what.empty()) {
      throw unequal_gpus(gpus.front().number, gpu.number, what);
    }
  }
}

std::vector<GpuChoice> choose_gpus(const std::string& gpus) {
  const std::vector<DeviceInfo> devices = list_devices();
  std::vector<PresentGpu> present;
  std::vector<GpuChoice> chosen;
  for (const int number : parse_gpus(gpus, static_cast<int>(devices.size()))) {
    const DeviceInfo& device = devices[static_cast<std::size_t>(number)];
    present.push_back({number, device, device_details(number)});
    chosen.push_back({.device = device,
                      .profile = std::nullopt,
                      .ordinal = number,
                      .card = present.back().details.pci_bus_id});
  }
  require_equal(present);
  return chosen;
}

GpuChoice choose_gpu(const std::string& gpu) {
  if (gpu == "auto") {
    return first_device();
  }
  GpuProfile profile = profile_named(gpu);
  const std::vector<DeviceInfo> present = devices_present();
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (same_device(present[i], profile.device)) {
      return {.device = present[i], .profile = std::nullopt, .ordinal = static_cast<int>(i)};
    }
  }
  GpuChoice choice;
  choice.device = profile.device;
  choice.profile = std::move(profile);
  return choice;
}

namespace {

/// Many times what NVRTC takes for the largest kernel.
constexpr long long kMostCompilerBytes = 8LL << 30;

std::unique_ptr<Evaluator> measure_in_this_process(const GpuChoice& gpu, const Generator& generator,
                                                   const TuneSession& session) {
  const TuneArguments& options = session.options;
  return std::make_unique<MeasuringEvaluator>(generator,
                                              MeasureOptions{.device_ordinal = gpu.ordinal,
                                                             .stopping = {.most = options.samples},
                                                             .l2_state = session.common.l2_state,
                                                             .counters = !options.no_counters,
                                                             .seed = options.seed});
}

/// This program, also when the file it came from was replaced meanwhile, with the options of this
/// run: whatever shapes a measurement reaches the measuring process without being listed again.
WorkerCommand measuring_process(const TuneSession& session, const GpuChoice& gpu) {
  WorkerCommand command{"/proc/self/exe", session.arguments};
  command.arguments.insert(command.arguments.begin(), kMeasureWorkerCommand);
  if (!session.options.gpus.empty()) {
    // The last of a repeated option counts.
    command.arguments.insert(command.arguments.end(), {"--gpus", std::to_string(gpu.ordinal)});
  }
  return command;
}

/// The GPU of a measuring process. Where --gpus names it the others are hidden first: the driver
/// sets up every GPU that it shows, in each process.
GpuChoice own_gpu(const TuneSession& session) {
  const TuneArguments& options = session.options;
  if (options.gpus.empty()) {
    return choose_gpu(options.gpu);
  }
  const int number = whole_number(options.gpus, "--gpus");
  const std::string alone = visible_alone(session.environment.visible_gpus, number);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else runs yet.
  setenv("CUDA_VISIBLE_DEVICES", alone.c_str(), 1);
  return choose_gpus("0").front();
}

}  // namespace

std::unique_ptr<Evaluator> make_measuring_evaluator(const TuneSession& session,
                                                    const GpuChoice& gpu,
                                                    const Generator& generator) {
  if (session.options.no_isolation) {
    return measure_in_this_process(gpu, generator, session);
  }
  SuperviseOptions options{.command = measuring_process(session, gpu), .device = gpu.device};
  if (session.options.deadline_s > 0) {
    options.deadline = std::chrono::seconds(session.options.deadline_s);
  }
  return std::make_unique<SupervisedEvaluator>(options);
}

int run_measure_worker(const TuneSession& session) {
  std::unique_ptr<Generator> generator;
  serve_evaluator(STDIN_FILENO, [&] {
    const GpuChoice gpu = own_gpu(session);
    generator = std::make_unique<Generator>(generator_options(session));
    return measure_in_this_process(gpu, *generator, session);
  });
  return kExitSuccess;
}

GeneratorOptions supervised_generator_options(const Session& session, bool is_isolated) {
  GeneratorOptions options = generator_options(session);
  if (is_isolated) {
    WorkerCommand command{.program = "/proc/self/exe",
                          .arguments = session.arguments,
                          .role = "compiling process",
                          .memory_bytes = kMostCompilerBytes};
    command.arguments.insert(command.arguments.begin(), kCompileWorkerCommand);
    options.compiler = supervised_compiler({.command = std::move(command)});
  }
  return options;
}

int run_compile_worker(const Session& session) {
  // Where memory runs out before the tuner's limit, the system ends this process first.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  // Who launches kernels and waits for them goes first.
  constexpr int kLessUrgent = 5;
  setpriority(PRIO_PROCESS, 0, kLessUrgent);
  serve_compiler(STDIN_FILENO, nvrtc_compiler(generator_options(session)));
  return kExitSuccess;
}

}  // namespace swr::cli
