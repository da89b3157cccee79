// SPDX-License-Identifier: MIT
// Evaluates in a measuring process, so that a variant that faults, hangs or crashes costs a row and
// not the run.
#pragma once

#include "tuner/evaluator.h"
#include "tuner/supervise/worker_process.h"
#include <swr/error.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace swr {

struct SuperviseOptions {
  WorkerCommand command;
  /// Longest time of one variant; no value takes default_deadline() of the problem.
  std::optional<std::chrono::milliseconds> deadline;
  /// The GPU, where it is known already: then nobody waits for the first process to be ready.
  std::optional<DeviceInfo> device;
  /// Longest time until a new process is ready: contexts on a machine of many GPUs are slow.
  std::chrono::milliseconds start_deadline{120'000};
};

/// What its operation says: Operation::longest_trial_s().
std::chrono::milliseconds default_deadline(const Problem& problem);

/// Keeps one measuring process. A variant during which the process dies, falls silent or loses its
/// context is tried again, alone in a new process, because a variant before it may have damaged the
/// old one; the second outcome counts. One that does so in a reference trial is left out of these
/// from then on. Used by one thread, which must outlive it.
class SupervisedEvaluator final : public Evaluator {
 public:
  /// Starts the process. Throws: what its evaluator's construction throws; Error{driver_failed}
  /// when it cannot be started. Where the device is known the first question throws it.
  explicit SupervisedEvaluator(SuperviseOptions options);

  const DeviceInfo& device() const override { return device_; }
  /// Does not wait for it; the next question does, within its own limit.
  void prepare(const Problem& problem) override;
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override;
  /// When the process dies, each contender is tried alone: only the one at fault lacks counters.
  std::vector<CounterReading> count(const Problem& problem,
                                    std::span<const Contender> contenders) override;
  /// When the process dies, none has any: winners know all that decides by then.
  std::vector<AccessReading> count_accesses(const Problem& problem,
                                            std::span<const Contender> contenders) override;
  /// When the process dies, none has any: what was found before stays.
  std::vector<PowerReading> measure_power(const Problem& problem,
                                          std::span<const Contender> contenders) override;
  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override;

 private:
  /// Why there is nothing to show for a request; the process is gone.
  struct Failure {
    Silence silence;
    /// What the evaluator threw, when it was that.
    std::optional<Error> error;
  };
  template <typename Answer>
  using Attempt = std::variant<Answer, Failure>;

  template <typename Answer>
  Attempt<Answer> ask(const Json& request, std::chrono::milliseconds limit,
                      const std::function<Answer(const Json&)>& read);
  template <typename Answer>
  Attempt<Answer> ask_once(const Json& request, std::chrono::milliseconds limit,
                           const std::function<Answer(const Json&)>& read);
  bool give_up_in_trial();
  CounterReading count_alone(const Problem& problem, const Contender& contender);
  VariantResult blame(const Problem& problem, const Variant& variant, const CompiledKernel& kernel,
                      const Failure& failure) const;
  std::chrono::milliseconds deadline(const Problem& problem) const;
  void wait_until_prepared(std::chrono::milliseconds limit);
  WorkerProcess& worker();
  void start();
  void make_process();
  void accept(const DeviceInfo& device);

  SuperviseOptions options_;
  DeviceInfo device_;
  std::unique_ptr<WorkerProcess> worker_;
  bool is_ready_ = false;            ///< It has said which GPU it has.
  std::optional<Problem> prepared_;  ///< What the process was last told to prepare.
  bool is_preparing_ = false;        ///< It has yet to answer.
  std::vector<Json> unfit_;          ///< Variants that ended a process in a reference trial.
};

}  // namespace swr
