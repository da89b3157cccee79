// SPDX-License-Identifier: MIT
// swr-tune explain: all that is known of one variant, measured or predicted, and what it says.
#include "core/number_text.h"
#include "core/operation.h"
#include "report/explain/explanation.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/options.h"
#include "tuner/predict/predicting_evaluator.h"
#include "tuner/run/compile_queue.h"
#include "tuner/run/progress.h"
#include "tuner/run/tuner.h"
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/store.h>
#include <swr/version.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace swr::cli {
namespace {

/// Empty where there is no database.
Store open_store(const Session& session) {
  const auto path = database_path(session);
  return std::filesystem::exists(path) ? Store(path, Store::Mode::read_only) : Store::in_memory();
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
  add_measured(open_store(session).results(problem, device, setting(session)), subject);
  if (subject.measured) {
    subject.resources = subject.measured->resources;
  } else {
    const Generator generator(supervised_generator_options(session));
    subject.resources = generator.compile(problem, subject.variant, device.sm_arch).resources;
  }
  return subject;
}

/// What a query answers, where that is of exactly this problem and device.
std::optional<ExplainSubject> stored_subject(const Session& session, const Problem& problem,
                                             const DeviceInfo& device) {
  const Store store = open_store(session);
  const auto found = store.exact(problem, device, setting(session));
  if (!found) {
    return std::nullopt;
  }
  const VariantResult& result = found->result;
  ExplainSubject subject{.variant = result.variant,
                         .resources = result.resources,
                         .chosen = std::string(found->id == 0 ? "came with swr" : "best stored") +
                                   " (" + std::string(to_string(result.provenance())) + " " +
                                   time_text(result.time_us()) + ")"};
  if (result.measurement() != nullptr) {
    subject.measured = result;
  }
  add_measured(store.results(problem, device, setting(session)), subject);
  return subject;
}

std::unique_ptr<Progress> progress_on(const Session& session) {
  if (!session.environment.stderr_is_terminal) {
    return std::make_unique<QuietProgress>();
  }
  return std::make_unique<StreamProgress>(session.err, true, std::chrono::steady_clock::now,
                                          session.environment.stderr_width);
}

/// As swr-tune predicts it when no axis is named, in a store that nobody keeps.
ExplainSubject predicted_subject(const Session& session, const Problem& problem,
                                 const GpuProfile& profile) {
  const Generator generator(supervised_generator_options(session));
  PredictingEvaluator evaluator(profile);
  Store store = Store::in_memory();
  // Assigned one by one: of a list in braces GCC 12 warns that a member may be used uninitialised.
  TuneOptions options;
  options.search.strategy = StrategyKind::model;
  options.provenance = Provenance::predicted;
  options.run_id = store.begin_run({.command = session.command_line, .swr_version = SWR_VERSION});
  const TuneReport report =
      tune(problem, evaluator, generator, store, options, *progress_on(session));
  const VariantResult* const best = report.best();
  if (best == nullptr) {
    throw Error(ErrorCode::compile_failed, "no variant of " + to_string(problem) +
                                               " survives compilation; see swr-tune --dry-run");
  }
  return {.variant = best->variant,
          .resources = best->resources,
          .chosen = "best predicted; nothing is stored for this problem"};
}

/// The variant of --variant, else what answers for this problem and device, else the best
/// predicted.
ExplainSubject choose_subject(const Session& session, const std::string& key,
                              const Problem& problem, const GpuProfile& profile) {
  if (!key.empty()) {
    return named_subject(session, key, problem, profile.device);
  }
  const auto stored = stored_subject(session, problem, profile.device);
  return stored ? *stored : predicted_subject(session, problem, profile);
}

/// The best other value of each axis that the model tells apart, the most promising first.
void print_alternatives(std::ostream& out, const std::vector<Alternative>& all) {
  constexpr double kNoticeable = 0.98;
  constexpr std::size_t kMostShown = 5;
  std::set<std::string> axes;
  for (const Alternative& one : all) {
    const bool is_shown = one.time_ratio < kNoticeable && axes.size() < kMostShown &&
                          axes.insert(one.choice.substr(0, one.choice.find('='))).second;
    if (is_shown) {
      out << (axes.size() == 1 ? "  By the model, all else equal: " : ", ") << one.choice
          << " changes the time by " << change_text(1.0, one.time_ratio);
    }
  }
  if (!axes.empty()) {
    out << ".\n";
  } else if (!all.empty()) {
    out << "  By the model no other value of one axis saves 2 % of the time (" << all.size()
        << " tried).\n";
  }
}

Json alternatives_json(const std::vector<Alternative>& all) {
  Json json = Json::array();
  for (const Alternative& one : all) {
    json.push_back(
        {{"key", to_key(one.variant)}, {"choice", one.choice}, {"time_ratio", one.time_ratio}});
  }
  return json;
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
    const ExplainSubject subject = choose_subject(session, asked.variant_key, problem, profile);
    const auto explained = problem.operation().explain({problem, profile, subject});
    const auto others = alternatives(problem, subject.variant, profile.device, thread_count(0));
    if (session.common.json) {
      Json explanation = explained->json();
      explanation["alternatives"] = alternatives_json(others);
      document["explanations"].push_back(std::move(explanation));
    } else {
      explained->print(session.out);
      print_alternatives(session.out, others);
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
                 "best that\n"
                 "swr-tune predicts.\n\n"
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
