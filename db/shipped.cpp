// SPDX-License-Identifier: MIT
#include "db/shipped.h"

#include "core/embedded_file.h"
#include "core/recorded_space.h"
#include "db/lookup_table.h"
#include <swr/error.h>

#include <algorithm>
#include <map>
#include <string>

namespace swr {

std::span<const EmbeddedFile> shipped_files();

namespace {

/// Who is this much slower than the fastest is no good answer for a neighbour either.
constexpr double kNearFastest = 1.1;

std::vector<RecordedSpace> read_shipped_spaces() {
  std::vector<RecordedSpace> all;
  for (const EmbeddedFile& file : shipped_files()) {
    const auto spaces = parse_recorded_spaces(file.text);
    all.insert(all.end(), spaces.begin(), spaces.end());
  }
  return all;
}

/// Values that differ from each other, and where they stand.
template <typename Value>
class Distinct {
 public:
  explicit Distinct(std::vector<Value>& values) : values_(values) {}

  std::uint32_t index_of(const Value& value) {
    const auto [at, is_new] = places_.try_emplace(value, places_.size());
    if (is_new) {
      values_.push_back(value);
    }
    return at->second;
  }

 private:
  std::vector<Value>& values_;
  std::map<Value, std::uint32_t> places_;
};

std::uint32_t device_index(std::vector<DeviceInfo>& devices, const DeviceInfo& device) {
  const auto known = std::ranges::find_if(
      devices, [&](const DeviceInfo& other) { return same_device(other, device); });
  const auto index = static_cast<std::uint32_t>(known - devices.begin());
  if (known == devices.end()) {
    devices.push_back(device);
  }
  return index;
}

}  // namespace

const std::vector<RecordedSpace>& shipped_spaces() {
  static const std::vector<RecordedSpace> all = read_shipped_spaces();
  return all;
}

LookupRecords lookup_records_of(std::span<const RecordedSpace> spaces) {
  LookupRecords records;
  Distinct<Problem> problems(records.problems);
  Distinct<Variant> variants(records.variants);
  for (const RecordedSpace& space : spaces) {
    const double limit_us = kNearFastest * space.best_us();
    const std::uint32_t device = device_index(records.devices, space.device);
    for (const VariantResult& result : space.results) {
      if (result.state == ResultState::ok && result.time_us() <= limit_us) {
        records.rows.push_back({.problem = problems.index_of(space.problem),
                                .device = device,
                                .variant = variants.index_of(result.variant),
                                .provenance = result.provenance(),
                                .is_ok = true,
                                .result_id = 0,
                                .merit = merit(space.problem, result),
                                .l2_misses = l2_miss_sectors(result)});
      }
    }
  }
  return records;
}

const LookupTable& shipped_table() {
  static const LookupTable table(lookup_records_of(shipped_spaces()));
  return table;
}

std::optional<StoredResult> shipped_result(const Problem& problem, const DeviceInfo& device) {
  const auto answer = shipped_table().stored(problem, device, LookupTable::Kinds::own);
  if (!answer || answer->level != MatchLevel::exact) {
    return std::nullopt;
  }
  for (const RecordedSpace& space : shipped_spaces()) {
    const auto result = std::ranges::find(space.results, answer->variant, &VariantResult::variant);
    if (space.problem == problem && same_device(space.device, device) &&
        result != space.results.end()) {
      return StoredResult{0, space.problem, space.device, *result};
    }
  }
  return std::nullopt;
}

bool are_shipped_in(const Setting& setting) { return setting == Setting{}; }

}  // namespace swr
