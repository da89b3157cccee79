// SPDX-License-Identifier: MIT
#include "core/recorded_space.h"

#include "core/ascii.h"
#include "core/bounded_json.h"
#include "core/fields.h"
#include "core/json.h"
#include "core/operation.h"
#include "core/sha256.h"
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <set>
#include <utility>

namespace swr {
namespace {

constexpr const char* kFormat = "swr-recorded-space";
constexpr int kVersion = 1;
/// More rows than any space has; a file with more is no recording.
constexpr std::size_t kMaxRows = 1 << 20;

/// Names of the axes with a column.
using AxisColumns = std::set<std::string_view>;

/// Axes without which files were written before they came, or are where no variant has them.
bool is_optional(const Axis& axis) { return axis.came_later || !axis.belongs_to(Family::portable); }

/// The columns of a row: the axes, then what is known of every variant.
std::vector<std::string> leading_columns(const Operation& operation, const AxisColumns& chosen) {
  std::vector<std::string> names;
  for (const Axis& axis : axes(operation)) {
    if (!is_optional(axis) || chosen.contains(axis.name)) {
      names.emplace_back(axis.name);
    }
  }
  for (const char* name : {"state", "registers_per_thread", "ctas_per_sm"}) {
    names.emplace_back(name);
  }
  return names;
}

/// Names of a type's fields, in order.
struct FieldNames {
  std::vector<std::string>& names;

  template <typename Value, typename... Bounds>
  void operator()(const char* name, const Value& /*value*/, const Bounds&... /*bounds*/) const {
    names.emplace_back(name);
  }
};

std::vector<std::string> columns(const Operation& operation, Provenance provenance,
                                 const AxisColumns& chosen) {
  std::vector<std::string> names = leading_columns(operation, chosen);
  if (provenance == Provenance::predicted) {
    names.emplace_back("time_us");
    return names;
  }
  names.emplace_back("median_us");
  names.emplace_back("p95_us");
  const Counters counters;
  visit_fields(counters, FieldNames{names});
  names.emplace_back("counters_missing_because");
  return names;
}

/// Whole nanoseconds: below what a GPU's timer resolves.
double nanosecond(double time_us) { return std::round(time_us * 1000.0) / 1000.0; }

void add_measurement(Json& row, const Measurement& measurement) {
  row["median_us"] = nanosecond(measurement.median_us);
  row["p95_us"] = nanosecond(measurement.p95_us);
  if (measurement.counters) {
    row.update(Json(*measurement.counters));
  }
  row["counters_missing_because"] = measurement.counters_missing_because;
}

Json named_row(const VariantResult& result) {
  Json row = result.variant;
  row["state"] = std::string(to_string(result.state));
  row["registers_per_thread"] = result.resources.registers_per_thread;
  row["ctas_per_sm"] = result.ctas_per_sm;
  if (result.state != ResultState::ok) {
    return row;
  }
  if (const Measurement* measurement = result.measurement()) {
    add_measurement(row, *measurement);
  } else {
    row["time_us"] = nanosecond(result.time_us());
  }
  return row;
}

/// The axes that a variant has of another family than the portable one, and those that came later
/// and differ from their default somewhere.
AxisColumns needed_columns(const std::vector<VariantResult>& results) {
  AxisColumns needed;
  for (const VariantResult& result : results) {
    const Operation& operation = result.variant.operation();
    const Variant defaults = default_axes(operation);
    for (const Axis& axis : axes(operation)) {
      if (axis.belongs_to(family_of(result.variant)) &&
          (!axis.came_later || !axis.is_equal(result.variant, defaults))) {
        needed.insert(axis.name);
      }
    }
  }
  return needed;
}

/// The values of a row in the order of the columns. What is absent at the end is left out.
Json positional(const Json& row, const std::vector<std::string>& names) {
  Json values = Json::array();
  for (const std::string& name : names) {
    values.push_back(row.contains(name) ? row[name] : Json());
  }
  while (!values.empty() && (values.back().is_null() || values.back() == "")) {
    values.erase(values.size() - 1);
  }
  return values;
}

Json named(const Json& values, const std::vector<std::string>& names) {
  if (!values.is_array() || values.size() > names.size()) {
    throw Error(ErrorCode::invalid_argument,
                "it must be a list of at most " + std::to_string(names.size()) + " values");
  }
  Json row = Json::object();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_null()) {
      row[names[i]] = values[i];
    }
  }
  return row;
}

Variant read_variant(const Operation& operation, const Json& row) {
  Json axes_only = Json::object();
  for (const Axis& axis : axes(operation)) {
    if (row.contains(axis.name)) {
      axes_only[std::string(axis.name)] = row[std::string(axis.name)];
    }
  }
  return variant_from_json(operation, axes_only);
}

/// Sets the counters from a row that has them.
struct CounterReader {
  const Json& row;

  void operator()(const char* name, long long& field, long long low, long long high) const {
    field = json_integer(row, name, low, high);
  }
};

Measurement read_measurement(const Json& row) {
  Measurement measurement;
  measurement.median_us = json_number(row, "median_us");
  measurement.p95_us = json_number(row, "p95_us");
  if (row.contains("sectors_demanded")) {
    visit_fields(measurement.counters.emplace(), CounterReader{row});
  }
  if (row.contains("counters_missing_because")) {
    measurement.counters_missing_because = json_text(row, "counters_missing_because");
  }
  return measurement;
}

VariantResult read_row(const Json& row, const Problem& problem, Provenance provenance) {
  VariantResult result;
  result.variant = read_variant(problem.operation(), row);
  result.state = parse_result_state(json_text(row, "state"));
  result.resources.registers_per_thread =
      static_cast<int>(json_integer(row, "registers_per_thread", 0, 255));
  result.ctas_per_sm = static_cast<int>(json_integer(row, "ctas_per_sm", 0, kMaxCtasPerSm));
  result.smem_bytes = smem_bytes(problem, result.variant);
  const bool ok = result.state == ResultState::ok;
  if (provenance == Provenance::measured) {
    result.outcome = ok ? read_measurement(row) : Measurement{};
  } else {
    result.outcome = Prediction{.time_us = ok ? json_number(row, "time_us") : 0.0};
  }
  if (ok && !(result.time_us() > 0)) {
    throw Error(ErrorCode::invalid_argument, "the time of a row that is ok must be above 0");
  }
  return result;
}

void read_rows(const Json& rows, Provenance provenance, const std::vector<std::string>& names,
               RecordedSpace& space) {
  if (!rows.is_array() || rows.empty() || rows.size() > kMaxRows) {
    throw Error(ErrorCode::invalid_argument, "field 'rows' must be a list of at least one row");
  }
  std::set<Variant> seen;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    try {
      space.results.push_back(read_row(named(rows[i], names), space.problem, provenance));
      if (!seen.insert(space.results.back().variant).second) {
        throw Error(ErrorCode::invalid_argument, "its variant is in the file twice");
      }
    } catch (const Error& error) {
      throw Error(error.code(), "row " + std::to_string(i + 1) + ": " + error.what());
    }
  }
}

/// The columns of a file. Throws: Error{invalid_argument} unless they are those of this version.
std::vector<std::string> read_columns(const Json& json, const Operation& operation,
                                      Provenance provenance) {
  const Json& listed = json_field(json, "columns");
  AxisColumns chosen;
  for (const Axis& axis : axes(operation)) {
    if (std::ranges::find(listed, Json(axis.name)) != listed.end()) {
      chosen.insert(axis.name);
    }
  }
  std::vector<std::string> names = columns(operation, provenance, chosen);
  if (listed != Json(names)) {
    throw Error(ErrorCode::invalid_argument,
                "field 'columns' does not list the columns of version " + std::to_string(kVersion));
  }
  return names;
}

void require_format(const Json& json) {
  if (json_text(json, "format") != kFormat) {
    throw Error(ErrorCode::invalid_argument, std::string("field 'format' must be ") + kFormat);
  }
  json_integer(json, "version", kVersion, kVersion);
}

RecordedSpace parse_space(const Json& json) {
  const Provenance provenance = parse_provenance(json_text(json, "provenance"));
  require_format(json);
  const Problem problem = json_field(json, "problem").get<Problem>();
  const std::vector<std::string> names = read_columns(json, problem.operation(), provenance);
  RecordedSpace space{.problem = problem,
                      .device = json_field(json, "device").get<DeviceInfo>(),
                      .origin = json_field(json, "origin").get<RecordedOrigin>(),
                      .results = {}};
  read_rows(json_field(json, "rows"), provenance, names, space);
  return space;
}

/// Lower case, with a dash for every run of other characters.
std::string file_word(const std::string& text) {
  std::string word;
  for (const char character : text) {
    if (ascii::is_alphanumeric(character)) {
      word += ascii::lower(character);
    } else if (!word.empty() && word.back() != '-') {
      word += '-';
    }
  }
  if (word.ends_with('-')) {
    word.pop_back();
  }
  return word;
}

/// The same within what the name of a file may hold: a long word ends in its digest.
std::string short_file_word(const std::string& text) {
  constexpr std::size_t kMost = 64;
  constexpr std::size_t kDigits = 8;
  const std::string word = file_word(text);
  return word.size() <= kMost ? word
                              : word.substr(0, kMost) + "-" + sha256_hex(word).substr(0, kDigits);
}

}  // namespace

double RecordedSpace::best_us() const {
  double best_us = 0.0;
  for (const VariantResult& result : results) {
    if (result.state == ResultState::ok && (best_us <= 0.0 || result.time_us() < best_us)) {
      best_us = result.time_us();
    }
  }
  return best_us;
}

void to_json(Json& json, const RecordedOrigin& origin) {
  json = {{"swr_version", origin.swr_version},
          {"templates_digest", origin.templates_digest},
          {"nvrtc_version", origin.nvrtc_version},
          {"driver_version", origin.driver_version},
          {"l2_state", origin.l2_state}};
  if (!origin.overlay_digest.empty()) {
    json["overlay_digest"] = origin.overlay_digest;
  }
}

void from_json(const Json& json, RecordedOrigin& origin) {
  origin = {
      .swr_version = json_text(json, "swr_version"),
      .templates_digest = json_text(json, "templates_digest"),
      .overlay_digest = json.contains("overlay_digest") ? json_text(json, "overlay_digest") : "",
      .nvrtc_version = json_text(json, "nvrtc_version"),
      .driver_version = json_text(json, "driver_version"),
      .l2_state = json_text(json, "l2_state")};
}

void write_recorded_space(std::ostream& out, const RecordedSpace& space) {
  const Provenance provenance =
      space.results.empty() ? Provenance::measured : space.results.front().provenance();
  const std::vector<std::string> names =
      columns(space.problem.operation(), provenance, needed_columns(space.results));
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  out << "{\"format\": \"" << kFormat << "\",\n \"version\": " << std::to_string(kVersion)
      << ",\n \"provenance\": \"" << to_string(provenance)
      << "\",\n \"problem\": " << text(space.problem) << ",\n \"device\": " << text(space.device)
      << ",\n \"origin\": " << text(space.origin) << ",\n \"columns\": " << text(Json(names))
      << ",\n \"rows\": [\n";
  for (std::size_t i = 0; i < space.results.size(); ++i) {
    out << text(positional(named_row(space.results[i]), names))
        << (i + 1 < space.results.size() ? ",\n" : "\n");
  }
  out << "]}\n";
}

RecordedSpace read_recorded_space(const std::filesystem::path& path) {
  const auto unreadable = [&path](const std::string& why) {
    return Error(ErrorCode::unreadable, path.string() + " is no recorded space: " + why +
                                            "; write it again with swr-tune db record");
  };
  try {
    return parse_space(read_json_file(path));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) {
      throw Error(ErrorCode::not_found, "cannot open the recorded space " + path.string() +
                                            "; swr-tune db record writes such files");
    }
    throw unreadable(error.what());
  } catch (const Json::exception& error) {
    throw unreadable(error.what());
  }
}

std::string recorded_space_name(const Problem& problem, const DeviceInfo& device,
                                const RecordedOrigin& origin) {
  std::string name = problem.operation().file_name(problem);
  name += "_" + short_file_word(device.name);
  if (origin.l2_state == to_string(L2State::cold)) {
    name += "_cold";
  }
  constexpr std::size_t kDigits = 8;
  return name + (origin.overlay_digest.empty()
                     ? ""
                     : "_overlay-" + file_word(origin.overlay_digest.substr(0, kDigits)));
}

}  // namespace swr
