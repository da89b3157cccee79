// SPDX-License-Identifier: MIT
#include "model/profile/gpu_profile.h"

#include "core/ascii.h"
#include "core/bounded_json.h"
#include "core/embedded_file.h"
#include "core/enum_text.h"
#include "core/files.h"
#include "model/profile/profile_inheritance.h"
#include <swr/error.h>
#include <swr/variant.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <tuple>
#include <variant>

namespace swr {

std::span<const EmbeddedFile> embedded_profiles();

namespace {

/// A JSON field and the member it fills.
struct ProfileNumber {
  std::string_view name;
  std::variant<std::string DeviceInfo::*, int DeviceInfo::*, long long DeviceInfo::*,
               double DeviceInfo::*, double GpuProfile::*, long long GpuProfile::*,
               double KernelCosts::*>
      member;
};

constexpr std::array kChipFields{
    ProfileNumber{"name", &DeviceInfo::name},
    ProfileNumber{"sm_arch", &DeviceInfo::sm_arch},
    ProfileNumber{"sm_count", &DeviceInfo::sm_count},
    ProfileNumber{"l2_bytes", &DeviceInfo::l2_bytes},
    ProfileNumber{"dram_gb_per_s", &DeviceInfo::dram_gb_per_s},
    ProfileNumber{"smem_per_cta_bytes", &DeviceInfo::smem_per_cta_bytes},
    ProfileNumber{"smem_per_sm_bytes", &DeviceInfo::smem_per_sm_bytes},
    ProfileNumber{"smem_reserved_per_cta_bytes", &DeviceInfo::smem_reserved_per_cta_bytes},
    ProfileNumber{"registers_per_sm", &DeviceInfo::registers_per_sm},
    ProfileNumber{"max_threads_per_sm", &DeviceInfo::max_threads_per_sm},
    ProfileNumber{"max_ctas_per_sm", &DeviceInfo::max_ctas_per_sm},
    ProfileNumber{"clock_mhz", &GpuProfile::clock_mhz},
    ProfileNumber{"matrix_flop_per_clock_per_sm", &GpuProfile::matrix_flop_per_clock_per_sm},
    ProfileNumber{"exp2_per_clock_per_sm", &GpuProfile::exp2_per_clock_per_sm},
    ProfileNumber{"fma_per_clock_per_sm", &GpuProfile::fma_per_clock_per_sm},
    ProfileNumber{"l2_gb_per_s", &GpuProfile::l2_gb_per_s},
    ProfileNumber{"l2_latency_clocks", &GpuProfile::l2_latency_clocks},
    ProfileNumber{"dram_latency_clocks", &GpuProfile::dram_latency_clocks},
    ProfileNumber{"dram_efficiency", &GpuProfile::dram_efficiency},
    ProfileNumber{"l2_effective_bytes", &GpuProfile::l2_effective_bytes},
};

/// All fields: the chip's, then the kernels' costs.
constexpr auto kFields = [] {
  std::array<ProfileNumber, kChipFields.size() + kKernelCosts.size()> fields{};
  std::copy(kChipFields.begin(), kChipFields.end(), fields.begin());
  std::transform(kKernelCosts.begin(), kKernelCosts.end(), fields.begin() + kChipFields.size(),
                 [](const KernelCost& cost) {
                   return ProfileNumber{cost.name, cost.member};
                 });
  return fields;
}();

[[noreturn]] void reject(const std::string& file, std::string_view field,
                         const std::string& problem) {
  throw Error(ErrorCode::unreadable,
              "GPU profile " + file + ", field \"" + std::string(field) + "\": " + problem);
}

template <typename Number>
Number read_number(const std::string& file, std::string_view field, const Json& value) {
  const bool whole = std::is_integral_v<Number>;
  if (whole ? !value.is_number_integer() : !value.is_number()) {
    reject(file, field,
           std::string("write a ") + (whole ? "whole " : "") + "number, not " + value.dump());
  }
  // Beyond these of each other, steps of a modelled time are lost in its rounding, and it ends
  // never.
  constexpr double kLeastRate = 1e-6;
  constexpr double kLargestRate = 1e9;
  constexpr double kMostExact = 1LL << 53;
  const double least = whole ? 1 : kLeastRate;
  const double largest =
      whole ? std::min(static_cast<double>(std::numeric_limits<Number>::max()), kMostExact)
            : kLargestRate;
  const auto number = value.get<double>();
  if (!(number >= least) || number > largest) {
    reject(file, field, "write a positive number in range, not " + value.dump());
  }
  return value.get<Number>();
}

std::string read_text(const std::string& file, std::string_view field, const Json& value) {
  if (!value.is_string() || value.get<std::string>().empty()) {
    reject(file, field, "write a non-empty string, not " + value.dump());
  }
  return value.get<std::string>();
}

template <typename Owner, typename Value>
void read_member(const std::string& file, std::string_view field, const Json& value, Owner& owner,
                 Value Owner::*member) {
  if constexpr (std::is_same_v<Value, std::string>) {
    owner.*member = read_text(file, field, value);
  } else {
    owner.*member = read_number<Value>(file, field, value);
  }
}

/// Fields come as {"value": .., "source": ".."}.
void read_field(const std::string& file, const ProfileNumber& field, const Json& document,
                GpuProfile& profile) {
  const auto entry = document.find(field.name);
  if (entry == document.end()) {
    reject(file, field.name,
           R"(missing; add {"value": .., "source": ".."}, or "inherits" with a built-in profile)");
  }
  if (!entry->is_object() || entry->size() != 2 || !entry->contains("value") ||
      !entry->contains("source")) {
    reject(file, field.name, R"(write {"value": .., "source": ".."} and nothing else)");
  }
  std::visit(
      [&](auto member) {
        if constexpr (std::is_invocable_v<decltype(member), DeviceInfo&>) {
          read_member(file, field.name, entry->at("value"), profile.device, member);
        } else if constexpr (std::is_invocable_v<decltype(member), KernelCosts&>) {
          read_member(file, field.name, entry->at("value"), profile.kernel, member);
        } else {
          read_member(file, field.name, entry->at("value"), profile, member);
        }
      },
      field.member);
  profile.sources[std::string(field.name)] = read_text(file, field.name, entry->at("source"));
}

/// What is known of few chips: "l2_sets", the ways of L2 and the partitions of SMs in launch order.
constexpr std::string_view kL2Sets = "l2_sets";

void read_l2_sets(const std::string& file, const Json& document, GpuProfile& profile) {
  const auto entry = document.find(kL2Sets);
  if (entry == document.end()) {
    return;
  }
  const Json* value =
      entry->is_object() && entry->contains("value") ? &entry->at("value") : nullptr;
  if (value == nullptr || !value->is_object() || !value->contains("ways") ||
      !value->contains("partition_runs") || !value->at("partition_runs").is_array()) {
    reject(file, kL2Sets,
           R"(write {"value": {"ways": .., "partition_runs": [..]}, "source": ".."})");
  }
  profile.l2_ways = read_number<int>(file, kL2Sets, value->at("ways"));
  for (const Json& run : value->at("partition_runs")) {
    profile.l2_partition_runs.push_back(read_number<int>(file, kL2Sets, run));
  }
  profile.sources[std::string(kL2Sets)] = read_text(file, kL2Sets, entry->value("source", Json()));
}

/// What is known of few chips: "code_factors", a row for each code, of its members and the factor.
constexpr std::string_view kCodeFactors = "code_factors";

std::pair<KernelCode, double> read_code_factor(const std::string& file, const Json& row) {
  constexpr std::size_t kColumns = 7;
  if (!row.is_array() || row.size() != kColumns || !row[5].is_string()) {
    reject(file, kCodeFactors,
           "write [head_dim, tile_m, tile_n, warps, stages, \"order\", factor], not " + row.dump());
  }
  const auto number = [&](std::size_t column) {
    return read_number<int>(file, kCodeFactors, row[column]);
  };
  KernelCode code{number(0), number(1), number(2), number(3), number(4)};
  for (const Order order : {Order::cyclic, Order::sawtooth, Order::right_to_left}) {
    if (row[5] == to_string(order)) {
      code.order = order;
      return {code, read_number<double>(file, kCodeFactors, row[6])};
    }
  }
  reject(file, kCodeFactors, "no such order: " + row[5].dump());
}

void read_code_factors(const std::string& file, const Json& document, GpuProfile& profile) {
  const auto entry = document.find(kCodeFactors);
  if (entry == document.end()) {
    return;
  }
  if (!entry->is_object() || !entry->value("value", Json()).is_array()) {
    reject(file, kCodeFactors, R"(write {"value": [[..], ..], "source": ".."})");
  }
  for (const Json& row : entry->at("value")) {
    if (!profile.code_factors.insert(read_code_factor(file, row)).second) {
      reject(file, kCodeFactors, "twice the same code: " + row.dump());
    }
  }
  profile.sources[std::string(kCodeFactors)] =
      read_text(file, kCodeFactors, entry->value("source", Json()));
}

/// What is known where predictions were compared with measurements of others: "prediction_errors".
constexpr std::string_view kPredictionErrors = "prediction_errors";

constexpr std::array kErrorMasks{std::pair{"no_mask", false}, std::pair{"causal", true}};

std::vector<RegimeError> read_regimes(const std::string& file, const Json& rows, bool causal) {
  std::vector<RegimeError> regimes;
  for (const Json& row : rows.is_array() ? rows : Json::array()) {
    if (!row.is_array() || row.size() != 2) {
      reject(file, kPredictionErrors, "write [head_dim, error], not " + row.dump());
    }
    const auto head_dim = read_number<int>(file, kPredictionErrors, row[0]);
    if (!regimes.empty() && head_dim <= regimes.back().head_dim) {
      reject(file, kPredictionErrors, "write head_dims in growing order");
    }
    regimes.push_back({causal, head_dim, read_number<double>(file, kPredictionErrors, row[1])});
  }
  return regimes;
}

void read_prediction_errors(const std::string& file, const Json& document, GpuProfile& profile) {
  const auto entry = document.find(kPredictionErrors);
  if (entry == document.end()) {
    return;
  }
  const Json value = entry->is_object() ? entry->value("value", Json()) : Json();
  PredictionErrors& errors = profile.prediction_errors;
  for (const auto& [mask, causal] : kErrorMasks) {
    const auto regimes =
        read_regimes(file, value.is_object() ? value.value(mask, Json()) : Json(), causal);
    if (regimes.empty()) {
      reject(
          file, kPredictionErrors,
          R"(write {"value": {"no_mask": [[head_dim, error], ..], "causal": [..], "brief": ..}, )"
          R"("source": ".."})");
    }
    errors.regimes.insert(errors.regimes.end(), regimes.begin(), regimes.end());
  }
  errors.brief = read_number<double>(file, kPredictionErrors, value.value("brief", Json()));
  const Json named = value.value("named", Json::object());
  if (!named.is_object()) {
    reject(file, kPredictionErrors, R"(write "named": {"name": error, ..})");
  }
  for (const auto& [name, error] : named.items()) {
    errors.named[name] = read_number<double>(file, kPredictionErrors, error);
  }
  profile.sources[std::string(kPredictionErrors)] =
      read_text(file, kPredictionErrors, entry->value("source", Json()));
}

void reject_unknown_fields(const std::string& file, const Json& document) {
  for (const auto& item : document.items()) {
    const bool known = item.key() == "id" || item.key() == kL2Sets || item.key() == kCodeFactors ||
                       item.key() == kPredictionErrors ||
                       std::any_of(kFields.begin(), kFields.end(), [&](const ProfileNumber& field) {
                         return field.name == item.key();
                       });
    if (!known) {
      reject(file, item.key(), "no such field; correct its spelling or remove it");
    }
  }
}

void check_relations(const std::string& file, const GpuProfile& profile) {
  if (profile.dram_efficiency > 1) {
    reject(file, "dram_efficiency", "a share of dram_gb_per_s; write a number up to 1");
  }
  if (profile.kernel.younger_share > 1) {
    reject(file, "younger_share",
           "a share of what the next older CTA gets; write a number up to 1");
  }
  if (profile.l2_effective_bytes > profile.device.l2_bytes) {
    reject(file, "l2_effective_bytes",
           "larger than l2_bytes; write at most " + std::to_string(profile.device.l2_bytes));
  }
  const auto& runs = profile.l2_partition_runs;
  const long long sms = std::accumulate(runs.begin(), runs.end(), 0LL);
  if (!runs.empty() && sms != profile.device.sm_count) {
    reject(file, kL2Sets,
           "partition_runs sum to " + std::to_string(sms) + "; they must sum to sm_count, " +
               std::to_string(profile.device.sm_count));
  }
  if (profile.device.smem_per_cta_bytes > profile.device.smem_per_sm_bytes) {
    reject(file, "smem_per_cta_bytes",
           "larger than smem_per_sm_bytes; write at most " +
               std::to_string(profile.device.smem_per_sm_bytes));
  }
  if (profile.dram_latency_clocks < profile.l2_latency_clocks) {
    reject(file, "dram_latency_clocks", "below l2_latency_clocks; write the full latency");
  }
}

std::string id_of(const EmbeddedFile& file) {
  return std::string(file.path.substr(0, file.path.rfind('.')));
}

/// The built-in file of an id, or null.
const EmbeddedFile* find_built_in(std::string_view id) {
  for (const EmbeddedFile& file : embedded_profiles()) {
    if (id_of(file) == id) {
      return &file;
    }
  }
  return nullptr;
}

Json built_in_document(std::string_view id) {
  const EmbeddedFile* const file = find_built_in(id);
  return file == nullptr ? Json() : parse_json(file->text, "a built-in profile");
}

GpuProfile parse_profile(const std::string& file, std::string_view text) {
  const Json stated = parse_json(text, "GPU profile " + file);
  if (!stated.is_object()) {
    throw Error(ErrorCode::unreadable, "GPU profile " + file +
                                           " is not a JSON object; correct it or choose a "
                                           "built-in profile by its id");
  }
  const Json document = with_inherited_fields(file, stated, built_in_document);
  reject_unknown_fields(file, document);
  GpuProfile profile;
  profile.id = read_text(file, "id", document.value("id", Json()));
  for (const ProfileNumber& field : kFields) {
    read_field(file, field, document, profile);
  }
  read_l2_sets(file, document, profile);
  read_code_factors(file, document, profile);
  read_prediction_errors(file, document, profile);
  check_relations(file, profile);
  return profile;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), ascii::lower);
  return result;
}

bool is_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".json");
}

GpuProfile read_profile_file(const std::string& path) {
  std::string text;
  try {
    text = read_regular_file(path, JsonLimits{}.bytes);
  } catch (const Error& error) {
    throw Error(error.code(), std::string("GPU profile: ") + error.what() +
                                  "; check the path, or choose one of the built-in profiles");
  }
  return parse_profile(path, text);
}

/// The built-in profile of the same device, else the one whose architecture, then SM count, then L2
/// is nearest.
GpuProfile nearest_profile(const DeviceInfo& device) {
  const auto distance = [&device](const GpuProfile& profile) {
    return std::tuple(!same_device(profile.device, device),
                      std::abs(profile.device.sm_arch - device.sm_arch),
                      std::abs(profile.device.sm_count - device.sm_count),
                      std::abs(profile.device.l2_bytes - device.l2_bytes));
  };
  std::vector<GpuProfile> profiles;
  for (const std::string& id : profile_ids()) {
    profiles.push_back(load_profile(id));
  }
  return *std::min_element(
      profiles.begin(), profiles.end(),
      [&distance](const GpuProfile& a, const GpuProfile& b) { return distance(a) < distance(b); });
}

Json value_of(const ProfileNumber& field, const GpuProfile& profile) {
  return std::visit(
      [&](auto member) -> Json {
        if constexpr (std::is_invocable_v<decltype(member), const DeviceInfo&>) {
          return profile.device.*member;
        } else if constexpr (std::is_invocable_v<decltype(member), const KernelCosts&>) {
          return profile.kernel.*member;
        } else {
          return profile.*member;
        }
      },
      field.member);
}

/// One line per code.
std::string code_factors_text(const GpuProfile& profile) {
  std::string text;
  for (const auto& [code, factor] : profile.code_factors) {
    const Json row{code.head_dim, code.tile_m,           code.tile_n, code.warps,
                   code.stages,   to_string(code.order), factor};
    text += (text.empty() ? "\n    " : ",\n    ") + row.dump();
  }
  return "{\"source\": " + Json(profile.sources.at(std::string(kCodeFactors))).dump() +
         ", \"value\": [" + text + "\n  ]}";
}

}  // namespace

double GpuProfile::code_factor(const KernelCode& code) const {
  const auto entry = code_factors.find(code);
  return entry == code_factors.end() ? 1.0 : entry->second;
}

double GpuProfile::prediction_error(double time_us, bool causal, int head_dim) const {
  if (time_us < kBriefLaunchUs) {
    return prediction_errors.brief;
  }
  double error = 0.0;
  for (const RegimeError& regime : prediction_errors.regimes) {
    if (regime.causal == causal) {
      error = regime.error;
      if (head_dim <= regime.head_dim) {
        break;
      }
    }
  }
  return error;
}

double GpuProfile::prediction_error(const std::string& name) const {
  const auto entry = prediction_errors.named.find(name);
  return entry == prediction_errors.named.end() ? 0.0 : entry->second;
}

std::vector<std::string> profile_ids() {
  std::vector<std::string> ids;
  for (const EmbeddedFile& file : embedded_profiles()) {
    ids.push_back(id_of(file));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

GpuProfile load_profile(std::string_view id_or_path) {
  if (is_path(id_or_path)) {
    return read_profile_file(std::string(id_or_path));
  }
  if (const EmbeddedFile* const file = find_built_in(lower(id_or_path))) {
    return parse_profile(std::string(file->path), file->text);
  }
  const std::vector<std::string> ids = profile_ids();
  const std::vector<std::string_view> spellings(ids.begin(), ids.end());
  throw Error(ErrorCode::not_found, "unknown GPU '" + std::string(id_or_path) +
                                        "'; choose one of " + join_spellings(spellings) +
                                        ", or give the path of a profile (.json)");
}

std::string profile_text(const GpuProfile& profile) {
  std::string text = "{\n  \"id\": " + Json(profile.id).dump();
  for (const ProfileNumber& field : kFields) {
    Json entry;
    entry["value"] = value_of(field, profile);
    entry["source"] = profile.sources.at(std::string(field.name));
    text += ",\n  \"" + std::string(field.name) + "\": " + entry.dump();
  }
  if (profile.l2_ways > 0) {
    Json entry;
    entry["value"] = {{"ways", profile.l2_ways}, {"partition_runs", profile.l2_partition_runs}};
    entry["source"] = profile.sources.at(std::string(kL2Sets));
    text += ",\n  \"" + std::string(kL2Sets) + "\": " + entry.dump();
  }
  if (profile.sources.contains(std::string(kPredictionErrors))) {
    nlohmann::ordered_json entry;
    for (const auto& [mask, causal] : kErrorMasks) {
      for (const RegimeError& regime : profile.prediction_errors.regimes) {
        if (regime.causal == causal) {
          entry["value"][mask].push_back({regime.head_dim, regime.error});
        }
      }
    }
    entry["value"]["brief"] = profile.prediction_errors.brief;
    for (const auto& [name, error] : profile.prediction_errors.named) {
      entry["value"]["named"][name] = error;
    }
    entry["source"] = profile.sources.at(std::string(kPredictionErrors));
    text += ",\n  \"" + std::string(kPredictionErrors) + "\": " + entry.dump();
  }
  if (!profile.code_factors.empty()) {
    text += ",\n  \"" + std::string(kCodeFactors) + "\": " + code_factors_text(profile);
  }
  return text + "\n}\n";
}

std::vector<ProfileEntry> profile_entries(const GpuProfile& profile) {
  std::vector<ProfileEntry> entries;
  const auto add = [&](std::string_view name, std::string value) {
    const auto source = profile.sources.find(std::string(name));
    if (source != profile.sources.end()) {
      entries.push_back({std::string(name), std::move(value), source->second});
    }
  };
  for (const ProfileNumber& field : kFields) {
    const Json value = value_of(field, profile);
    add(field.name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  add(kL2Sets, std::to_string(profile.l2_ways) + " ways");
  add(kPredictionErrors, std::to_string(profile.prediction_errors.regimes.size()) + " regimes");
  add(kCodeFactors, std::to_string(profile.code_factors.size()) + " factors");
  return entries;
}

DeviceInfo profiled_device(std::string_view id) { return load_profile(id).device; }

GpuProfile profile_for_device(const DeviceInfo& device) {
  GpuProfile profile = nearest_profile(device);
  const DeviceInfo nearest = profile.device;
  profile.device = device;
  if (same_device(nearest, device)) {
    return profile;
  }
  const double sm_ratio = static_cast<double>(device.sm_count) / nearest.sm_count;
  const double l2_ratio =
      static_cast<double>(device.l2_bytes) / static_cast<double>(nearest.l2_bytes);
  profile.l2_gb_per_s *= sm_ratio;
  profile.l2_effective_bytes =
      std::llround(static_cast<double>(profile.l2_effective_bytes) * l2_ratio);
  profile.l2_partition_runs.clear();  // Of that card.
  if (device.sm_arch != nearest.sm_arch) {
    profile.code_factors.clear();  // Of another compiler's target.
  }
  profile.prediction_errors = {};  // Of that chip's own rates.
  profile.sources.erase(std::string(kPredictionErrors));
  for (auto& [field, source] : profile.sources) {
    source = "read from the device, or scaled from profile " + profile.id;
  }
  profile.id = "auto";
  return profile;
}

std::optional<double> profiled_clock_mhz(const DeviceInfo& device) {
  const GpuProfile nearest = nearest_profile(device);
  return same_device(nearest.device, device) ? std::optional(nearest.clock_mhz) : std::nullopt;
}

}  // namespace swr
