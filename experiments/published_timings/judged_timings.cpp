// SPDX-License-Identifier: MIT
#include "experiments/published_timings/judged_timings.h"

#include "core/number_text.h"
#include "experiments/published_timings/csv_table.h"
#include "operations/attention/model/time.h"
#include <swr/constraints.h>
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <ostream>
#include <thread>
#include <utility>

namespace swr {
namespace {

constexpr int kCsvDigits = 6;

/// Scores of one head that the mask leaves; it ends at the last key of the last row.
double unmasked_scores(const AttentionProblem& problem) {
  const double rows = problem.seq_q;
  return problem.causal ? rows * (problem.seq_kv - (rows - 1) / 2) : rows * problem.seq_kv;
}

/// Operations as the source counts them.
double published_flop(const AttentionProblem& problem, std::string_view convention,
                      const CsvTable& table) {
  const double all_scores = static_cast<double>(problem.seq_q) * problem.seq_kv;
  const double per_score = 4.0 * problem.batch * problem.heads_q * problem.head_dim;
  if (convention == "full") {
    return per_score * all_scores;
  }
  if (convention == "half") {
    return per_score * all_scores / 2;
  }
  if (convention == "unmasked") {
    return per_score * unmasked_scores(problem);
  }
  table.reject("convention \"" + std::string(convention) + "\"; write full, half or unmasked");
}

/// "128x64x4", or "128x64" where the warps are not known.
std::optional<AttentionVariant> parse_tile(const std::string& text, const CsvTable& table) {
  AttentionVariant tile;
  tile.tile_m = tile.tile_n = tile.warps = 0;
  if (text.empty()) {
    return std::nullopt;
  }
  const char* at = text.data();
  const char* const last = at + text.size();
  for (int* const side : {&tile.tile_m, &tile.tile_n, &tile.warps}) {
    at = std::from_chars(at, last, *side).ptr;
    at += at != last && *at == 'x' ? 1 : 0;
  }
  if (at != last || tile.tile_n == 0) {
    table.reject("tile \"" + text + "\"; write rows x keys x warps");
  }
  return tile;
}

AttentionProblem read_problem(const CsvTable& table) {
  AttentionProblem problem;
  problem.dtype = table.text("dtype") == "bf16" ? DType::bf16 : DType::fp16;
  problem.batch = table.number<int>("batch");
  problem.heads_q = table.number<int>("heads");
  problem.heads_kv = table.number<int>("kv_heads");
  problem.seq_q = table.number<int>("seq_q");
  problem.seq_kv = table.number<int>("seq_kv");
  problem.head_dim = table.number<int>("head_dim");
  problem.causal = table.text("causal") == "1";
  return problem;
}

PublishedTiming read_timing(const CsvTable& table) {
  PublishedTiming timing;
  timing.chip = table.text("chip");
  timing.library = table.text("library");
  timing.source = table.text("source");
  timing.problem = read_problem(table);
  timing.mma_sync = table.text("kernel") == "mma.sync";
  timing.tflops = table.number<double>("tflops");
  const auto time_us = table.optional_number("time_us");
  timing.time_us = time_us ? *time_us
                           : published_flop(timing.problem, table.text("convention"), table) /
                                 timing.tflops / 1e6;
  timing.clock_mhz = table.optional_number("clock_mhz").value_or(0.0);
  timing.tile = parse_tile(table.text("tile"), table);
  timing.doubtful = !table.text("doubtful").empty();
  return timing;
}

KnownKernel read_kernel(const CsvTable& table) {
  KnownKernel kernel;
  kernel.sm_arch = table.number<int>("sm_arch");
  kernel.head_dim = table.number<int>("head_dim");
  kernel.causal = table.text("causal") == "1";
  kernel.variant.tile_m = table.number<int>("tile_m");
  kernel.variant.tile_n = table.number<int>("tile_n");
  kernel.variant.warps = table.number<int>("warps");
  kernel.variant.stages = table.number<int>("stages");
  kernel.resources.registers_per_thread = table.number<int>("registers");
  kernel.resources.spill_store_bytes = table.number<int>("spill_store_bytes");
  kernel.resources.spill_load_bytes = table.number<int>("spill_load_bytes");
  kernel.in_space = table.text("in_space") == "1";
  return kernel;
}

/// A kernel on the GPU, and the least it can take: at first what its SMs compute, divided evenly.
struct Candidate {
  AttentionVariant variant;
  KernelResources resources;
  int ctas_per_sm = 0;
  double least_us = 0.0;
  ScheduleShape shape = {};
};

/// KV steps of all CTAs.
double kv_steps(const AttentionProblem& problem, const AttentionVariant& variant) {
  double steps = 0.0;
  for (int row = 0; row < problem.seq_q; row += variant.tile_m) {
    const int last = std::min(row + variant.tile_m, problem.seq_q);
    const int keys = problem.causal ? last + problem.seq_kv - problem.seq_q : problem.seq_kv;
    steps += ceil_div(std::max(keys, 0), variant.tile_n);
  }
  return steps * problem.batch * problem.heads_q;
}

double least_time_us(const AttentionProblem& problem, const Candidate& one,
                     const GpuProfile& profile) {
  double step_clocks = step_cost(problem, one.variant, 1, profile).compute_clocks;
  for (int resident = 2; resident <= one.ctas_per_sm; ++resident) {
    step_clocks =
        std::min(step_clocks, step_cost(problem, one.variant, resident, profile).compute_clocks);
  }
  return kv_steps(problem, one.variant) * step_clocks / profile.device.sm_count / profile.clock_mhz;
}

/// Kernels of the chip's architecture that run the problem there, soonest first.
std::vector<Candidate> candidates(const AttentionProblem& problem,
                                  const std::vector<KnownKernel>& kernels,
                                  const GpuProfile& profile) {
  std::vector<Candidate> all;
  for (const KnownKernel& kernel : kernels) {
    Candidate one{.variant = kernel.variant, .resources = kernel.resources};
    one.variant.longest_first = problem.causal && problem.seq_q > one.variant.tile_m;
    if (kernel.sm_arch != profile.device.sm_arch || kernel.head_dim != problem.head_dim ||
        kernel.causal != problem.causal ||
        check_constraints(problem, one.variant, profile.device) ||
        check_compiled(problem, one.variant, profile.device, kernel.resources)) {
      continue;
    }
    one.ctas_per_sm = occupancy(kernel.resources, problem, one.variant, profile.device).ctas_per_sm;
    one.least_us = least_time_us(problem, one, profile);
    all.push_back(one);
  }
  std::ranges::stable_sort(all, {}, &Candidate::least_us);
  return all;
}

/// Those of them that are within reach of the fastest, with their schedules and the time that they
/// take where L2 and memory deliver at once; soonest first.
std::vector<Candidate> unhindered_candidates(const AttentionProblem& problem,
                                             const std::vector<KnownKernel>& kernels,
                                             const GpuProfile& profile) {
  constexpr double kReach = 1.5;  ///< Memory slows the fastest by less
  L2Traffic none;
  none.schedule.steps = 1;
  std::vector<Candidate> all;
  double soonest_us = std::numeric_limits<double>::infinity();
  for (Candidate& one : candidates(problem, kernels, profile)) {
    if (one.least_us > kReach * soonest_us) {
      break;
    }
    one.shape = schedule_on_gpu(problem, one.variant, one.ctas_per_sm, profile);
    one.least_us =
        predict_time(problem, one.variant, one.resources, one.shape, none, profile).time_us;
    soonest_us = std::min(soonest_us, one.least_us);
    all.push_back(std::move(one));
  }
  std::ranges::stable_sort(all, {}, &Candidate::least_us);
  return all;
}

template <typename Chosen>
std::vector<KnownKernel> chosen_kernels(const std::vector<KnownKernel>& kernels, Chosen chosen) {
  std::vector<KnownKernel> some;
  std::ranges::copy_if(kernels, std::back_inserter(some), chosen);
  return some;
}

/// Warps count where they are known.
bool is_of_tile(const AttentionVariant& variant, const AttentionVariant& tile) {
  return variant.tile_m == tile.tile_m && variant.tile_n == tile.tile_n &&
         (tile.warps == 0 || variant.warps == tile.warps);
}

}  // namespace

std::vector<PublishedTiming> read_published_timings(const std::filesystem::path& file) {
  CsvTable table(file);
  std::vector<PublishedTiming> timings;
  while (table.next()) {
    if (table.text("op") == "attention_fwd" && !table.text("batch").empty()) {
      timings.push_back(read_timing(table));
    }
  }
  return timings;
}

std::vector<PublishedTiming> best_published(const std::vector<PublishedTiming>& timings) {
  std::vector<PublishedTiming> best;
  for (const PublishedTiming& timing : timings) {
    if (!timing.mma_sync || timing.doubtful || timing.chip.empty()) {
      continue;
    }
    const auto same = std::ranges::find_if(best, [&](const PublishedTiming& other) {
      return other.chip == timing.chip && other.problem == timing.problem &&
             other.clock_mhz == timing.clock_mhz;
    });
    if (same == best.end()) {
      best.push_back(timing);
    } else if (timing.time_us < same->time_us) {
      *same = timing;
    }
  }
  return best;
}

std::vector<KnownKernel> read_known_kernels(const std::filesystem::path& file) {
  CsvTable table(file);
  std::vector<KnownKernel> kernels;
  while (table.next()) {
    kernels.push_back(read_kernel(table));
  }
  return kernels;
}

std::optional<ForeseenTime> foresee(const AttentionProblem& problem,
                                    const std::vector<KnownKernel>& kernels,
                                    const GpuProfile& profile) {
  std::map<ScheduleShape, L2Traffic> walks;
  std::optional<ForeseenTime> fastest;
  for (const Candidate& one : unhindered_candidates(problem, kernels, profile)) {
    if (fastest && one.least_us >= fastest->time_us) {
      break;
    }
    const auto [entry, is_new] = walks.try_emplace(one.shape);
    if (is_new) {
      entry->second = simulate_l2(one.shape, profile.l2_policy());
    }
    const double time_us =
        predict_time(problem, one.variant, one.resources, one.shape, entry->second, profile)
            .time_us;
    if (!fastest || time_us < fastest->time_us) {
      fastest = {time_us, one.variant};
    }
  }
  return fastest;
}

std::vector<JudgedTiming> judge_published(const std::vector<PublishedTiming>& timings,
                                          const std::vector<KnownKernel>& kernels,
                                          const std::map<std::string, GpuProfile>& profiles,
                                          bool with_tiles) {
  std::vector<JudgedTiming> judged;
  for (const PublishedTiming& timing : timings) {
    const auto profile = profiles.find(timing.chip);
    if (profile != profiles.end()) {
      judged.push_back({.timing = timing, .profile = profile->second, .best = {}, .tile = {}});
      if (timing.clock_mhz > 0) {
        judged.back().profile.clock_mhz = timing.clock_mhz;
      }
    }
  }
  const std::vector<KnownKernel> own = chosen_kernels(kernels, &KnownKernel::in_space);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t at = next++; at < judged.size(); at = next++) {
      JudgedTiming& one = judged[at];
      one.best = foresee(one.timing.problem, own, one.profile);
      if (with_tiles && one.timing.tile) {
        const AttentionVariant& tile = *one.timing.tile;
        one.tile = foresee(one.timing.problem,
                           chosen_kernels(kernels,
                                          [&tile](const KnownKernel& kernel) {
                                            return is_of_tile(kernel.variant, tile);
                                          }),
                           one.profile);
      }
    }
  };
  {
    std::vector<std::jthread> pool(std::max(1U, std::thread::hardware_concurrency()));
    std::ranges::generate(pool, [&] { return std::jthread(work); });
  }
  std::erase_if(judged, [](const JudgedTiming& one) { return !one.best; });
  return judged;
}

std::vector<JudgedTiming> read_predictions(const std::filesystem::path& file,
                                           const std::vector<PublishedTiming>& timings) {
  CsvTable table(file);
  std::vector<JudgedTiming> judged;
  while (table.next()) {
    const AttentionProblem problem = read_problem(table);
    const double clock_mhz = table.optional_number("clock_mhz").value_or(0.0);
    const auto timing = std::ranges::find_if(timings, [&](const PublishedTiming& one) {
      return one.chip == table.text("chip") && one.problem == problem && one.clock_mhz == clock_mhz;
    });
    if (timing == timings.end()) {
      table.reject("is of no published timing; write the file anew with published_timings --out");
    }
    judged.push_back({.timing = *timing, .profile = {}, .best = {}, .tile = {}});
    judged.back().best = ForeseenTime{table.number<double>("predicted_us"), {}};
    if (const auto tile_us = table.optional_number("tile_us")) {
      judged.back().tile = ForeseenTime{*tile_us, {}};
    }
  }
  return judged;
}

void write_predictions(std::ostream& out, const std::vector<JudgedTiming>& judged) {
  out << "chip,dtype,batch,heads,kv_heads,seq_q,seq_kv,head_dim,causal,clock_mhz,published_us,"
         "predicted_us,tile_us\n";
  for (const JudgedTiming& one : judged) {
    const AttentionProblem& problem = one.timing.problem;
    out << one.timing.chip << ',' << to_string(problem.dtype) << ',';
    for (const int number : {problem.batch, problem.heads_q, problem.heads_kv, problem.seq_q,
                             problem.seq_kv, problem.head_dim, problem.causal ? 1 : 0}) {
      out << std::to_string(number) << ',';
    }
    if (one.timing.clock_mhz > 0) {
      out << general_text(one.timing.clock_mhz);
    }
    out << ',' << significant_text(one.timing.time_us, kCsvDigits) << ','
        << significant_text(one.best->time_us, kCsvDigits) << ','
        << (one.tile ? significant_text(one.tile->time_us, kCsvDigits) : "") << '\n';
  }
}

double measured_lead(const PublishedTiming& timing) {
  struct Lead {
    int head_dim;
    double no_mask;
    double causal;
  };
  // Geometric means over S from 512 to 8192.
  constexpr std::array kLeads{Lead{64, 1.19, 1.31}, Lead{96, 1.06, 1.16}, Lead{128, 1.07, 1.22},
                              Lead{160, 1.40, 1.54}, Lead{256, 1.04, 1.06}};
  const bool is_flash =
      timing.library.find("FA2") != std::string::npos || timing.library == "flash-attn-2";
  if (!is_flash || !(timing.chip.starts_with("a100") || timing.chip.starts_with("h100"))) {
    return 1.0;
  }
  const auto lead = std::ranges::find(kLeads, timing.problem.head_dim, &Lead::head_dim);
  if (lead == kLeads.end()) {
    return 1.0;
  }
  return timing.problem.causal ? lead->causal : lead->no_mask;
}

PublishedAccuracy assess_ratios(const std::vector<double>& ratios) {
  PublishedAccuracy accuracy{.points = ratios.size()};
  const auto points = static_cast<double>(ratios.size());
  double sum = 0.0;
  double squares = 0.0;
  for (const double ratio : ratios) {
    sum += std::log(ratio);
    squares += std::log(ratio) * std::log(ratio);
    accuracy.within_share += std::abs(ratio - 1) <= kPublishedBar ? 1 / points : 0.0;
    if (std::abs(std::log(ratio)) > std::abs(std::log1p(accuracy.worst))) {
      accuracy.worst = ratio - 1;
    }
  }
  accuracy.error = std::sqrt(squares / points);
  accuracy.bias = std::exp(sum / points) - 1;
  accuracy.spread = std::sqrt(std::max(0.0, squares / points - sum * sum / (points * points)));
  return accuracy;
}

}  // namespace swr
