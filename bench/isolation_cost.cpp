// SPDX-License-Identifier: MIT
// What supervision costs: the wall time of evaluating the same variants in a measuring process and
// in this one, in turns, as a ratio per round. Usage: isolation_cost [ROUNDS [VARIANTS]]
// [--counters]
#include "core/statistics/statistics.h"
#include "tuner/measure/measuring_evaluator.h"
#include "tuner/supervise/supervised_compiler.h"
#include "tuner/supervise/supervised_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/error.h>
#include <swr/generator.h>

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace swr {
namespace {

constexpr const char* kWorker = "measure-worker";
constexpr const char* kCounters = "--counters";

const AttentionProblem kProblem{
    .heads_q = 16, .heads_kv = 16, .seq_q = 4096, .seq_kv = 4096, .head_dim = 128, .causal = true};

struct Settings {
  int rounds = 9;
  int variants = 16;
  bool counters = false;
};

Settings read_settings(std::vector<std::string> arguments) {
  Settings settings;
  settings.counters = std::erase(arguments, kCounters) > 0;
  if (!arguments.empty()) settings.rounds = std::stoi(arguments.at(0));
  if (arguments.size() > 1) settings.variants = std::stoi(arguments.at(1));
  return settings;
}

std::unique_ptr<Evaluator> measure_here(const Generator& generator, const Settings& settings) {
  MeasureOptions options;
  options.counters = settings.counters;
  return std::make_unique<MeasuringEvaluator>(generator, options);
}

std::unique_ptr<Evaluator> measure_supervised(const Settings& settings) {
  SuperviseOptions options{.command = {"/proc/self/exe", {kWorker}}, .deadline = {}};
  if (settings.counters) {
    options.command.arguments.emplace_back(kCounters);
  }
  return std::make_unique<SupervisedEvaluator>(options);
}

struct Candidate {
  Variant variant;
  CompiledKernel kernel;
};

/// Spread over the space, so that fast and slow variants take part.
std::vector<Candidate> candidates(const Generator& generator, const DeviceInfo& device, int count) {
  const std::vector<Variant> all = enumerate_space(kProblem, device, {}).variants;
  const std::size_t step = std::max<std::size_t>(1, all.size() / static_cast<std::size_t>(count));
  std::vector<Candidate> chosen;
  for (std::size_t i = 0; i < all.size() && chosen.size() < static_cast<std::size_t>(count);
       i += step) {
    CompiledKernel kernel = generator.compile(kProblem, all[i], device.sm_arch);
    if (!check_compiled(kProblem, all[i], device, kernel.resources)) {
      chosen.push_back({all[i], std::move(kernel)});
    }
  }
  return chosen;
}

double seconds_for_all(Evaluator& evaluator, const std::vector<Candidate>& candidates) {
  const auto started = std::chrono::steady_clock::now();
  std::vector<Contender> contenders;
  for (const Candidate& candidate : candidates) {
    const VariantResult result = evaluator.evaluate(kProblem, candidate.variant, candidate.kernel);
    if (result.state != ResultState::ok) {
      throw Error(ErrorCode::driver_failed, to_key(candidate.variant) + ": " + result.detail);
    }
    contenders.push_back({candidate.variant, &candidate.kernel});
  }
  evaluator.count(kProblem, contenders);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

void compare(const Settings& settings) {
  const Generator generator(GeneratorOptions{});
  const auto here = measure_here(generator, settings);
  const auto supervised = measure_supervised(settings);
  const auto chosen = candidates(generator, here->device(), settings.variants);
  std::cout << to_string(kProblem) << " on " << here->device().name << ", " << chosen.size()
            << " variants per round, " << (settings.counters ? "with" : "without") << " counters\n"
            << std::fixed << std::setprecision(3);
  seconds_for_all(*here, chosen);  // References, modules and clocks warm up.
  seconds_for_all(*supervised, chosen);
  std::vector<double> ratios;
  for (int round = 0; round < settings.rounds; ++round) {
    const bool here_first = round % 2 == 0;
    double here_s = here_first ? seconds_for_all(*here, chosen) : 0.0;
    const double supervised_s = seconds_for_all(*supervised, chosen);
    here_s = here_first ? here_s : seconds_for_all(*here, chosen);
    ratios.push_back(supervised_s / here_s);
    std::cout << "round " << round + 1 << ": in process " << here_s << " s, supervised "
              << supervised_s << " s, ratio " << ratios.back() << "\n";
  }
  const auto [lowest, highest] = std::minmax_element(ratios.begin(), ratios.end());
  std::cout << "ratio supervised / in process: median " << median(ratios) << ", lowest " << *lowest
            << ", highest " << *highest << "\n";
}

}  // namespace
}  // namespace swr

int main(int argc, char** argv) {
  using namespace swr;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (std::erase(arguments, kWorker) > 0) {
      const Generator generator(GeneratorOptions{});
      serve_evaluator(STDIN_FILENO,
                      [&] { return measure_here(generator, read_settings(arguments)); });
      return 0;
    }
    compare(read_settings(arguments));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "isolation_cost: error: " << error.what() << "\n";
    return 1;
  }
}
