// SPDX-License-Identifier: MIT
#include "core/metrics.h"
#include "core/number_text.h"
#include "model/prediction_error.h"
#include "report/explain/likely_text.h"
#include "report/report.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/options.h"
#include "tuner/run/objective_choice.h"
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/kernel_spec.h>
#include <swr/lookup.h>
#include <swr/store.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace swr::cli {
namespace {

/// What answers, and the result of the file that says so.
struct Found {
  Answer answer;
  std::optional<StoredResult> stored;
  double prediction_error = 0.0;  ///< Of the stored result, as a share; 0 where it is not known.
  double prediction_bias = 0.0;   ///< The same of prediction_bias().
  /// What others' calls took for the stored result's problem on its device.
  std::vector<std::pair<std::string, double>> peers = {};

  bool is_other_shape(const Problem& problem) const { return answer.stored_problem != problem; }
  bool is_other_device(const DeviceInfo& device) const {
    return stored && !same_device(stored->device, device);
  }
  bool is_measured() const {
    return answer.shipped || (stored && stored->result.provenance() == Provenance::measured);
  }
};

Found find(const Lookup& lookup, const Store* store, const Problem& problem, const GpuChoice& gpu) {
  Found found{.answer = lookup.best(problem, gpu.device), .stored = std::nullopt};
  if (store != nullptr && found.answer.result_id != 0) {
    found.stored = store->result(found.answer.result_id);
    const DeviceInfo& device = found.stored->device;
    const bool is_asked = gpu.profile && same_device(device, gpu.device);
    const GpuProfile profile = is_asked ? *gpu.profile : profile_for_device(device);
    found.prediction_error = prediction_error(found.stored->problem, found.stored->result, profile);
    found.prediction_bias = prediction_bias(found.stored->problem, found.stored->result, profile);
    found.peers = store->peers(found.stored->problem, device);
  }
  return found;
}

void print_match(std::ostream& out, const Problem& problem, const DeviceInfo& device,
                 const Found& found) {
  const Answer& answer = found.answer;
  out << "match    " << to_string(answer.level);
  if (answer.shipped) {
    out << ", came with swr";
  }
  const bool is_other_device = found.is_other_device(device);
  if (found.is_other_shape(problem) || is_other_device) {
    out << ", stored for " << to_string(answer.stored_problem)
        << (is_other_device ? " on " + describe(found.stored->device) : "") << " (distance "
        << significant_text(answer.distance, 3) << ")";
  }
  out << "\n";
}

/// Empty where it is not known, or something was measured.
std::string uncertainty_text(const Found& found) {
  return uncertain_time_text(found.answer.time_us.value_or(0.0), found.prediction_error,
                             found.prediction_bias);
}

/// Of the problem that was asked, as Lookup expects it.
void print_expected(std::ostream& out, const Problem& problem, const Found& found) {
  if (!found.answer.time_us) {
    return;
  }
  const bool is_own = found.answer.distance <= 0 && found.answer.on_same_device;
  out << "expected " << time_text(*found.answer.time_us);
  if (found.answer.level == MatchLevel::modelled) {
    out << ", by a closed form: good for comparing, off by tens of percent";
  } else if (is_own) {
    out << ", " << (found.is_measured() ? "measured" : "predicted") << " for this problem"
        << uncertainty_text(found);
  } else {
    out << ", scaled by the operations from the time of "
        << (found.is_other_shape(problem) ? to_string(found.answer.stored_problem)
                                          : std::string("this problem"))
        << (found.answer.on_same_device ? "" : " on another GPU");
  }
  out << "\n";
}

/// The table's metrics, one per line, as known for the problem and device that were tuned.
void print_metrics(std::ostream& out, const Problem& problem, const DeviceInfo& device,
                   const Found& found) {
  constexpr std::size_t kWidth = 22;
  const StoredResult& stored = *found.stored;
  const bool is_other = found.is_other_shape(problem) || found.is_other_device(device);
  out << "known    " << to_string(stored.result.provenance())
      << (is_other ? ", of " + to_string(stored.problem) + " on " + describe(stored.device) : "")
      << (is_other ? uncertainty_text(found) : "") << "\n";
  for (const Metric& metric : metrics()) {
    const auto value = metric.value(stored.problem, stored.result);
    if (value && !metric.title.empty() && !metric.on_page_alone) {
      std::string name = "  " + std::string(metric.title);
      name.resize(kWidth, ' ');
      out << name << metric.text(*value) << "\n";
    }
  }
}

void print_answer(std::ostream& out, const Problem& problem, const DeviceInfo& device,
                  const Found& found) {
  const Answer& answer = found.answer;
  out << "problem  " << to_string(problem) << " on " << describe(device) << "\n"
      << "variant  " << describe(answer.variant) << "\n"
      << "key      " << to_key(answer.variant) << "\n";
  print_match(out, problem, device, found);
  print_expected(out, problem, found);
  if (found.stored) {
    print_metrics(out, problem, device, found);
  }
  for (const auto& [call, median_us] : found.peers) {
    out << "against  " << call << ": " << time_text(median_us) << ", "
        << significant_text(median_us / found.stored->result.time_us(), 3) << " times as long\n";
  }
  if (answer.level == MatchLevel::default_only || answer.level == MatchLevel::modelled) {
    out << "note     nothing near this problem is stored; this is "
        << (answer.level == MatchLevel::modelled
                ? "chosen from its shape and the device, neither measured nor predicted. On an "
                  "H200 such answers had 0.985 of the speed of tuned ones in the mean.\n"
                : "the built-in default, neither measured nor predicted. Tune it with "
                  "swr-tune.\n");
  }
}

/// What says so, in a word.
std::string source_of(const Found& found) {
  if (found.stored) {
    return std::string(to_string(found.stored->result.provenance()));
  }
  if (found.answer.shipped) {
    return std::string(to_string(Provenance::measured));
  }
  return found.answer.level == MatchLevel::modelled ? "modelled" : "default";
}

Json answer_json(const Problem& problem, const DeviceInfo& device, const Found& found) {
  const Answer& answer = found.answer;
  Json json = Json::object();
  json["problem"] = problem;
  json["device"] = device;
  json["match"] = std::string(to_string(answer.level));
  json["distance"] = answer.distance;
  json["key"] = to_key(answer.variant);
  json["provenance"] = source_of(found);
  json["shipped"] = answer.shipped;
  json["prediction_error"] =
      found.prediction_error > 0 ? Json(found.prediction_error) : Json(nullptr);
  json["prediction_bias"] = found.prediction_bias != 0.0 ? Json(found.prediction_bias) : Json();
  json["expected_us"] = answer.time_us ? Json(*answer.time_us) : Json(nullptr);
  if (!found.stored) {
    json["variant"] = answer.variant;
    if (answer.shipped) {
      json["stored_problem"] = answer.stored_problem;
    }
    return json;
  }
  json["stored_problem"] = found.stored->problem;
  json["stored_device"] = found.stored->device;
  json["against"] = Json::array();
  for (const auto& [call, median_us] : found.peers) {
    json["against"].push_back({{"call", call}, {"median_us", median_us}});
  }
  json["result"] = result_record(found.stored->problem, found.stored->result);
  return json;
}

struct QueryArguments {
  ProblemText problem;
  std::string gpu = "auto";
  std::string objective;
  bool replayed = false;  ///< Asks a database of replayed results.
};

int run_query(const Session& session, QueryArguments asked_for) {
  const bool replayed = asked_for.replayed;
  const auto content = replayed ? Store::Content::replayed : Store::Content::tuned;
  learn_stored_kernels(session, asked_for.problem.op, content);
  take_kernel(session, asked_for.problem);
  const auto wanted = problems(asked_for.problem);
  const GpuChoice gpu = choose_gpu(asked_for.gpu);
  const auto path = database_path(session);
  LookupOptions asked;
  asked.setting = setting(session);
  asked.content = content;
  asked.objective = asked_for.objective.empty() ? kernel_objective(wanted.front().operation())
                                                : Objective(asked_for.objective).text();
  // Who has tuned nothing yet is answered by what comes with swr.
  const bool has_file = session.common.database || replayed || std::filesystem::exists(path);
  const auto lookup =
      has_file ? std::make_unique<Lookup>(path, asked) : std::make_unique<Lookup>(asked);
  const auto store =
      has_file ? std::make_unique<Store>(path, Store::Mode::read_only, content) : nullptr;
  Json document = Json::object();
  document["answers"] = Json::array();
  document["replayed"] = replayed;
  for (const Problem& problem : wanted) {
    const Found found = find(*lookup, store.get(), problem, gpu);
    if (asked.objective != kTimeObjective && !found.stored) {
      throw Error(
          ErrorCode::nothing_stored,
          "no run with --objective '" + asked.objective + "' decided anything near " +
              to_string(problem) + " on " + gpu.device.name +
              "; tune it with that objective, or ask with --objective time for the fastest");
    }
    if (session.common.json) {
      document["answers"].push_back(answer_json(problem, gpu.device, found));
    } else {
      session.out << (&problem == wanted.data() ? "" : "\n");
      print_answer(session.out, problem, gpu.device, found);
      session.out << (replayed ? "note     replayed: a recording gave this result, no GPU\n" : "");
    }
  }
  if (session.common.json) {
    session.out << json_document(document);
  }
  return kExitSuccess;
}

}  // namespace

void add_query(CommandLine& line) {
  auto [options, asked] = line.add<QueryArguments>(
      {.name = "query",
       .meaning = "Print the best stored variant for a problem",
       .footer =
           "The answer says how it matched: exact, nearest (another shape), same_arch "
           "(another device),\n"
           "predicted (nothing measured fits), modelled (nothing near is stored) or "
           "default_only.\n"
           "Measured results that come with swr answer where the database has none nearer.\n\n"
           "Example: swr-tune query --gpu gb10 --seq 131072 --json",
       .group = "Ask what is stored",
       .is_prose = true},
      run_query);
  add_problem_options(options, asked.problem, "a list asks for several problems");
  add_spec_options(options, asked.problem);
  add_gpu_option(options, asked.gpu);
  add_database_option(options);
  add_l2_option(options);
  add_templates_option(options);
  add_objective_option(options, asked.objective,
                       "Ask for what runs with this very --objective decided [time]");
  options.add("--replayed", asked.replayed,
              "Ask a database of tune --replay --db, whose results no GPU has given",
              {.group = "Files"});
  add_json_option(options);
}

}  // namespace swr::cli
