// SPDX-License-Identifier: MIT
#include "operations/attention/model/spills.h"

#include "operations/attention/config.h"
#include <swr/result.h>

namespace swr {
namespace {

/// Of L1 and shared memory together (CUDA programming guide, all of sm_80 to sm_121).
constexpr double kL1BytesPerClock = 128.0;

int threads_of(const AttentionProblem& problem, const AttentionVariant& variant) {
  return variant.family == Family::hopper ? make_hopper_config(problem, variant).threads()
                                          : make_attention_config(problem, variant).threads();
}

}  // namespace

double spill_clocks(const AttentionProblem& problem, const AttentionVariant& variant,
                    const KernelResources& resources) {
  const int bytes = resources.spill_store_bytes + resources.spill_load_bytes;
  return bytes == 0 ? 0.0 : threads_of(problem, variant) * bytes / kL1BytesPerClock;
}

long long spilled_sectors(const AttentionProblem& problem, const AttentionVariant& variant,
                          const KernelResources& resources, long long steps) {
  const int bytes = resources.spill_store_bytes;
  return bytes == 0 ? 0 : steps * threads_of(problem, variant) * bytes / kSectorBytes;
}

}  // namespace swr
