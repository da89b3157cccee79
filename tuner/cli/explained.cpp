// SPDX-License-Identifier: MIT
#include "tuner/cli/explained.h"

#include "operations/attention/config.h"
#include <swr/constraints.h>

#include <utility>

namespace swr::cli {
namespace {

long long modelled_excess(const Explained& all, const AttentionVariant& variant) {
  const ScheduleShape shape =
      schedule_on_gpu(all.problem, variant, all.fit.ctas_per_sm, all.profile);
  return simulate_l2(shape, all.profile.l2_policy()).excess_misses;
}

/// Empty when the other order is no variant of its own, as in launches of one Q tile per CTA.
std::optional<OtherOrder> other_order(const Explained& all) {
  const AttentionVariant other = in_other_order(all.subject.variant);
  if (check_constraints(all.problem, other, all.profile.device)) {
    return std::nullopt;
  }
  if (all.subject.measured && all.subject.measured_other) {
    const auto own = excess_miss_sectors(all.problem, *all.subject.measured);
    const auto its = excess_miss_sectors(all.problem, *all.subject.measured_other);
    if (own && its) {
      return OtherOrder{other, *its, *own, Provenance::measured};
    }
  }
  return OtherOrder{other, modelled_excess(all, other), modelled_excess(all, all.subject.variant),
                    Provenance::predicted};
}

VariantResult predicted_result(const Explained& all) {
  VariantResult result;
  result.variant = all.subject.variant;
  result.resources = all.subject.resources;
  result.smem_bytes = smem_bytes(all.problem, all.subject.variant);
  result.ctas_per_sm = all.fit.ctas_per_sm;
  result.outcome = all.model.prediction;
  return result;
}

}  // namespace

int Explained::threads() const {
  return threads_per_cta(make_family_config(problem, subject.variant));
}

double Explained::occupancy() const {
  return static_cast<double>(threads()) * fit.ctas_per_sm / profile.device.max_threads_per_sm;
}

double Explained::waves() const {
  return static_cast<double>(shape.ctas) /
         (static_cast<double>(profile.device.sm_count) * fit.ctas_per_sm);
}

Explained explain_all(const AttentionProblem& problem, const GpuProfile& profile,
                      ExplainSubject subject) {
  Explained all{.problem = problem,
                .profile = profile,
                .subject = std::move(subject),
                .fit = {},
                .shape = {},
                .buffers = {},
                .bytes = {},
                .model = {},
                .result = {},
                .other = std::nullopt};
  const AttentionVariant& variant = all.subject.variant;
  // Throws when no CTA fits.
  all.model = explain(problem, variant, all.subject.resources, profile);
  all.fit = swr::occupancy(all.subject.resources, problem, variant, profile.device);
  all.shape = make_schedule_shape(problem, variant, profile.device.sm_count, all.fit.ctas_per_sm);
  all.buffers = smem_buffers(problem, variant);
  all.bytes = global_bytes(problem, variant.tile_m, variant.tile_n, LastTile::clipped,
                           all.shape.packed_heads);
  all.result = all.subject.measured ? *all.subject.measured : predicted_result(all);
  all.other = other_order(all);
  return all;
}

}  // namespace swr::cli
