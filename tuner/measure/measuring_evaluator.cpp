// SPDX-License-Identifier: MIT
#include "tuner/measure/measuring_evaluator.h"

#include "tuner/driver/cuda_driver.h"
#include "tuner/driver/devices.h"
#include "tuner/driver/range_profiler.h"
#include "tuner/measure/event_timer.h"
#include "tuner/measure/problem_buffers.h"
#include "tuner/measure/reference_kernels.h"
#include "tuner/measure/statistics.h"
#include "tuner/measure/verifier.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

namespace swr {
namespace {

/// Inputs and reference of the problem at hand.
struct ProblemState {
  ProblemState(const AttentionProblem& problem, const ReferenceKernels& kernels,
               const Stream& stream, unsigned long long seed)
      : buffers(problem, kernels, stream, seed), verifier(kernels, buffers, stream) {}

  ProblemBuffers buffers;
  Verifier verifier;
};

/// Everything that lives in one context and is lost with it.
struct Session {
  Session(const Generator& generator, int device_ordinal, int sm_arch)
      : context(device_ordinal), kernels(generator, sm_arch) {}

  PrimaryContext context;
  Stream stream;
  ReferenceKernels kernels;
  std::optional<ProblemState> problem;
  std::unique_ptr<RangeProfiler> profiler;
  std::string no_profiler_because;
};

/// One variant ready to run.
class Launcher {
 public:
  Launcher(const CompiledKernel& compiled, const LaunchGeometry& geometry, const Stream& stream)
      : kernel_(compiled.cubin, compiled.entry), geometry_(geometry), stream_(stream) {
    kernel_.allow_dynamic_smem(geometry.dynamic_smem_bytes);
  }

  void launch(const ProblemBuffers& buffers, bool with_lse) const {
    kernel_.launch({.grid_x = static_cast<unsigned>(geometry_.grid_x),
                    .block_x = static_cast<unsigned>(geometry_.block_x),
                    .dynamic_smem_bytes = static_cast<unsigned>(geometry_.dynamic_smem_bytes)},
                   stream_, buffers.params(with_lse, geometry_.section_heads));
  }

 private:
  Kernel kernel_;
  LaunchGeometry geometry_;
  const Stream& stream_;
};

DeviceInfo find_device(int ordinal) {
  const std::vector<DeviceInfo> devices = list_devices();
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices.size()) {
    throw Error(ErrorCode::invalid_argument,
                "GPU " + std::to_string(ordinal) + " does not exist; this machine has " +
                    std::to_string(devices.size()) + ", counted from 0");
  }
  return devices[static_cast<std::size_t>(ordinal)];
}

void fail(VariantResult& result, ResultState state, std::string detail) {
  result.state = state;
  result.detail = std::move(detail);
}

}  // namespace

struct MeasuringEvaluator::Impl {
  Impl(const Generator& kernel_generator, const MeasureOptions& measure_options)
      : generator(kernel_generator),
        options(measure_options),
        device(find_device(measure_options.device_ordinal)),
        session(std::make_unique<Session>(generator, options.device_ordinal, device.sm_arch)) {}

  void prepare(const AttentionProblem& problem);
  bool verify(const Launcher& launcher, VariantResult& result, bool with_lse);
  void measure(const CompiledKernel& kernel, const LaunchGeometry& geometry, VariantResult& result);
  void time(const Launcher& launcher, Measurement& measurement);
  Launcher launcher(const AttentionProblem& problem, const Contender& contender) const;
  CounterReading count(CountingSession& counting, const Launcher& launcher);
  std::unique_ptr<CountingSession> start_counting();
  void handle(const DriverError& error, VariantResult& result);

  const Generator& generator;
  MeasureOptions options;
  DeviceInfo device;
  std::unique_ptr<Session> session;
  bool context_is_lost = false;
};

void MeasuringEvaluator::Impl::prepare(const AttentionProblem& problem) {
  if (context_is_lost) {
    throw Error(ErrorCode::driver_failed,
                "an earlier variant faulted and took this process's GPU context with it; run the "
                "command again without that variant");
  }
  session->context.make_current();
  if (!session->problem || session->problem->buffers.problem() != problem) {
    session->problem.reset();
    session->problem.emplace(problem, session->kernels, session->stream, options.seed);
  }
}

/// Judges the outputs of the latest launch. True when they are right.
bool MeasuringEvaluator::Impl::verify(const Launcher& launcher, VariantResult& result,
                                      bool with_lse) {
  ProblemState& problem = *session->problem;
  problem.buffers.poison_outputs(session->stream);
  launcher.launch(problem.buffers, with_lse);
  const Verdict verdict = problem.verifier.check(with_lse);
  std::get<Measurement>(result.outcome).relative_error = verdict.relative_error;
  if (!verdict.failure.empty()) {
    fail(result, ResultState::correctness, verdict.failure);
  }
  return verdict.failure.empty();
}

void MeasuringEvaluator::Impl::measure(const CompiledKernel& kernel, const LaunchGeometry& geometry,
                                       VariantResult& result) {
  const Launcher launcher(kernel, geometry, session->stream);
  // With and without lse: the timed launches do not write it.
  if (!verify(launcher, result, true) || !verify(launcher, result, false)) {
    return;
  }
  Measurement& measurement = std::get<Measurement>(result.outcome);
  time(launcher, measurement);
  const Verdict after = session->problem->verifier.check(false);
  if (!after.failure.empty()) {
    fail(result, ResultState::correctness, "after timing: " + after.failure);
    return;
  }
  measurement.counters_missing_because = "not counted";
}

void MeasuringEvaluator::Impl::time(const Launcher& launcher, Measurement& measurement) {
  const EventTimer timer(session->stream);
  const ProblemBuffers& buffers = session->problem->buffers;
  measurement.samples_us = timer.sample([&] { launcher.launch(buffers, false); },
                                        options.warmup_launches, options.samples);
  measurement.median_us = median(measurement.samples_us);
  measurement.p95_us = percentile(measurement.samples_us, 95.0);
}

/// The profiler switched on, or nullptr when counters are refused; asked for once only.
std::unique_ptr<CountingSession> MeasuringEvaluator::Impl::start_counting() {
  if (!session->no_profiler_because.empty()) {
    return nullptr;
  }
  try {
    if (!session->profiler) {
      session->profiler = std::make_unique<RangeProfiler>(session->context.handle(),
                                                          session->context.device_ordinal());
    }
    return std::make_unique<CountingSession>(*session->profiler);
  } catch (const Error& error) {
    session->no_profiler_because = error.what();
    return nullptr;
  }
}

CounterReading MeasuringEvaluator::Impl::count(CountingSession& counting,
                                               const Launcher& launcher) {
  const auto launch = [&] {
    launcher.launch(session->problem->buffers, false);
    session->stream.synchronize();
  };
  const std::string& missing = session->profiler->missing();
  try {
    return {counting.count([] {}, launch),
            missing.empty() ? "" : "this chip does not count " + missing};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_counters) {
      throw;
    }
    return {std::nullopt, error.what()};
  }
}

/// Requires: the contender was evaluated, so that its CTAs fit.
Launcher MeasuringEvaluator::Impl::launcher(const AttentionProblem& problem,
                                            const Contender& contender) const {
  const Occupancy resident =
      occupancy(contender.kernel->resources, problem, contender.variant, device);
  return {*contender.kernel,
          launch_geometry(problem, contender.variant, device.sm_count, resident.ctas_per_sm),
          session->stream};
}

/// A fault costs the context for the rest of the process: the driver (580) returns the sticky error
/// even from a context that is created after a reset.
void MeasuringEvaluator::Impl::handle(const DriverError& error, VariantResult& result) {
  if (error.result() == CUDA_ERROR_OUT_OF_MEMORY) {
    throw error;
  }
  fail(result, error.context_is_lost() ? ResultState::runtime : ResultState::launch, error.what());
  context_is_lost = error.context_is_lost();
}

MeasuringEvaluator::MeasuringEvaluator(const Generator& generator, const MeasureOptions& options)
    : impl_(std::make_unique<Impl>(generator, options)) {}

MeasuringEvaluator::~MeasuringEvaluator() = default;

const DeviceInfo& MeasuringEvaluator::device() const { return impl_->device; }

VariantResult MeasuringEvaluator::evaluate(const AttentionProblem& problem, const Variant& variant,
                                           const CompiledKernel& kernel) {
  validate(problem);
  const Occupancy resident = occupancy(kernel.resources, problem, variant, impl_->device);
  VariantResult result;
  result.variant = variant;
  result.resources = kernel.resources;
  result.smem_bytes = smem_bytes(problem, variant);
  result.ctas_per_sm = resident.ctas_per_sm;
  result.cubin_digest = kernel.cubin_digest;
  result.outcome = Measurement{};
  if (resident.ctas_per_sm < 1) {
    fail(result, ResultState::launch, "no CTA fits an SM, limited by " + resident.limited_by);
    return result;
  }
  impl_->prepare(problem);
  try {
    impl_->measure(kernel,
                   launch_geometry(problem, variant, impl_->device.sm_count, resident.ctas_per_sm),
                   result);
  } catch (const DriverError& error) {
    impl_->handle(error, result);
  }
  return result;
}

std::vector<CounterReading> MeasuringEvaluator::count(const AttentionProblem& problem,
                                                      std::span<const Contender> contenders) {
  if (!impl_->options.counters) {
    return {contenders.size(), CounterReading{std::nullopt, "counters were not asked for"}};
  }
  impl_->prepare(problem);
  const std::unique_ptr<CountingSession> counting = impl_->start_counting();
  if (counting == nullptr) {
    return {contenders.size(), CounterReading{std::nullopt, impl_->session->no_profiler_because}};
  }
  std::vector<CounterReading> readings;
  for (const Contender& contender : contenders) {
    readings.push_back(impl_->count(*counting, impl_->launcher(problem, contender)));
  }
  return readings;
}

RaceResult MeasuringEvaluator::race(const AttentionProblem& problem,
                                    std::span<const Contender> contenders,
                                    const RaceOptions& options) {
  impl_->prepare(problem);
  std::vector<Launcher> launchers;
  for (const Contender& contender : contenders) {
    launchers.push_back(impl_->launcher(problem, contender));
  }
  const EventTimer timer(impl_->session->stream);
  std::mt19937_64 random(options.seed);
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  RaceResult result;
  result.samples_us.resize(contenders.size());
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      const auto launch = [&] { launchers[i].launch(impl_->session->problem->buffers, false); };
      result.samples_us[i].push_back(timer.sample(launch, 1, 1).front());
    }
  }
  return result;
}

}  // namespace swr
