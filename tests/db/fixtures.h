// SPDX-License-Identifier: MIT
// What the database tests share: a fictional GPU and results for it.
#pragma once

#include "core/recorded_space.h"
#include "tests/support/fictional_gpu.h"
#include "tests/support/test.h"
#include "tests/support/with.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/lookup.h>
#include <swr/store.h>

#include <sys/stat.h>
#include <unistd.h>

namespace swr {

/// Gives up root's right to ignore permissions for as long as it lives.
class WithoutPrivileges {
 public:
  WithoutPrivileges() {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && seteuid(kNobody) != 0) {
      throw std::runtime_error("root cannot become nobody");
    }
  }
  ~WithoutPrivileges() {
    if (getuid() == 0 && seteuid(0) != 0) {
      std::abort();
    }
  }
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;
};

/// The error `action` ends in; a test failure when it ends well.
template <typename Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorCode::invalid_argument, "no error"};
}

/// A lookup that knows what its file holds, and no more.
inline LookupOptions without_shipped() {
  return with(LookupOptions{}, &LookupOptions::shipped, false);
}

inline AttentionProblem problem_of(int seq) {
  return {.heads_q = 8, .heads_kv = 8, .seq_q = seq, .seq_kv = seq, .head_dim = 64};
}

inline AttentionVariant tile(int tile_m, int tile_n) {
  return {.tile_m = tile_m, .tile_n = tile_n};
}

inline VariantResult result_of(const Variant& variant) {
  VariantResult result{.variant = variant};
  result.resources.registers_per_thread = 120;
  return result;
}

inline VariantResult measured(const Variant& variant, double median_us) {
  Measurement measurement{.samples_us = {median_us},
                          .median_us = median_us,
                          .p95_us = median_us,
                          .relative_error = 1e-4,
                          .counters_missing_because = "not asked for"};
  return with(result_of(variant), &VariantResult::outcome, measurement);
}

inline VariantResult predicted(const Variant& variant, double time_us) {
  return with(result_of(variant), &VariantResult::outcome,
              Prediction{.time_us = time_us, .read_sectors = 1000});
}

inline GpuReference some_reference(const std::string& tuned) {
  return {.gpu = 1,
          .card = "0000:3b:00.0",
          .tuned = tuned,
          .kernel = "a problem and a variant",
          .median_us = 123.5,
          .condition = {.sm_clock_mhz = 1980, .temperature_c = 41}};
}

inline RunInfo some_run() {
  return {.command = "swr-tune --seq 4096",
          .swr_version = "0.1.0",
          .templates_digest = "00ff",
          .nvrtc_version = "13.0",
          .driver_version = "13.1",
          .l2_state = "warm",
          .seed = 7};
}

/// (Recorded time) / (fastest of the space) - 1; empty when the variant was not recorded.
inline std::optional<double> regret(const RecordedSpace& space, const Variant& variant) {
  const auto found = std::ranges::find_if(space.results, [&](const VariantResult& result) {
    return result.variant == variant && result.state == ResultState::ok;
  });
  return found == space.results.end() ? std::nullopt
                                      : std::optional(found->time_us() / space.best_us() - 1.0);
}

}  // namespace swr
