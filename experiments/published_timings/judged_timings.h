// SPDX-License-Identifier: MIT
// Timings that others have published of attention kernels on GPUs that are not here, beside what
// the model predicts for the portable family there: how far predictions can be trusted where
// nothing was measured (experiments/published_timings).
#pragma once

#include "model/profile/gpu_profile.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/kernel.h>

#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// A published time of one kernel for one problem on one chip.
struct PublishedTiming {
  std::string chip;  ///< A profile's id; empty where the source names no GPU.
  std::string library;
  std::string source;
  AttentionProblem problem;
  bool mma_sync = false;   ///< Of the instruction that the portable family uses.
  double time_us = 0.0;    ///< As published, else from the published rate.
  double tflops = 0.0;     ///< By the source's own count of operations.
  double clock_mhz = 0.0;  ///< 0 where the source did not fix it.
  /// Tile of the published kernel, where its source says so; warps are 0 where it does not.
  std::optional<AttentionVariant> tile;
  bool doubtful = false;
};

/// The rows of a points.csv that are forward attention with known sizes.
/// Throws: Error{not_found, unreadable} naming the file and the row.
std::vector<PublishedTiming> read_published_timings(const std::filesystem::path& file);

/// The fastest mma.sync kernel of each problem on each chip, of rows that are not doubtful.
std::vector<PublishedTiming> best_published(const std::vector<PublishedTiming>& timings);

/// A kernel of the portable family as ptxas made it for an architecture.
struct KnownKernel {
  int sm_arch = 0;
  int head_dim = 0;
  bool causal = false;
  AttentionVariant variant;
  KernelResources resources;
  /// Of the family's own space; else the tile of somebody else's kernel.
  bool in_space = true;
};

/// The rows of a kernels.csv (experiments/published_timings/README.md).
/// Throws: Error{not_found, unreadable} naming the file and the row.
std::vector<KnownKernel> read_known_kernels(const std::filesystem::path& file);

/// What the model says of a problem on a chip.
struct ForeseenTime {
  double time_us = 0.0;
  AttentionVariant variant;
};

/// The fastest of the kernels that run the problem on the profile's GPU, one CTA per Q tile, long
/// ones first under the mask; empty where none does. Kernels that could not be the fastest even if
/// L2 and memory delivered at once are not walked through L2.
std::optional<ForeseenTime> foresee(const AttentionProblem& problem,
                                    const std::vector<KnownKernel>& kernels,
                                    const GpuProfile& profile);

/// A published time beside the predicted ones.
struct JudgedTiming {
  PublishedTiming timing;
  GpuProfile profile;                ///< With the clock that the source fixed, if it did.
  std::optional<ForeseenTime> best;  ///< Of the portable family.
  std::optional<ForeseenTime> tile;  ///< Of the published kernel's tile, where that is known.

  /// Predicted over published time.
  double ratio() const { return best->time_us / timing.time_us; }
};

/// Foresees every timing that a profile of its chip exists for, on all processors. With
/// `with_tiles` the published tiles too.
std::vector<JudgedTiming> judge_published(const std::vector<PublishedTiming>& timings,
                                          const std::vector<KnownKernel>& kernels,
                                          const std::map<std::string, GpuProfile>& profiles,
                                          bool with_tiles);

/// The rows of a predictions.csv: what was foreseen of these timings, as write_predictions wrote
/// it. Foreseen variants are not in it. Throws: Error{not_found, unreadable} naming the file, the
/// row and how it is written anew.
std::vector<JudgedTiming> read_predictions(const std::filesystem::path& file,
                                           const std::vector<PublishedTiming>& timings);

/// A row for each judged timing, in their order.
void write_predictions(std::ostream& out, const std::vector<JudgedTiming>& judged);

/// How many times as fast as flash-attn-2 the portable family was measured on an H200
/// (experiments/portable_attention), for kernels of that library on chips with much the same
/// balance of units, A100 and H100; 1 for all others.
double measured_lead(const PublishedTiming& timing);

/// How far predicted times lie from published ones.
struct PublishedAccuracy {
  std::size_t points = 0;
  double bias = 0.0;          ///< Geometric mean of predicted over published time, less 1.
  double error = 0.0;         ///< Root mean square of that ratio's logarithm.
  double spread = 0.0;        ///< Standard deviation of its logarithm.
  double within_share = 0.0;  ///< Share of the points within kPublishedBar.
  double worst = 0.0;         ///< Farthest, with its sign.
};

inline constexpr double kPublishedBar = 0.12;

/// Of ratios of predicted to published times. Requires: at least one.
PublishedAccuracy assess_ratios(const std::vector<double>& ratios);

}  // namespace swr
