// SPDX-License-Identifier: MIT
#include "report/other_formats.h"

#include "core/fields.h"
#include "core/metrics.h"
#include "core/number_text.h"
#include "core/operation.h"
#include "core/statistics/statistics.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
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
  static const std::map<std::string_view, std::string> kUnits{
      {"us", "us"}, {"bytes", "bytes"}, {"sectors", "sectors"}, {"mj", "mJ"}, {"w", "W"}};
  const auto unit = kUnits.find(key.substr(key.rfind('_') + 1));
  return unit == kUnits.end() ? "" : unit->second;
}

const Energy* energy_of(const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  const bool is_known =
      result.state == ResultState::ok && measurement != nullptr && measurement->energy.has_value();
  return is_known ? &*measurement->energy : nullptr;
}

std::string energy_run_name(std::size_t run) {
  std::string name = "energy_run_";
  return name.append(std::to_string(run + 1)).append("_mj");
}

/// What the metrics do not say of it: each run, and the time of a launch in them.
void add_energy(Json& all, const Energy& energy) {
  all.push_back({{"name", "energy"}, {"value", energy.mean_mj()}, {"unit", "mJ"}});
  for (std::size_t i = 0; i < energy.samples_mj.size(); ++i) {
    all.push_back({{"name", energy_run_name(i)}, {"value", energy.samples_mj[i]}, {"unit", "mJ"}});
  }
  all.push_back({{"name", "energy_launch_us"}, {"value", energy.launch_us}, {"unit", "us"}});
}

Json measurements(const RecordedSpace& space, const VariantResult& result) {
  Json all = Json::array();
  if (result.state != ResultState::ok) {
    return all;
  }
  all.push_back({{"name", "time"}, {"value", result.time_us() / kUsPerMs}, {"unit", "ms"}});
  if (const Energy* const energy = energy_of(result)) {
    add_energy(all, *energy);
  }
  for (const Metric& metric : metrics()) {
    if (const auto value = metric.value(space.problem, result)) {
      const Json number = std::visit([](auto held) { return Json(held); }, *value);
      all.push_back({{"name", metric.key}, {"value", number}, {"unit", unit_of(metric.key)}});
    }
  }
  const Measurement* measurement = result.measurement();
  if (measurement != nullptr && measurement->accesses) {
    visit_fields(*measurement->accesses, [&](const char* name, const auto& value) {
      if (value) {
        all.push_back({{"name", name}, {"value", *value}, {"unit", unit_of(name)}});
      }
    });
  }
  return all;
}

Json result_json(const RecordedSpace& space, const VariantResult& result) {
  const bool wrong = result.state == ResultState::correctness;
  const auto objectives =
      energy_of(result) != nullptr ? Json::array({"time", "energy"}) : Json::array({"time"});
  return {{"configuration", result.variant},
          {"objectives", objectives},
          {"times", {{"runtimes", runtimes_ms(*result.measurement())}}},
          {"invalidity", invalidity(result.state)},
          {"correctness", wrong ? 0 : 1},
          {"measurements", measurements(space, result)}};
}

ResultState state_of(const std::string& invalidity) {
  static const std::map<std::string, ResultState> kStates{{"correct", ResultState::ok},
                                                          {"compile", ResultState::compile},
                                                          {"constraints", ResultState::constraint},
                                                          {"timeout", ResultState::timeout},
                                                          {"correctness", ResultState::correctness},
                                                          {"runtime", ResultState::runtime}};
  const auto found = kStates.find(invalidity);
  if (found == kStates.end()) {
    throw Error(ErrorCode::invalid_argument, "invalidity '" + invalidity + "' is not of T4 1.0");
  }
  return found->second;
}

/// In the order in which they are looked for: swr's own name, and those of Kernel Tuner's
/// observers.
constexpr std::array<std::string_view, 4> kEnergyNames{"energy", "nvml_energy", "ps_energy",
                                                       "pmt_energy"};

/// What to multiply a value with: energies may come in several units, and Kernel Tuner's observers
/// write Joule without saying so. Other values keep their unit.
double millijoules(const std::string& name, const Json& measurement) {
  if (std::ranges::find(kEnergyNames, name) == kEnergyNames.end()) {
    return 1.0;
  }
  const std::string unit = measurement.contains("unit") ? json_text(measurement, "unit") : "";
  if (unit.empty() || unit == "J") {
    return 1e3;
  }
  if (unit != "mJ" && unit != "uJ") {
    throw Error(ErrorCode::invalid_argument,
                "the unit of " + name + " must be J, mJ or uJ, not '" + unit + "'");
  }
  return unit == "mJ" ? 1.0 : 1e-3;
}

const Json& json_list(const Json& json, std::string_view name) {
  const Json& list = json_field(json, name);
  if (!list.is_array()) {
    throw Error(ErrorCode::invalid_argument, std::string(name) + " is not a list");
  }
  return list;
}

/// The values of `measurements` by name.
std::map<std::string, double> named_values(const Json& result) {
  std::map<std::string, double> values;
  for (const Json& measurement : json_list(result, "measurements")) {
    const std::string name = json_text(measurement, "name");
    values[name] = json_number(measurement, "value") * millijoules(name, measurement);
  }
  return values;
}

std::optional<double> find_value(const std::map<std::string, double>& values,
                                 const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

/// A count, which other tools may have averaged. Throws: Error when no counter could have it.
long long whole(const std::string& name, double value, long long high) {
  if (!(value <= static_cast<double>(high))) {
    throw Error(ErrorCode::invalid_argument,
                name + " must be at most " + std::to_string(high) + ", not " + Json(value).dump());
  }
  return static_cast<long long>(value);
}

/// All counters that a measurement names, or none: one that is missing is not 0.
std::optional<Counters> read_counters(const std::map<std::string, double>& values) {
  constexpr std::array<std::pair<const char*, long long Counters::*>, 7> kFields{
      {{"l2_sectors", &Counters::sectors_demanded},
       {"l2_lookups_sectors", &Counters::l2_lookups},
       {"l2_hits_sectors", &Counters::l2_hits},
       {"l2_misses_sectors", &Counters::l2_misses},
       {"l2_fabric_sectors", &Counters::l2_fabric_sectors},
       {"dram_read_bytes", &Counters::dram_read_bytes},
       {"dram_write_bytes", &Counters::dram_write_bytes}}};
  Counters counters;
  for (const auto& [name, field] : kFields) {
    const auto found = values.find(name);
    if (found == values.end()) {
      return std::nullopt;
    }
    counters.*field = whole(found->first, found->second, kMaxCount);
  }
  return counters;
}

/// Those that a measurement names; nothing where it names none.
std::optional<AccessCounters> read_accesses(const std::map<std::string, double>& values) {
  AccessCounters accesses;
  visit_fields(accesses, [&](const char* name, std::optional<long long>& field) {
    const auto found = values.find(name);
    if (found != values.end()) {
      field = whole(found->first, found->second, kMaxCount);
    }
  });
  return accesses != AccessCounters{} ? std::optional(accesses) : std::nullopt;
}

/// The runs of swr's own files; else the one number of `energy`, or of Kernel Tuner's observers.
std::vector<double> energy_runs_mj(const std::map<std::string, double>& values) {
  std::vector<double> runs;
  while (const auto run = find_value(values, energy_run_name(runs.size()))) {
    runs.push_back(*run);
  }
  if (!runs.empty()) {
    return runs;
  }
  for (const std::string_view name : kEnergyNames) {
    if (const auto energy = find_value(values, std::string(name))) {
      return {*energy};
    }
  }
  return {};
}

/// The time of a launch while energy was measured, which Kernel Tuner's files say by the power.
double energy_launch_us(const std::map<std::string, double>& values, double energy_mj,
                        double median_us) {
  if (const auto launch_us = find_value(values, "energy_launch_us")) {
    return *launch_us;
  }
  const auto power_w = find_value(values, "nvml_power");
  return power_w ? energy_mj * kUsPerMs / *power_w : median_us;
}

/// Throws: Error when what is said of it cannot be.
std::optional<Energy> read_energy(const std::map<std::string, double>& values, double median_us) {
  Energy energy;
  energy.samples_mj = energy_runs_mj(values);
  if (energy.samples_mj.empty()) {
    return std::nullopt;
  }
  energy.launch_us = energy_launch_us(values, energy.mean_mj(), median_us);
  energy.idle_power_w = find_value(values, "idle_power_w").value_or(0.0);
  const auto is_positive = [](double value) { return value > 0 && std::isfinite(value); };
  if (!std::ranges::all_of(energy.samples_mj, is_positive) || !is_positive(energy.launch_us)) {
    throw Error(ErrorCode::invalid_argument,
                "energy and the time of a launch meanwhile must be above 0");
  }
  return energy;
}

int whole_or_0(const std::map<std::string, double>& values, const std::string& name,
               long long high) {
  const auto found = values.find(name);
  return found != values.end() ? static_cast<int>(whole(name, found->second, high)) : 0;
}

Measurement read_measurement(const Json& result, const std::map<std::string, double>& values) {
  Measurement measurement;
  for (const Json& runtime : json_list(json_field(result, "times"), "runtimes")) {
    const double sample_us = runtime.is_number() ? runtime.get<double>() * kUsPerMs : 0.0;
    if (!(sample_us > 0.0) || !std::isfinite(sample_us)) {
      throw Error(ErrorCode::invalid_argument,
                  "a runtime is not a number of milliseconds above 0: " + runtime.dump());
    }
    measurement.samples_us.push_back(sample_us);
  }
  if (measurement.samples_us.empty()) {
    throw Error(ErrorCode::invalid_argument, "a correct result has no runtimes");
  }
  measurement.median_us = median(measurement.samples_us);
  measurement.p95_us = percentile(measurement.samples_us, 95.0);
  const auto error = values.find("relative_error");
  measurement.relative_error = error != values.end() ? error->second : 0.0;
  measurement.counters = read_counters(values);
  measurement.counters_missing_because =
      measurement.counters ? "" : "not in the T4 file that was imported";
  measurement.accesses = read_accesses(values);
  measurement.accesses_missing_because =
      measurement.accesses ? "" : "not in the T4 file that was imported";
  measurement.energy = read_energy(values, measurement.median_us);
  measurement.condition_missing_because = "not in the T4 file that was imported";
  return measurement;
}

VariantResult read_result(const Operation& op, const Json& json, L2State l2_state) {
  VariantResult result;
  result.variant = variant_from_json(op, json_field(json, "configuration"));
  result.state = state_of(json_text(json, "invalidity"));
  result.detail = result.state == ResultState::ok ? "" : "imported from T4";
  Measurement measurement;
  if (result.state == ResultState::ok) {
    const auto values = named_values(json);
    measurement = read_measurement(json, values);
    result.resources.registers_per_thread = whole_or_0(values, "registers_per_thread", 255);
    result.smem_bytes = whole_or_0(values, "smem_bytes", kMaxInt);
    result.ctas_per_sm = whole_or_0(values, "ctas_per_sm", kMaxCtasPerSm);
  }
  measurement.l2_state = l2_state;
  result.outcome = std::move(measurement);
  return result;
}

RecordedSpace read_space(const Json& document) {
  if (!json_text(document, "schema_version").starts_with("1.")) {
    throw Error(ErrorCode::invalid_argument, "schema_version is not 1.x");
  }
  const Json& about = json_field(document, "swr");
  RecordedSpace space{.problem = json_field(about, "problem").get<Problem>(),
                      .device = json_field(about, "device").get<DeviceInfo>(),
                      .origin = about.get<RecordedOrigin>(),
                      .results = {}};
  for (const Json& result : json_list(document, "results")) {
    space.results.push_back(
        read_result(space.problem.operation(), result, parse_l2_state(space.origin.l2_state)));
  }
  return space;
}

}  // namespace

RecordedSpace read_t4(const Json& document) {
  try {
    return read_space(document);
  } catch (const Error& error) {
    const bool says_of_what = document.is_object() && document.contains("swr");
    throw Error(ErrorCode::unreadable,
                std::string("not T4 results that swr can use: ") + error.what() +
                    (says_of_what
                         ? ""
                         : "; the key \"swr\" names problem, device and versions as in an export"));
  }
}

Json t4_document(const RecordedSpace& space) {
  Json document = Json::object();
  document["schema_version"] = "1.0.0";
  document["results"] = Json::array();
  for (const VariantResult& result : space.results) {
    document["results"].push_back(result_json(space, result));
  }
  document["swr"] = {{"problem", space.problem}, {"device", space.device}};
  document["swr"].update(Json(space.origin));
  return document;
}

namespace {

constexpr double kGigaPerUs = 1e3;  ///< Units per microsecond are millions per second.

std::string_view disposition(ResultState state) {
  switch (state) {
    case ResultState::ok:
      return "passed";
    case ResultState::correctness:
      return "incorrect";
    case ResultState::compile:
    case ResultState::constraint:
      return "not_run";
    case ResultState::launch:
    case ResultState::runtime:
    case ResultState::timeout:
    case ResultState::crash:
    case ResultState::throttled:
      return "failed";
  }
  return "failed";
}

/// Bytes that any schedule moves: inputs and output once each.
double least_bytes(const Problem& problem) {
  const auto bytes = compulsory_bytes(problem);
  return static_cast<double>(bytes.read + bytes.write);
}

void write_rates(std::ostream& out, const Problem& problem, const VariantResult& result) {
  const double bytes = least_bytes(problem);
  const double flops = flop_count(problem);
  // A spec need not say what its kernel does.
  const auto known = [](double amount, double value) {
    return amount > 0.0 ? general_text(value) : "";
  };
  out << known(bytes, bytes) << ',' << known(flops, flops) << ','
      << known(std::min(bytes, flops), flops / bytes) << ',';
  if (result.state != ResultState::ok) {
    out << ",,";
    return;
  }
  const double time_us = result.time_us();
  out << general_text(time_us / kUsPerMs) << ',' << known(bytes, bytes / time_us / kGigaPerUs)
      << ',' << known(flops, flops / time_us / kGigaPerUs);
}

}  // namespace

void write_cutlass_csv(std::ostream& out, const RecordedSpace& space) {
  const Operation& op = space.problem.operation();
  out << "Problem,Provider,OperationKind,Operation,Disposition,Status";
  for (const Field& field : fields(op)) {
    out << ',' << field.name;
  }
  for (const Axis& axis : axes(op)) {
    out << ',' << axis.name;
  }
  out << ",Bytes,Flops,Flops/Byte,Runtime,GB/s,GFLOPs\n";
  for (const VariantResult& result : space.results) {
    // All variants solve one problem, as the operations that the profiler compares for a size do.
    out << "1,swr," << op.name() << ",swr_" << op.name() << '_'
        << to_string(family_of(result.variant)) << ',' << disposition(result.state) << ','
        << to_string(result.state);
    for (const Field& field : fields(op)) {
      out << ',' << field_text(space.problem, field);
    }
    for (const Axis& axis : axes(op)) {
      out << ',' << to_string(axis.get(result.variant));
    }
    out << ',';
    write_rates(out, space.problem, result);
    out << '\n';
  }
}

}  // namespace swr
