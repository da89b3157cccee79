// SPDX-License-Identifier: MIT
#include "core/metrics.h"
#include "report/report.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <variant>
#include <vector>

namespace swr {
namespace {

Json metric_json(const MetricValue& value) {
  return std::visit([](auto number) { return Json(number); }, value);
}

Json times_json(const PhaseTimes& times) {
  return {{"enumerate_s", times.enumerate_s},
          {"search_s", times.search_s},
          {"device_idle_s", times.device_idle_s()},
          {"compile_wait_s", times.compile_wait_s},
          {"evaluate_s", times.evaluate_s},
          {"count_s", times.count_s},
          {"finals_s", times.finals_s},
          {"energy_s", times.energy_s},
          {"record_s", times.record_s},
          {"end_s", times.end_s},
          {"total_s", times.total_s}};
}

Json finalists_json(const std::vector<Finalist>& finalists,
                    const std::map<Variant, double>& screening_us) {
  Json list = Json::array();
  for (const Finalist& finalist : finalists) {
    const auto screened = screening_us.find(finalist.result.variant);
    list.push_back(
        {{"key", to_key(finalist.result.variant)},
         {"screening_us", screened != screening_us.end() ? Json(screened->second) : Json()},
         {"rounds", finalist.result.measurement()->samples_us.size()},
         {"ratio", finalist.ratio},
         {"ratio_low", finalist.ratio_low},
         {"ratio_high", finalist.ratio_high},
         {"tied", finalist.tied}});
  }
  return list;
}

/// Null where time alone was asked for.
Json choice_json(const TuneReport& report) {
  const ObjectiveOutcome& choice = report.choice;
  if (choice.ranked.empty() && choice.missing_because.empty() && !choice.idle_power_w) {
    return {};
  }
  Json ranked = Json::array();
  for (const RankedVariant& one : choice.ranked) {
    ranked.push_back({{"key", to_key(one.variant)},
                      {"value", one.value},
                      {"ratio", one.ratio},
                      {"ratio_low", one.ratio_low},
                      {"ratio_high", one.ratio_high},
                      {"tied", one.tied}});
  }
  return {{"ranked", std::move(ranked)},
          {"tie_threshold", choice.tie_threshold ? Json(*choice.tie_threshold) : Json()},
          {"missing_because", choice.missing_because},
          {"idle_power_w", choice.idle_power_w ? Json(*choice.idle_power_w) : Json()}};
}

/// Quotes a CSV field when it needs it (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char character : text) {
    quoted += character == '"' ? "\"\"" : std::string(1, character);
  }
  return quoted + "\"";
}

void write_csv_line(std::ostream& out, const std::vector<std::string>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    out << (i == 0 ? "" : ",") << csv_field(fields[i]);
  }
  out << "\n";
}

/// How the time was taken; empty for a prediction.
std::string sampling_text(const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  return measurement != nullptr ? std::string(to_string(measurement->sampling)) : "";
}

/// The axes of every operation, each name once.
std::vector<std::string> axis_columns() {
  std::vector<std::string> names;
  for (const Operation* const operation : operations()) {
    for (const Axis& axis : axes(*operation)) {
      if (std::ranges::find(names, axis.name) == names.end()) {
        names.emplace_back(axis.name);
      }
    }
  }
  return names;
}

std::vector<std::string> csv_row(const TuneReport& report, const VariantResult& result,
                                 std::size_t rank) {
  const bool ok = result.state == ResultState::ok;
  std::vector<std::string> fields{to_string(report.problem),
                                  report.device.name,
                                  std::string(to_string(result.provenance())),
                                  std::string(to_string(result.state)),
                                  ok ? std::to_string(rank) : "",
                                  ok ? sampling_text(result) : ""};
  for (const std::string& name : axis_columns()) {
    const Axis* const axis = find_axis(result.variant.operation(), name);
    const bool has_axis = axis != nullptr && axis->belongs_to(family_of(result.variant));
    fields.push_back(has_axis ? to_string(axis->get(result.variant)) : std::string());
  }
  for (const Metric& metric : metrics()) {
    const auto value = metric.value(report.problem, result);
    fields.push_back(value ? metric_json(*value).dump() : "");
  }
  fields.push_back(result.detail);
  return fields;
}

}  // namespace

Json result_record(const Problem& problem, const VariantResult& result) {
  Json record = result;
  record["key"] = to_key(result.variant);
  record["metrics"] = Json::object();
  for (const Metric& metric : metrics()) {
    if (const auto value = metric.value(problem, result)) {
      record["metrics"][std::string(metric.key)] = metric_json(*value);
    }
  }
  return record;
}

Json report_record(const TuneReport& report) {
  Json record = Json::object();
  record["problem"] = report.problem;
  record["device"] = report.device;
  record["provenance"] = std::string(to_string(report.provenance));
  record["replayed"] = report.replayed;
  record["interrupted"] = report.interrupted;
  record["out_of_time"] = report.out_of_time;
  record["known"] = report.known;
  record["expected_gain"] = report.expected_gain ? Json(*report.expected_gain) : Json();
  record["kernels_compiled"] = report.kernels_compiled;
  record["kernels_from_cache"] = report.kernels_from_cache;
  record["times"] = times_json(report.times);
  record["dropped_by_constraint"] = dropped_by_constraint(report.dropped, report.left_out);
  const VariantResult* best = report.best();
  record["best"] = best != nullptr ? Json(to_key(best->variant)) : Json();
  record["answer"] = Json();
  if (report.answer) {
    record["answer"] = {{"key", to_key(report.answer->result.variant)},
                        {"time_us", report.answer->result.time_us()},
                        {"provenance", std::string(to_string(report.answer->result.provenance()))},
                        {"shipped", report.answer->id == 0}};
  }
  record["against"] = Json::array();
  for (const PeerTime& peer : report.peers) {
    record["against"].push_back({{"call", peer.call}, {"median_us", peer.median_us}});
  }
  record["ranking"] = Json::array();
  for (const RankedGuess& guess : report.ranking) {
    record["ranking"].push_back({{"key", to_key(guess.variant)}, {"time_us", guess.time_us}});
  }
  const auto slow = slow_clock(report);
  record["slow_clock"] = slow ? Json{{"because", slow->because}, {"advice", slow->advice}} : Json();
  record["undecided_because"] = report.undecided_because;
  record["tie_threshold"] = report.tie_threshold ? Json(*report.tie_threshold) : Json();
  record["decided_before"] = report.decided_before;
  record["finalists"] = finalists_json(report.finalists, report.screening_us);
  record["objective"] = report.objective;
  record["choice"] = choice_json(report);
  record["results"] = Json::array();
  for (const VariantResult& result : report.results) {
    record["results"].push_back(result_record(report.problem, result));
  }
  return record;
}

void write_csv_header(std::ostream& out) {
  std::vector<std::string> fields{"problem", "device", "provenance", "state", "rank", "sampling"};
  for (const std::string& name : axis_columns()) {
    fields.push_back(name);
  }
  for (const Metric& metric : metrics()) {
    fields.emplace_back(metric.key);
  }
  fields.emplace_back("detail");
  write_csv_line(out, fields);
}

void write_csv_rows(std::ostream& out, const TuneReport& report) {
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    write_csv_line(out, csv_row(report, report.results[i], i + 1));
  }
}

}  // namespace swr
