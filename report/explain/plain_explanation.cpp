// SPDX-License-Identifier: MIT
#include "report/explain/plain_explanation.h"

#include "core/number_text.h"
#include "core/operation.h"
#include "model/predictor.h"
#include "report/explain/analysis.h"
#include "report/explain/describe.h"
#include "report/explain/explain_text.h"
#include "report/explain/memory_access.h"
#include <swr/error.h>

#include <optional>
#include <ostream>
#include <utility>

namespace swr {
namespace {

struct Known {
  ExplainRequest request;
  Occupancy occupancy;
  LaunchGeometry geometry;
  std::optional<Prediction> prediction;
  /// Measured where there is a measurement, else predicted.
  VariantResult result;
};

Occupancy require_resident(const ExplainRequest& request) {
  const ExplainSubject& subject = request.subject;
  Occupancy fit =
      occupancy(subject.resources, request.problem, subject.variant, request.profile.device);
  if (fit.ctas_per_sm < 1) {
    throw Error(ErrorCode::invalid_argument, "no CTA of " + to_key(subject.variant) +
                                                 " fits an SM of " + request.profile.device.name +
                                                 ", limited by " + fit.limited_by +
                                                 "; choose a smaller tile or fewer stages");
  }
  return fit;
}

std::optional<Prediction> predict(const ExplainRequest& request, int ctas_per_sm) {
  const auto model = request.problem.operation().make_predictor(request.profile);
  return model ? std::optional(model->predict(request.problem, request.subject.variant,
                                              request.subject.resources, ctas_per_sm))
               : std::nullopt;
}

VariantResult result_of(const Known& known) {
  const ExplainSubject& subject = known.request.subject;
  if (subject.measured) {
    return *subject.measured;
  }
  if (!known.prediction) {
    throw Error(ErrorCode::invalid_argument,
                "nothing is measured of " + to_string(known.request.problem) +
                    " with this variant, and its operation has no model; tune it on a GPU");
  }
  VariantResult result;
  result.variant = subject.variant;
  result.resources = subject.resources;
  result.smem_bytes = known.geometry.dynamic_smem_bytes;
  result.ctas_per_sm = known.occupancy.ctas_per_sm;
  result.outcome = *known.prediction;
  return result;
}

Known all_known(const ExplainRequest& request) {
  Known known{.request = request,
              .occupancy = require_resident(request),
              .geometry = {},
              .prediction = {},
              .result = {}};
  const int ctas_per_sm = known.occupancy.ctas_per_sm;
  known.geometry = launch_geometry(request.problem, request.subject.variant,
                                   request.profile.device.sm_count, ctas_per_sm);
  known.prediction = predict(request, ctas_per_sm);
  known.result = result_of(known);
  return known;
}

double occupied_share(const Known& known) {
  return static_cast<double>(known.geometry.block_x) * known.occupancy.ctas_per_sm /
         known.request.profile.device.max_threads_per_sm;
}

double waves(const Known& known) {
  return launch_waves(known.request.problem, known.result, known.request.profile.device);
}

void print_launch(std::ostream& out, const Known& known) {
  const KernelResources& resources = known.result.resources;
  out << "launch (compiler and occupancy)\n";
  line(out, "registers per thread", std::to_string(resources.registers_per_thread));
  line(out, "spills", std::to_string(resources.spill_store_bytes + resources.spill_load_bytes),
       "bytes per thread, stores and loads");
  line(out, "threads", std::to_string(known.geometry.block_x), "per CTA");
  line(out, "shared memory", grouped_text(known.geometry.dynamic_smem_bytes), "bytes per CTA");
  line(out, "CTAs per SM", std::to_string(known.occupancy.ctas_per_sm),
       "limited by " + known.occupancy.limited_by);
  line(out, "occupancy", percent_text(occupied_share(known)), "of the threads an SM holds at most");
  line(out, "CTAs", grouped_text(known.geometry.grid_x), "the grid");
  line(out, "waves", significant_text(waves(known), 3), "CTAs over the places of all SMs");
}

void print_prediction(std::ostream& out, const Prediction& terms) {
  out << "time (predicted)\n";
  line(out, "products", time_text(terms.matrix_us), "tensor cores");
  line(out, "exponentials", time_text(terms.softmax_us), "and what goes with them");
  line(out, "L2", time_text(terms.l2_us), "sectors over L2 bandwidth");
  line(out, "DRAM", time_text(terms.dram_us), "misses over DRAM bandwidth");
  line(out, "latency", time_text(terms.latency_us), "waiting that nothing hides");
  line(out, "total", time_text(terms.time_us), "the first four overlap");
  const long long demanded = terms.read_sectors + terms.write_sectors;
  out << "traffic in 32-byte sectors (predicted)\n";
  line(out, "demanded of L2", grouped_text(demanded), with_bytes(demanded));
  line(out, "compulsory misses", grouped_text(terms.compulsory_misses),
       with_bytes(terms.compulsory_misses));
  line(out, "capacity misses", grouped_text(terms.excess_misses),
       with_bytes(terms.excess_misses) + ", fetched again after eviction");
}

Json terms_json(const Prediction& terms) {
  return {{"time_us", terms.time_us},
          {"matrix_us", terms.matrix_us},
          {"softmax_us", terms.softmax_us},
          {"l2_us", terms.l2_us},
          {"dram_us", terms.dram_us},
          {"latency_us", terms.latency_us},
          {"read_sectors", terms.read_sectors},
          {"write_sectors", terms.write_sectors},
          {"compulsory_misses_sectors", terms.compulsory_misses},
          {"excess_miss_sectors", terms.excess_misses}};
}

Json roofline_json(const Known& known) {
  const Roofline roof = roofline(known.request.problem, known.result, known.request.profile);
  const auto or_null = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  return {{"tflop_per_s", roof.tflop_per_s},
          {"peak_tflop_per_s", roof.peak_tflop_per_s},
          {"dram_gb_per_s", roof.dram_gb_per_s},
          {"algorithmic_intensity", roof.algorithmic_intensity},
          {"observed_intensity", or_null(roof.observed_intensity)},
          {"vertical_gap", roof.vertical_gap()},
          {"horizontal_gap", or_null(roof.horizontal_gap())}};
}

class PlainExplanation final : public ExplainedVariant {
 public:
  explicit PlainExplanation(const ExplainRequest& request) : known_(all_known(request)) {}

  void print(std::ostream& out) const override {
    const auto& [problem, profile, subject] = known_.request;
    out << "problem  " << to_string(problem) << " on " << describe(profile.device) << ", "
        << to_string(known_.result.provenance()) << "\n"
        << "variant  " << describe(subject.variant) << " (" << subject.chosen << ")\n"
        << "key      " << to_key(subject.variant) << "\n";
    print_launch(out, known_);
    if (known_.prediction) {
      print_measured(out, problem, known_.result, known_.prediction->time_us);
    }
    print_accesses(out, problem, known_.result);
    if (known_.prediction) {
      print_prediction(out, *known_.prediction);
    }
    print_roofline(out, problem, known_.result, profile);
    print_words(out, problem, known_.result, profile);
  }

  Json json() const override {
    const auto& [problem, profile, subject] = known_.request;
    Json json = {{"provenance", std::string(to_string(known_.result.provenance()))},
                 {"problem", problem},
                 {"device", profile.device},
                 {"profile", profile.id},
                 {"variant", subject.variant},
                 {"key", to_key(subject.variant)},
                 {"chosen", subject.chosen},
                 {"resources", known_.result.resources},
                 {"smem_bytes", known_.geometry.dynamic_smem_bytes},
                 {"threads", known_.geometry.block_x},
                 {"occupancy", occupied_share(known_)},
                 {"ctas_per_sm", known_.occupancy.ctas_per_sm},
                 {"limited_by", known_.occupancy.limited_by},
                 {"ctas", known_.geometry.grid_x},
                 {"waves", waves(known_)},
                 {"roofline", roofline_json(known_)},
                 {"limits", limits_in_words(problem, known_.result, profile)},
                 {"next", next_steps_in_words(problem, known_.result, profile)}};
    json["predicted"] = known_.prediction ? terms_json(*known_.prediction) : Json();
    json["accesses"] = accesses_json(problem, known_.result);
    if (const Measurement* measurement = known_.result.measurement()) {
      json["measured"] = *measurement;
    }
    return json;
  }

 private:
  Known known_;
};

}  // namespace

std::unique_ptr<ExplainedVariant> explain_plainly(const ExplainRequest& request) {
  return std::make_unique<PlainExplanation>(request);
}

}  // namespace swr
