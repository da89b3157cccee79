// SPDX-License-Identifier: MIT
// Compiles the portable attention kernels that predictions for published timings need and writes
// what ptxas gave each: experiments/published_timings/kernels.csv. Needs no GPU.
#include "experiments/published_timings/judged_timings.h"
#include <swr/error.h>
#include <swr/generator.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace swr;

/// Kernels of one head_dim and mask on one architecture.
using Group = std::tuple<int, int, bool>;

AttentionProblem problem_of(const Group& group) {
  return {.heads_q = 16,
          .heads_kv = 16,
          .seq_q = 4096,
          .seq_kv = 4096,
          .head_dim = std::get<1>(group),
          .causal = std::get<2>(group)};
}

/// A GPU of the architecture; of which one does not matter to its compiler.
DeviceInfo device_of(const std::string& chip, const std::optional<int>& sm_arch) {
  DeviceInfo device = load_profile(chip).device;
  device.sm_arch = sm_arch.value_or(device.sm_arch);
  return device;
}

/// The grid's kernels of the space, one for each tile and number of stages.
std::vector<Variant> space_kernels(const AttentionProblem& problem, const DeviceInfo& device,
                                   const std::vector<Tile>& tiles) {
  SpaceOptions options{.tiles = tiles};
  options.restrictions = {{"order", {"cyclic"}},      {"persistence", {"grid"}},
                          {"swizzle", {"q_fastest"}}, {"kv_splits", {1LL}},
                          {"family", {"portable"}},   {"longest_first", {"off"}}};
  return enumerate_space(problem, device, options).variants;
}

void print_kernel(const Group& group, const AttentionVariant& variant,
                  const KernelResources& resources, bool in_space) {
  std::printf("%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d\n", std::get<0>(group), std::get<1>(group),
              static_cast<int>(std::get<2>(group)), variant.tile_m, variant.tile_n, variant.warps,
              variant.stages, resources.registers_per_thread, resources.spill_store_bytes,
              resources.spill_load_bytes, static_cast<int>(in_space));
  std::fflush(stdout);
}

void compile_group(const Generator& generator, const Group& group, const DeviceInfo& device,
                   const std::vector<Tile>& others) {
  const AttentionProblem problem = problem_of(group);
  std::set<Variant> known;
  const auto compile = [&](const std::vector<Variant>& variants, bool in_space) {
    for (const Variant& variant : variants) {
      if (known.insert(variant).second) {
        const CompiledKernel kernel = generator.compile(problem, variant, std::get<0>(group));
        print_kernel(group, variant.as<AttentionVariant>(), kernel.resources, in_space);
      }
    }
  };
  compile(space_kernels(problem, device, {}), true);
  if (!others.empty()) {
    compile(space_kernels(problem, device, others), false);
  }
}

/// Tiles of published kernels with this head_dim, mask and chip.
std::vector<Tile> published_tiles(const std::vector<PublishedTiming>& timings,
                                  const std::string& chip, const Group& group) {
  std::set<std::tuple<int, int, int>> tiles;
  for (const PublishedTiming& timing : timings) {
    if (timing.chip == chip && timing.mma_sync && timing.tile && timing.tile->warps > 0 &&
        timing.problem.head_dim == std::get<1>(group) &&
        timing.problem.causal == std::get<2>(group)) {
      tiles.emplace(timing.tile->tile_m, timing.tile->tile_n, timing.tile->warps);
    }
  }
  std::vector<Tile> list;
  for (const auto& [tile_m, tile_n, warps] : tiles) {
    list.push_back({tile_m, tile_n, warps});
  }
  return list;
}

struct Options {
  std::string points;
  std::string chip;
  std::string profile;
  std::optional<int> sm_arch;
};

void run(const Options& options) {
  const std::vector<PublishedTiming> timings = read_published_timings(options.points);
  const DeviceInfo device =
      device_of(options.profile.empty() ? options.chip : options.profile, options.sm_arch);
  std::set<Group> groups;
  for (const PublishedTiming& timing : timings) {
    if (timing.chip == options.chip && timing.mma_sync) {
      groups.emplace(device.sm_arch, timing.problem.head_dim, timing.problem.causal);
    }
  }
  const Generator generator(GeneratorOptions{});
  for (const Group& group : groups) {
    compile_group(generator, group, device, published_tiles(timings, options.chip, group));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Compiles the kernels that predictions for a chip's published timings need"};
  app.add_option("--points", options.points, "published timings: points.csv")->required();
  app.add_option("--chip", options.chip, "chip whose timings are meant")->required();
  app.add_option("--profile", options.profile, "profile of a GPU like it, if it has none");
  app.add_option("--sm-arch", options.sm_arch, "architecture, if that GPU's differs");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "published_kernels: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
