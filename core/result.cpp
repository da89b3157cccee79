// SPDX-License-Identifier: MIT
#include "core/enum_text.h"
#include <swr/result.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kProvenances{"measured"sv, "predicted"sv};
constexpr std::array kStates{"ok"sv,          "compile"sv, "constraint"sv,
                             "launch"sv,      "runtime"sv, "timeout"sv,
                             "correctness"sv, "crash"sv,   "throttled"sv};

constexpr std::array kL2States{"warm"sv, "cold"sv};
constexpr std::array kSamplings{"screening"sv, "finals"sv};

}  // namespace

std::string_view to_string(Provenance value) { return enum_text(kProvenances, value); }
std::string_view to_string(ResultState value) { return enum_text(kStates, value); }
std::string_view to_string(L2State value) { return enum_text<L2State>(kL2States, value); }
std::string_view to_string(Sampling value) { return enum_text<Sampling>(kSamplings, value); }

Provenance parse_provenance(std::string_view text) {
  return parse_enum<Provenance>(kProvenances, text, "provenance");
}

ResultState parse_result_state(std::string_view text) {
  return parse_enum<ResultState>(kStates, text, "result state");
}

L2State parse_l2_state(std::string_view text) {
  return parse_enum<L2State>(kL2States, text, "L2 state");
}

Sampling parse_sampling(std::string_view text) {
  return parse_enum<Sampling>(kSamplings, text, "sampling");
}

double Energy::mean_mj() const {
  return std::accumulate(samples_mj.begin(), samples_mj.end(), 0.0) /
         static_cast<double>(samples_mj.size());
}

double Energy::power_w() const {
  constexpr double kMicrosecondsPerMillisecond = 1e3;
  return mean_mj() / launch_us * kMicrosecondsPerMillisecond;
}

std::optional<long long> l2_sectors(const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    return prediction->read_sectors + prediction->write_sectors;
  }
  const auto& counters = result.measurement()->counters;
  return counters ? std::optional(counters->sectors_demanded) : std::nullopt;
}

std::optional<long long> excess_miss_sectors(const Problem& problem, const VariantResult& result) {
  if (const Prediction* prediction = result.prediction()) {
    return prediction->excess_misses;
  }
  const Measurement& measurement = *result.measurement();
  const auto& counters = measurement.counters;
  if (!counters || !measurement.counters_missing_because.empty()) {
    return std::nullopt;
  }
  return excess_read_sectors(problem, counters->dram_read_bytes);
}

long long excess_read_sectors(const Problem& problem, long long dram_read_bytes) {
  return std::max(0LL, dram_read_bytes - compulsory_bytes(problem).read) / kSectorBytes;
}

long long compulsory_sectors(const Problem& problem) {
  const CompulsoryBytes bytes = compulsory_bytes(problem);
  return (bytes.read + bytes.write) / kSectorBytes;
}

}  // namespace swr
