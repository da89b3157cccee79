// SPDX-License-Identifier: MIT
#include "tuner/t4.h"

#include "tuner/metrics.h"

#include <string_view>
#include <variant>
#include <vector>

namespace swr {
namespace {

constexpr double kUsPerMs = 1000.0;

std::string_view invalidity(ResultState state) {
  switch (state) {
    case ResultState::ok:
      return "correct";
    case ResultState::compile:
      return "compile";
    case ResultState::constraint:
      return "constraints";
    case ResultState::timeout:
      return "timeout";
    case ResultState::correctness:
      return "correctness";
    case ResultState::launch:
    case ResultState::runtime:
    case ResultState::crash:
    case ResultState::throttled:
      return "runtime";
  }
  return "runtime";
}

Json runtimes_ms(const Measurement& measurement) {
  Json runtimes = Json::array();
  for (const double sample_us : measurement.samples_us) {
    runtimes.push_back(sample_us / kUsPerMs);
  }
  return runtimes;
}

/// The unit that a metric's name ends in.
std::string unit_of(std::string_view key) {
  const std::string_view last = key.substr(key.rfind('_') + 1);
  return last == "us" || last == "bytes" || last == "sectors" ? std::string(last) : "";
}

Json measurements(const RecordedSpace& space, const VariantResult& result) {
  Json all = Json::array();
  if (result.state != ResultState::ok) {
    return all;
  }
  all.push_back({{"name", "time"}, {"value", result.time_us() / kUsPerMs}, {"unit", "ms"}});
  for (const Metric& metric : metrics()) {
    if (const auto value = metric.value(space.problem, result)) {
      const Json number = std::visit([](auto held) { return Json(held); }, *value);
      all.push_back({{"name", metric.key}, {"value", number}, {"unit", unit_of(metric.key)}});
    }
  }
  return all;
}

Json result_json(const RecordedSpace& space, const VariantResult& result) {
  const bool wrong = result.state == ResultState::correctness;
  return {{"configuration", result.variant},
          {"objectives", Json::array({"time"})},
          {"times", {{"runtimes", runtimes_ms(*result.measurement())}}},
          {"invalidity", invalidity(result.state)},
          {"correctness", wrong ? 0 : 1},
          {"measurements", measurements(space, result)}};
}

}  // namespace

Json t4_document(const RecordedSpace& space) {
  Json document = Json::object();
  document["schema_version"] = "1.0.0";
  document["results"] = Json::array();
  for (const VariantResult& result : space.results) {
    document["results"].push_back(result_json(space, result));
  }
  document["swr"] = {{"problem", space.problem},
                     {"device", space.device},
                     {"swr_version", space.origin.swr_version},
                     {"templates_digest", space.origin.templates_digest},
                     {"nvrtc_version", space.origin.nvrtc_version},
                     {"driver_version", space.origin.driver_version},
                     {"l2_state", space.origin.l2_state}};
  return document;
}

}  // namespace swr
