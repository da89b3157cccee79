// SPDX-License-Identifier: MIT
#include "core/json.h"

#include "core/enum_text.h"
#include "core/fields.h"
#include "core/operation.h"
#include "core/printable.h"
#include <swr/error.h>

#include <cmath>
#include <limits>
#include <vector>

namespace swr {
namespace {

[[noreturn]] void reject(std::string_view name, std::string_view expected) {
  throw Error(ErrorCode::invalid_argument,
              "field '" + std::string(name) + "' must be " + std::string(expected));
}

/// Adds each visited field to an object.
struct Writer {
  Json& json;

  template <typename Enum>
  requires std::is_enum_v<Enum>
  void operator()(const char* name, Enum value) const {
    json[name] = std::string(to_string(value));
  }
  template <typename Value, typename... Bounds>
  void operator()(const char* name, const Value& value, const Bounds&...) const {
    json[name] = value;
  }
};

/// Sets each visited field from an object.
struct Reader {
  const Json& json;

  void operator()(const char* name, int& field, long long low = 0, long long high = kMaxInt) const {
    field = static_cast<int>(json_integer(json, name, low, high));
  }
  void operator()(const char* name, long long& field, long long low = 0,
                  long long high = kMaxLong) const {
    field = json_integer(json, name, low, high);
  }
  void operator()(const char* name, double& field) const { field = json_number(json, name); }
  void operator()(const char* name, bool& field) const { field = json_flag(json, name); }
  void operator()(const char* name, std::string& field) const {
    field = printable_line(json_text(json, name));
  }
};

/// An output of NaNs has no relative error: text holds null there, the binary form infinity.
struct MeasurementReader : Reader {
  using Reader::operator();
  void operator()(const char* name, double& field) const {
    const Json& value = json_field(json, name);
    const bool unknown =
        value.is_null() || (value.is_number_float() && !std::isfinite(value.get<double>()));
    field = unknown ? std::numeric_limits<double>::infinity() : json_number(json, name);
  }
};

std::vector<double> read_samples(const Json& json, std::string_view name) {
  const Json& field = json_field(json, name);
  if (!field.is_array()) {
    reject(name, "a list");
  }
  std::vector<double> samples;
  for (const Json& sample : field) {
    if (!sample.is_number() || !std::isfinite(sample.get<double>()) || sample.get<double>() < 0) {
      reject(name, "a list of numbers that are not negative");
    }
    samples.push_back(sample.get<double>());
  }
  return samples;
}

/// Nothing where nobody has tried, as in files from before energy was measured.
void write_energy(Json& json, const Measurement& measurement) {
  if (const auto& energy = measurement.energy) {
    json["energy"] = {{"samples_mj", energy->samples_mj},
                      {"launch_us", energy->launch_us},
                      {"idle_power_w", energy->idle_power_w}};
  }
  if (!measurement.energy_missing_because.empty()) {
    json["energy_missing_because"] = measurement.energy_missing_because;
  }
}

void read_energy(const Json& json, Measurement& measurement) {
  measurement.energy.reset();
  if (json.contains("energy")) {
    const Json& stored = json["energy"];
    Energy& energy = measurement.energy.emplace();
    energy.samples_mj = read_samples(stored, "samples_mj");
    energy.launch_us = json_number(stored, "launch_us");
    energy.idle_power_w = json_number(stored, "idle_power_w");
    if (energy.samples_mj.empty() || !(energy.launch_us > 0)) {
      reject("energy", "that of at least one run of launches");
    }
  }
  measurement.energy_missing_because = json.contains("energy_missing_because")
                                           ? json_text(json, "energy_missing_because")
                                           : std::string();
}

template <typename Value>
void write_fields(Json& json, const Value& value) {
  json = Json::object();
  visit_fields(value, Writer{json});
}

/// The fields of a type in which each number may be unknown, which is then not there.
template <typename Value>
void write_known(Json& json, const Value& value) {
  json = Json::object();
  visit_fields(value, [&](const char* name, const std::optional<long long>& number) {
    if (number) {
      json[name] = *number;
    }
  });
}

template <typename Value>
void read_known(const Json& json, Value& value) {
  visit_fields(value, [&](const char* name, std::optional<long long>& number) {
    number.reset();
    if (json.contains(name)) {
      number = json_integer(json, name, 0, kMaxCount);
    }
  });
}

Json axis_json(const AxisValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

/// Files from before there were several operations do not name theirs: it was the first.
const Operation& operation_of_json(const Json& json) {
  return json.is_object() && json.contains("op") ? find_operation(json_text(json, "op"))
                                                 : *operations().front();
}

Json field_json(const Problem& problem, const Field& field) {
  const int value = field.read(problem.members());
  if (field.is_text()) {
    return field_text(problem, field);
  }
  return field.type == FieldType::flag ? Json(value != 0) : Json(value);
}

int field_value(const Json& json, const Field& field) {
  if (field.is_text()) {
    return parse_enum<int>(field.spellings, json_text(json, field.name), field.name);
  }
  return field.type == FieldType::flag
             ? static_cast<int>(json_flag(json, field.name))
             : static_cast<int>(json_integer(json, field.name, 0, kMaxInt));
}

AxisValue axis_value(const Axis& axis, const Json& json) {
  if (!axis.is_text()) {
    return json_integer(json, axis.name, 0, kMaxInt);
  }
  return json_text(json, axis.name);
}

}  // namespace

void to_json(Json& json, const Problem& problem) {
  json = {{"op", std::string(problem.operation().name())}};
  const Problem usual = problem.operation().default_problem();
  for (const Field& field : fields(problem.operation())) {
    if (!field.came_later || field.read(problem.members()) != field.read(usual.members())) {
      json[std::string(field.name)] = field_json(problem, field);
    }
  }
}

void to_json(Json& json, const DeviceInfo& device) { write_fields(json, device); }
void to_json(Json& json, const KernelResources& resources) { write_fields(json, resources); }
void to_json(Json& json, const LaunchGeometry& geometry) { write_fields(json, geometry); }
void to_json(Json& json, const Counters& counters) { write_fields(json, counters); }

void to_json(Json& json, const AccessCounters& accesses) { write_known(json, accesses); }
void to_json(Json& json, const GpuCondition& condition) { write_known(json, condition); }

void to_json(Json& json, const Prediction& prediction) { write_fields(json, prediction); }

void to_json(Json& json, const Variant& variant) {
  json = Json::object();
  for (const Axis& axis : axes(variant.operation())) {
    if (axis.belongs_to(family_of(variant))) {
      json[std::string(axis.name)] = axis_json(axis.get(variant));
    }
  }
}

void to_json(Json& json, const Measurement& measurement) {
  write_fields(json, measurement);
  json["samples_us"] = measurement.samples_us;
  json["l2_state"] = std::string(to_string(measurement.l2_state));
  json["sampling"] = std::string(to_string(measurement.sampling));
  json["before"] = measurement.before;
  json["after"] = measurement.after;
  json["condition_missing_because"] = measurement.condition_missing_because;
  if (measurement.counters) {
    json["counters"] = *measurement.counters;
  }
  json["counters_missing_because"] = measurement.counters_missing_because;
  if (measurement.accesses) {
    json["accesses"] = *measurement.accesses;
  }
  json["accesses_missing_because"] = measurement.accesses_missing_because;
  write_energy(json, measurement);
}

void to_json(Json& json, const VariantResult& result) {
  json = Json::object();
  json["op"] = std::string(result.variant.operation().name());
  json["variant"] = result.variant;
  json["state"] = std::string(to_string(result.state));
  json["detail"] = result.detail;
  json["resources"] = result.resources;
  json["smem_bytes"] = result.smem_bytes;
  json["ctas_per_sm"] = result.ctas_per_sm;
  json["cubin_digest"] = result.cubin_digest;
  const std::string provenance(to_string(result.provenance()));
  json["provenance"] = provenance;
  std::visit([&](const auto& outcome) { json[provenance] = outcome; }, result.outcome);
}

void from_json(const Json& json, Problem& problem) {
  const Operation& operation = operation_of_json(json);
  problem = operation.default_problem();
  for (const Field& field : operation.fields()) {
    if (!field.came_later || json.contains(field.name)) {
      field.write(problem.members(), field_value(json, field));
    }
  }
  validate(problem);
}

Variant variant_from_json(const Operation& operation, const Json& json) {
  Variant variant = default_axes(operation);
  for (const Axis& axis : axes(operation)) {  // The family comes first.
    const bool defaulted = axis.came_later && !json.contains(axis.name);
    if (axis.belongs_to(family_of(variant)) && !defaulted) {
      axis.set(variant, axis_value(axis, json));
    }
  }
  for (const auto& [name, value] : json.items()) {
    const Axis* const axis = find_axis(operation, name);
    if (axis == nullptr || !axis->belongs_to(family_of(variant))) {
      throw Error(ErrorCode::invalid_argument, "'" + name + "' is no axis of family " +
                                                   std::string(to_string(family_of(variant))));
    }
  }
  return variant;
}

void from_json(const Json& json, DeviceInfo& device) { visit_fields(device, Reader{json}); }
void from_json(const Json& json, KernelResources& resources) {
  visit_fields(resources, Reader{json});
}
void from_json(const Json& json, LaunchGeometry& geometry) {
  Json complete = json;
  for (const char* name : {"partials_bytes", "arrival_words"}) {
    if (complete.is_object() && !complete.contains(name)) {
      complete[name] = 0;  // Written before there were splits.
    }
  }
  visit_fields(geometry, Reader{complete});
}

void from_json(const Json& json, Counters& counters) { visit_fields(counters, Reader{json}); }

void from_json(const Json& json, AccessCounters& accesses) { read_known(json, accesses); }
void from_json(const Json& json, GpuCondition& condition) { read_known(json, condition); }

void from_json(const Json& json, Prediction& prediction) { visit_fields(prediction, Reader{json}); }

void from_json(const Json& json, Measurement& measurement) {
  visit_fields(measurement, MeasurementReader{{json}});
  measurement.samples_us = read_samples(json, "samples_us");
  measurement.l2_state = parse_l2_state(json_text(json, "l2_state"));
  measurement.sampling = parse_sampling(json_text(json, "sampling"));
  measurement.before = json_field(json, "before").get<GpuCondition>();
  measurement.after = json_field(json, "after").get<GpuCondition>();
  measurement.condition_missing_because = json_text(json, "condition_missing_because");
  measurement.counters.reset();
  if (json.contains("counters")) {
    measurement.counters = json["counters"].get<Counters>();
  }
  measurement.counters_missing_because = json_text(json, "counters_missing_because");
  measurement.accesses.reset();
  if (json.contains("accesses")) {
    measurement.accesses = json["accesses"].get<AccessCounters>();
  }
  measurement.accesses_missing_because = json_text(json, "accesses_missing_because");
  read_energy(json, measurement);
}

void from_json(const Json& json, VariantResult& result) {
  result.variant = variant_from_json(operation_of_json(json), json_field(json, "variant"));
  result.state = parse_result_state(json_text(json, "state"));
  result.detail = json_text(json, "detail");
  result.resources = json_field(json, "resources").get<KernelResources>();
  result.smem_bytes = static_cast<int>(json_integer(json, "smem_bytes", 0, kMaxInt));
  result.ctas_per_sm = static_cast<int>(json_integer(json, "ctas_per_sm", 0, kMaxCtasPerSm));
  result.cubin_digest = json_text(json, "cubin_digest");
  const std::string provenance = json_text(json, "provenance");
  const Json& outcome = json_field(json, provenance);
  if (parse_provenance(provenance) == Provenance::measured) {
    result.outcome = outcome.get<Measurement>();
  } else {
    result.outcome = outcome.get<Prediction>();
  }
  const double time_us = result.time_us();
  if (result.state == ResultState::ok && !(std::isfinite(time_us) && time_us > 0)) {
    reject("state", "other than ok without a time");
  }
}

const Json& json_field(const Json& json, std::string_view name) {
  if (!json.is_object()) {
    reject(name, "part of an object");
  }
  const auto found = json.find(std::string(name));
  if (found == json.end()) {
    reject(name, "present");
  }
  return *found;
}

std::string json_text(const Json& json, std::string_view name) {
  const Json& field = json_field(json, name);
  if (!field.is_string()) {
    reject(name, "a text");
  }
  return printable(field.get_ref<const std::string&>());
}

long long json_integer(const Json& json, std::string_view name, long long low, long long high) {
  const Json& field = json_field(json, name);
  // Integers above the signed range are held unsigned and would wrap.
  if (!field.is_number_integer() ||
      (field.is_number_unsigned() && field.get<unsigned long long>() > kMaxLong)) {
    reject(name, "a whole number");
  }
  const auto value = field.get<long long>();
  require_between(name, value, low, high);
  return value;
}

double json_number(const Json& json, std::string_view name) {
  const Json& field = json_field(json, name);
  if (!field.is_number() || !std::isfinite(field.get<double>()) || field.get<double>() < 0) {
    reject(name, "a number that is not negative");
  }
  return field.get<double>();
}

bool json_flag(const Json& json, std::string_view name) {
  const Json& field = json_field(json, name);
  if (!field.is_boolean()) {
    reject(name, "true or false");
  }
  return field.get<bool>();
}

std::string json_document(const Json& json) {
  constexpr int kIndent = 2;
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace swr
