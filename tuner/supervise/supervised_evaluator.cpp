// SPDX-License-Identifier: MIT
#include "tuner/supervise/supervised_evaluator.h"

#include "core/operation.h"
#include "tuner/supervise/protocol.h"

#include <algorithm>
#include <span>
#include <utility>

namespace swr {
namespace {

using std::chrono::milliseconds;

/// The fault takes the context with it, and the process is of no use without one.
bool lost_its_context(const VariantResult& result) { return result.state == ResultState::runtime; }

}  // namespace

milliseconds default_deadline(const Problem& problem) {
  constexpr double kMsPerS = 1e3;
  return milliseconds(
      static_cast<long long>(kMsPerS * problem.operation().longest_trial_s(problem)));
}

SupervisedEvaluator::SupervisedEvaluator(SuperviseOptions options) : options_(std::move(options)) {
  if (options_.device) {
    device_ = *options_.device;
    make_process();
  } else {
    start();
  }
}

void SupervisedEvaluator::prepare(const Problem& problem) {
  if (prepared_ == problem || is_preparing_) {
    return;
  }
  // A process that is not ready yet reads it when it is.
  (worker_ && !is_ready_ ? *worker_ : worker()).post(prepare_request(problem));
  prepared_ = problem;
  is_preparing_ = true;
}

/// A process that does not answer has failed before any variant did.
void SupervisedEvaluator::wait_until_prepared(milliseconds limit) {
  if (is_preparing_ && !is_ready_) {
    start();
  }
  if (std::exchange(is_preparing_, false)) {
    const WorkerProcess::Reply reply = worker_->receive(limit);
    const Json* const document = std::get_if<Json>(&reply);
    if (document == nullptr || find_error(*document)) {
      give_up_in_trial();
    }
  }
}

/// True when a reference trial was going on, which will not run that variant again.
bool SupervisedEvaluator::give_up_in_trial() {
  const Json trial = worker_ ? worker_->note() : Json();
  worker_.reset();
  if (trial.is_null() || std::ranges::find(unfit_, trial) != unfit_.end()) {
    return false;
  }
  unfit_.push_back(trial);
  return true;
}

VariantResult SupervisedEvaluator::evaluate(const Problem& problem, const Variant& variant,
                                            const CompiledKernel& kernel) {
  const Json request = evaluate_request(problem, variant, kernel);
  const auto attempt = [&] {
    return ask<VariantResult>(request, deadline(problem),
                              [&](const Json& answer) { return read_result(answer, variant); });
  };
  Attempt<VariantResult> outcome = attempt();
  const auto* result = std::get_if<VariantResult>(&outcome);
  if (result == nullptr || lost_its_context(*result)) {
    worker_.reset();
    outcome = attempt();
    result = std::get_if<VariantResult>(&outcome);
  }
  if (result == nullptr) {
    return blame(problem, variant, kernel, std::get<Failure>(outcome));
  }
  if (lost_its_context(*result)) {
    worker_.reset();
  }
  return *result;
}

std::vector<CounterReading> SupervisedEvaluator::count(const Problem& problem,
                                                       std::span<const Contender> contenders) {
  const auto limit = deadline(problem) * static_cast<int>(contenders.size());
  auto outcome = ask<std::vector<CounterReading>>(
      count_request(problem, contenders), limit,
      [&](const Json& answer) { return read_readings(answer, contenders.size()); });
  if (auto* const readings = std::get_if<std::vector<CounterReading>>(&outcome)) {
    return std::move(*readings);
  }
  std::vector<CounterReading> readings;
  for (const Contender& contender : contenders) {
    readings.push_back(count_alone(problem, contender));
  }
  return readings;
}

CounterReading SupervisedEvaluator::count_alone(const Problem& problem,
                                                const Contender& contender) {
  const std::span<const Contender> only(&contender, 1);
  const auto outcome =
      ask<CounterReading>(count_request(problem, only), deadline(problem),
                          [](const Json& answer) { return read_readings(answer, 1).front(); });
  if (const auto* const reading = std::get_if<CounterReading>(&outcome)) {
    return *reading;
  }
  return {std::nullopt, "counting failed: " + std::get<Failure>(outcome).silence.detail};
}

std::vector<AccessReading> SupervisedEvaluator::count_accesses(
    const Problem& problem, std::span<const Contender> contenders) {
  const auto limit = deadline(problem) * static_cast<int>(contenders.size());
  auto outcome = ask<std::vector<AccessReading>>(
      count_accesses_request(problem, contenders), limit,
      [&](const Json& answer) { return read_access_readings(answer, contenders.size()); });
  if (auto* const readings = std::get_if<std::vector<AccessReading>>(&outcome)) {
    return std::move(*readings);
  }
  return {
      contenders.size(),
      AccessReading{std::nullopt, "counting failed: " + std::get<Failure>(outcome).silence.detail}};
}

std::vector<PowerReading> SupervisedEvaluator::measure_power(
    const Problem& problem, std::span<const Contender> contenders) {
  const std::size_t readings = std::max<std::size_t>(contenders.size(), 1);
  auto outcome = ask<std::vector<PowerReading>>(
      power_request(problem, contenders), deadline(problem) * static_cast<int>(readings),
      [&](const Json& answer) { return read_power(answer, readings); });
  if (auto* const found = std::get_if<std::vector<PowerReading>>(&outcome)) {
    return std::move(*found);
  }
  return {readings, PowerReading{.missing_because = "measuring energy failed: " +
                                                    std::get<Failure>(outcome).silence.detail}};
}

RaceResult SupervisedEvaluator::race(const Problem& problem, std::span<const Contender> contenders,
                                     const RaceOptions& options) {
  // Evaluating takes more launches than ten rounds of one contender.
  constexpr int kRoundsPerEvaluation = 10;
  const auto limit = deadline(problem) * static_cast<int>(contenders.size()) *
                     (1 + options.rounds / kRoundsPerEvaluation);
  const Json request = race_request(problem, contenders, options);
  const auto attempt = [&] {
    return ask<RaceResult>(
        request, limit, [&](const Json& answer) { return read_race(answer, contenders.size()); });
  };
  Attempt<RaceResult> outcome = attempt();
  if (std::holds_alternative<Failure>(outcome)) {
    outcome = attempt();
  }
  if (auto* const race = std::get_if<RaceResult>(&outcome)) {
    return std::move(*race);
  }
  throw Error(ErrorCode::driver_failed,
              "the race of " + std::to_string(contenders.size()) + " variants of " +
                  to_string(problem) +
                  " failed twice: " + std::get<Failure>(outcome).silence.detail +
                  "; the variants' own results are stored, run the command again");
}

/// What a reference trial did is not blamed on the request: it is asked again without that trial.
template <typename Answer>
SupervisedEvaluator::Attempt<Answer> SupervisedEvaluator::ask(
    const Json& request, milliseconds limit, const std::function<Answer(const Json&)>& read) {
  for (;;) {
    Attempt<Answer> outcome = ask_once(request, limit, read);
    if (std::holds_alternative<Answer>(outcome) || !give_up_in_trial()) {
      return outcome;
    }
  }
}

/// A process that did not answer, or ended after what it answered, is not to be asked again.
template <typename Answer>
SupervisedEvaluator::Attempt<Answer> SupervisedEvaluator::ask_once(
    const Json& request, milliseconds limit, const std::function<Answer(const Json&)>& read) {
  wait_until_prepared(limit);
  WorkerProcess::Reply reply =
      worker().ask(unfit_.empty() ? request : without_trials_of(request, unfit_), limit);
  Failure failure;
  if (const Json* const document = std::get_if<Json>(&reply)) {
    try {
      failure.error = find_error(*document);
      if (!failure.error) {
        return read(*document);
      }
      failure.silence.detail = failure.error->what();
    } catch (const Error& unreadable) {
      failure.silence.detail =
          std::string("the measuring process answered nonsense: ") + unreadable.what();
    }
  } else {
    failure.silence = std::get<Silence>(std::move(reply));
  }
  return failure;
}

/// Throws: what the evaluator threw; that is nothing which a variant did.
VariantResult SupervisedEvaluator::blame(const Problem& problem, const Variant& variant,
                                         const CompiledKernel& kernel,
                                         const Failure& failure) const {
  if (failure.error) {
    throw Error(*failure.error);
  }
  VariantResult result;
  result.variant = variant;
  result.state = failure.silence.state;
  result.detail = failure.silence.detail;
  result.resources = kernel.resources;
  result.smem_bytes = smem_bytes(problem, variant);
  result.ctas_per_sm = occupancy(kernel.resources, problem, variant, device_).ctas_per_sm;
  result.cubin_digest = kernel.cubin_digest;
  result.outcome = Measurement{};
  return result;
}

milliseconds SupervisedEvaluator::deadline(const Problem& problem) const {
  return options_.deadline.value_or(default_deadline(problem));
}

WorkerProcess& SupervisedEvaluator::worker() {
  if (!worker_ || !is_ready_ || !worker_->is_waiting()) {
    start();
  }
  return *worker_;
}

void SupervisedEvaluator::start() {
  constexpr int kAttempts = 3;
  std::string why;
  for (int i = 0; i < kAttempts; ++i) {
    if (!worker_ || is_ready_ || i > 0) {
      make_process();
    }
    const WorkerProcess::Reply reply = worker_->receive(options_.start_deadline);
    if (const Json* const document = std::get_if<Json>(&reply)) {
      if (const auto error = find_error(*document)) {
        throw Error(*error);
      }
      accept(read_greeting(*document));
      is_ready_ = true;
      return;
    }
    why = std::get<Silence>(reply).detail;
  }
  worker_.reset();
  throw Error(ErrorCode::driver_failed, "the measuring process failed to start " +
                                            std::to_string(kAttempts) + " times: " + why +
                                            "; --no-isolation measures without it");
}

void SupervisedEvaluator::make_process() {
  worker_.reset();  // Two contexts at once may be more than the GPU has memory for.
  worker_ = std::make_unique<WorkerProcess>(options_.command);
  is_ready_ = false;
  prepared_.reset();
  is_preparing_ = false;
}

void SupervisedEvaluator::accept(const DeviceInfo& device) {
  if (!device_.name.empty() && !same_device(device_, device)) {
    throw Error(ErrorCode::driver_failed, "the GPU changed from " + device_.name + " to " +
                                              device.name +
                                              " during the run; run the command again");
  }
  device_ = device;
}

}  // namespace swr
