// SPDX-License-Identifier: MIT
// GEMM against cuBLASLt, side by side: the heuristic's first choice and the best of all algorithms
// it returns, each timed in turn with swr's variants on random normal data. Shapes: the nine cubes
// of the L2 block-scheduling study and forty projections of language models. experiments/gemm
// publishes the numbers.
//
// Launches of swr may overlap (operations/gemm/gemm_launch.h), as the runtime makes them, and those
// of cuBLASLt where it wants them to: "lt (overlaps)" marks such shapes. Each finalist is also
// timed with launches that follow one another, as a figure of its own.
#include "driver/devices.h"
#include "experiments/gemm/candidates.h"
#include "experiments/gemm/cublaslt.h"
#include "experiments/gemm/launch_edges.h"
#include "operations/gemm/buffers.h"
#include "operations/gemm/config.h"
#include "operations/gemm/kernel.h"
#include "tuner/statistics/statistics.h"
#include <swr/attention_params.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

namespace {

using namespace swr;

struct Options {
  std::string shapes = "all";
  std::string csv;
  std::vector<int> only;  ///< m, n, k of a single shape.
  int candidates = 32;
  int finalists = 6;
  int rounds = 11;
  double sample_us = 300.0;
};

struct Shape {
  GemmProblem problem;
  bool is_cube = false;
};

std::vector<Shape> cubes() {
  std::vector<Shape> shapes;
  for (const int size : {512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384}) {
    shapes.push_back({{.m = size, .n = size, .k = size}, true});
  }
  return shapes;
}

/// n x k of projections in Llama 3 (8B, 70B), Qwen 2.5 (7B) and DeepSeek V3, m tokens.
std::vector<Shape> language_model_shapes() {
  constexpr std::array<std::pair<int, int>, 10> kWeights{{{6144, 4096},
                                                          {4096, 4096},
                                                          {28672, 4096},
                                                          {4096, 14336},
                                                          {10240, 8192},
                                                          {8192, 28672},
                                                          {4608, 3584},
                                                          {37888, 3584},
                                                          {2112, 7168},
                                                          {24576, 1536}}};
  constexpr std::array<std::array<int, 4>, 2> kTokens{{{1, 64, 512, 4096}, {16, 128, 2048, 8192}}};
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < kWeights.size(); ++i) {
    for (const int m : kTokens.at(i % 2)) {
      shapes.push_back({{.m = m, .n = kWeights.at(i).first, .k = kWeights.at(i).second}, false});
    }
  }
  return shapes;
}

std::vector<Shape> chosen_shapes(const Options& options) {
  if (options.only.size() == 3) {
    return {{{.m = options.only[0], .n = options.only[1], .k = options.only[2]},
             options.only[0] == options.only[1]}};
  }
  std::vector<Shape> shapes;
  if (options.shapes != "llm") {
    shapes = cubes();
  }
  if (options.shapes != "cubes") {
    const std::vector<Shape> more = language_model_shapes();
    shapes.insert(shapes.end(), more.begin(), more.end());
  }
  return shapes;
}

/// Equal keys share a cubin.
std::string config_key(const HopperGemmConfig& config) {
  return candidate_name({.config = config}) + (config.split_k ? " split" : "");
}

/// Nothing spilled, and products stay asynchronous.
bool is_clean(const KernelResources& resources) {
  return resources.spill_store_bytes + resources.spill_load_bytes + resources.wgmma_warnings == 0;
}

using Cubins = std::map<std::string, CompiledKernel>;

/// Compiles every configuration once, on all cores; those that spill or serialise are left out.
Cubins compile_all(const Generator& generator, const std::vector<HopperGemmConfig>& configs) {
  std::vector<std::optional<CompiledKernel>> compiled(configs.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    threads.emplace_back([&] {
      for (std::size_t index = next++; index < configs.size(); index = next++) {
        try {
          compiled[index] = generator.compile_configured(gemm_operation(), Family::hopper,
                                                         config_header(configs[index]), 90);
        } catch (const Error& error) {
          std::fprintf(stderr, "left out: %s\n", error.what());
        }
      }
    });
  }
  threads.clear();
  Cubins cubins;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (compiled[i] && is_clean(compiled[i]->resources)) {
      cubins.emplace(config_key(configs[i]), std::move(*compiled[i]));
    }
  }
  return cubins;
}

/// Inputs of one shape. Weights smaller than a few times the L2 have copies that launches take in
/// turn, because a model's other layers would have pushed them out; cubes are measured warm, as in
/// the study.
class Matrices {
 public:
  Matrices(const Shape& shape, const GemmReferenceKernels& kernels, const Stream& stream)
      : problem_(shape.problem),
        a_(bytes(problem_.m, problem_.k, 2)),
        c_(bytes(problem_.m, problem_.n, 4)) {
    constexpr std::size_t kColdBytes = 192U << 20;
    const std::size_t b_bytes = bytes(problem_.n, problem_.k, 2);
    const std::size_t copies =
        shape.is_cube ? 1 : std::min<std::size_t>(8, kColdBytes / b_bytes + 1);
    fill(a_, problem_.m, 1, kernels, stream);
    for (std::size_t copy = 0; copy < copies; ++copy) {
      b_.emplace_back(b_bytes);
      fill(b_.back(), problem_.n, 2 + copy, kernels, stream);
    }
  }

  int copies() const { return static_cast<int>(b_.size()); }

  GemmParams params(int launch) const {
    GemmParams params;
    params.a = pointer(a_);
    params.b = pointer(b_[static_cast<std::size_t>(launch) % b_.size()]);
    params.c = pointer(c_);
    params.a_strides = {.row = problem_.k};
    params.b_strides = {.row = problem_.k};
    params.c_strides = {.row = problem_.n};
    params.m = problem_.m;
    params.n = problem_.n;
    params.k = problem_.k;
    return params;
  }

  static void* pointer(const DeviceBuffer& memory) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses are integers.
    return reinterpret_cast<void*>(memory.address());
  }

 private:
  static std::size_t bytes(int rows, int columns, int element) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) *
           static_cast<std::size_t>(element);
  }

  void fill(const DeviceBuffer& memory, int rows, unsigned long long seed,
            const GemmReferenceKernels& kernels, const Stream& stream) const {
    const TensorStrides strides{.seq = problem_.k};
    kernels.random_fill.launch({.grid_x = 2048, .block_x = 256}, stream, pointer(memory), strides,
                               1, 1, rows, problem_.k, static_cast<int>(problem_.dtype), seed);
  }

  GemmProblem problem_;
  DeviceBuffer a_;
  DeviceBuffer c_;
  std::vector<DeviceBuffer> b_;
};

/// Times of cuBLASLt over that of swr; above 1 swr is faster.
struct Ratios {
  double to_first = 0.0;  ///< The heuristic's first choice.
  double to_best = 0.0;   ///< The best of all algorithms.
  double in_a_row = 0.0;  ///< The heuristic's first choice, no launches of swr overlapping.
};

/// Something that computes the product.
struct Contestant {
  std::string name;
  std::function<void(const GemmParams&, LaunchOverlap)> enqueue;
  std::vector<double> samples_us;
  LaunchOverlap overlap = LaunchOverlap::allowed;  ///< Of swr; cuBLASLt decides for itself.

  void launch(const GemmParams& params) const { enqueue(params, overlap); }
};

/// Launches of one contestant as a graph, long enough for an event to resolve.
class Sampler {
 public:
  Sampler(const Stream& stream, const Matrices& matrices, const Contestant& contestant,
          double sample_us)
      : stream_(stream) {
    contestant.launch(matrices.params(0));
    const Event start;
    const Event stop;
    start.record(stream_);
    contestant.launch(matrices.params(0));
    stop.record(stream_);
    const double once_us = std::max(1.0, stop.elapsed_us_since(start));
    const int copies = matrices.copies();
    const int wanted = static_cast<int>(std::ceil(sample_us / once_us));
    launches_ = std::min(64, (wanted + copies - 1) / copies * copies);
    graph_.emplace(stream_, [&] {
      for (int i = 0; i < launches_; ++i) {
        contestant.launch(matrices.params(i));
      }
    });
  }

  double sample() const {
    const Event start;
    const Event stop;
    start.record(stream_);
    graph_->launch(stream_);
    stop.record(stream_);
    return stop.elapsed_us_since(start) / launches_;
  }

 private:
  const Stream& stream_;
  int launches_ = 1;
  std::optional<Graph> graph_;
};

class Comparison {
 public:
  Comparison(const Options& options, const DeviceInfo& device, const Generator& generator,
             const Cubins& cubins, const Stream& stream)
      : options_(options),
        device_(device),
        cubins_(cubins),
        stream_(stream),
        kernels_(generator, device.sm_arch),
        partials_(512U << 20),
        arrivals_(1U << 20),
        csv_(options.csv) {
    arrivals_.fill(0, stream_);
    csv_ << "m,n,k,stage,contestant,median_us,p95_us,tflops\n";
  }

  Ratios run(const Shape& shape) {
    const GemmProblem& problem = shape.problem;
    const Matrices matrices(shape, kernels_, stream_);
    GemmProblem exact = problem;
    exact.output = OutputType::fp32;
    const CublasLtProduct reference(exact, 1);
    const DeviceBuffer expected(static_cast<std::size_t>(problem.m) *
                                static_cast<std::size_t>(problem.n) * 4);
    GemmParams into_expected = matrices.params(0);
    into_expected.c = Matrices::pointer(expected);
    reference.launch(0, into_expected, stream_.handle());

    const CublasLtProduct library(problem, 32);
    std::vector<Contestant> peers = library_contestants(library);
    std::vector<Contestant> own = own_contestants(problem, matrices, expected);
    screen(problem, matrices, peers);
    screen(problem, matrices, own);

    std::vector<Contestant> finalists;
    finalists.push_back(peers.front());
    finalists.push_back(*best(peers));
    finalists.back().name += " (best)";
    std::stable_sort(own.begin(), own.end(), faster);
    own.resize(std::min(own.size(), static_cast<std::size_t>(options_.finalists)));
    for (const LaunchOverlap overlap : {LaunchOverlap::allowed, LaunchOverlap::none}) {
      for (Contestant finalist : own) {
        finalist.overlap = overlap;
        finalist.name += overlap == LaunchOverlap::none ? " in a row" : "";
        finalists.push_back(finalist);
      }
    }
    const std::vector<double> medians = meet(problem, matrices, finalists);
    const auto overlapping = medians.begin() + 2;
    const auto in_a_row = overlapping + static_cast<std::ptrdiff_t>(own.size());
    const auto winner = std::min_element(overlapping, in_a_row);
    const double in_a_row_us = *std::min_element(in_a_row, medians.end());
    const bool peer_overlaps =
        overlaps_itself(stream_, [&] { peers.front().launch(matrices.params(0)); });
    const Ratios ratios{medians[0] / *winner, medians[1] / *winner, medians[0] / in_a_row_us};
    std::printf(
        "%6d %6d %6d | lt%s %9.2f us %6.1f TF | best of %2d %9.2f | swr %9.2f us %6.1f TF | "
        "%.3f %.3f | in a row %9.2f us %.3f | %s\n",
        problem.m, problem.n, problem.k, peer_overlaps ? " (overlaps)" : "", medians[0],
        tflops(problem, medians[0]), library.algorithms(), medians[1], *winner,
        tflops(problem, *winner), ratios.to_first, ratios.to_best, in_a_row_us, ratios.in_a_row,
        finalists[static_cast<std::size_t>(winner - medians.begin())].name.c_str());
    std::fflush(stdout);
    return ratios;
  }

 private:
  static double tflops(const GemmProblem& problem, double time_us) {
    return flop_count(problem) / time_us * 1e-6;
  }
  static bool faster(const Contestant& a, const Contestant& b) {
    return median(a.samples_us) < median(b.samples_us);
  }
  static std::vector<Contestant>::const_iterator best(const std::vector<Contestant>& contestants) {
    return std::min_element(contestants.begin(), contestants.end(), faster);
  }

  std::vector<Contestant> library_contestants(const CublasLtProduct& library) const {
    std::vector<Contestant> contestants;
    for (int i = 0; i < library.algorithms(); ++i) {
      contestants.push_back({"cublaslt " + std::to_string(i),
                             [this, &library, i](const GemmParams& params, LaunchOverlap) {
                               library.launch(i, params, stream_.handle());
                             },
                             {}});
    }
    return contestants;
  }

  /// Variants that compiled and whose results match; the others are reported.
  std::vector<Contestant> own_contestants(const GemmProblem& problem, const Matrices& matrices,
                                          const DeviceBuffer& expected) const {
    std::vector<Contestant> contestants;
    for (const GemmCandidate& candidate :
         gemm_candidates(problem, device_.sm_count, options_.candidates)) {
      const auto found = cubins_.find(config_key(candidate.config));
      if (found == cubins_.end()) {
        continue;
      }
      const auto kernel =
          std::make_shared<GemmKernel>(found->second, candidate.config, device_.sm_count);
      Contestant contestant{
          candidate_name(candidate),
          [this, kernel, candidate](const GemmParams& given, LaunchOverlap overlap) {
            GemmParams params = given;
            params.raster = candidate.raster;
            params.raster_group = candidate.raster_group;
            params.swizzle_stride = candidate.swizzle_stride;
            params.splits = candidate.splits;
            params.partials = static_cast<float*>(Matrices::pointer(partials_));
            params.arrivals = static_cast<unsigned*>(Matrices::pointer(arrivals_));
            kernel->launch(params, stream_.handle(), overlap);
          },
          {}};
      GemmParams needed = matrices.params(0);
      needed.splits = candidate.splits;
      if (candidate.config.partials_bytes(needed) >
              static_cast<long long>(partials_.size_bytes()) ||
          !is_right(problem, matrices, expected, contestant)) {
        continue;
      }
      contestants.push_back(std::move(contestant));
    }
    return contestants;
  }

  bool is_right(const GemmProblem& problem, const Matrices& matrices, const DeviceBuffer& expected,
                const Contestant& contestant) const {
    const GemmParams params = matrices.params(0);
    const DeviceBuffer result(sizeof(reference::GemmComparison));
    result.fill(0, stream_);
    contestant.launch(params);
    kernels_.compare.launch({.grid_x = 2048, .block_x = 256}, stream_, params, expected.address(),
                            static_cast<int>(problem.output), result.address());
    stream_.synchronize();
    reference::GemmComparison comparison;
    result.download(std::as_writable_bytes(std::span(&comparison, 1)));
    const double error = std::sqrt(comparison.error_squared / comparison.expected_squared);
    if (!(error < 3e-3)) {
      std::printf("WRONG %s: %s, relative error %g\n", to_string(problem).c_str(),
                  contestant.name.c_str(), error);
      return false;
    }
    return true;
  }

  /// Two samples of each, one after the other.
  void screen(const GemmProblem& problem, const Matrices& matrices,
              std::vector<Contestant>& contestants) {
    for (Contestant& contestant : contestants) {
      const Sampler sampler(stream_, matrices, contestant, options_.sample_us / 3);
      sampler.sample();
      contestant.samples_us = {sampler.sample(), sampler.sample()};
      write(problem, "screening", contestant.name, contestant.samples_us);
    }
  }

  /// Interleaved rounds of random order.
  std::vector<double> meet(const GemmProblem& problem, const Matrices& matrices,
                           const std::vector<Contestant>& finalists) {
    std::vector<std::unique_ptr<Sampler>> samplers;
    std::vector<std::size_t> order;
    for (const Contestant& finalist : finalists) {
      order.push_back(samplers.size());
      samplers.push_back(
          std::make_unique<Sampler>(stream_, matrices, finalist, options_.sample_us));
    }
    std::mt19937 random(20261121);
    std::vector<std::vector<double>> samples(finalists.size());
    for (int round = 0; round < options_.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t index : order) {
        samples[index].push_back(samplers[index]->sample());
      }
    }
    std::vector<double> medians;
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      medians.push_back(median(samples[i]));
      write(problem, "final", finalists[i].name, samples[i]);
    }
    return medians;
  }

  void write(const GemmProblem& problem, const char* stage, const std::string& name,
             const std::vector<double>& samples_us) {
    const double middle = median(samples_us);
    csv_ << problem.m << ',' << problem.n << ',' << problem.k << ',' << stage << ',' << name << ','
         << middle << ',' << percentile(samples_us, 95.0) << ',' << tflops(problem, middle) << '\n';
  }

  const Options& options_;
  const DeviceInfo& device_;
  const Cubins& cubins_;
  const Stream& stream_;
  GemmReferenceKernels kernels_;
  DeviceBuffer partials_;
  DeviceBuffer arrivals_;
  std::ofstream csv_;
};

/// Geometric mean and minimum over one list of shapes.
struct Summary {
  double log_sum = 0.0;
  double least = 1e9;
  int count = 0;

  void add(double ratio) {
    log_sum += std::log(ratio);
    least = std::min(least, ratio);
    ++count;
  }
  void print(const char* name) const {
    if (count > 0) {
      std::printf("%-62s geometric mean %.4f, least %.4f, of %d shapes\n", name,
                  std::exp(log_sum / count), least, count);
    }
  }
};

/// Of one list of shapes, by what swr is compared with.
struct ListSummary {
  Summary to_first;
  Summary to_best;
  Summary in_a_row;

  void add(const Ratios& ratios) {
    to_first.add(ratios.to_first);
    to_best.add(ratios.to_best);
    in_a_row.add(ratios.in_a_row);
  }
  void print(const std::string& list) const {
    to_first.print((list + ", heuristic's choice").c_str());
    to_best.print((list + ", best of cuBLASLt").c_str());
    in_a_row.print((list + ", heuristic's choice, swr's launches in a row").c_str());
  }
};

std::vector<HopperGemmConfig> needed_configs(const std::vector<Shape>& shapes, int sm_count,
                                             int count) {
  std::vector<HopperGemmConfig> configs;
  std::set<std::string> known;
  for (const Shape& shape : shapes) {
    for (const GemmCandidate& candidate : gemm_candidates(shape.problem, sm_count, count)) {
      if (known.insert(config_key(candidate.config)).second) {
        configs.push_back(candidate.config);
      }
    }
  }
  return configs;
}

void run(const Options& options) {
  const DeviceInfo device = list_devices().front();
  const PrimaryContext context(0);
  const Stream stream;
  const Generator generator(GeneratorOptions{});
  const std::vector<Shape> shapes = chosen_shapes(options);
  const std::vector<HopperGemmConfig> configs =
      needed_configs(shapes, device.sm_count, options.candidates);
  const Cubins cubins = compile_all(generator, configs);
  std::printf("%s, %zu configurations, %zu without spills\n", device.name.c_str(), configs.size(),
              cubins.size());
  Comparison comparison(options, device, generator, cubins, stream);
  ListSummary cubes;
  ListSummary language_models;
  for (const Shape& shape : shapes) {
    (shape.is_cube ? cubes : language_models).add(comparison.run(shape));
  }
  cubes.print("cubes");
  language_models.print("language models");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"GEMM against cuBLASLt"};
  app.add_option("--shapes", options.shapes, "cubes, llm or all");
  app.add_option("--only", options.only, "m n k of a single shape")->expected(3);
  app.add_option("--csv", options.csv, "every sample's median goes here")->required();
  app.add_option("--candidates", options.candidates, "configurations tried per shape");
  app.add_option("--finalists", options.finalists, "variants that meet cuBLASLt in the end");
  app.add_option("--rounds", options.rounds, "interleaved rounds");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "gemm_peers: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
