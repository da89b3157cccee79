// SPDX-License-Identifier: MIT
#include "core/recorded_space.h"

#include "core/ascii.h"
#include "core/bounded_json.h"
#include "core/fields.h"
#include "core/files.h"
#include "core/json.h"
#include "core/operation.h"
#include "core/reject.h"
#include "core/sha256.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <ostream>
#include <set>
#include <utility>

namespace swr {
namespace {

constexpr std::string_view kFormat = "swr-recorded-spaces";
constexpr int kVersion = 1;
/// More rows than any space has; a file with more is no recording.
constexpr long long kMaxRows = 1 << 20;

using Words = std::vector<std::string>;

Words split(std::string_view text, char separator) {
  Words words;
  while (true) {
    const auto end = text.find(separator);
    words.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return words;
    }
    text.remove_prefix(end + 1);
  }
}

std::string joined(const Words& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : ",") + words[i];
  }
  return text;
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct CounterNames {
  Words& names;

  void operator()(const char* name, long long /*field*/, long long /*low*/,
                  long long /*high*/) const {
    names.emplace_back(name);
  }
};

constexpr std::size_t kVariantColumn = 0;
constexpr std::size_t kTimeColumn = 3;

/// What a row says of a variant that was measured; of a prediction the first four.
Words row_columns() {
  Words names{"variant", "registers_per_thread", "ctas_per_sm", "time_ns", "p95_above_time_ns"};
  const Counters counters;
  visit_fields(counters, CounterNames{names});
  return names;
}

long long whole_ns(double time_us) { return std::llround(time_us * 1000.0); }

/// The nearest number to so many nanoseconds in microseconds, as a decimal point would be read.
double in_us(long long time_ns) { return static_cast<double>(time_ns) / 1000.0; }

// Writing.

/// Values of one kind, numbered in the order in which they first came.
class Numbered {
 public:
  std::size_t number_of(const std::string& text) {
    const auto found = std::ranges::find(texts_, text);
    const auto number = static_cast<std::size_t>(found - texts_.begin());
    if (found == texts_.end()) {
      texts_.push_back(text);
    }
    return number;
  }
  const Words& texts() const { return texts_; }

 private:
  Words texts_;
};

/// A key as names and values: "tile_m=64,order=cyclic".
struct KeyParts {
  Words names;
  Words values;
};

KeyParts parts_of(const std::string& key) {
  KeyParts parts;
  for (const std::string& part : split(key, ',')) {
    const auto equals = part.find('=');
    parts.names.push_back(part.substr(0, equals));
    parts.values.push_back(part.substr(equals + 1));
  }
  return parts;
}

/// Every variant of the spaces once, in tables of those whose keys name the same axes, and its
/// number: that of its row, counted over all tables.
class VariantTables {
 public:
  explicit VariantTables(std::span<const RecordedSpace> spaces) {
    for (const RecordedSpace& space : spaces) {
      for (const VariantResult& result : space.results) {
        const KeyParts parts = parts_of(to_key(result.variant));
        tables_[{name_of(result.variant.operation()), parts.names}].emplace(result.variant,
                                                                            parts.values);
      }
    }
    for (const auto& [head, rows] : tables_) {
      for (const auto& [variant, values] : rows) {
        numbers_.emplace(variant, numbers_.size());
      }
    }
  }

  std::size_t number_of(const Variant& variant) const { return numbers_.at(variant); }

  void write(std::ostream& out) const {
    for (const auto& [head, rows] : tables_) {
      write_table(out, find_operation(head.first), head.second, rows);
    }
  }

 private:
  using Rows = std::map<Variant, Words>;

  /// Axes with one value in the whole table stand in its head.
  static void write_table(std::ostream& out, const Operation& op, const Words& names,
                          const Rows& rows) {
    Words same;
    Words axes;
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& first = rows.begin()->second[i];
      const bool differs =
          std::ranges::any_of(rows, [&](const auto& row) { return row.second[i] != first; });
      if (differs || (rows.size() == 1 && i == 0)) {
        axes.push_back(names[i]);
        columns.push_back(i);
      } else {
        same.push_back(names[i] + "=" + first);
      }
    }
    out << "variants "
        << one_line({{"op", name_of(op)}, {"same", joined(same)}, {"axes", joined(axes)}}) << "\n";
    for (const auto& [variant, values] : rows) {
      Words row;
      std::ranges::transform(columns, std::back_inserter(row),
                             [&values = values](std::size_t i) { return values[i]; });
      out << joined(row) << "\n";
    }
  }

  /// By operation in the order of their names, and axes.
  std::map<std::pair<std::string_view, Words>, Rows> tables_;
  std::map<Variant, std::size_t> numbers_;
};

struct CounterWriter {
  Words& row;

  void operator()(const char* /*name*/, long long field, long long /*low*/,
                  long long /*high*/) const {
    row.push_back(std::to_string(field));
  }
};

Words row_of(const VariantResult& result, std::size_t variant, Numbered& reasons) {
  Words row{std::to_string(variant), std::to_string(result.resources.registers_per_thread),
            std::to_string(result.ctas_per_sm)};
  if (result.state != ResultState::ok) {
    row.emplace_back(to_string(result.state));
    return row;
  }
  row.push_back(std::to_string(whole_ns(result.time_us())));
  const Measurement* const measurement = result.measurement();
  if (measurement == nullptr) {
    return row;
  }
  row.push_back(std::to_string(whole_ns(measurement->p95_us) - whole_ns(measurement->median_us)));
  if (measurement->counters) {
    visit_fields(*measurement->counters, CounterWriter{row});
  }
  const std::size_t reason = reasons.number_of(measurement->counters_missing_because);
  if (reason != 0) {
    row.push_back(std::to_string(reason));
  }
  return row;
}

/// True of the columns that may be empty: then the value is that of the row above.
bool may_repeat(std::size_t column) { return column != kVariantColumn && column != kTimeColumn; }

Words without_repetitions(Words row, const Words& above) {
  for (std::size_t i = 0; i < std::min(row.size(), above.size()); ++i) {
    if (may_repeat(i) && row[i] == above[i]) {
      row[i].clear();
    }
  }
  return row;
}

void write_space(std::ostream& out, const RecordedSpace& space, const VariantTables& variants,
                 std::size_t device, std::size_t origin) {
  Numbered reasons;
  std::string rows;
  Words above;
  for (const VariantResult& result : space.results) {
    const Words row = row_of(result, variants.number_of(result.variant), reasons);
    rows += joined(without_repetitions(row, above)) + "\n";
    above = row;
  }
  Json head = {{"problem", space.problem},
               {"provenance", to_string(space.results.front().provenance())},
               {"device", device},
               {"origin", origin},
               {"rows", space.results.size()}};
  if (!reasons.texts().empty()) {
    head["counters_missing_because"] = reasons.texts();
  }
  out << "space " << one_line(head) << "\n" << rows;
}

// Reading.

long long integer(std::string_view text, std::string_view name, long long low, long long high) {
  long long value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) {
    reject(std::string(name) + " must be a whole number, not '" + std::string(text) + "'");
  }
  require_between(name, value, low, high);
  return value;
}

/// The one of a list that a number in the file means.
template <typename T>
const T& numbered(const std::vector<T>& values, long long number, std::string_view name) {
  if (number < 0 || number >= static_cast<long long>(values.size())) {
    reject(std::string(name) + " " + std::to_string(number) + " is not in the file before");
  }
  return values[static_cast<std::size_t>(number)];
}

/// Takes the counters of a row, from a column on.
struct CounterReader {
  const Words& row;
  std::size_t column;

  void operator()(const char* name, long long& field, long long low, long long high) {
    field = integer(row[column++], name, low, high);
  }
};

class SpacesReader {
 public:
  std::vector<RecordedSpace> read(std::string_view text) {
    if (!text.ends_with('\n')) {
      reject("its last line is cut off");
    }
    while (!text.empty()) {
      const auto end = text.find('\n');
      ++line_;
      take_line(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    finish_space();
    if (spaces_.empty() || static_cast<long long>(spaces_.size()) != announced_spaces_) {
      reject("it holds " + std::to_string(spaces_.size()) + " spaces where its first line says " +
             std::to_string(announced_spaces_));
    }
    return std::move(spaces_);
  }

 private:
  enum class Section { none, variants, space };

  void take_line(std::string_view line) {
    try {
      const auto brace = line.find(" {");
      if (brace != std::string_view::npos) {
        take_head(line.substr(0, brace),
                  parse_json(line.substr(brace + 1), "the head of a section"));
      } else if (section_ == Section::variants) {
        take_variant(split(line, ','));
      } else if (section_ == Section::space) {
        take_result(split(line, ','));
      } else {
        reject("'" + std::string(line.substr(0, 40)) + "' is a row of nothing");
      }
    } catch (const Error& error) {
      throw Error(error.code(), "line " + std::to_string(line_) + ": " + error.what());
    } catch (const Json::exception& error) {
      reject("line " + std::to_string(line_) + ": " + error.what());
    }
  }

  void take_head(std::string_view keyword, const Json& head) {
    if ((line_ == 1) != (keyword == kFormat)) {
      reject("a file begins with one line '" + std::string(kFormat) + "'");
    }
    if (keyword == kFormat) {
      take_format(head);
    } else if (keyword == "device") {
      devices_.push_back(head.get<DeviceInfo>());
    } else if (keyword == "origin") {
      origins_.push_back(head.get<RecordedOrigin>());
    } else if (keyword == "variants") {
      begin_variants(head);
    } else if (keyword == "space") {
      begin_space(head);
    } else {
      reject("'" + std::string(keyword) + "' is no keyword");
    }
  }

  void take_format(const Json& head) {
    json_integer(head, "version", kVersion, kVersion);
    announced_spaces_ = json_integer(head, "spaces", 1, kMaxRows);
    if (json_text(head, "columns") != joined(row_columns())) {
      reject("field 'columns' does not list the columns of version " + std::to_string(kVersion));
    }
  }

  void begin_variants(const Json& head) {
    section_ = Section::variants;
    operation_ = &find_operation(json_text(head, "op"));
    same_ = json_text(head, "same");
    axes_ = split(json_text(head, "axes"), ',');
  }

  void take_variant(const Words& values) {
    if (values.size() != axes_.size()) {
      reject("a variant of this table has " + std::to_string(axes_.size()) + " values, not " +
             std::to_string(values.size()));
    }
    std::string key = same_;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      key += (key.empty() ? "" : ",") + axes_[i] + "=" + values[i];
    }
    variants_.push_back(parse_variant(*operation_, key));
  }

  void begin_space(const Json& head) {
    finish_space();
    section_ = Section::space;
    provenance_ = parse_provenance(json_text(head, "provenance"));
    announced_rows_ = json_integer(head, "rows", 1, kMaxRows);
    reasons_.clear();
    if (head.contains("counters_missing_because")) {
      reasons_ = json_field(head, "counters_missing_because").get<Words>();
    }
    seen_.clear();
    above_.clear();
    spaces_.push_back(
        {.problem = json_field(head, "problem").get<Problem>(),
         .device = numbered(devices_, json_integer(head, "device", 0, kMaxRows), "device"),
         .origin = numbered(origins_, json_integer(head, "origin", 0, kMaxRows), "origin"),
         .results = {}});
  }

  void finish_space() const {
    if (!spaces_.empty() &&
        static_cast<long long>(spaces_.back().results.size()) != announced_rows_) {
      reject("the space before line " + std::to_string(line_ + 1) + " has " +
             std::to_string(spaces_.back().results.size()) + " rows where its head says " +
             std::to_string(announced_rows_));
    }
  }

  /// The row with the values that it leaves to the row above.
  Words completed(Words row) const {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].empty() && may_repeat(i)) {
        if (i >= above_.size()) {
          reject("value " + std::to_string(i + 1) + " is empty, and the row above has none");
        }
        row[i] = above_[i];
      }
    }
    return row;
  }

  void take_result(Words values) {
    const Words row = completed(std::move(values));
    above_ = row;
    if (row.size() <= kTimeColumn) {
      reject("a row has at least " + std::to_string(kTimeColumn + 1) + " values");
    }
    RecordedSpace& space = spaces_.back();
    VariantResult result;
    result.variant =
        numbered(variants_, integer(row[kVariantColumn], "variant", 0, kMaxLong), "variant");
    if (&result.variant.operation() != &space.problem.operation()) {
      reject("variant " + row[0] + " is of another operation than the problem");
    }
    if (!seen_.insert(result.variant).second) {
      reject("variant " + row[0] + " is in the space twice");
    }
    result.resources.registers_per_thread =
        static_cast<int>(integer(row[1], "registers_per_thread", 0, 255));
    result.ctas_per_sm = static_cast<int>(integer(row[2], "ctas_per_sm", 0, kMaxCtasPerSm));
    result.smem_bytes = smem_bytes(space.problem, result.variant);
    take_outcome(row, result);
    space.results.push_back(std::move(result));
  }

  void take_outcome(const Words& row, VariantResult& result) const {
    const bool measured = provenance_ == Provenance::measured;
    const bool ok = row[kTimeColumn].find_first_not_of("0123456789") == std::string::npos;
    if (!ok) {
      result.state = parse_result_state(row[kTimeColumn]);
      if (result.state == ResultState::ok || row.size() != kTimeColumn + 1) {
        reject("a row that is not ok ends with its state");
      }
    }
    const double time_us = ok ? in_us(integer(row[kTimeColumn], "time_ns", 1, kMaxLong)) : 0.0;
    if (!measured) {
      result.outcome = Prediction{.time_us = time_us};
    } else {
      result.outcome = ok ? measurement(row, time_us) : Measurement{};
    }
  }

  Measurement measurement(const Words& row, double median_us) const {
    static const std::size_t with_counters = row_columns().size();
    constexpr std::size_t kWithoutCounters = 5;
    const bool has_counters = row.size() >= with_counters;
    const std::size_t expected = has_counters ? with_counters : kWithoutCounters;
    if (row.size() != expected && row.size() != expected + 1) {
      reject("a row of a measurement has " + std::to_string(kWithoutCounters) + " or " +
             std::to_string(with_counters) + " values, and a reason's number where it needs one");
    }
    Measurement measurement;
    measurement.median_us = median_us;
    measurement.p95_us = in_us(integer(row[kTimeColumn], "time_ns", 1, kMaxLong / 2) +
                               integer(row[4], "p95_above_time_ns", -kMaxLong / 2, kMaxLong / 2));
    if (has_counters) {
      visit_fields(measurement.counters.emplace(), CounterReader{row, kWithoutCounters});
    }
    const long long reason = row.size() > expected ? integer(row.back(), "reason", 1, kMaxRows) : 0;
    measurement.counters_missing_because = numbered(reasons_, reason, "reason");
    return measurement;
  }

  long long line_ = 0;
  Section section_ = Section::none;
  long long announced_spaces_ = 0;
  std::vector<DeviceInfo> devices_;
  std::vector<RecordedOrigin> origins_;
  std::vector<Variant> variants_;
  std::vector<RecordedSpace> spaces_;
  // Of the present table of variants.
  const Operation* operation_ = nullptr;
  std::string same_;
  Words axes_;
  // Of the present space.
  Provenance provenance_ = Provenance::measured;
  long long announced_rows_ = 0;
  Words reasons_;
  std::set<Variant> seen_;
  Words above_;
};

// Names.

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

void write_recorded_spaces(std::ostream& out, std::span<const RecordedSpace> spaces) {
  const VariantTables variants(spaces);
  Numbered devices;
  Numbered origins;
  std::vector<std::pair<std::size_t, std::size_t>> numbers;
  for (const RecordedSpace& space : spaces) {
    numbers.emplace_back(devices.number_of(one_line(space.device)),
                         origins.number_of(one_line(space.origin)));
  }
  out << kFormat << " "
      << one_line(
             {{"version", kVersion}, {"spaces", spaces.size()}, {"columns", joined(row_columns())}})
      << "\n";
  for (const std::string& device : devices.texts()) {
    out << "device " << device << "\n";
  }
  for (const std::string& origin : origins.texts()) {
    out << "origin " << origin << "\n";
  }
  variants.write(out);
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    write_space(out, spaces[i], variants, numbers[i].first, numbers[i].second);
  }
}

std::vector<RecordedSpace> parse_recorded_spaces(std::string_view text) {
  return SpacesReader().read(text);
}

std::vector<RecordedSpace> read_recorded_spaces(const std::filesystem::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  try {
    const std::string text = read_regular_file(path, kMostBytes);
    if (text.starts_with('{')) {
      reject(
          "it is JSON, as older versions wrote one space; scripts/convert_database of swr's "
          "sources writes it anew");
    }
    return parse_recorded_spaces(text);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) {
      throw Error(ErrorCode::not_found, "cannot open the recorded spaces " + path.string() +
                                            "; swr-tune db record writes such files");
    }
    throw Error(ErrorCode::unreadable, path.string() +
                                           " is no file of recorded spaces: " + error.what() +
                                           "; write it again with swr-tune db record");
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
