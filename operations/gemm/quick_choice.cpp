// SPDX-License-Identifier: MIT
// Which variant to take where nothing near was measured, and about how long one takes: Hopper
// kernels of 16-bit types by the time model without its walk (operations/gemm/model), others by a
// closed form over shape and device, as for attention (operations/attention/quick_choice.cpp). It
// counts rounds of tiles.
//
// The numbers are those of the model or fitted to recordings of an H200
// (experiments/right_answers).
#include "core/architectures.h"
#include "operations/gemm/config.h"
#include "operations/gemm/gemm_fit.h"
#include "operations/gemm/parts.h"
#include "operations/quick_rates.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace swr {
namespace {

/// All SMs together take no more from L2 than this of what each could in a clock.
constexpr double kSmL2BytesPerClock = 64.0;
constexpr double kL2Share = 0.63;
/// Of one SM that streams.
constexpr double kPullBytesPerClock = 36.0;
constexpr double kSmemBytesPerClock = 128.0;

constexpr double kLaunchUs = 1.2;
constexpr double kFillClocks = 700.0;
constexpr double kLeastStepClocks = 150.0;
constexpr double kEpilogueClocks = 300.0;
constexpr double kWgmmaFactor = 1.27;
constexpr double kMmaFactor = 1.34;
constexpr double kPortableSmemShare = 0.35;
/// Sums of splits meet in global memory, those of a cluster in shared memory.
constexpr double kSplitUs = 1.0;
/// Between asking for the sums of one split and adding them: the last warpgroup takes one split
/// after the other.
constexpr double kSumLatencyUs = 0.2;
constexpr double kExchangeUs = 0.5;
constexpr double kClusterBytesPerClock = 14.0;
/// Of clusters of three and four, GPCs of 16 and 18 SMs hold no more than this of their SMs.
constexpr double kThreesShare = 0.89;
constexpr double kFoursShare = 0.91;  ///< Dies differ: of 132 SMs 32 fours fit one and 30 another.
constexpr int kLargeCluster = 4;      ///< That shares tiles of A or B.

constexpr double kCopyLaunchUs = 1.5;
/// What a thread that copies rows reads and writes while it waits for its loads: 2.1, 2.7 and 3.0
/// TB/s by 256, 384 and 512 threads of an SM, whatever the size (ten spaces of odd rows,
/// experiments/gemm). L2 holds most, so as many as there could be reach more than memory gives.
constexpr double kCopyBytesPerThreadUs = 103.0;
constexpr double kMostOfCopies = 1.2;
/// Of an element of C that a warpgroup stores after its neighbours, or a CTA apart from them: 371
/// us for 72 million of the latter (experiments/gemm).
constexpr double kWordStoreClocks = 0.6;
constexpr double kScatteredStoreClocks = 1.0;
constexpr double kPairStoreClocks = 0.5;  ///< Portable, whole rows: four sizes of k 16 to 32.
/// A warp's two loads of neighbouring 16 bytes of each lane and a store: about 14 lines of L1.
constexpr double kWarpLoadClocks = 16.0;
constexpr double kWarpLoadLatency = 900.0;
/// Each of a warp's copies of pieces of 4 or 8 bytes touches the lines of all its rows: 4 to 8.
constexpr double kWarpPieceClocks = 6.0;

constexpr int kHopperRows = 64;
constexpr int kMostStages = 12;
constexpr int kLeastBlocksPerPart = 4;

/// Lines that start inside of one of L2's are asked for in pieces: requests of a GEMM
/// grew 1.3, 1.45 and 2.0 to 2.6 times at pitches 64, 32 and 16 bytes beyond a multiple of 128, and
/// the time of 192 kernels at the last is that of 2.2 times the loads (experiments/gemm, odd
/// sizes).
double line_cost(long long pitch) {
  return pitch % 128 == 0 ? 1.0 : pitch % 64 == 0 ? 1.2 : pitch % 32 == 0 ? 1.5 : 2.2;
}

/// Two CTAs of such kernels share an SM.
bool is_by_twos(const GemmVariant& variant) {
  const bool has_room = variant.tile_n < 128 ||
                        (variant.tile_n == 128 && variant.splits == 1 && variant.cluster_k == 1);
  return variant.family == Family::hopper && variant.consumers == 1 && has_room &&
         variant.persistence == Persistence::grid;
}

int ctas_per_sm(const GemmProblem& problem, const GemmVariant& variant, const DeviceInfo& device) {
  if (variant.family == Family::hopper) {
    return is_by_twos(variant) ? 2 : 1;
  }
  constexpr int kMost = 4;
  const int smem = variant.stages * (variant.tile_m + variant.tile_n) * variant.tile_k *
                   element_bytes(problem.dtype);
  const int threads = 32 * variant.warps_m * variant.warps_n;
  const int sums = variant.tile_m * variant.tile_n / threads;
  const int held = variant.promote_every > 0 ? 2 * sums : sums;
  const int registers = std::min(255, held + 90) * threads;
  return std::clamp(std::min(device.smem_per_sm_bytes / (smem + device.smem_reserved_per_cta_bytes),
                             device.registers_per_sm / registers),
                    1, kMost);
}

/// Clocks of a k-block of two levels, of whose products a consumer adds its part while the other
/// one multiplies; `products` are those of all.
double promoted_clocks(const GemmVariant& v, double products) {
  constexpr double kWaitClocks = 100.0;
  if (v.promote_every == 0) {
    return 0.0;
  }
  const double added = 1.0 * v.tile_m * v.tile_n / v.consumers / 128 * v.tile_k / v.promote_every;
  const int sharers = v.mainloop == GemmMainloop::pingpong ? 1 : v.consumers;
  return products / sharers + added * (v.mainloop == GemmMainloop::pingpong ? v.consumers : 1) +
         kWaitClocks;
}

/// Clocks of one k-block of a CTA that has its SM alone.
double product_clocks(const GemmProblem& problem, const GemmVariant& v, const DeviceInfo& device) {
  const double bytes = element_bytes(problem.dtype);
  const double stage_bytes = bytes * (v.tile_m + v.tile_n) * v.tile_k;
  if (v.family == Family::hopper) {
    const double instructions = v.tile_m / 64.0 * v.tile_k * bytes / 32.0;
    const double smem = instructions * 32.0 * (kHopperRows + v.tile_n) + stage_bytes;
    return std::max({kWgmmaFactor * instructions * v.tile_n / 2, smem / kSmemBytesPerClock,
                     promoted_clocks(v, instructions * v.tile_n / 2)});
  }
  const double flop = 2.0 * v.tile_m * v.tile_n * v.tile_k;
  const double smem = bytes * v.tile_k * (v.tile_m * v.warps_n + v.tile_n * v.warps_m);
  const double rate = mma_flop_per_clock(device.sm_arch) * fp8_rate(problem.dtype, device.sm_arch);
  const double added =
      v.promote_every == 0 ? 0.0 : 1.0 * v.tile_m * v.tile_n / 128 * v.tile_k / v.promote_every;
  return std::max(kMmaFactor * flop / rate + added,
                  kPortableSmemShare * (smem + stage_bytes) / kSmemBytesPerClock);
}

/// Stages that fill a CTA's share of shared memory; 2 at least.
int deepest_stages(const GemmProblem& problem, GemmVariant variant, const DeviceInfo& device) {
  const int limit = is_by_twos(variant)
                        ? device.smem_per_sm_bytes / 2 - device.smem_reserved_per_cta_bytes
                        : device.smem_per_cta_bytes;
  variant.cluster_k = 1;  // Sums take the place of stages; whether they fit is judged later.
  variant.stages = 2;
  const int two = smem_bytes_of(problem, variant);
  variant.stages = 3;
  const int each = smem_bytes_of(problem, variant) - two;
  return std::clamp(2 + (limit - two) / each, 2, kMostStages);
}

/// TMA takes rows at multiples of 16 bytes.
bool copies_rows(const GemmProblem& problem, Family family) {
  return family == Family::hopper && problem.alignment_bytes < 16;
}

/// Measured on an H200 alone.
double store_clocks(const GemmProblem& problem, const GemmVariant& v, const DeviceInfo& device) {
  const bool in_pairs =
      v.family == Family::portable && problem.alignment_bytes >= 4 && device.sm_arch == kHopperArch;
  return in_pairs ? kPairStoreClocks * v.tile_m * v.tile_n : odd_store_clocks(problem, v);
}

/// FP8 and groups have been measured by the closed form alone.
bool is_modelled(const GemmProblem& problem, const GemmVariant& v, const DeviceInfo& device) {
  return v.family == Family::hopper && device.sm_arch == kHopperArch && !is_fp8(problem.dtype) &&
         problem.groups == GemmGroups::none;
}

/// What the model needs of a GPU of sm_90, without a file to read: rates of an H200.
GpuProfile quick_profile(const DeviceInfo& device) {
  constexpr double kL2GbPerSAndSm = 56.1;
  constexpr double kUnknownGbPerS = 300.0;
  GpuProfile profile;
  profile.device = device;
  profile.clock_mhz = kClocksPerUs;
  profile.l2_gb_per_s = kL2GbPerSAndSm * device.sm_count;
  profile.l2_effective_bytes = device.l2_bytes / 2;
  profile.dram_latency_clocks = 662.0;
  profile.dram_efficiency = 0.9;
  if (device.dram_gb_per_s <= 0.0) {
    profile.device.dram_gb_per_s = kUnknownGbPerS;
  }
  return profile;
}

struct QuickCandidate {
  GemmVariant variant;
  double time_us = 0.0;
};

class Candidates {
 public:
  Candidates(const GemmProblem& problem, const DeviceInfo& device)
      : problem_(problem), device_(device), profile_(quick_profile(device)) {}

  GemmVariant best() {
    if (device_.sm_arch == kHopperArch) {
      add_hopper();
    }
    add_portable();
    std::ranges::stable_sort(all_, {}, &QuickCandidate::time_us);
    for (const QuickCandidate& candidate : all_) {
      if (!broken_constraint(problem_, candidate.variant, device_)) {
        return with_raster(candidate.variant);
      }
    }
    return default_variant(problem_, device_);
  }

 private:
  struct HopperShape {
    int tile_m;
    int tile_n;
    int tile_k;
    int consumers;
    GemmMainloop mainloop;
  };

  int promotion(int tile_k) const {
    return problem_.accuracy == Accuracy::fast ? 0 : std::max(tile_k, kScaleBlock);
  }

  long long tiles(const GemmVariant& variant) const {
    return 1LL * ceil_div(problem_.m, variant.tile_m) *
           ceil_div(product_columns(problem_), variant.tile_n) * problem_.batch;
  }

  void add(GemmVariant variant) {
    if (problem_.groups != GemmGroups::none) {
      variant.persistence = Persistence::persistent;
    }
    all_.push_back({variant, is_modelled(problem_, variant, device_)
                                 ? unwalked_time_us(problem_, variant, profile_)
                                 : quick_time_us_of(problem_, variant, device_)});
  }

  void add_hopper() {
    static constexpr auto kCooperative = GemmMainloop::cooperative;
    static constexpr auto kPingpong = GemmMainloop::pingpong;
    static constexpr std::array kShapes{
        HopperShape{64, 16, 128, 1, kCooperative},  HopperShape{64, 32, 128, 1, kCooperative},
        HopperShape{64, 48, 128, 1, kCooperative},  HopperShape{64, 48, 64, 1, kCooperative},
        HopperShape{64, 64, 64, 1, kCooperative},   HopperShape{64, 96, 64, 1, kCooperative},
        HopperShape{64, 96, 128, 1, kCooperative},  HopperShape{64, 128, 64, 1, kCooperative},
        HopperShape{64, 192, 64, 1, kCooperative},  HopperShape{64, 256, 64, 1, kCooperative},
        HopperShape{128, 64, 64, 2, kPingpong},     HopperShape{128, 128, 64, 2, kPingpong},
        HopperShape{128, 160, 64, 2, kPingpong},    HopperShape{128, 176, 64, 2, kPingpong},
        HopperShape{128, 192, 64, 2, kPingpong},    HopperShape{128, 128, 64, 2, kCooperative},
        HopperShape{128, 144, 64, 2, kCooperative}, HopperShape{128, 160, 64, 2, kCooperative},
        HopperShape{128, 192, 64, 2, kCooperative}, HopperShape{128, 224, 64, 2, kCooperative},
        HopperShape{128, 256, 64, 2, kCooperative}, HopperShape{256, 128, 64, 2, kCooperative},
        HopperShape{256, 144, 64, 2, kCooperative}, HopperShape{256, 160, 64, 2, kCooperative},
        HopperShape{256, 176, 64, 2, kCooperative}, HopperShape{256, 192, 64, 2, kCooperative},
    };
    for (const HopperShape& shape : kShapes) {
      add_hopper_shape(shape);
    }
    if (is_fp8(problem_.dtype)) {
      return;
    }
    static constexpr std::array kFitted{
        HopperShape{128, 256, 64, 2, kCooperative}, HopperShape{128, 192, 64, 2, kPingpong},
        HopperShape{192, 192, 64, 3, kCooperative}, HopperShape{256, 192, 64, 2, kCooperative}};
    for (HopperShape shape : kFitted) {
      for (const int width : fitted_widths(problem_, device_, shape.tile_m, shape.tile_n)) {
        shape.tile_n = width;
        add_hopper_shape(shape);
      }
    }
  }

  void add_hopper_shape(const HopperShape& shape) {
    GemmVariant variant{.family = Family::hopper,
                        .tile_m = shape.tile_m,
                        .tile_n = shape.tile_n,
                        .tile_k = shape.tile_k * 2 / element_bytes(problem_.dtype)};
    if (problem_.scaling == Scaling::block && variant.tile_k != kScaleBlock) {
      return;
    }
    variant.promote_every = promotion(variant.tile_k);
    variant.mainloop = shape.mainloop;
    variant.consumers = shape.consumers;
    variant.persistence = Persistence::persistent;
    add_hopper_forms(variant);
    if (shape.consumers == 1 && shape.tile_k == 64) {
      variant.persistence = Persistence::grid;
      add_hopper_forms(variant);
    }
  }

  /// Alone, in clusters, and shared along k where tiles are few.
  void add_hopper_forms(GemmVariant variant) {
    variant.stages = deepest_stages(problem_, variant, device_);
    add_parts(variant);
    const int rows = ceil_div(problem_.m, variant.tile_m);
    const int columns = ceil_div(product_columns(problem_), variant.tile_n);
    const bool is_one_round = tiles(variant) <= device_.sm_count - kLargeCluster;
    for (const int size : {2, kLargeCluster}) {
      GemmVariant cluster = variant;
      if (rows > size / 2 && (size == 2 || (is_one_round && rows % size == 0))) {
        cluster.cluster_m = size;
        add_parts(cluster);
        cluster.cluster_m = 1;
      }
      if (problem_.m >= variant.tile_m && columns > size / 2 &&
          (size == 2 || (is_one_round && columns % size == 0))) {
        cluster.cluster_n = size;
        add_parts(cluster);
      }
    }
  }

  /// Whole, and where tiles are few in parts.
  void add_parts(const GemmVariant& variant) {
    add(variant);
    const int cluster = variant.cluster_m * variant.cluster_n;
    const int places = device_.sm_count - (cluster == kLargeCluster ? kLargeCluster : 0);
    const long long few = tiles(variant);
    const int k_blocks = ceil_div(problem_.k, variant.tile_k);
    for (const int parts : {2, 3, 4, 5, 6, 8, 12, 16}) {
      if (few * parts > places || k_blocks / parts < kLeastBlocksPerPart) {
        break;
      }
      GemmVariant split = variant;
      split.splits = parts;
      add(split);
      if (parts <= 4 && cluster == 1 && variant.mainloop == GemmMainloop::cooperative) {
        GemmVariant shared = variant;
        shared.cluster_k = parts;
        shared.persistence = Persistence::grid;
        shared.stages = deepest_stages(problem_, shared, device_);
        add(shared);
      }
    }
  }

  void add_portable() {
    struct Shape {
      int tile_m;
      int tile_n;
      int warps_m;
      int warps_n;
    };
    static constexpr std::array kShapes{
        Shape{16, 64, 1, 4},   Shape{32, 64, 2, 2},   Shape{64, 64, 2, 2},
        Shape{64, 128, 2, 2},  Shape{128, 64, 2, 2},  Shape{128, 128, 2, 2},
        Shape{128, 128, 2, 4}, Shape{128, 256, 2, 4}, Shape{256, 128, 4, 2},
    };
    for (const Shape& shape : kShapes) {
      const int line = 128 / element_bytes(problem_.dtype);
      for (const int tile_k : {line, line / 2}) {
        for (const int stages : {4, 3, 2}) {
          GemmVariant variant{.tile_m = shape.tile_m,
                              .tile_n = shape.tile_n,
                              .tile_k = tile_k,
                              .stages = stages,
                              .warps_m = shape.warps_m,
                              .warps_n = shape.warps_n};
          variant.promote_every = promotion(tile_k);
          add(variant);
          const long long few = tiles(variant);
          const long long most = 1LL * ctas_to_fill(problem_, Family::portable) * device_.sm_count;
          for (const int parts : {2, 4, 8, 16}) {
            if (few * parts <= most && few < device_.sm_count &&
                ceil_div(problem_.k, tile_k) / parts >= kLeastBlocksPerPart) {
              variant.splits = parts;
              add(variant);
            }
          }
        }
      }
    }
  }

  /// Bands of about as many rows as columns run at once, where tiles take many rounds.
  GemmVariant with_raster(const GemmVariant& plain) const {
    constexpr int kBandRows = 8;
    if (tiles(plain) <= 4LL * device_.sm_count) {
      return plain;
    }
    GemmVariant banded = plain;
    banded.raster = Raster::grouped;
    banded.raster_group = kBandRows / plain.cluster_m;
    return broken_constraint(problem_, banded, device_) ? plain : banded;
  }

  const GemmProblem& problem_;
  const DeviceInfo& device_;
  GpuProfile profile_;
  std::vector<QuickCandidate> all_;
};

}  // namespace

double places_share(const GemmVariant& v) {
  const int ctas = v.cluster_m * v.cluster_n * v.cluster_k;
  return ctas > 3 ? kFoursShare : ctas > 2 ? kThreesShare : 1.0;
}

long long a_row_bytes(const GemmProblem& problem) {
  return 1LL * (problem.layout == GemmLayout::tn ? problem.m : problem.k) *
         element_bytes(problem.dtype);
}

long long b_row_bytes(const GemmProblem& problem) {
  return 1LL * (problem.layout == GemmLayout::nt ? problem.k : product_columns(problem)) *
         element_bytes(problem.dtype);
}

LineCosts line_costs_of(const GemmProblem& problem, Family family) {
  if (copies_rows(problem, family)) {
    return {};
  }
  return {line_cost(a_row_bytes(problem)), line_cost(b_row_bytes(problem))};
}

double row_copies_us(const GemmProblem& problem, const GemmVariant& v, int ctas, double gb_per_s) {
  constexpr int kWarpgroup = 128;
  if (!copies_rows(problem, v.family)) {
    return 0.0;
  }
  const CompulsoryBytes bytes = compulsory_bytes(problem);
  const auto of_c = static_cast<double>(problem.reads_c ? bytes.write : 0);
  const double moved = 2 * (static_cast<double>(bytes.read) - of_c);
  const double threads = 1.0 * ctas * (v.consumers + 1) * kWarpgroup;
  return kCopyLaunchUs + moved / (kMostOfCopies * gb_per_s * 1e3) +
         moved / (kCopyBytesPerThreadUs * threads);
}

OddLoads odd_loads_of(const GemmProblem& problem, const GemmVariant& v) {
  constexpr double kChunkBytes = 16.0;
  if (v.family != Family::portable || problem.alignment_bytes >= kChunkBytes) {
    return {};
  }
  constexpr double kAtOnce = 4.0;
  const double warps = v.warps_m * v.warps_n;
  const double bytes = 1.0 * element_bytes(problem.dtype) * (v.tile_m + v.tile_n) * v.tile_k;
  const double of_warp = bytes / (32 * kChunkBytes * warps);
  if (problem.alignment_bytes >= 4) {
    const double more_pieces = kChunkBytes / problem.alignment_bytes - 1;
    return {of_warp * warps * more_pieces * kWarpPieceClocks, 0.0};
  }
  return {of_warp * warps * kWarpLoadClocks, std::ceil(of_warp / kAtOnce) * kWarpLoadLatency};
}

/// Those that wait for loads to registers wait together.
int ctas_to_fill(const GemmProblem& problem, Family family) {
  return family == Family::portable && problem.alignment_bytes < 4 ? 4 : 2;
}

double odd_store_clocks(const GemmProblem& problem, const GemmVariant& v) {
  const double elements = 1.0 * v.tile_m * v.tile_n;
  if (v.family == Family::portable) {
    return problem.alignment_bytes < 4 ? kScatteredStoreClocks * elements : 0.0;
  }
  const int at_once = v.mainloop == GemmMainloop::pingpong ? 1 : v.consumers;
  const int row_bytes =
      row_alignment_bytes(problem.n, output_bytes(problem.output), problem.alignment_bytes);
  return row_bytes < 16 ? kWordStoreClocks * elements / at_once : 0.0;
}

double quick_time_us_of(const GemmProblem& problem, const GemmVariant& v,
                        const DeviceInfo& device) {
  if (is_modelled(problem, v, device)) {
    return unwalked_time_us(problem, v, quick_profile(device));
  }
  const double sms = device.sm_count;
  const int resident = ctas_per_sm(problem, v, device);
  const int cluster = v.cluster_m * v.cluster_n * v.cluster_k;
  const double places = 1.0 * ceil_div(problem.m, v.tile_m * v.cluster_m) *
                        ceil_div(product_columns(problem), v.tile_n * v.cluster_n) * v.cluster_m *
                        v.cluster_n * problem.batch;
  const double ctas = places * v.splits * v.cluster_k;
  const double slots =
      std::max(1.0, std::floor(std::floor(sms * resident * places_share(v)) / cluster)) * cluster;
  const double rounds = std::ceil(ctas / slots);
  const double together = std::min<double>(resident, std::ceil(ctas / sms));
  const double blocks =
      std::ceil(1.0 * ceil_div(problem.k, v.tile_k) / (1.0 * v.splits * v.cluster_k));

  const LineCosts lines = line_costs_of(problem, v.family);
  const double a_lines = 1.0 * std::min(v.tile_m, problem.m) / v.cluster_n;
  const double b_lines = 1.0 * v.tile_n / v.cluster_m;
  const double loaded = 1.0 * element_bytes(problem.dtype) * v.tile_k * (a_lines + b_lines);
  const double line_cost = (lines.a * a_lines + lines.b * b_lines) / (a_lines + b_lines);
  const double sm_rate = kSmL2BytesPerClock / line_cost;
  const OddLoads by_threads = odd_loads_of(problem, v);
  const double products = product_clocks(problem, v, device) + by_threads.issue_clocks;
  const double step = std::max({together * products, together * loaded / sm_rate, kLeastStepClocks,
                                products + by_threads.wait_clocks});
  const double tile_elements = 1.0 * v.tile_m * v.tile_n;
  const double epilogue = kEpilogueClocks +
                          2 * tile_elements * kElementBytes / (v.cluster_k * kSmemBytesPerClock) +
                          store_clocks(problem, v, device) / v.cluster_k;
  const bool alternates = v.mainloop == GemmMainloop::pingpong && v.family == Family::hopper;
  // Of consumers that alternate, what is longer than the other's products is not hidden.
  const double longer = std::max(0.0, epilogue - blocks * step) / 2;
  const double epilogues = alternates   ? epilogue + rounds * longer
                           : rounds > 1 ? rounds * 0.5 * epilogue
                                        : rounds * together * epilogue;
  const double sm_us = (kFillClocks + rounds * blocks * step + epilogues) / kClocksPerUs;

  const double l2_rate = kL2Share * kSmL2BytesPerClock * sms * kClocksPerUs;
  const double written =
      1.0 * std::min(v.tile_m, problem.m) * v.tile_n * output_bytes(problem.output);
  const double l2_us = (ctas * blocks * loaded * line_cost + places * written) / l2_rate;

  // Compulsory bytes that a warm L2 does not hold.
  const CompulsoryBytes compulsory = compulsory_bytes(problem);
  const auto bytes = static_cast<double>(compulsory.read + compulsory.write);
  const auto l2_bytes = static_cast<double>(device.l2_bytes);
  const double missed = bytes * std::clamp((bytes - 0.5 * l2_bytes) / (0.3 * l2_bytes), 0.0, 1.0);
  const double dram_us = dram_time_us(missed, device);

  // Data on its way to the busiest SM. Clusters of three and four fill SMs with two CTAs while
  // others have none; pairs spread as lone CTAs do.
  const double on_busiest = resident == 1 ? rounds
                            : cluster > 2 ? rounds * std::min<double>(resident, ctas)
                                          : std::ceil(ctas / sms);
  const double busiest = on_busiest * blocks * loaded;
  const double in_flight = std::max(1, v.stages - 1) * loaded * together;
  const double pull_us = busiest / std::min(std::min(kPullBytesPerClock, sm_rate) * kClocksPerUs,
                                            in_flight / kLoadLatencyUs);

  double time_us = kLaunchUs + smooth_max({sm_us, l2_us, dram_us, pull_us}) +
                   row_copies_us(problem, v, resident * device.sm_count, device.dram_gb_per_s);
  if (v.splits > 1) {
    const double sum_bytes = 4.0 * std::min(v.tile_m, kHopperRows) * v.tile_n;
    time_us += kSplitUs + 2 * 4.0 * ctas * tile_elements / (kPartialGbPerS * 1e3) +
               v.splits * (kSumLatencyUs + sum_bytes / (kPullBytesPerClock * kClocksPerUs));
  }
  if (v.cluster_k > 1) {
    time_us += kExchangeUs + 4.0 * std::min(v.tile_m, problem.m) / v.cluster_k * v.tile_n *
                                 (v.cluster_k - 1) / kClusterBytesPerClock / kClocksPerUs;
  }
  return time_us;
}

GemmVariant modelled_variant_of(const GemmProblem& problem, const DeviceInfo& device) {
  return Candidates(problem, device).best();
}

double trusted_octaves_of(const GemmProblem& /*problem*/, const DeviceInfo& device) {
  return trusted_octaves(device);
}

std::optional<GemmProblem> near_kind_of(GemmProblem problem, int index) {
  if (index == 1 && problem.groups != GemmGroups::none) {
    problem.skewed = !problem.skewed;
    return problem;
  }
  if (index > 0) {
    return std::nullopt;
  }
  if (is_fp8(problem.dtype)) {
    problem.dtype = problem.dtype == DType::e4m3 ? DType::e5m2 : DType::e4m3;
    return problem;
  }
  problem.dtype = problem.dtype == DType::fp16 ? DType::bf16 : DType::fp16;
  if (problem.output == OutputType::fp16 || problem.output == OutputType::bf16) {
    problem.output = problem.output == OutputType::fp16 ? OutputType::bf16 : OutputType::fp16;
  }
  return problem;
}

}  // namespace swr
