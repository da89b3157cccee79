// SPDX-License-Identifier: MIT
// What registers that the compiler spilled cost: local memory is read and written through L1, whose
// data path is that of shared memory, and stores go on to L2. How often a spilled byte moves the
// compiler does not say; all of it once a KV step is taken, which FlashAttention-2's counters on a
// GB10 do not contradict (experiments/published_timings).
#pragma once

#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/kernel.h>

namespace swr {

/// Clocks of a KV step in which a CTA moves spilled registers and waits for them.
double spill_clocks(const AttentionProblem& problem, const AttentionVariant& variant,
                    const KernelResources& resources);

/// What `steps` KV steps of CTAs write to L2 of them.
long long spilled_sectors(const AttentionProblem& problem, const AttentionVariant& variant,
                          const KernelResources& resources, long long steps);

}  // namespace swr
