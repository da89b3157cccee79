// SPDX-License-Identifier: MIT
#include "operations/attention/explained.h"

#include "operations/attention/config.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>

#include <utility>

namespace swr {
namespace {

long long modelled_excess(const ExplainedAttention& all, const AttentionVariant& variant) {
  const ScheduleShape shape =
      schedule_on_gpu(all.problem, variant, all.fit.ctas_per_sm, all.profile);
  return simulate_l2(shape, all.profile.l2_policy()).excess_misses;
}

/// Empty when the other order is no variant of its own, as in launches of one Q tile per CTA.
std::optional<OtherOrder> other_order(const ExplainedAttention& all) {
  const AttentionVariant other = in_other_order(all.subject.variant)->as<AttentionVariant>();
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
  return OtherOrder{other, modelled_excess(all, other), modelled_excess(all, all.variant),
                    Provenance::predicted};
}

VariantResult predicted_result(const ExplainedAttention& all) {
  VariantResult result;
  result.variant = all.variant;
  result.resources = all.subject.resources;
  result.smem_bytes = smem_bytes(all.problem, all.variant);
  result.ctas_per_sm = all.fit.ctas_per_sm;
  result.outcome = all.model.prediction;
  return result;
}

}  // namespace

int ExplainedAttention::threads() const {
  return threads_per_cta(make_family_config(problem, variant));
}

double ExplainedAttention::occupancy() const {
  return static_cast<double>(threads()) * fit.ctas_per_sm / profile.device.max_threads_per_sm;
}

double ExplainedAttention::waves() const {
  return static_cast<double>(shape.ctas) /
         (static_cast<double>(profile.device.sm_count) * fit.ctas_per_sm);
}

ExplainedAttention explain_all(const ExplainRequest& request) {
  ExplainedAttention all{.problem = request.problem.as<AttentionProblem>(),
                         .profile = request.profile,
                         .variant = request.subject.variant.as<AttentionVariant>(),
                         .subject = request.subject,
                         .fit = {},
                         .shape = {},
                         .buffers = {},
                         .bytes = {},
                         .model = {},
                         .result = {},
                         .other = std::nullopt};
  // Throws when no CTA fits.
  all.model = explain(all.problem, all.variant, all.subject.resources, all.profile);
  all.fit = swr::occupancy(all.subject.resources, all.problem, all.variant, all.profile.device);
  all.shape = make_schedule_shape(all.problem, all.variant, all.profile.device.sm_count,
                                  all.fit.ctas_per_sm);
  all.buffers = smem_buffers(all.problem, all.variant);
  all.bytes = global_bytes(all.problem, all.variant.tile_m, all.variant.tile_n, LastTile::clipped,
                           all.shape.packed_heads);
  all.result = all.subject.measured ? *all.subject.measured : predicted_result(all);
  all.other = other_order(all);
  return all;
}

}  // namespace swr
