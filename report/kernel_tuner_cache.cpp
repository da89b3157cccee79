// SPDX-License-Identifier: MIT
#include "core/bounded_json.h"
#include "core/files.h"
#include "core/operation.h"
#include "kernel_spec/spec/kernel_plan.h"
#include "report/other_formats.h"
#include <swr/error.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr JsonLimits kLimits{.keys = std::size_t{1} << 20};  // A row each.

/// Rows are appended, each with a comma behind it.
std::string closed(std::string text) {
  text.resize(text.find_last_not_of(" \r\n") + 1);
  if (text.ends_with(',')) {
    text.pop_back();
  } else if (const auto row = text.rfind(",\n"); row != text.npos && !text.ends_with('{')) {
    text.resize(row);  // What follows is a part of one.
  }
  return text + "}}";
}

/// Kernel Tuner writes what failed in place of the time, or beside it.
std::string_view invalidity(const Json& row) {
  constexpr std::array kErrors{std::pair{"InvalidConfig"sv, "constraints"sv},
                               std::pair{"CompilationFailedConfig"sv, "compile"sv},
                               std::pair{"RuntimeFailedConfig"sv, "runtime"sv},
                               std::pair{"ErrorConfig"sv, "runtime"sv}};
  for (const char* const key : {"__error__", "time"}) {
    const auto value = row.find(key);
    for (const auto& [name, state] : kErrors) {
      if (value != row.end() && value->is_string() && *value == name) {
        return state;
      }
    }
  }
  // Versions before 0.4 had a number for it.
  constexpr double kFailed = 1e20;
  return json_number(row, "time") >= kFailed ? "runtime" : "correct";
}

Json configuration(const Operation& operation, const Json& row) {
  Json made = Json::object();
  made["family"] = std::string(operation.axes().front().spellings.front());
  for (const Axis& axis : operation.axes().subspan(1)) {
    const Json& value = json_field(row, axis.name);
    made[std::string(axis.name)] =
        axis.is_text() ? Json(kernel_spec::key_text(value.is_string() ? value.get<std::string>()
                                                                      : value.dump()))
                       : value;
  }
  return made;
}

Json result_of(const Operation& operation, const Json& row) {
  Json result{{"configuration", configuration(operation, row)},
              {"invalidity", invalidity(row)},
              {"measurements", Json::array()}};
  if (result["invalidity"] != "correct") {
    return result;
  }
  result["times"] = {{"runtimes", row.contains("times") ? row["times"] : Json{row["time"]}}};
  for (const char* const name : {"nvml_energy", "ps_energy", "pmt_energy", "nvml_power"}) {
    if (row.contains(name)) {
      result["measurements"].push_back({{"name", name}, {"value", row[name]}});
    }
  }
  return result;
}

}  // namespace

Json read_results_document(const std::filesystem::path& path) {
  const std::string text = read_regular_file(path, kLimits.bytes);
  try {
    return parse_json(text, path.string(), kLimits);
  } catch (const Error&) {
    if (text.find("\"tune_params_keys\"") == text.npos) {
      throw;
    }
    return parse_json(closed(text), path.string(), kLimits);
  }
}

bool is_kernel_tuner_cache(const Json& document) {
  return document.is_object() && document.contains("tune_params_keys") &&
         document.contains("cache");
}

Json t4_of_cache(const Json& cache, const Problem& problem, const DeviceInfo& device) {
  const Operation& operation = problem.operation();
  for (const Json& name : json_field(cache, "tune_params_keys")) {
    if (!name.is_string() || find_axis(operation, name.get<std::string>()) == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  std::string(operation.given_name()) + " has no parameter " + name.dump() +
                      ", and the cache has; name the spec of its kernel");
    }
  }
  Json document{{"schema_version", "1.0.0"}, {"results", Json::array()}};
  for (const auto& [key, row] : json_field(cache, "cache").items()) {
    try {
      document["results"].push_back(result_of(operation, row));
    } catch (const Error& error) {
      throw Error(error.code(), "row " + key + ": " + error.what());
    }
  }
  document["swr"] = {
      {"problem", problem},     {"device", device},    {"swr_version", "Kernel Tuner"},
      {"templates_digest", ""}, {"nvrtc_version", ""}, {"driver_version", ""},
      {"l2_state", "warm"}};
  return document;
}

}  // namespace swr
