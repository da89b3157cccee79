// SPDX-License-Identifier: MIT
// All that is known of one variant, measured or predicted, and what follows from it.
#pragma once

#include "core/json.h"
#include "operations/attention/model/cta_memory.h"
#include "operations/attention/model/explanation.h"
#include "report/explain/explanation.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <memory>
#include <optional>
#include <vector>

namespace swr {

/// What the other order would fetch, all else equal.
struct OtherOrder {
  AttentionVariant variant;
  /// Excess misses of the other order and of the subject, of one provenance.
  long long other_sectors = 0;
  long long own_sectors = 0;
  Provenance provenance = Provenance::predicted;

  double mb_more() const {
    constexpr double kBytesPerMb = 1e6;
    return static_cast<double>((other_sectors - own_sectors) * kSectorBytes) / kBytesPerMb;
  }
};

/// A subject with everything that follows from it.
struct ExplainedAttention {
  AttentionProblem problem;
  GpuProfile profile;
  AttentionVariant variant;
  ExplainSubject subject;
  Occupancy fit;
  ScheduleShape shape;
  std::vector<NamedBytes> buffers;
  GlobalBytes bytes;
  AttentionExplanation model;
  /// Measured where there is a measurement, else predicted.
  VariantResult result;
  std::optional<OtherOrder> other;

  int threads() const;
  /// Resident threads over those an SM holds at most.
  double occupancy() const;
  /// CTAs of the launch over the places of all SMs.
  double waves() const;
};

/// Throws: Error{invalid_argument} when no CTA fits an SM.
ExplainedAttention explain_all(const ExplainRequest& request);

/// Every number of it.
Json explanation_json(const ExplainedAttention& all);

std::unique_ptr<ExplainedVariant> explain_attention(const ExplainRequest& request);

}  // namespace swr
