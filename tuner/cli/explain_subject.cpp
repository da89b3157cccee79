// SPDX-License-Identifier: MIT
#include "tuner/cli/explain_subject.h"

#include "core/number_text.h"
#include "model/predicting_evaluator.h"
#include "tuner/run/compile_queue.h"
#include "tuner/run/tuner.h"
#include <swr/error.h>
#include <swr/store.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace swr::cli {
namespace {

/// The newest results of exactly this problem and device; none without a database.
std::vector<StoredResult> stored_results(const Session& session, const AttentionProblem& problem,
                                         const DeviceInfo& device) {
  if (!std::filesystem::exists(database_path(session))) {
    return {};
  }
  return Store(database_path(session), Store::Mode::read_only)
      .results(problem, device, setting(session));
}

/// Adds what was measured of the subject and of its counterpart.
void add_measured(const std::vector<StoredResult>& stored, ExplainSubject& subject) {
  const AttentionVariant other = in_other_order(subject.variant);
  for (const StoredResult& one : stored) {
    const bool measured =
        one.result.provenance() == Provenance::measured && one.result.state == ResultState::ok;
    if (measured && one.result.variant == Variant(subject.variant)) {
      subject.measured = one.result;
    } else if (measured && one.result.variant == Variant(other)) {
      subject.measured_other = one.result;
    }
  }
}

ExplainSubject named_subject(const Session& session, const AttentionProblem& problem,
                             const DeviceInfo& device) {
  ExplainSubject subject{
      std::get<AttentionVariant>(parse_variant(Op::attention, session.options.variant_key)),
      {},
      "named by --variant",
      std::nullopt,
      std::nullopt};
  if (const auto dropped = check_constraints(problem, subject.variant, device)) {
    throw Error(ErrorCode::invalid_argument,
                "--variant breaks the constraint " + dropped->constraint + ": " + dropped->reason);
  }
  add_measured(stored_results(session, problem, device), subject);
  if (subject.measured) {
    subject.resources = subject.measured->resources;
  } else {
    const Generator generator(generator_options(session));
    subject.resources = generator.compile(problem, subject.variant, device.sm_arch).resources;
  }
  return subject;
}

/// Empty when there is no database, or nothing in it for exactly this problem and device.
std::optional<ExplainSubject> stored_subject(const Session& session,
                                             const AttentionProblem& problem,
                                             const DeviceInfo& device) {
  const auto stored = stored_results(session, problem, device);
  if (stored.empty()) {
    return std::nullopt;
  }
  const auto match =
      Store(database_path(session), Store::Mode::read_only).best(problem, device, setting(session));
  if (!match || match->problem != Problem(problem) || !same_device(match->device, device)) {
    return std::nullopt;
  }
  ExplainSubject subject{std::get<AttentionVariant>(match->result.variant), match->result.resources,
                         "best stored (" + std::string(to_string(match->result.provenance())) +
                             " " + time_text(match->result.time_us()) + ")",
                         std::nullopt, std::nullopt};
  add_measured(stored, subject);
  return subject;
}

/// Compiles and predicts the whole space; nothing is stored.
ExplainSubject predicted_subject(const Session& session, const AttentionProblem& problem,
                                 const GpuProfile& profile) {
  SpaceOptions space;
  space.restrictions["family"] = {AxisValue(std::string(to_string(Family::portable)))};
  const auto groups = group_by_kernel(require_variants(problem, profile.device, space).variants);
  std::vector<Variant> kernels;
  for (const auto& group : groups) {
    kernels.push_back(group.front());
  }
  const Generator generator(generator_options(session));
  const int threads = thread_count(0);
  CompileQueue queue(threads, [&](const Variant& variant) {
    return generator.compile(problem, variant, profile.device.sm_arch);
  });
  queue.want(kernels);
  PredictingEvaluator evaluator(profile, threads);
  std::deque<CompiledKernel> compiled;
  std::vector<Contender> contenders;
  for (const auto& group : groups) {
    compiled.push_back(queue.take(group.front()));
    for (const Variant& variant : group) {
      contenders.push_back({variant, &compiled.back()});
    }
  }
  evaluator.expect(problem, contenders);
  std::optional<VariantResult> best;
  for (const auto& [variant, kernel] : contenders) {
    const VariantResult result = evaluator.evaluate(problem, variant, *kernel);
    if (result.state == ResultState::ok && (!best || result.time_us() < best->time_us())) {
      best = result;
    }
  }
  if (!best) {
    throw Error(ErrorCode::compile_failed, "no variant of " + to_string(problem) +
                                               " survives compilation; see swr-tune --dry-run");
  }
  return {std::get<AttentionVariant>(best->variant), best->resources,
          "best predicted; nothing is stored for this problem", std::nullopt, std::nullopt};
}

}  // namespace

AttentionVariant in_other_order(AttentionVariant variant) {
  variant.order = variant.order == Order::sawtooth ? Order::cyclic : Order::sawtooth;
  return variant;
}

ExplainSubject choose_subject(const Session& session, const AttentionProblem& problem,
                              const GpuProfile& profile) {
  ExplainSubject subject;
  if (!session.options.variant_key.empty()) {
    subject = named_subject(session, problem, profile.device);
  } else if (const auto stored = stored_subject(session, problem, profile.device)) {
    subject = *stored;
  } else {
    subject = predicted_subject(session, problem, profile);
  }
  return subject;
}

}  // namespace swr::cli
