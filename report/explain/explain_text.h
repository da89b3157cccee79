// SPDX-License-Identifier: MIT
// Sections that explanations of every operation have.
#pragma once

#include "report/explain/explanation.h"
#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/variant.h>

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace swr {

/// A line of an explanation.
struct Row {
  std::string name;
  std::string value;
  std::string remark = {};
};

using Rows = std::vector<Row>;

void print_rows(std::ostream& out, const std::string& title, const Rows& rows);

struct NamedBytes {
  std::string name;
  long long bytes = 0;
};

long long total_bytes(std::span<const NamedBytes> buffers);

/// CTAs that fit an SM by shared memory alone.
int ctas_by_smem(long long smem_bytes, const DeviceInfo& device);

/// What is known of a variant of any operation.
struct Explained {
  ExplainRequest request;
  Occupancy fit = {};
  int threads = 0;                       ///< Of a CTA.
  long long ctas = 0;                    ///< Of the launch.
  double waves = 0.0;                    ///< CTAs of the launch over the places of all SMs.
  std::vector<NamedBytes> buffers = {};  ///< Of shared memory.
  /// Measured where there is a measurement, else predicted.
  VariantResult result = {};

  /// Resident threads over those an SM holds at most.
  double occupancy() const;
};

/// The variant on its GPU, without a launch. Throws: Error{invalid_argument} when no CTA fits an
/// SM.
Explained explained(const ExplainRequest& request);

/// The measurement, else the prediction as a result. `smem_bytes` are those of a CTA.
VariantResult known_result(const Explained& all, const Prediction& prediction, int smem_bytes);

/// Problem, variant and key.
void print_subject(std::ostream& out, const Explained& all);
/// Of compiler and occupancy, to the number of CTAs.
Rows launch_rows(const Explained& all);
void print_smem(std::ostream& out, const Explained& all, const Rows& more = {});
/// Demanded of L2 and missed there, in sectors.
Rows traffic_rows(long long demanded, long long compulsory, long long excess);
/// "; uncertain by 12 %", or nothing where that is not known.
std::string uncertainty_text(double relative_error);
Row effective_l2_row(const GpuProfile& profile);
Row all_misses_row(long long sectors);

/// Up to the resources, which all begin with.
Json subject_json(const Explained& all);
void add_launch_json(const Explained& all, Json& json);
Json buffers_json(const Explained& all);
Json roofline_json(const Explained& all);
/// What limits it, and what to try next.
void add_words_json(const Explained& all, Json& json);

/// Sectors as bytes.
std::string with_bytes(long long sectors);

/// Time and counters beside the predicted time; nothing for a prediction.
void print_measured(std::ostream& out, const Explained& all, double predicted_us);
/// Bank conflicts and coalescing by hardware counter, or why they are unknown.
void print_accesses(std::ostream& out, const Explained& all);
/// The roofline, what limits it, and what to try next.
void print_limits(std::ostream& out, const Explained& all);

/// Sizes of the tile in short: "64x64x4", "128x256x64".
std::string tile_text(const Variant& variant);

/// "64x64x4 stages 2 sawtooth persistent q_fastest": every choice.
std::string describe(const Variant& variant);

/// "NVIDIA GB10 (sm_121, 48 SMs, 24.00 MiB L2)".
std::string describe(const DeviceInfo& device);

}  // namespace swr
