// SPDX-License-Identifier: MIT

#include "generator/expansion.h"
#include "operations/gemm/config.h"
#include "operations/gemm/parts.h"
#include <swr/error.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace swr {
namespace {

using namespace std::string_view_literals;

struct PortableShape {
  int tile_m;
  int tile_n;
  int warps_m;
  int warps_n;
};
constexpr std::array kPortableShapes{
    PortableShape{16, 64, 1, 4},   PortableShape{32, 64, 2, 2},   PortableShape{64, 64, 2, 2},
    PortableShape{64, 128, 2, 2},  PortableShape{128, 64, 2, 2},  PortableShape{128, 128, 2, 2},
    PortableShape{128, 128, 2, 4}, PortableShape{128, 256, 2, 4}, PortableShape{256, 128, 4, 2},
};

struct HopperShape {
  int tile_m;
  int tile_n;
  int consumers;
  GemmMainloop mainloop;
};
constexpr auto kCooperative = GemmMainloop::cooperative;
constexpr auto kPingpong = GemmMainloop::pingpong;
// Which of these wins depends on the shape alone (experiments/gemm): wide tiles where there are
// many, narrow ones where m is small or rounds come out uneven.
constexpr std::array kHopperShapes{
    HopperShape{64, 16, 1, kCooperative},   HopperShape{64, 32, 1, kCooperative},
    HopperShape{64, 48, 1, kCooperative},   HopperShape{64, 64, 1, kCooperative},
    HopperShape{64, 96, 1, kCooperative},   HopperShape{64, 128, 1, kCooperative},
    HopperShape{64, 192, 1, kCooperative},  HopperShape{64, 256, 1, kCooperative},
    HopperShape{64, 128, 2, kPingpong},     HopperShape{64, 192, 2, kPingpong},
    HopperShape{64, 256, 2, kPingpong},     HopperShape{128, 64, 2, kPingpong},
    HopperShape{128, 96, 2, kPingpong},     HopperShape{128, 128, 2, kPingpong},
    HopperShape{128, 160, 2, kPingpong},    HopperShape{128, 176, 2, kPingpong},
    HopperShape{128, 192, 2, kPingpong},    HopperShape{128, 128, 2, kCooperative},
    HopperShape{128, 144, 2, kCooperative}, HopperShape{128, 160, 2, kCooperative},
    HopperShape{128, 192, 2, kCooperative}, HopperShape{128, 224, 2, kCooperative},
    HopperShape{128, 256, 2, kCooperative}, HopperShape{256, 64, 2, kCooperative},
    HopperShape{256, 96, 2, kCooperative},  HopperShape{256, 128, 2, kCooperative},
    HopperShape{256, 144, 2, kCooperative}, HopperShape{256, 160, 2, kCooperative},
    HopperShape{256, 176, 2, kCooperative}, HopperShape{256, 192, 2, kCooperative},
};
/// For types of 16 bits.
constexpr std::array kThreeConsumerShapes{
    HopperShape{192, 128, 3, kCooperative},
    HopperShape{192, 160, 3, kCooperative},
};
/// The widest of those whose widths fit the problem.
constexpr std::array kFittedShapes{
    HopperShape{128, 256, 2, kCooperative},
    HopperShape{128, 192, 2, kPingpong},
    HopperShape{192, 192, 3, kCooperative},
    HopperShape{256, 192, 2, kCooperative},
};
/// More that won where FP8 leaves fewer k-blocks, or sums of parts take registers
/// (experiments/gemm/fp8).
constexpr std::array kFp8Shapes{
    HopperShape{128, 176, 2, kCooperative},
    HopperShape{128, 208, 2, kCooperative},
    HopperShape{256, 112, 2, kCooperative},
};
/// Those whose warps have 128 columns of C, for scales of so many.
constexpr std::array kPortableScaledShapes{
    PortableShape{64, 128, 4, 1},
    PortableShape{128, 128, 8, 1},
    PortableShape{64, 256, 4, 2},
};

GemmVariant shape_variant(const PortableShape& shape) {
  return {.family = Family::portable,
          .tile_m = shape.tile_m,
          .tile_n = shape.tile_n,
          .warps_m = shape.warps_m,
          .warps_n = shape.warps_n};
}

GemmVariant shape_variant(const HopperShape& shape) {
  GemmVariant variant{.family = Family::hopper, .tile_m = shape.tile_m, .tile_n = shape.tile_n};
  variant.mainloop = shape.mainloop;
  variant.consumers = shape.consumers;
  return variant;
}

const Axis& axis_named(std::string_view name) {
  return swr::axis_named(GemmVariant::operation(), name);
}

GemmSchedule schedule_of(const GemmProblem& problem, const GemmVariant& variant) {
  return std::visit(
      [&](const auto& config) { return config.schedule(make_gemm_params(problem, variant)); },
      make_gemm_config(problem, variant));
}

/// Enumerates the space of one family.
class Enumeration {
 public:
  Enumeration(Family family, const GemmProblem& problem, const DeviceInfo& device,
              const SpaceOptions& options)
      : family_(family), problem_(problem), device_(device), options_(options) {}

  std::vector<Variant> variants() const {
    std::vector<Variant> all = shapes();
    all = expanded(all, "warps_m");
    all = expanded(all, "warps_n");
    all = expanded(all, "mainloop");
    all = expanded(all, "consumers");
    all = expanded(all, "tile_k", &Enumeration::tile_ks);
    all = expanded(all, "promote_every", &Enumeration::promotions);
    all = expanded(all, "persistence", &Enumeration::persistences);
    all = expanded(all, "workers");
    all = expanded(all, "cluster_k", &Enumeration::cluster_ks);
    all = with_clusters(all);
    all = expanded(all, "k_order");
    all = expanded(all, "splits", &Enumeration::splits);
    all = expanded(all, "stages", &Enumeration::stages);
    all = expanded(all, "raster", &Enumeration::rasters);
    all = expanded(all, "raster_group", &Enumeration::raster_groups);
    return expanded(all, "swizzle_stride");
  }

 private:
  using DefaultValues = Values (Enumeration::*)(const GemmVariant&) const;

  /// Every variant with the restricted values of an axis, else its default ones; an axis that the
  /// shapes decide, or that stays at its default, has none.
  std::vector<Variant> expanded(const std::vector<Variant>& variants, std::string_view name,
                                DefaultValues defaults = nullptr) const {
    if (defaults == nullptr && restriction_of(options_, name) == nullptr) {
      return variants;
    }
    std::vector<Variant> all;
    std::set<Variant> seen;
    for (const Variant& one :
         with_axis(variants, axis_named(name), options_,
                   [&](const Variant& v) { return (this->*defaults)(v.as<GemmVariant>()); })) {
      if (seen.insert(one).second) {
        all.push_back(one);
      }
    }
    return all;
  }

  /// The family's shapes or the tiles asked for, with restricted sizes replaced.
  std::vector<Variant> shapes() const {
    std::vector<Variant> all = options_.tiles.empty() ? listed_shapes() : asked_shapes();
    all = expanded(all, "tile_m");
    return expanded(all, "tile_n");
  }

  std::vector<Variant> listed_shapes() const {
    std::vector<Variant> all;
    const auto add = [&](const auto& shapes) {
      for (const auto& shape : shapes) {
        all.emplace_back(shape_variant(shape));
      }
    };
    if (family_ == Family::hopper) {
      add(kHopperShapes);
      if (is_fp8(problem_.dtype)) {
        add(kFp8Shapes);
        return all;
      }
      add(kThreeConsumerShapes);
      for (const HopperShape& shape : kFittedShapes) {
        add_fitted(shape, all);
      }
    } else if (problem_.output_scaling == Scaling::block) {
      add(kPortableScaledShapes);
    } else {
      add(kPortableShapes);
    }
    return all;
  }

  void add_fitted(const HopperShape& widest, std::vector<Variant>& all) const {
    for (const int width : fitted_widths(problem_, device_, widest.tile_m, widest.tile_n)) {
      HopperShape fitted = widest;
      fitted.tile_n = width;
      append_unique(all, Variant(shape_variant(fitted)));
    }
  }

  /// A tile in every form of the family.
  std::vector<Variant> asked_shapes() const {
    std::vector<Variant> all;
    for (const Tile& tile : options_.tiles) {
      if (tile.warps != 0) {
        throw Error(ErrorCode::invalid_argument,
                    "a tile of gemm names no warps; use --warps-m and --warps-n");
      }
      for (Variant variant : forms(tile)) {
        for (const auto& [axis, size] :
             {std::pair{"tile_m", tile.tile_m}, std::pair{"tile_n", tile.tile_n}}) {
          axis_named(axis).set(variant, static_cast<long long>(size));
        }
        append_unique(all, variant);
      }
    }
    return all;
  }

  std::vector<Variant> forms(const Tile& tile) const {
    if (family_ == Family::portable) {
      return {shape_variant(PortableShape{tile.tile_m, tile.tile_n, 2, 2}),
              shape_variant(PortableShape{tile.tile_m, tile.tile_n, 2, 4})};
    }
    const int most_consumers = tile.tile_m % 128 == 0 ? 2 : tile.tile_m % 192 == 0 ? 3 : 1;
    return {shape_variant(HopperShape{tile.tile_m, tile.tile_n, most_consumers, kCooperative}),
            shape_variant(HopperShape{tile.tile_m, tile.tile_n, 2, kPingpong})};
  }

  /// Long steps pay where a step of 64 is too short to hide its own overhead.
  Values tile_ks(const GemmVariant& variant) const {
    const long long line = 128 / element_bytes(problem_.dtype);
    if (problem_.scaling == Scaling::block) {
      return {line};
    }
    if (family_ == Family::portable) {
      return {line / 2, line};
    }
    const bool short_steps = variant.tile_m == 64 && variant.consumers == 1;
    return short_steps ? Values{line, 2 * line} : Values{line};
  }

  /// Longer parts are promoted less often, and are a little less exact.
  Values promotions(const GemmVariant& variant) const {
    if (problem_.accuracy == Accuracy::fast) {
      return {0LL};
    }
    if (problem_.scaling == Scaling::block || variant.tile_k > kScaleBlock) {
      return {static_cast<long long>(variant.tile_k)};
    }
    return family_ == Family::portable ? Values{0LL, 128LL} : Values{128LL, 256LL};
  }

  bool is_grouped() const { return problem_.groups != GemmGroups::none; }

  /// Two CTAs of such kernels share an SM: one loads while the other ends.
  static bool is_by_twos(const GemmVariant& variant) {
    return variant.consumers == 1 && variant.tile_n <= 128;
  }

  /// Grid launches are for kernels that share an SM by twos and for clusters along k.
  Values persistences(const GemmVariant& variant) const {
    if (is_grouped()) {
      return texts(std::array{"persistent"sv});
    }
    if (family_ == Family::portable || is_by_twos(variant) || !sizes_along_k(variant).empty()) {
      return texts(std::array{"grid"sv, "persistent"sv});
    }
    return texts(std::array{"persistent"sv});
  }

  /// Sizes of clusters along k, where tiles are too few for the GPU and every CTA's part of k is
  /// long enough.
  Values sizes_along_k(const GemmVariant& variant) const {
    constexpr int kLeastBlocksPerCta = 4;
    Values values;
    if (family_ == Family::portable || variant.mainloop != kCooperative || is_grouped()) {
      return values;
    }
    const long long tiles = schedule_of(problem_, variant).work_items();
    const int k_blocks = ceil_div(problem_.k, variant.tile_k);
    const int ctas_per_sm = is_by_twos(variant) ? 2 : 1;
    for (const int cluster_k : {2, 3, 4}) {
      if (tiles < device_.sm_count && tiles * cluster_k <= ctas_per_sm * device_.sm_count &&
          k_blocks / cluster_k >= kLeastBlocksPerCta) {
        values.emplace_back(static_cast<long long>(cluster_k));
      }
    }
    return values;
  }

  /// None, and for grid launches the sizes above; those that are there for clusters alone have one.
  Values cluster_ks(const GemmVariant& variant) const {
    const bool is_grid = variant.persistence == Persistence::grid;
    Values values = is_grid ? sizes_along_k(variant) : Values{};
    const bool needs_one = is_grid && family_ == Family::hopper && !is_by_twos(variant) &&
                           restriction_of(options_, "persistence") == nullptr;
    if (!needs_one) {
      values.emplace_back(1LL);
    }
    return values;
  }

  /// Restricted ones in every combination, else clusters of two CTAs that both have rows, and of
  /// four where they compute one tile each: more of those than the GPU holds would run at its end.
  std::vector<Variant> with_clusters(const std::vector<Variant>& variants) const {
    const bool is_restricted = restriction_of(options_, "cluster_m") != nullptr ||
                               restriction_of(options_, "cluster_n") != nullptr;
    if (is_restricted || family_ == Family::portable) {
      return expanded(expanded(variants, "cluster_m"), "cluster_n");
    }
    std::vector<Variant> all;
    for (const Variant& variant : variants) {
      GemmVariant clustered = variant.as<GemmVariant>();
      all.emplace_back(clustered);
      if (clustered.cluster_k > 1) {
        continue;
      }
      const int rows = ceil_div(problem_.m, clustered.tile_m);
      const int columns = ceil_div(product_columns(problem_), clustered.tile_n);
      const bool is_one_round = 1LL * rows * columns * problem_.batch <= device_.sm_count - 4;
      for (const int size : {2, 4}) {
        if (rows > size / 2 && (size == 2 || (is_one_round && rows % size == 0))) {
          clustered.cluster_m = size;
          clustered.cluster_n = 1;
          all.emplace_back(clustered);
        }
        if (problem_.m >= clustered.tile_m && columns > size / 2 &&
            (size == 2 || (is_one_round && columns % size == 0))) {
          clustered.cluster_m = 1;
          clustered.cluster_n = size;
          all.emplace_back(clustered);
        }
      }
    }
    return all;
  }

  /// Parts of k that give up to two rounds of work where one round of tiles does not fill the GPU;
  /// more where CTAs wait for loads.
  Values splits(const GemmVariant& variant) const {
    constexpr int kLeastBlocksPerSplit = 4;
    if (variant.cluster_k > 1 || is_grouped()) {
      return {1LL};
    }
    const long long tiles = schedule_of(problem_, variant).work_items();
    const long long most = 1LL * ctas_to_fill(problem_, family_) * device_.sm_count;
    const int k_blocks = ceil_div(problem_.k, variant.tile_k);
    Values values{1LL};
    for (const int splits : {2, 3, 4, 5, 6, 8, 12, 16}) {
      if (tiles * splits <= most && k_blocks / splits >= kLeastBlocksPerSplit &&
          tiles < device_.sm_count) {
        values.emplace_back(static_cast<long long>(splits));
      }
    }
    return values;
  }

  /// Hopper: as many as fit the CTA's share of shared memory.
  Values stages(const GemmVariant& variant) const {
    if (family_ == Family::portable) {
      return {2LL, 3LL, 4LL};
    }
    constexpr int kMostHopperStages = 12;
    const long long share =
        variant.persistence == Persistence::grid && is_by_twos(variant)
            ? device_.smem_per_sm_bytes / 2 - device_.smem_reserved_per_cta_bytes
            : device_.smem_per_cta_bytes;
    GemmVariant deepest = variant;
    for (deepest.stages = kMostHopperStages; deepest.stages > 2; --deepest.stages) {
      if (smem_bytes_of(problem_, deepest) <= share) {
        break;
      }
    }
    // A stage less leaves room to stage C, or what is added to it, at once.
    const bool stages_much = problem_.reads_c || problem_.scaling == Scaling::block;
    if (stages_much && variant.consumers > 1 && deepest.stages > 3) {
      return {static_cast<long long>(deepest.stages), static_cast<long long>(deepest.stages - 1)};
    }
    return {static_cast<long long>(deepest.stages)};
  }

  /// Orders of tiles hardly differ where all tiles run at once.
  Values rasters(const GemmVariant& variant) const {
    const GemmSchedule schedule = schedule_of(problem_, variant);
    const long long ctas = schedule.cluster_tiles() * schedule.ctas_per_cluster();
    if (ctas <= device_.sm_count || schedule.rows() == 1) {
      return texts(std::array{"along_m"sv});
    }
    return texts(std::array{"along_m"sv, "grouped"sv, "serpentine"sv, "hilbert"sv});
  }

  /// Bands of about as many rows as columns run at once.
  Values raster_groups(const GemmVariant& variant) const {
    switch (variant.raster) {
      case Raster::grouped:
        return {8LL / variant.cluster_m};
      case Raster::serpentine:
        return {8LL / variant.cluster_m, 16LL / variant.cluster_m};
      default:
        return {1LL};
    }
  }

  Family family_;
  const GemmProblem& problem_;
  const DeviceInfo& device_;
  const SpaceOptions& options_;
};

}  // namespace

std::vector<int> fitted_widths(const GemmProblem& problem, const DeviceInfo& device, int tile_m,
                               int widest) {
  constexpr int kNarrowest = 96;
  constexpr std::size_t kMost = 2;
  const int rows = ceil_div(problem.m, tile_m) * problem.batch;
  std::vector<std::pair<long long, int>> work_and_width;
  int fewest = 0;  // Rounds of the width before.
  for (int width = widest; width >= kNarrowest; width -= 8) {
    const long long tiles = 1LL * rows * ceil_div(product_columns(problem), width);
    const auto rounds = static_cast<int>((tiles + device.sm_count - 1) / device.sm_count);
    if (rounds == fewest) {
      work_and_width.pop_back();  // A narrower tile in as many rounds.
    }
    work_and_width.emplace_back(1LL * rounds * width, width);
    fewest = rounds;
  }
  std::ranges::sort(work_and_width);
  std::vector<int> widths;
  for (std::size_t i = 0; i < std::min(kMost, work_and_width.size()); ++i) {
    widths.push_back(work_and_width[i].second);
  }
  return widths;
}

/// Tiles with everything that fits them (stages that fill shared memory, clusters, splits of k
/// where tiles are few, orders of tiles where they are many). A restricted axis takes its values
/// instead. Throws: Error{invalid_argument} for tiles that name warps, or sizes outside of the
/// axes.
std::vector<Variant> points_of(Family family, const GemmProblem& problem, const DeviceInfo& device,
                               const SpaceOptions& options) {
  return Enumeration(family, problem, device, options).variants();
}

}  // namespace swr
