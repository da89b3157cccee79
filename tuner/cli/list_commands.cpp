// SPDX-License-Identifier: MIT
// The commands that only list or print: devices, axes, emit.
#include "core/json.h"
#include "core/number_text.h"
#include "core/text_table.h"
#include "driver/devices.h"
#include "model/profile/gpu_profile.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/options.h"
#include "tuner/cli/output_file.h"
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

namespace swr::cli {
namespace {

/// The GPUs of this machine, or why there are none.
struct Presence {
  std::vector<DeviceInfo> devices;
  std::string why_none;
};

Presence look_for_devices() {
  try {
    return {list_devices(), {}};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

std::vector<std::string> device_cells(const std::string& id, const DeviceInfo& device) {
  return {id,
          device.name,
          "sm_" + std::to_string(device.sm_arch),
          std::to_string(device.sm_count),
          bytes_text(device.l2_bytes),
          significant_text(device.dram_gb_per_s, 4)};
}

TextTable device_table(const std::string& id_title, bool has_error = false) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns{{id_title, Align::left},
                                         {.title = "name", .align = Align::left, .wraps = true},
                                         {"arch", Align::left},
                                         {"SMs"},
                                         {"L2"},
                                         {"DRAM GB/s"}};
  if (has_error) {
    columns.push_back({"error"});
  }
  return TextTable(std::move(columns));
}

/// "8 to 21 %", of all regimes; "-" where nothing published tells.
std::string error_text(const PredictionErrors& errors) {
  if (errors.regimes.empty()) {
    return "-";
  }
  const auto [least, most] = std::ranges::minmax(errors.regimes, {}, &RegimeError::error);
  const std::string highest = percent_text(most.error);
  return percent_text(least.error) == highest
             ? highest
             : significant_text(std::round(100 * least.error), 1) + " to " + highest;
}

/// What every number of a profile rests on.
void print_profile(std::ostream& out, const GpuProfile& profile, const TableStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{"number", Align::left},
                   {.title = "value", .align = Align::left, .wraps = true},
                   {.title = "rests on", .align = Align::left, .wraps = true}});
  for (const ProfileEntry& entry : profile_entries(profile)) {
    table.add_row({entry.name, entry.value, entry.source});
  }
  table.print(out, style);
}

void print_devices(std::ostream& out, const Presence& presence, const TableStyle& style) {
  out << "GPUs present (measured):\n";
  TextTable present = device_table("ordinal");
  for (std::size_t i = 0; i < presence.devices.size(); ++i) {
    present.add_row(device_cells(std::to_string(i), presence.devices[i]));
  }
  if (presence.devices.empty()) {
    out << "none: " << presence.why_none << "\n";
  } else {
    present.print(out, style);
  }
  out << "\nBuilt-in profiles for --gpu (predicted unless that GPU is present):\n";
  TextTable profiles = device_table("id", true);
  for (const std::string& id : profile_ids()) {
    const GpuProfile profile = load_profile(id);
    std::vector<std::string> cells = device_cells(id, profile.device);
    cells.push_back(error_text(profile.prediction_errors));
    profiles.add_row(std::move(cells));
  }
  profiles.print(out, style);
  out << "\nerror: root mean square by mask and head_dim of predicted times of the portable "
         "family, of "
         "launches that nothing was fitted to\nswr-tune devices --gpu ID prints what each number "
         "rests on\n";
}

Json errors_json(const PredictionErrors& errors) {
  Json json = Json::array();
  for (const RegimeError& regime : errors.regimes) {
    json.push_back(
        {{"causal", regime.causal}, {"head_dim", regime.head_dim}, {"error", regime.error}});
  }
  return json;
}

Json profile_json(const GpuProfile& profile) {
  Json json = {{"id", profile.id}, {"device", profile.device}, {"numbers", Json::array()}};
  for (const ProfileEntry& entry : profile_entries(profile)) {
    json["numbers"].push_back(
        {{"name", entry.name}, {"value", entry.value}, {"source", entry.source}});
  }
  json["prediction_errors"] = errors_json(profile.prediction_errors);
  return json;
}

Json devices_json(const Presence& presence) {
  Json json = Json::object();
  json["present"] = Json::array();
  for (const DeviceInfo& device : presence.devices) {
    json["present"].push_back(device);
  }
  if (presence.devices.empty()) {
    json["none_present_because"] = presence.why_none;
  }
  for (const std::string& id : profile_ids()) {
    const GpuProfile profile = load_profile(id);
    json["profiles"][id]["device"] = profile.device;
    json["profiles"][id]["sources"] = profile.sources;
    json["profiles"][id]["prediction_errors"] = errors_json(profile.prediction_errors);
  }
  return json;
}

std::string values_text(const Axis& axis) {
  std::string values;
  for (const auto spelling : axis.spellings) {
    values += (values.empty() ? "" : ", ") + std::string(spelling);
  }
  return values.empty() ? "whole number" : values;
}

TextTable::Column wrapping(const char* title) {
  return {.title = title, .align = TextTable::Align::left, .wraps = true};
}

void print_axes(std::ostream& out, const Operation& op, const TableStyle& style) {
  using Align = TextTable::Align;
  out << "Axes of " << name_of(op) << ":\n";
  TextTable axis_table({{"axis", Align::left}, wrapping("values"), wrapping("meaning")});
  for (const Axis& axis : axes(op)) {
    axis_table.add_row({std::string(axis.name), values_text(axis), std::string(axis.summary)});
  }
  axis_table.print(out, style);
  out << "\nConstraints that drop a variant of " << name_of(op) << ":\n";
  TextTable constraint_table({{"constraint", Align::left}, wrapping("meaning")});
  for (const ConstraintInfo& constraint : constraints(op)) {
    constraint_table.add_row({std::string(constraint.name), std::string(constraint.summary)});
  }
  constraint_table.print(out, style);
}

Json axes_json(const Operation& op) {
  Json json = Json::object();
  for (const Axis& axis : axes(op)) {
    json["axes"].push_back(
        {{"name", axis.name},
         {"summary", axis.summary},
         {"values", std::vector<std::string>(axis.spellings.begin(), axis.spellings.end())}});
  }
  for (const ConstraintInfo& constraint : constraints(op)) {
    json["constraints"].push_back({{"name", constraint.name}, {"summary", constraint.summary}});
  }
  return json;
}

/// A device that only the family itself limits, for variants that no GPU was named for. sm_90 has
/// what each family asks for.
DeviceInfo roomy_device() {
  constexpr int kNoLimit = std::numeric_limits<int>::max();
  return {.name = "any GPU",
          .sm_arch = 90,
          .smem_per_cta_bytes = kNoLimit,
          .max_threads_per_sm = kNoLimit};
}

struct DevicesArguments {
  std::string gpu;
};

int run_devices(const Session& session, const DevicesArguments& asked) {
  const TableStyle style{.width = session.environment.stdout_width};
  if (!asked.gpu.empty() && asked.gpu != "auto") {
    const GpuProfile profile = load_profile(asked.gpu);
    if (session.common.json) {
      session.out << json_document(profile_json(profile));
    } else {
      print_profile(session.out, profile, style);
    }
    return kExitSuccess;
  }
  const Presence presence = look_for_devices();
  if (session.common.json) {
    session.out << json_document(devices_json(presence));
  } else {
    print_devices(session.out, presence, style);
  }
  return kExitSuccess;
}

struct AxesArguments {};

int run_axes(const Session& session, const AxesArguments& /*asked*/) {
  if (session.common.json) {
    Json json = Json::object();
    for (const Operation* const operation : operations()) {
      json[std::string(name_of(*operation))] = axes_json(*operation);
    }
    session.out << json_document(json);
  } else {
    const TableStyle style{.width = session.environment.stdout_width};
    for (const Operation* const operation : operations()) {
      session.out << (operation == operations().front() ? "" : "\n");
      print_axes(session.out, *operation, style);
    }
  }
  return kExitSuccess;
}

struct EmitArguments {
  ProblemText problem;
  std::string variant_key;
  std::optional<std::filesystem::path> out;
};

int run_emit(const Session& session, const EmitArguments& asked) {
  const Problem problem = kernel_problem(asked.problem);
  const Variant variant = parse_variant(problem.operation(), asked.variant_key);
  if (const auto dropped = check_constraints(problem, variant, roomy_device())) {
    throw Error(ErrorCode::invalid_argument,
                "--variant breaks the constraint " + dropped->constraint + ": " + dropped->reason);
  }
  const Generator generator(generator_options(session));
  // Which architecture is the family's own matter, so both kinds are named.
  const std::string source = "// swr-tune emit --variant " + to_key(variant) +
                             "\n// compiles alone: nvcc -std=c++20 --use_fast_math -arch=ARCH "
                             "-cubin FILE, where ARCH is sm_80 "
                             "or a\n// later one, and sm_90a for family=hopper\n\n" +
                             generator.flatten(problem, variant);
  if (!asked.out) {
    session.out << source;
    return kExitSuccess;
  }
  OutputFile file(session, *asked.out);
  file.text() << source;
  file.finish();
  return kExitSuccess;
}

}  // namespace

void add_devices(CommandLine& line) {
  auto [options, asked] =
      line.add<DevicesArguments>({.name = "devices",
                                  .meaning = "List the GPUs present and the built-in profiles",
                                  .group = "GPUs and this machine",
                                  .is_prose = true},
                                 run_devices);
  options.add("--gpu PROFILE", asked.gpu,
              "Print every number of this profile (an id or a .json file) and what it rests on",
              {.role = FileRole::input});
  add_json_option(options);
}

void add_emit(CommandLine& line) {
  auto [options, asked] = line.add<EmitArguments>(
      {.name = "emit",
       .meaning = "Print one variant as a single self-contained .cu file",
       .footer = "Example: swr-tune emit --variant tile_m=128,tile_n=64,warps=4,order=sawtooth,"
                 "persistence=persistent > kernel.cu",
       .group = "Use it elsewhere"},
      run_emit);
  options.add("--variant KEY", asked.variant_key,
              "Key as tune and query print it; axes left out keep their default",
              {.is_required = true});
  add_kernel_options(options, asked.problem);
  options.add("--out FILE", asked.out, "Write to a file instead of stdout",
              {.group = "Files", .role = FileRole::output});
  add_generator_options(options);
}

void add_axes(CommandLine& line) {
  OptionList options =
      line.add<AxesArguments>({.name = "axes",
                               .meaning = "List the tuning axes and the constraints",
                               .group = "Tune",
                               .is_prose = true},
                              run_axes)
          .first;
  add_json_option(options);
}

}  // namespace swr::cli
