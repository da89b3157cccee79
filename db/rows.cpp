// SPDX-License-Identifier: MIT
#include "db/rows.h"

#include "core/bounded_json.h"
#include "core/fields.h"
#include "core/printable.h"

#include <algorithm>
#include <cmath>
#include <concepts>

namespace swr {
namespace {

/// Failed variants may lack numbers (an output of NaNs has no error); successful ones may not.
enum class Unknowns { refused, stored_as_null };

[[noreturn]] void reject(std::string_view name, const std::string& expected) {
  throw Error(ErrorCode::invalid_argument, std::string(name) + " must be " + expected);
}

bool is_believable(double value) { return std::isfinite(value) && value >= 0; }

constexpr const char* kNumber = "a number that is not negative";

/// Appends each visited field.
struct Writer {
  Cells& cells;
  Unknowns unknowns = Unknowns::refused;

  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) void operator()(const char* name, Integer value,
                                                         long long low = 0,
                                                         long long high = kMaxLong) const {
    require_between(name, value, low, high);
    cells.push_back({name, static_cast<long long>(value)});
  }
  void operator()(const char* name, double value) const {
    if (is_believable(value)) {
      cells.push_back({name, value});
    } else if (unknowns == Unknowns::stored_as_null) {
      cells.push_back({name, std::monostate{}});
    } else {
      reject(name, kNumber);
    }
  }
  void operator()(const char* name, std::optional<long long> value) const {
    if (value) {
      (*this)(name, *value, 0, kMaxCount);
    }
  }
  void operator()(const char* name, bool value) const {
    cells.push_back({name, value ? 1LL : 0LL});
  }
  void operator()(const char* name, const std::string& value) const {
    cells.push_back({name, value});
  }
};

/// Finds columns by name.
struct NamedColumns {
  SQLite::Statement& row;

  SQLite::Column operator()(const char* name) const { return row.getColumn(name); }
};

/// Gives columns in the order in which they were selected, whatever they are called.
struct OrderedColumns {
  TableRows& row;
  int next = 0;

  CellView operator()(const char* /*name*/) { return row.cell(next++); }
};

/// Sets each visited field from the current row.
template <typename Columns>
struct Reader {
  Columns columns;
  Unknowns unknowns = Unknowns::refused;

  auto column(const char* name) { return columns(name); }

  long long integer(const char* name, long long low, long long high) {
    const auto cell = column(name);
    if (!cell.isInteger()) {
      reject(name, "a whole number");
    }
    const long long value = cell.getInt64();
    require_between(name, value, low, high);
    return value;
  }
  auto text(const char* name) {
    const auto value = column(name);
    if (!value.isText()) {
      reject(name, "a text");
    }
    return value.getString();
  }

  void operator()(const char* name, int& field, long long low = 0, long long high = kMaxInt) {
    field = static_cast<int>(integer(name, low, high));
  }
  void operator()(const char* name, long long& field, long long low = 0,
                  long long high = kMaxLong) {
    field = integer(name, low, high);
  }
  void operator()(const char* name, std::optional<long long>& field) {
    if (!column(name).isNull()) {
      (*this)(name, field.emplace(), 0, kMaxCount);
    }
  }
  void operator()(const char* name, double& field) {
    const auto value = column(name);
    if (value.isNull() && unknowns == Unknowns::stored_as_null) {
      field = std::nan("");
    } else if (value.isFloat() && is_believable(value.getDouble())) {
      field = value.getDouble();
    } else {
      reject(name, kNumber);
    }
  }
  void operator()(const char* name, bool& field) { field = integer(name, 0, 1) != 0; }
  /// Who wrote it may have meant it for a terminal.
  std::string printed(const char* name) { return printable(std::string_view(text(name))); }
  void operator()(const char* name, std::string& field) { field = printed(name); }
};

Unknowns unknowns_of(ResultState state) {
  return state == ResultState::ok ? Unknowns::refused : Unknowns::stored_as_null;
}

/// Of a result that is ok.
void require_positive_time(double time_us) {
  if (!(time_us > 0)) {
    reject("time of a result that is ok", "above 0");
  }
}

void require_positive_time(const VariantResult& result) {
  if (result.state == ResultState::ok) {
    require_positive_time(result.time_us());
  }
}

/// Visits each field of a condition under its column: `when` is "before" or "after".
template <typename Condition, typename Visitor>
void visit_condition(Condition& condition, const std::string& when, Visitor& visit) {
  visit_fields(condition,
               [&](const char* name, auto& field) { visit((name + ("_" + when)).c_str(), field); });
}

/// The runs of a measurement of energy, as they are stored.
std::vector<double> energy_samples(const std::string& text) {
  constexpr std::size_t kMostBytes = 1 << 16;
  constexpr const char* kColumn = "energy_samples_mj";
  const Json json = parse_json(text, kColumn, {.bytes = kMostBytes});
  std::vector<double> samples_mj;
  for (const Json& sample : json) {
    const bool is_good = sample.is_number() && is_believable(sample.get<double>());
    samples_mj.push_back(is_good ? sample.get<double>() : 0.0);
    if (!(samples_mj.back() > 0)) {
      reject(kColumn, "a list of numbers above 0");
    }
  }
  if (samples_mj.empty()) {
    reject(kColumn, "a list of numbers above 0");
  }
  return samples_mj;
}

/// What only a result with samples has.
void write_sampling(const Measurement& measurement, const Writer& write) {
  write("l2_state", std::string(to_string(measurement.l2_state)));
  write("sampling", std::string(to_string(measurement.sampling)));
  visit_condition(measurement.before, "before", write);
  visit_condition(measurement.after, "after", write);
  write("condition_missing_because", measurement.condition_missing_because);
}

template <typename Columns>
void read_sampling(Measurement& measurement, Reader<Columns>& read) {
  if (read.column("sampling").isNull()) {
    return;
  }
  measurement.l2_state = parse_l2_state(read.text("l2_state"));
  measurement.sampling = parse_sampling(read.text("sampling"));
  visit_condition(measurement.before, "before", read);
  visit_condition(measurement.after, "after", read);
  read("condition_missing_because", measurement.condition_missing_because);
}

void write_counters(const Measurement& measurement, const Writer& write) {
  write("counters_missing_because", measurement.counters_missing_because);
  if (measurement.counters) {
    visit_fields(*measurement.counters, write);
  }
}

/// Nothing where nobody has tried to count them yet.
void write_accesses(const Measurement& measurement, const Writer& write) {
  if (measurement.accesses) {
    visit_fields(*measurement.accesses, write);
  }
  if (measurement.accesses || !measurement.accesses_missing_because.empty()) {
    write("accesses_missing_because", measurement.accesses_missing_because);
  }
}

template <typename Columns>
void read_accesses(Measurement& measurement, Reader<Columns>& read) {
  if (read.column("accesses_missing_because").isNull()) {
    return;
  }
  read("accesses_missing_because", measurement.accesses_missing_because);
  AccessCounters accesses;
  visit_fields(accesses, read);
  if (accesses != AccessCounters{}) {
    measurement.accesses = accesses;
  }
}

/// Nothing where nobody has tried to measure it yet.
void write_energy(const Measurement& measurement, const Writer& write) {
  if (const auto& energy = measurement.energy) {
    for (const double sample_mj : energy->samples_mj) {
      if (!is_believable(sample_mj)) {
        reject("sample of energy", kNumber);
      }
    }
    write("energy_mj", energy->mean_mj());
    write("energy_samples_mj", Json(energy->samples_mj).dump());
    write("energy_launch_us", energy->launch_us);
    write("idle_power_w", energy->idle_power_w);
  }
  if (measurement.energy || !measurement.energy_missing_because.empty()) {
    write("energy_missing_because", measurement.energy_missing_because);
  }
}

template <typename Columns>
void read_energy(Measurement& measurement, Reader<Columns>& read) {
  if (read.column("energy_missing_because").isNull()) {
    return;
  }
  read("energy_missing_because", measurement.energy_missing_because);
  if (read.column("energy_mj").isNull()) {
    return;
  }
  Energy& energy = measurement.energy.emplace();
  energy.samples_mj = energy_samples(read.text("energy_samples_mj"));
  read("energy_launch_us", energy.launch_us);
  read("idle_power_w", energy.idle_power_w);
  if (!(energy.launch_us > 0)) {
    reject("energy_launch_us", "above 0");
  }
}

/// The names of the visited fields, and one more.
template <typename Values>
std::vector<std::string> names_and(const char* last) {
  std::vector<std::string> names;
  const Values values;
  visit_fields(values, [&](const char* name, const auto&...) { names.emplace_back(name); });
  names.emplace_back(last);
  return names;
}

void write_outcome(const Measurement& measurement, const Writer& write) {
  visit_fields(measurement, write);
  write_counters(measurement, write);
  write_accesses(measurement, write);
  write_energy(measurement, write);
  if (!measurement.samples_us.empty()) {
    write_sampling(measurement, write);
  }
  for (const double sample : measurement.samples_us) {
    if (!is_believable(sample)) {
      reject("sample", kNumber);
    }
  }
}

void write_outcome(const Prediction& prediction, const Writer& write) {
  visit_fields(prediction, write);
}

template <typename Columns>
Measurement read_measurement(Reader<Columns>& read) {
  Measurement measurement;
  visit_fields(measurement, read);
  read("counters_missing_because", measurement.counters_missing_because);
  read_sampling(measurement, read);
  if (!read.column("sectors_demanded").isNull()) {
    visit_fields(measurement.counters.emplace(), read);
  }
  read_accesses(measurement, read);
  read_energy(measurement, read);
  return measurement;
}

template <typename Columns>
Prediction read_prediction(Reader<Columns>& read) {
  Prediction prediction;
  visit_fields(prediction, read);
  return prediction;
}

/// The columns of a measurement in lookup_result_columns().
void read_lookup_measurement(LookupResult& found, Reader<OrderedColumns>& read) {
  read("median_us", found.time_us);
  if (read.columns.row.cell(read.columns.next).isNull()) {
    return;
  }
  Counters counters;
  read("l2_misses", counters.l2_misses, 0, kMaxCount);
  read("dram_read_bytes", counters.dram_read_bytes, 0, kMaxCount);
  if (read.text("counters_missing_because").empty()) {
    found.l2_misses = counters.l2_misses;
    found.dram_read_bytes = counters.dram_read_bytes;
  }
}

/// The columns of a prediction, which stand behind those of a measurement.
void read_lookup_prediction(LookupResult& found, Reader<OrderedColumns>& read) {
  constexpr int kMeasuredColumns = 4;
  read.columns.next += kMeasuredColumns;
  Prediction prediction;
  read("time_us", prediction.time_us);
  read("compulsory_misses", prediction.compulsory_misses, 0, kMaxCount);
  read("excess_misses", prediction.excess_misses, 0, kMaxCount);
  found.time_us = prediction.time_us;
  found.l2_misses = prediction.compulsory_misses + prediction.excess_misses;
  found.excess_misses = prediction.excess_misses;
}

template <typename Columns>
Variant read_variant(Reader<Columns>& read) {
  const Operation& operation = find_operation(read.text("op"));
  return variant_from_text(operation, read.text("axes")).value;
}

template <typename Read>
auto read_row(SQLite::Statement& row, const RowSource& source, Read&& read) {
  const auto id = [&row] { return row.getColumn(0).getString(); };
  return read_row_named(id, source, [&] {
    Reader<NamedColumns> reader{{row}};
    return read(reader);
  });
}

template <typename Read>
auto read_row(TableRows& row, const RowSource& source, Read&& read) {
  const auto id = [&row] { return std::string(row.cell(0).getString()); };
  return read_row_named(id, source, [&] {
    Reader<OrderedColumns> reader{{row}};
    return read(reader);
  });
}

}  // namespace

Cells to_cells(const Problem& problem) {
  validate(problem);
  Cells cells = kind_cells(problem);
  cells.push_back({"sizes", sizes_text(problem)});
  return cells;
}

Cells kind_cells(const Problem& problem) {
  return {{"op", std::string(name_of(problem.operation()))}, {"kind", kind_text(problem)}};
}

Cells to_cells(const DeviceInfo& device) {
  Cells cells;
  visit_fields(device, Writer{cells});
  return cells;
}

Cells to_cells(const Variant& variant) {
  return {{"op", std::string(name_of(variant.operation()))}, {"axes", axes_text(variant)}};
}

std::string variant_columns() { return "variant.op, variant.axes"; }

Cells to_cells(const RunInfo& run) {
  return {{"command", run.command},
          {"swr_version", run.swr_version},
          {"templates_digest", run.templates_digest},
          {"overlay_digest", run.overlay_digest},
          {"nvrtc_version", run.nvrtc_version},
          {"driver_version", run.driver_version},
          {"l2_state", run.l2_state},
          {"objective", run.objective},
          // SQLite's integers are signed; the bits are kept.
          {"seed", static_cast<long long>(run.seed)},
          {"strategy", run.strategy},
          {"max_variants", run.max_variants ? Cell(*run.max_variants) : Cell()},
          {"max_s", run.max_s ? Cell(*run.max_s) : Cell()},
          {"conditions", run.conditions},
          {"starts_over", run.starts_over ? 1LL : 0LL}};
}

Cells to_cells(const GpuReference& reference) {
  const bool ok = reference.state == ResultState::ok;
  if (ok && !(reference.median_us > 0)) {
    reject("time of a reference that is ok", "above 0");
  }
  Cells cells;
  const Writer write{cells};
  write("gpu", reference.gpu, 0, kMaxInt);
  write("card", reference.card);
  write("tuned", reference.tuned);
  write("kernel", reference.kernel);
  write("state", std::string(to_string(reference.state)));
  if (ok) {
    write("median_us", reference.median_us);
  }
  visit_fields(reference.condition, write);
  return cells;
}

Cells counter_cells(const Measurement& measurement) {
  Cells cells;
  write_counters(measurement, Writer{cells});
  return cells;
}

Cells access_cells(const Measurement& measurement) {
  Cells cells;
  write_accesses(measurement, Writer{cells});
  return cells;
}

Cells energy_cells(const Measurement& measurement) {
  Cells cells;
  write_energy(measurement, Writer{cells});
  return cells;
}

std::vector<std::string> counter_columns() {
  return names_and<Counters>("counters_missing_because");
}

std::vector<std::string> access_columns() {
  return names_and<AccessCounters>("accesses_missing_because");
}

std::vector<std::string> energy_columns() {
  return {"energy_mj", "energy_samples_mj", "energy_launch_us", "idle_power_w",
          "energy_missing_because"};
}

Cells to_cells(const VariantResult& result) {
  require_positive_time(result);
  Cells cells;
  const Writer write{cells, unknowns_of(result.state)};
  write("provenance", std::string(to_string(result.provenance())));
  write("state", std::string(to_string(result.state)));
  write("detail", result.detail);
  visit_fields(result.resources, write);
  write("smem_bytes", result.smem_bytes, 0, kMaxInt);
  write("ctas_per_sm", result.ctas_per_sm, 0, kMaxCtasPerSm);
  write("cubin_digest", result.cubin_digest);
  std::visit([&](const auto& outcome) { write_outcome(outcome, write); }, result.outcome);
  return cells;
}

Problem read_problem(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    const Operation& operation = find_operation(read.text("op"));
    return problem_from_text(operation, read.text("kind"), read.text("sizes")).value;
  });
}

DeviceInfo read_device(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    DeviceInfo device;
    visit_fields(device, read);
    device.name = printable_line(device.name);
    return device;
  });
}

RunInfo read_run(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    RunInfo run{.command = read.printed("command"),
                .swr_version = read.printed("swr_version"),
                .templates_digest = read.printed("templates_digest"),
                .overlay_digest = read.printed("overlay_digest"),
                .nvrtc_version = read.printed("nvrtc_version"),
                .driver_version = read.printed("driver_version"),
                .l2_state = read.printed("l2_state"),
                .objective = read.printed("objective"),
                // SQLite's integers are signed; the bits were kept.
                .seed = static_cast<unsigned long long>(read.column("seed").getInt64()),
                .strategy = read.printed("strategy"),
                .max_variants = std::nullopt,
                .max_s = std::nullopt,
                .conditions = read.printed("conditions")};
    read("starts_over", run.starts_over);
    if (!read.column("max_variants").isNull()) {
      run.max_variants = read.integer("max_variants", 0, kMaxLong);
    }
    if (!read.column("max_s").isNull()) {
      read("max_s", run.max_s.emplace());
    }
    return run;
  });
}

Variant read_variant(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) { return read_variant(read); });
}

VariantResult read_result(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    VariantResult result;
    result.variant = read_variant(read);
    result.state = parse_result_state(read.text("state"));
    read("detail", result.detail);
    visit_fields(result.resources, read);
    read("smem_bytes", result.smem_bytes);
    read("ctas_per_sm", result.ctas_per_sm, 0, kMaxCtasPerSm);
    read("cubin_digest", result.cubin_digest);
    read.unknowns = unknowns_of(result.state);
    if (parse_provenance(read.text("provenance")) == Provenance::measured) {
      result.outcome = read_measurement(read);
    } else {
      result.outcome = read_prediction(read);
    }
    require_positive_time(result);
    return result;
  });
}

std::string in_setting() {
  return "overlay_digest = :overlay_digest AND l2_state IN (:l2_state, '')";
}

void bind_setting(SQLite::Statement& statement, const Setting& setting) {
  statement.bind(":overlay_digest", setting.overlay_digest);
  statement.bind(":l2_state", std::string(to_string(setting.l2_state)));
}

Finalist read_finalist(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    Finalist finalist;
    read("ratio", finalist.ratio);
    read("ratio_low", finalist.ratio_low);
    read("ratio_high", finalist.ratio_high);
    read("tied", finalist.tied);
    if (!(std::min({finalist.ratio, finalist.ratio_low, finalist.ratio_high}) > 0)) {
      reject("ratio", "above 0");
    }
    return finalist;
  });
}

std::optional<double> read_tie_threshold(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    std::optional<double> tie_threshold;
    if (!read.column("tie_threshold").isNull()) {
      read("tie_threshold", tie_threshold.emplace());
    }
    return tie_threshold;
  });
}

GpuReference read_reference(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    GpuReference reference;
    read("gpu", reference.gpu);
    read("card", reference.card);
    read("tuned", reference.tuned);
    read("kernel", reference.kernel);
    reference.state = parse_result_state(read.text("state"));
    if (reference.state == ResultState::ok) {
      read("median_us", reference.median_us);
    }
    visit_fields(reference.condition, read);
    return reference;
  });
}

double read_sample(SQLite::Statement& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    double time_us = 0.0;
    read("time_us", time_us);
    return time_us;
  });
}

std::string lookup_problems_query(const Operation& operation, const std::string& more) {
  return "SELECT id, kind, sizes, " + more + " FROM problem NOT INDEXED WHERE op = '" +
         std::string(name_of(operation)) + "' ORDER BY id";
}

FromText<Problem> read_lookup_problem(const Operation& operation, TableRows& row,
                                      const RowSource& source) {
  return read_row(row, source, [&operation](auto& read) {
    read.column("id");
    const std::string_view kind = read.text("kind");
    return problem_from_text(operation, kind, read.text("sizes"));
  });
}

std::string lookup_variants_query(const std::string& condition) {
  return "SELECT id, op, axes FROM variant WHERE " + condition + " ORDER BY id";
}

FromText<Variant> read_lookup_variant(TableRows& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    read.column("id");
    const Operation& operation = find_operation(read.text("op"));
    return variant_from_text(operation, read.text("axes"));
  });
}

std::string lookup_result_columns() {
  return "id, run_id, problem_id, device_id, variant_id, state, provenance, registers_per_thread, "
         "median_us, l2_misses, dram_read_bytes, counters_missing_because, time_us, "
         "compulsory_misses, excess_misses";
}

LookupResult read_lookup_result(TableRows& row, const RowSource& source) {
  return read_row(row, source, [](auto& read) {
    LookupResult found;
    found.id = read.integer("id", 1, kMaxLong);
    found.run_id = read.integer("run_id", 1, kMaxLong);
    found.problem_id = read.integer("problem_id", 1, kMaxLong);
    found.device_id = read.integer("device_id", 1, kMaxLong);
    found.variant_id = read.integer("variant_id", 1, kMaxLong);
    found.is_ok = parse_result_state(read.text("state")) == ResultState::ok;
    found.provenance = parse_provenance(read.text("provenance"));
    read("registers_per_thread", found.registers_per_thread, 0, 255);
    if (!found.is_ok) {
      return found;
    }
    if (found.provenance == Provenance::measured) {
      read_lookup_measurement(found, read);
    } else {
      read_lookup_prediction(found, read);
    }
    require_positive_time(found.time_us);
    return found;
  });
}

}  // namespace swr
