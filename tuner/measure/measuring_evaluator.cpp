// SPDX-License-Identifier: MIT
#include "tuner/measure/measuring_evaluator.h"

#include "core/operation.h"
#include "driver/devices.h"
#include "driver/nvml.h"
#include "driver/range_profiler.h"
#include "tuner/measure/kernel_timer.h"
#include "tuner/measure/power_meter.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

namespace swr {
namespace {

/// Everything that lives in one context and is lost with it.
struct Session {
  Session(const Generator& generator, int device_ordinal, const DeviceInfo& device)
      : context(device_ordinal),
        monitor(device_ordinal),
        tools{generator, stream, device.sm_arch, device.sm_count} {}

  PrimaryContext context;
  GpuMonitor monitor;
  Stream stream;
  WorkloadTools tools;
  std::unique_ptr<Workload> workload;  ///< Of the problem at hand.
  SharedKernels variants_kernels;
  /// Twice the size of the L2; only there when kernels are timed on a cold one.
  DeviceBuffer l2_scratch;
  std::unique_ptr<RangeProfiler> profiler;
  Availability availability = Availability::assumed;  ///< For the profiler.
  std::string no_profiler_because;
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

/// Samples in batches until the rule is content.
std::vector<double> sample(KernelTimer& timer, const StoppingOptions& options) {
  StoppingRule rule(options);
  while (!rule.is_finished()) {
    const int left = options.most - static_cast<int>(rule.samples_us().size());
    for (const double sample_us : timer.sample(std::min(left, KernelTimer::kBatch))) {
      rule.add(sample_us, timer.cost_us(sample_us));
    }
  }
  return rule.samples_us();
}

/// One of each in this order. Long ones keep the GPU busy for those behind them.
void sample_each(const std::vector<std::unique_ptr<KernelTimer>>& timers,
                 const std::vector<std::size_t>& order,
                 std::vector<std::vector<double>>& samples_us) {
  const bool are_long =
      std::ranges::all_of(timers, [](const auto& timer) { return timer->is_long(); });
  if (!are_long) {
    for (const std::size_t i : order) {
      samples_us[i].push_back(timers[i]->sample(1).front());
    }
    return;
  }
  for (const std::size_t i : order) {
    timers[i]->enqueue_timed(0);
  }
  for (const std::size_t i : order) {
    samples_us[i].push_back(timers[i]->timed_us(0));
  }
}

/// [timer][round]; each round in an order of its own.
std::vector<std::vector<double>> sample_in_rounds(
    const std::vector<std::unique_ptr<KernelTimer>>& timers, const RaceOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<std::size_t> order(timers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::vector<double>> samples_us(timers.size());
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    sample_each(timers, order, samples_us);
  }
  return samples_us;
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
        session(std::make_unique<Session>(generator, options.device_ordinal, device)) {
    if (device.mig) {  // Its part of the chip counts for a part of it.
      session->availability = Availability::asked;
    }
    if (options.l2_state == L2State::cold) {
      session->l2_scratch = DeviceBuffer(2 * static_cast<std::size_t>(device.l2_bytes));
    }
  }

  void prepare(const Problem& problem);
  void measure(const Contender& contender, VariantResult& result);
  void time(Trial& trial, VariantResult& result);
  std::function<void()> flush_l2() const;
  std::unique_ptr<KernelTimer> timer(Trial& trial);
  Watch watch() const;
  std::unique_ptr<Trial> load(const Contender& contender);
  std::unique_ptr<Trial> bind(Workload& workload, const Contender& contender,
                              std::shared_ptr<const Kernel> kernel) const;
  std::vector<std::unique_ptr<Trial>> load_somewhere(Workload& workload,
                                                     std::span<const Contender> contenders,
                                                     std::mt19937_64& random) const;
  template <typename Reading, typename Count>
  std::vector<Reading> readings(std::span<const Contender> contenders, Count count,
                                const std::string& (RangeProfiler::*missing)() const);
  template <typename Reading, typename Count>
  std::vector<Reading> try_readings(const Problem& problem, std::span<const Contender> contenders,
                                    Count count,
                                    const std::string& (RangeProfiler::*missing)() const);
  PowerReading power_of(const Contender& contender);
  CountedLaunch counted(Trial& trial) const;
  bool open_profiler();
  std::unique_ptr<CountingSession> start_counting();
  void handle(const DriverError& error, VariantResult& result);

  const Generator& generator;
  MeasureOptions options;
  DeviceInfo device;
  std::unique_ptr<Session> session;
  PlacementShaker shaker{session->tools, options.seed};
  bool context_is_lost = false;
  /// Who is slower does not come into the finals of the problem at hand.
  double reach_us = std::numeric_limits<double>::infinity();
};

void MeasuringEvaluator::Impl::prepare(const Problem& problem) {
  if (context_is_lost) {
    throw Error(ErrorCode::driver_failed,
                "an earlier variant faulted and took this process's GPU context with it; run the "
                "command again without that variant");
  }
  session->context.make_current();
  if (!session->workload || session->workload->problem() != problem) {
    session->workload.reset();
    session->workload = problem.operation().make_workload(problem, session->tools, options.seed);
    reach_us = std::numeric_limits<double>::infinity();
  }
}

void MeasuringEvaluator::Impl::measure(const Contender& contender, VariantResult& result) {
  const auto trial = load(contender);
  const Verdict verdict = trial->verify();
  std::get<Measurement>(result.outcome).relative_error = verdict.relative_error;
  if (!verdict.failure.empty()) {
    fail(result, ResultState::correctness, verdict.failure);
    return;
  }
  time(*trial, result);
  const Verdict after = trial->check_after_timing();
  if (!after.failure.empty()) {
    fail(result, ResultState::correctness, "after timing: " + after.failure);
  } else if (result.state == ResultState::ok) {
    const double high_us = screening_interval(result.measurement()->samples_us).high;
    reach_us = std::min(reach_us, high_us * (1.0 + kScreeningDrift));
  }
}

void MeasuringEvaluator::Impl::time(Trial& trial, VariantResult& result) {
  const auto timer = this->timer(trial);
  StoppingOptions stopping = options.stopping;
  stopping.slow_us = reach_us;
  auto watched = sample_watched(watch(), [&] { return sample(*timer, stopping); });
  Measurement& measurement = std::get<Measurement>(result.outcome);
  measurement.samples_us = std::move(watched.samples);
  measurement.median_us = median(measurement.samples_us);
  measurement.p95_us = percentile(measurement.samples_us, 95.0);
  measurement.l2_state = options.l2_state;
  measurement.before = watched.before;
  measurement.after = watched.after;
  measurement.condition_missing_because = session->monitor.unavailable_because();
  measurement.counters_missing_because = "not counted";
  if (!watched.degraded_because.empty()) {
    fail(result, ResultState::throttled, watched.degraded_because);
  }
}

/// What empties the L2 before each sample; empty when it is to stay warm.
std::function<void()> MeasuringEvaluator::Impl::flush_l2() const {
  if (options.l2_state == L2State::warm) {
    return {};
  }
  return [this] { session->l2_scratch.fill(0, session->stream); };
}

/// The trial must outlive the timer.
std::unique_ptr<KernelTimer> MeasuringEvaluator::Impl::timer(Trial& trial) {
  return std::make_unique<KernelTimer>(
      session->stream, [&trial] { trial.launch(); },
      KernelTimer::Before{.flush_l2 = flush_l2(),
                          .shake_placement = [this] { shaker.shake(session->stream); }},
      options.warmup_launches);
}

Watch MeasuringEvaluator::Impl::watch() const {
  return {.read = [this] { return session->monitor.read(); },
          .highest_sm_clock_mhz = session->monitor.highest_sm_clock_mhz(),
          .wait =
              [](int attempt) {
                std::this_thread::sleep_for(std::chrono::milliseconds(250) * attempt);
              }};
}

/// False when counters are refused or unwanted; asked for once only.
bool MeasuringEvaluator::Impl::open_profiler() {
  if (session->profiler || !session->no_profiler_because.empty() || !options.counters) {
    return session->profiler != nullptr;
  }
  try {
    session->profiler = std::make_unique<RangeProfiler>(
        session->context.handle(), session->context.device_ordinal(), session->availability);
  } catch (const Error& error) {
    session->no_profiler_because = error.what();
  }
  return session->profiler != nullptr;
}

/// The profiler switched on, or nullptr when counters are refused.
std::unique_ptr<CountingSession> MeasuringEvaluator::Impl::start_counting() {
  if (!open_profiler()) {
    return nullptr;
  }
  try {
    return std::make_unique<CountingSession>(*session->profiler);
  } catch (const Error& error) {
    session->profiler.reset();
    session->no_profiler_because = error.what();
    return nullptr;
  }
}

CountedLaunch MeasuringEvaluator::Impl::counted(Trial& trial) const {
  return {.prepare =
              [this, flush = flush_l2()] {
                if (flush) {
                  flush();
                  session->stream.synchronize();
                }
              },
          .launch =
              [this, &trial] {
                trial.launch();
                session->stream.synchronize();
              }};
}

/// What `count` makes of the contenders' launches, or why there is nothing. `missing` names the
/// counters that the chip lacks.
template <typename Reading, typename Count>
std::vector<Reading> MeasuringEvaluator::Impl::readings(
    std::span<const Contender> contenders, Count count,
    const std::string& (RangeProfiler::*missing)() const) {
  std::vector<std::unique_ptr<Trial>> trials;
  std::vector<CountedLaunch> launches;
  for (const Contender& contender : contenders) {
    launches.push_back(counted(*trials.emplace_back(load(contender))));
  }
  const auto counting = start_counting();
  if (counting == nullptr) {
    return {contenders.size(), Reading{std::nullopt, session->no_profiler_because}};
  }
  std::vector<Reading> readings;
  for (const auto& counters : ((*counting).*count)(launches)) {
    const std::string& lacks = ((*session->profiler).*missing)();
    readings.push_back({counters, lacks.empty() ? "" : "this chip does not count " + lacks});
  }
  return readings;
}

/// The same where the problem has yet to be prepared and counters may be refused or unwanted.
template <typename Reading, typename Count>
std::vector<Reading> MeasuringEvaluator::Impl::try_readings(
    const Problem& problem, std::span<const Contender> contenders, Count count,
    const std::string& (RangeProfiler::*missing)() const) {
  if (!options.counters) {
    return {contenders.size(), Reading{std::nullopt, "counters were not asked for"}};
  }
  prepare(problem);
  try {
    return readings<Reading>(contenders, count, missing);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_counters) {
      throw;
    }
    if (session->availability == Availability::asked) {
      return {contenders.size(), Reading{std::nullopt, error.what()}};
    }
  }
  // This GPU may not count all that its chip does.
  session->profiler.reset();
  session->availability = Availability::asked;
  return try_readings<Reading>(problem, contenders, count, missing);
}

/// Under thermal throttling power says nothing of the kernel.
PowerReading MeasuringEvaluator::Impl::power_of(const Contender& contender) {
  const auto trial = load(contender);
  const double about_us = timer(*trial)->sample(1).front();
  auto watched = sample_watched(watch(), [&] {
    return power_of_launches(
        session->monitor, session->stream, [&trial] { trial->launch(); }, about_us);
  });
  return watched.degraded_because.empty()
             ? watched.samples
             : PowerReading{.missing_because = watched.degraded_because};
}

/// For the problem at hand. Requires: its CTAs fit.
std::unique_ptr<Trial> MeasuringEvaluator::Impl::load(const Contender& contender) {
  return bind(*session->workload, contender, session->variants_kernels.get(*contender.kernel));
}

/// Requires: its CTAs fit.
std::unique_ptr<Trial> MeasuringEvaluator::Impl::bind(Workload& workload,
                                                      const Contender& contender,
                                                      std::shared_ptr<const Kernel> kernel) const {
  const Occupancy resident =
      occupancy(contender.kernel->resources, workload.problem(), contender.variant, device);
  return workload.bind(contender.variant, std::move(kernel), resident.ctas_per_sm);
}

/// Loads a kernel of its own for each contender, in a drawn order, with copies in between, so that
/// their code lies elsewhere than in other races: those of the contenders come first, in their
/// order.
std::vector<std::unique_ptr<Trial>> MeasuringEvaluator::Impl::load_somewhere(
    Workload& workload, std::span<const Contender> contenders, std::mt19937_64& random) const {
  constexpr std::size_t kMostCopies = 4;
  const std::size_t copies = random() % (kMostCopies + 1);
  std::vector<std::size_t> order(contenders.size() + copies);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::unique_ptr<Trial>> trials(order.size());
  for (const std::size_t place : order) {
    const Contender& contender =
        contenders[place < contenders.size() ? place : random() % contenders.size()];
    trials[place] = bind(workload, contender, load_kernel(*contender.kernel));
  }
  return trials;
}

/// A fault costs the context for the rest of the process: the driver (580) returns the sticky error
/// even from a context that is created after a reset. Memory that runs out here, after the
/// problem's own was there, is what the variant's launch lacks.
void MeasuringEvaluator::Impl::handle(const DriverError& error, VariantResult& result) {
  fail(result, error.context_is_lost() ? ResultState::runtime : ResultState::launch, error.what());
  context_is_lost = error.context_is_lost();
}

MeasuringEvaluator::MeasuringEvaluator(const Generator& generator, const MeasureOptions& options)
    : impl_(std::make_unique<Impl>(generator, options)) {}

MeasuringEvaluator::~MeasuringEvaluator() = default;

const DeviceInfo& MeasuringEvaluator::device() const { return impl_->device; }

void MeasuringEvaluator::prepare(const Problem& problem) {
  try {
    impl_->prepare(problem);
    impl_->open_profiler();  // The GPU waits for the first kernel anyway.
  } catch (const DriverError& error) {
    if (error.context_is_lost()) {
      throw;
    }
  } catch (const Error&) {  // evaluate() meets it again.
  }
}

ReferenceTrials* MeasuringEvaluator::reference_trials() {
  return &impl_->session->tools.reference_trials;
}

VariantResult MeasuringEvaluator::evaluate(const Problem& problem, const Variant& variant,
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
    impl_->measure({variant, &kernel}, result);
  } catch (const DriverError& error) {
    impl_->handle(error, result);
  } catch (const Error& error) {  // Such as vectors that this variant has no room for.
    fail(result, ResultState::launch, error.what());
  }
  return result;
}

std::vector<CounterReading> MeasuringEvaluator::count(const Problem& problem,
                                                      std::span<const Contender> contenders) {
  return impl_->try_readings<CounterReading>(problem, contenders, &CountingSession::count,
                                             &RangeProfiler::missing);
}

std::vector<AccessReading> MeasuringEvaluator::count_accesses(
    const Problem& problem, std::span<const Contender> contenders) {
  return impl_->try_readings<AccessReading>(problem, contenders, &CountingSession::count_accesses,
                                            &RangeProfiler::missing_accesses);
}

std::vector<PowerReading> MeasuringEvaluator::measure_power(const Problem& problem,
                                                            std::span<const Contender> contenders) {
  const std::string missing_because =
      impl_->options.l2_state == L2State::cold
          ? "launches one after the other find a warm L2; leave out --l2 cold"
          : impl_->session->monitor.energy_missing_because();
  const std::size_t readings = std::max<std::size_t>(contenders.size(), 1);
  if (!missing_because.empty()) {
    return {readings, PowerReading{.missing_because = missing_because}};
  }
  if (contenders.empty()) {
    return {idle_power(impl_->session->monitor)};
  }
  impl_->prepare(problem);
  std::vector<PowerReading> all;
  for (const Contender& contender : contenders) {
    all.push_back(impl_->power_of(contender));
  }
  return all;
}

RaceResult MeasuringEvaluator::race(const Problem& problem, std::span<const Contender> contenders,
                                    const RaceOptions& options) {
  impl_->prepare(problem);
  std::mt19937_64 random(~options.seed);
  Workload& original = *impl_->session->workload;
  const auto memory = copy_elsewhere(original, random);
  const auto trials =
      impl_->load_somewhere(memory ? *memory->workload : original, contenders, random);
  std::vector<std::unique_ptr<KernelTimer>> timers;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    timers.push_back(impl_->timer(*trials[i]));
  }
  auto watched = sample_watched(impl_->watch(), [&] { return sample_in_rounds(timers, options); });
  return {std::move(watched.samples), std::move(watched.degraded_because), watched.before,
          watched.after};
}

}  // namespace swr
