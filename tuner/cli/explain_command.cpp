// SPDX-License-Identifier: MIT
// swr-tune explain: all that is known of one variant, measured or predicted, and what it says.
#include "core/number_text.h"
#include "core/operation.h"
#include "model/predictor.h"
#include "report/explain/explanation.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/measuring.h"
#include "tuner/cli/options.h"
#include "tuner/predict/model_ranking.h"
#include "tuner/predict/predicting_evaluator.h"
#include "tuner/run/compile_queue.h"
#include "tuner/run/tuner.h"
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/store.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

namespace swr::cli {
namespace {

/// The newest results of exactly this problem and device; none without a database.
std::vector<StoredResult> stored_results(const Session& session, const Problem& problem,
                                         const DeviceInfo& device) {
  if (!std::filesystem::exists(database_path(session))) {
    return {};
  }
  return Store(database_path(session), Store::Mode::read_only)
      .results(problem, device, setting(session));
}

/// Adds what was measured of the subject and of its counterpart.
void add_measured(const std::vector<StoredResult>& stored, ExplainSubject& subject) {
  const auto other = in_other_order(subject.variant);
  for (const StoredResult& one : stored) {
    const bool measured =
        one.result.provenance() == Provenance::measured && one.result.state == ResultState::ok;
    if (measured && one.result.variant == subject.variant) {
      subject.measured = one.result;
    } else if (measured && other && one.result.variant == *other) {
      subject.measured_other = one.result;
    }
  }
}

ExplainSubject named_subject(const Session& session, const std::string& key, const Problem& problem,
                             const DeviceInfo& device) {
  ExplainSubject subject{.variant = parse_variant(problem.operation(), key),
                         .resources = {},
                         .chosen = "named by --variant"};
  if (const auto dropped = check_constraints(problem, subject.variant, device)) {
    throw Error(ErrorCode::invalid_argument,
                "--variant breaks the constraint " + dropped->constraint + ": " + dropped->reason);
  }
  add_measured(stored_results(session, problem, device), subject);
  if (subject.measured) {
    subject.resources = subject.measured->resources;
  } else {
    const Generator generator(supervised_generator_options(session));
    subject.resources = generator.compile(problem, subject.variant, device.sm_arch).resources;
  }
  return subject;
}

/// Empty when there is no database, or nothing in it for exactly this problem and device.
std::optional<ExplainSubject> stored_subject(const Session& session, const Problem& problem,
                                             const DeviceInfo& device) {
  const auto stored = stored_results(session, problem, device);
  if (stored.empty()) {
    return std::nullopt;
  }
  const auto match =
      Store(database_path(session), Store::Mode::read_only).best(problem, device, setting(session));
  if (!match || match->problem != problem || !same_device(match->device, device)) {
    return std::nullopt;
  }
  ExplainSubject subject{.variant = match->result.variant,
                         .resources = match->result.resources,
                         .chosen = "best stored (" +
                                   std::string(to_string(match->result.provenance())) + " " +
                                   time_text(match->result.time_us()) + ")"};
  add_measured(stored, subject);
  return subject;
}

ExplainSubject predicted(const Variant& variant, const KernelResources& resources) {
  return {.variant = variant,
          .resources = resources,
          .chosen = "best predicted; nothing is stored for this problem"};
}

[[noreturn]] void reject_uncompilable(const Problem& problem) {
  throw Error(ErrorCode::compile_failed, "no variant of " + to_string(problem) +
                                             " survives compilation; see swr-tune --dry-run");
}

/// Ranks the space and compiles from the best on until one survives.
ExplainSubject first_of_ranking(const Session& session, const Problem& problem,
                                const DeviceInfo& device) {
  const std::vector<Variant> space = require_variants(problem, device, {}).variants;
  const auto times = model_predictor(problem, device, thread_count(0))(space);
  const std::vector<double>& times_us = times->all_us();
  std::vector<std::size_t> ranked(space.size());
  std::iota(ranked.begin(), ranked.end(), std::size_t{0});
  std::ranges::stable_sort(ranked, {}, [&](std::size_t place) { return times_us[place]; });
  const Generator generator(supervised_generator_options(session));
  for (const std::size_t place : ranked) {
    const KernelResources resources =
        generator.compile(problem, space[place], device.sm_arch).resources;
    if (!check_compiled(problem, space[place], device, resources)) {
      return predicted(space[place], resources);
    }
  }
  reject_uncompilable(problem);
}

/// Compiles and predicts the whole space of the portable family.
ExplainSubject best_of_compiled(const Session& session, const Problem& problem,
                                const GpuProfile& profile) {
  SpaceOptions space;
  space.restrictions["family"] = {AxisValue(std::string(to_string(Family::portable)))};
  const auto groups = group_by_kernel(require_variants(problem, profile.device, space).variants);
  std::vector<Variant> kernels;
  for (const auto& group : groups) {
    kernels.push_back(group.front());
  }
  const Generator generator(supervised_generator_options(session));
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
    reject_uncompilable(problem);
  }
  return predicted(best->variant, best->resources);
}

/// Nothing is stored. A space whose walks are long is ranked by estimates.
ExplainSubject predicted_subject(const Session& session, const Problem& problem,
                                 const GpuProfile& profile) {
  PredictingEvaluator model(profile);
  const Variant usual = default_variant(problem, profile.device);
  return model.predictor(problem).floor_us(problem, usual)
             ? first_of_ranking(session, problem, profile.device)
             : best_of_compiled(session, problem, profile);
}

/// The variant of --variant, else the best stored for this problem and device, else the best of the
/// whole space by prediction.
ExplainSubject choose_subject(const Session& session, const std::string& key,
                              const Problem& problem, const GpuProfile& profile) {
  if (!key.empty()) {
    return named_subject(session, key, problem, profile.device);
  }
  const auto stored = stored_subject(session, problem, profile.device);
  return stored ? *stored : predicted_subject(session, problem, profile);
}

struct ExplainArguments {
  ProblemText problem;
  std::string gpu = "auto";
  std::string variant_key;
};

int run_explain(const Session& session, ExplainArguments asked) {
  learn_stored_kernels(session, asked.problem.op);
  take_kernel(session, asked.problem);
  const GpuChoice gpu = choose_gpu(asked.gpu);
  const GpuProfile profile = gpu.profile ? *gpu.profile : profile_for_device(gpu.device);
  Json document = Json::object();
  document["explanations"] = Json::array();
  for (const Problem& problem : problems(asked.problem)) {
    const auto explained = problem.operation().explain(
        {problem, profile, choose_subject(session, asked.variant_key, problem, profile)});
    if (session.common.json) {
      document["explanations"].push_back(explained->json());
    } else {
      explained->print(session.out);
    }
  }
  if (session.common.json) {
    session.out << json_document(document);
  }
  return kExitSuccess;
}

}  // namespace

void add_explain(CommandLine& line) {
  auto [options, asked] = line.add<ExplainArguments>(
      {.name = "explain",
       .meaning = "Print every term of one variant's predicted time and L2 traffic",
       .footer = "Without --variant: the best stored for exactly this problem and GPU, else the "
                 "best of the\n"
                 "whole space by prediction.\n\n"
                 "Example: swr-tune explain --gpu gb10 --seq 131072",
       .group = "Ask what is stored",
       .is_prose = true},
      run_explain);
  add_problem_options(options, asked.problem, "a list explains several problems");
  add_spec_options(options, asked.problem);
  add_gpu_option(options, asked.gpu);
  options.add("--variant KEY", asked.variant_key,
              "Key as tune and query print it; axes left out keep their default");
  add_database_option(options);
  add_l2_option(options);
  add_generator_options(options);
  add_json_option(options);
}

}  // namespace swr::cli
