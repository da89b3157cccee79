// SPDX-License-Identifier: MIT
#include "tests/gpu/drawn_kernel.h"

#include <swr/constraints.h>
#include <swr/search_space.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace swr {

int count_of(const char* variable, int usual) {
  const char* const wanted = std::getenv(variable);
  return wanted == nullptr ? usual : std::max(1, std::atoi(wanted));
}

DrawnKernel compiled_kernel(GpuBench& bench, const Problem& problem, const Variant& variant) {
  CompiledKernel compiled = bench.generator.compile(problem, variant, bench.device.sm_arch);
  const int resident = occupancy(compiled.resources, problem, variant, bench.device).ctas_per_sm;
  return {variant, std::move(compiled), resident};
}

DrawnKernel drawn_kernel(GpuBench& bench, const Problem& problem, std::mt19937& random) {
  std::vector<Variant> variants = enumerate_space(problem, bench.device, {}).variants;
  const auto others = std::ranges::partition(
      variants, [](const Variant& variant) { return family_of(variant) == Family::hopper; });
  if (random() % 2 == 0 && others.begin() != variants.begin()) {
    variants.erase(others.begin(), variants.end());
  }
  for (;;) {
    DrawnKernel drawn = compiled_kernel(bench, problem, variants.at(random() % variants.size()));
    if (!check_compiled(problem, drawn.variant, bench.device, drawn.compiled.resources)) {
      return drawn;
    }
  }
}

}  // namespace swr
