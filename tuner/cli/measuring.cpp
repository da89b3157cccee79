// SPDX-License-Identifier: MIT
#include "tuner/cli/measuring.h"

#include "tuner/cli/options.h"
#include "tuner/measure/measuring_evaluator.h"
#include "tuner/supervise/supervised_compiler.h"
#include "tuner/supervise/supervised_evaluator.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>

namespace swr::cli {
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
  serve_compiler(STDIN_FILENO, nvrtc_compiler(generator_options(session)));
  return kExitSuccess;
}

}  // namespace swr::cli
