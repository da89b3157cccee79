// SPDX-License-Identifier: MIT
#include "core/number_text.h"
#include "report/explain/metrics.h"
#include "report/records.h"
#include "report/report.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include <swr/constraints.h>
#include <swr/store.h>

#include <ostream>

namespace swr::cli {
namespace {

/// The stored answer, or the built-in variant when nothing stored fits.
Match answer(const Store& store, const Problem& problem, const DeviceInfo& device,
             const Setting& setting) {
  if (auto match = store.best(problem, device, setting)) {
    return *match;
  }
  Match match;
  match.problem = problem;
  match.device = device;
  match.result.variant = default_variant(problem, device);
  match.result.smem_bytes = smem_bytes(problem, match.result.variant);
  return match;
}

void print_match(std::ostream& out, const Problem& problem, const DeviceInfo& device,
                 const Match& match) {
  out << "match    " << to_string(match.level);
  const bool is_other_device = !same_device(match.device, device);
  if (match.problem != problem || is_other_device) {
    out << ", stored for " << to_string(match.problem)
        << (is_other_device ? " on " + describe(match.device) : "") << " (distance "
        << significant_text(match.distance, 3) << ")";
  }
  out << "\n";
}

/// The table's metrics, one per line, as known for the problem that was tuned.
void print_metrics(std::ostream& out, const Match& match) {
  constexpr std::size_t kWidth = 22;
  out << "known    " << to_string(match.result.provenance()) << "\n";
  for (const Metric& metric : metrics()) {
    const auto value = metric.value(match.problem, match.result);
    if (value && !metric.title.empty() && !metric.on_page_alone) {
      std::string name = "  " + std::string(metric.title);
      name.resize(kWidth, ' ');
      out << name << metric.text(*value) << "\n";
    }
  }
}

void print_answer(std::ostream& out, const Problem& problem, const DeviceInfo& device,
                  const Match& match) {
  out << "problem  " << to_string(problem) << " on " << describe(device) << "\n"
      << "variant  " << describe(match.result.variant) << "\n"
      << "key      " << to_key(match.result.variant) << "\n";
  print_match(out, problem, device, match);
  if (match.level == MatchLevel::default_only) {
    out << "note     nothing stored fits this problem; this is the built-in default, neither "
           "measured nor predicted. Tune it with swr-tune.\n";
    return;
  }
  print_metrics(out, match);
}

Json answer_json(const Problem& problem, const DeviceInfo& device, const Match& match) {
  Json json = Json::object();
  json["problem"] = problem;
  json["device"] = device;
  json["match"] = std::string(to_string(match.level));
  json["distance"] = match.distance;
  json["key"] = to_key(match.result.variant);
  if (match.level == MatchLevel::default_only) {
    json["provenance"] = "default";
    json["variant"] = match.result.variant;
    return json;
  }
  json["provenance"] = std::string(to_string(match.result.provenance()));
  json["stored_problem"] = match.problem;
  json["stored_device"] = match.device;
  json["result"] = result_record(match.problem, match.result);
  return json;
}

}  // namespace

int run_query(const Session& session) {
  const auto wanted = problems(session.options.problem);
  const GpuChoice gpu = choose_gpu(session.options.gpu);
  const bool replayed = session.options.replayed;
  const Store store(database_path(session), Store::Mode::read_only,
                    replayed ? Store::Content::replayed : Store::Content::tuned);
  const Setting asked = setting(session);
  Json document = Json::object();
  document["answers"] = Json::array();
  document["replayed"] = session.options.replayed;
  for (const Problem& problem : wanted) {
    const Match match = answer(store, problem, gpu.device, asked);
    if (session.options.json) {
      document["answers"].push_back(answer_json(problem, gpu.device, match));
    } else {
      session.out << (&problem == wanted.data() ? "" : "\n");
      print_answer(session.out, problem, gpu.device, match);
      session.out << (replayed ? "note     replayed: a recording gave this result, no GPU\n" : "");
    }
  }
  if (session.options.json) {
    session.out << json_document(document);
  }
  return kExitSuccess;
}

}  // namespace swr::cli
