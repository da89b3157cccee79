// SPDX-License-Identifier: MIT
#include "tuner/records.h"

#include "tuner/metrics.h"

#include <nlohmann/json.hpp>

#include <ostream>
#include <variant>
#include <vector>

namespace swr {
namespace {

nlohmann::ordered_json json_of(const MetricValue& value) {
  return std::visit([](auto number) { return nlohmann::ordered_json(number); }, value);
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

}  // namespace

nlohmann::ordered_json json_of(const AttentionProblem& problem) {
  return {{"op", "attention"},
          {"batch", problem.batch},
          {"heads_q", problem.heads_q},
          {"heads_kv", problem.heads_kv},
          {"seq_q", problem.seq_q},
          {"seq_kv", problem.seq_kv},
          {"head_dim", problem.head_dim},
          {"dtype", to_string(problem.dtype)},
          {"causal", problem.causal},
          {"alignment_bytes", problem.alignment_bytes}};
}

nlohmann::ordered_json json_of(const DeviceInfo& device) {
  return {{"name", device.name},         {"sm_arch", device.sm_arch},
          {"sm_count", device.sm_count}, {"l2_bytes", device.l2_bytes},
          {"mig", device.mig},           {"dram_gb_per_s", device.dram_gb_per_s}};
}

nlohmann::ordered_json json_of(const Variant& variant) {
  nlohmann::ordered_json json{{"key", to_key(variant)}};
  for (const Axis& axis : axes()) {
    std::visit([&](const auto& value) { json[std::string(axis.name)] = value; }, axis.get(variant));
  }
  return json;
}

nlohmann::ordered_json json_of(const AttentionProblem& problem, const VariantResult& result) {
  nlohmann::ordered_json json{{"state", to_string(result.state)},
                              {"provenance", to_string(result.provenance())},
                              {"variant", json_of(result.variant)},
                              {"cubin_digest", result.cubin_digest}};
  if (!result.detail.empty()) {
    json["detail"] = result.detail;
  }
  for (const Metric& metric : metrics()) {
    if (const auto value = metric.value(problem, result)) {
      json[std::string(metric.key)] = json_of(*value);
    }
  }
  const Measurement* measurement = result.measurement();
  if (measurement != nullptr && !measurement->samples_us.empty()) {
    json["samples_us"] = measurement->samples_us;
  }
  if (measurement != nullptr && !measurement->counters_missing_because.empty()) {
    json["counters_missing_because"] = measurement->counters_missing_because;
  }
  return json;
}

nlohmann::ordered_json json_of(const TuneReport& report) {
  nlohmann::ordered_json json{{"problem", json_of(report.problem)},
                              {"device", json_of(report.device)},
                              {"provenance", to_string(report.provenance)},
                              {"interrupted", report.interrupted},
                              {"kernels_compiled", report.kernels_compiled},
                              {"kernels_from_cache", report.kernels_from_cache},
                              {"times_s",
                               {{"enumerate", report.times.enumerate_s},
                                {"compile_wait", report.times.compile_wait_s},
                                {"evaluate", report.times.evaluate_s},
                                {"record", report.times.record_s},
                                {"total", report.times.total_s}}},
                              {"dropped_by_constraint", dropped_by_constraint(report.dropped)}};
  json["best"] = report.best() != nullptr ? json_of(report.best()->variant) : nullptr;
  json["results"] = nlohmann::ordered_json::array();
  for (const VariantResult& result : report.results) {
    json["results"].push_back(json_of(report.problem, result));
  }
  return json;
}

void write_csv_header(std::ostream& out) {
  std::vector<std::string> fields{"problem", "device", "provenance", "state", "rank"};
  for (const Axis& axis : axes()) {
    fields.emplace_back(axis.name);
  }
  for (const Metric& metric : metrics()) {
    fields.emplace_back(metric.key);
  }
  fields.emplace_back("detail");
  write_csv_line(out, fields);
}

void write_csv_rows(std::ostream& out, const TuneReport& report) {
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const VariantResult& result = report.results[i];
    std::vector<std::string> fields{to_string(report.problem), report.device.name,
                                    std::string(to_string(result.provenance())),
                                    std::string(to_string(result.state)),
                                    result.state == ResultState::ok ? std::to_string(i + 1) : ""};
    for (const Axis& axis : axes()) {
      fields.push_back(to_string(axis.get(result.variant)));
    }
    for (const Metric& metric : metrics()) {
      const auto value = metric.value(report.problem, result);
      fields.push_back(value ? json_of(*value).dump() : "");
    }
    fields.push_back(result.detail);
    write_csv_line(out, fields);
  }
}

}  // namespace swr
