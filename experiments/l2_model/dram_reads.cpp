// SPDX-License-Identifier: MIT
// Bytes that the GPU reads from memory for portable attention whose K and V straddle an effective
// L2 of 30 MiB, launch by launch, as CSV: how far the model of L2 is right, and how far launches
// of one kernel agree (experiments/l2_model).
// Usage: dram_reads CACHE_DIR [SEED]
#include "driver/cuda_driver.h"
#include "driver/devices.h"
#include "driver/range_profiler.h"
#include "operations/attention/config.h"
#include "operations/attention/workload.h"
#include "tuner/measure/kernel_timer.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/error.h>
#include <swr/generator.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <future>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace swr {
namespace {

constexpr int kRounds = 2;
constexpr std::size_t kLaunches = 3;

/// What a launch finds.
struct State {
  const char* l2;         ///< warm: what the launch before left.
  const char* placement;  ///< shaken: CTAs fall on other SMs than those of the launch before.
  bool is_cold;
  bool is_shaken;
};

constexpr std::array<State, 3> kStates{{{"warm", "kept", false, false},
                                        {"cold", "kept", true, false},
                                        {"cold", "shaken", true, true}}};

struct Case {
  AttentionProblem problem;
  AttentionSwizzle swizzle;
};

std::vector<Case> cases() {
  struct Shape {
    int seq, head_dim, heads;
    AttentionSwizzle swizzle;
  };
  const Shape shapes[] = {{65536, 128, 1, AttentionSwizzle::q_fastest},
                          {98304, 128, 1, AttentionSwizzle::q_fastest},
                          {131072, 64, 1, AttentionSwizzle::q_fastest},
                          {32768, 128, 4, AttentionSwizzle::q_fastest},
                          {32768, 128, 4, AttentionSwizzle::head_fastest},
                          {16384, 128, 8, AttentionSwizzle::head_fastest},
                          {8192, 128, 16, AttentionSwizzle::head_fastest},
                          {4096, 128, 16, AttentionSwizzle::q_fastest},
                          {4096, 128, 16, AttentionSwizzle::head_fastest}};
  std::vector<Case> all;
  for (const Shape& shape : shapes) {
    for (const bool causal : {false, true}) {
      all.push_back({{.heads_q = shape.heads,
                      .heads_kv = shape.heads,
                      .seq_q = shape.seq,
                      .seq_kv = shape.seq,
                      .head_dim = shape.head_dim,
                      .causal = causal},
                     shape.swizzle});
    }
  }
  return all;
}

/// Both orders of every way to deal Q tiles: one CTA to an SM, with one stage and two, and several.
std::vector<AttentionVariant> variants(AttentionSwizzle swizzle) {
  struct Dealing {
    Order order;
    Persistence persistence;
  };
  const Dealing dealings[] = {{Order::cyclic, Persistence::grid},
                              {Order::cyclic, Persistence::persistent},
                              {Order::sawtooth, Persistence::persistent},
                              {Order::cyclic, Persistence::pairs},
                              {Order::sawtooth, Persistence::pairs}};
  const AttentionVariant tiles[] = {{.tile_m = 128, .tile_n = 64, .warps = 8, .stages = 1},
                                    {.tile_m = 128, .tile_n = 64, .warps = 8, .stages = 2},
                                    {.tile_m = 64, .tile_n = 64, .warps = 4, .stages = 2}};
  std::vector<AttentionVariant> all;
  for (AttentionVariant variant : tiles) {
    for (const Dealing& dealing : dealings) {
      variant.order = dealing.order;
      variant.persistence = dealing.persistence;
      variant.swizzle = swizzle;
      all.push_back(variant);
    }
  }
  return all;
}

struct Compiled {
  AttentionVariant variant;
  CompiledKernel kernel;
};

std::vector<Compiled> compile_all(const Generator& generator, const Case& one, int sm_arch) {
  std::vector<std::future<Compiled>> pending;
  for (const AttentionVariant& variant : variants(one.swizzle)) {
    pending.push_back(std::async(std::launch::async, [&generator, &one, variant, sm_arch] {
      return Compiled{variant, generator.compile(one.problem, variant, sm_arch)};
    }));
  }
  std::vector<Compiled> all;
  for (std::future<Compiled>& compiled : pending) {
    all.push_back(compiled.get());
  }
  return all;
}

/// A compiled variant, loaded.
struct Loaded {
  AttentionVariant variant;
  AttentionKernel kernel;
};

class Counting {
 public:
  Counting(const Generator& generator, const DeviceInfo& device, unsigned seed)
      : generator_(generator),
        device_(device),
        random_(seed),
        kernels_(generator, device.sm_arch),
        shaker_(tools_, seed),
        scratch_(2 * static_cast<std::size_t>(device.l2_bytes)) {}

  /// Prints a line for each variant and state; variants follow each other in a drawn order.
  void count(const Case& one, int round);

 private:
  std::vector<Loaded> load(const Case& one);
  void prepare(const State& state);

  const Generator& generator_;
  DeviceInfo device_;
  std::mt19937 random_;
  PrimaryContext context_{0};
  Stream stream_;
  ReferenceKernels kernels_;
  WorkloadTools tools_{generator_, stream_, device_.sm_arch, device_.sm_count};
  PlacementShaker shaker_;
  DeviceBuffer scratch_;
  RangeProfiler profiler_{context_.handle(), 0};
};

std::vector<Loaded> Counting::load(const Case& one) {
  std::vector<Compiled> compiled = compile_all(generator_, one, device_.sm_arch);
  std::shuffle(compiled.begin(), compiled.end(), random_);
  std::vector<Loaded> loaded;
  for (const auto& [variant, kernel] : compiled) {
    const Occupancy resident = occupancy(kernel.resources, one.problem, variant, device_);
    const AttentionLaunchPlan plan =
        launch_plan(one.problem, variant, device_.sm_count, resident.ctas_per_sm);
    loaded.push_back({variant, AttentionKernel(kernel, plan)});
  }
  return loaded;
}

void Counting::prepare(const State& state) {
  if (state.is_cold) {
    scratch_.fill(0, stream_);
  }
  if (state.is_shaken) {
    shaker_.shake(stream_);
  }
  stream_.synchronize();
}

void print(const AttentionProblem& problem, const AttentionVariant& variant, const State& state,
           int round, const Counters* launches) {
  const auto text = [](auto value) { return std::string(to_string(value)); };
  std::printf("%d,%d,%d,%d,%dx%dx%d,%s,%s,%d,%s,%s,%s,%d", problem.seq_q, problem.head_dim,
              problem.heads_q, problem.causal ? 1 : 0, variant.tile_m, variant.tile_n,
              variant.warps, text(variant.persistence).c_str(), text(variant.swizzle).c_str(),
              variant.stages, text(variant.order).c_str(), state.l2, state.placement, round);
  for (std::size_t i = 0; i < kLaunches; ++i) {
    std::printf(",%lld", launches[i].dram_read_bytes);
  }
  std::printf("\n");
}

void Counting::count(const Case& one, int round) {
  const std::vector<Loaded> all = load(one);
  const ProblemBuffers buffers(one.problem, kernels_, stream_, 1);
  std::vector<CountedLaunch> launches;
  for (const Loaded& loaded : all) {
    for (const State& state : kStates) {
      launches.insert(launches.end(), kLaunches,
                      {.prepare = [this, &state] { prepare(state); },
                       .launch =
                           [this, &loaded, &buffers] {
                             loaded.kernel.launch(buffers.params(false), stream_.handle());
                             stream_.synchronize();
                           }});
    }
  }
  const std::vector<Counters> counted = CountingSession(profiler_).count(launches);
  const Counters* next = counted.data();
  for (const Loaded& loaded : all) {
    for (const State& state : kStates) {
      print(one.problem, loaded.variant, state, round, next);
      next += kLaunches;
    }
  }
  std::fflush(stdout);
}

void count_all(const char* cache_dir, unsigned seed) {
  const Generator generator({.cache_dir = cache_dir});
  Counting counting(generator, list_devices().front(), seed);
  std::printf("seq,head_dim,heads,causal,tile,persistence,swizzle,stages,order,l2,placement,round");
  for (std::size_t i = 1; i <= kLaunches; ++i) {
    std::printf(",dram_read_bytes_%zu", i);
  }
  std::printf("\n");
  std::mt19937 random(seed);
  std::vector<Case> all = cases();
  for (int round = 1; round <= kRounds; ++round) {
    std::shuffle(all.begin(), all.end(), random);
    for (const Case& one : all) {
      counting.count(one, round);
    }
  }
}

}  // namespace
}  // namespace swr

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: dram_reads CACHE_DIR [SEED]\n";
    return 2;
  }
  try {
    swr::count_all(arguments[1], count > 2 ? static_cast<unsigned>(std::stoul(arguments[2])) : 1U);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "dram_reads: " << error.what() << "\n";
    return 1;
  }
}
