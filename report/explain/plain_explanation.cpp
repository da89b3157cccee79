// SPDX-License-Identifier: MIT
#include "core/number_text.h"
#include "core/operation.h"
#include "core/reject.h"
#include "model/predictor.h"
#include "report/explain/analysis.h"
#include "report/explain/explain_text.h"
#include "report/explain/explanation.h"
#include "report/explain/memory_access.h"

#include <optional>
#include <ostream>
#include <utility>

namespace swr {
namespace {

struct Known : Explained {
  LaunchGeometry geometry = {};
  std::optional<Prediction> prediction = std::nullopt;
};

Known all_known(const ExplainRequest& request) {
  const auto& [problem, profile, subject] = request;
  Known known{explained(request)};
  const int ctas_per_sm = known.fit.ctas_per_sm;
  known.geometry = launch_geometry(problem, subject.variant, profile.device.sm_count, ctas_per_sm);
  known.threads = known.geometry.block_x;
  known.ctas = known.geometry.grid_x;
  if (const auto model = make_predictor(problem.operation(), profile)) {
    known.prediction = model->predict(problem, subject.variant, subject.resources, ctas_per_sm);
  }
  if (!subject.measured && !known.prediction) {
    reject("nothing is measured of " + to_string(problem) +
           " with this variant, and its operation has no model; tune it on a GPU");
  }
  known.result = known_result(known, known.prediction.value_or(Prediction{}),
                              known.geometry.dynamic_smem_bytes);
  known.waves = launch_waves(problem, known.result, profile.device);
  return known;
}

void print_launch(std::ostream& out, const Known& known) {
  Rows rows = launch_rows(known);
  rows.insert(rows.begin() + 3,
              {"shared memory", grouped_text(known.geometry.dynamic_smem_bytes), "bytes per CTA"});
  rows.push_back({"waves", significant_text(known.waves, 3), "CTAs over the places of all SMs"});
  print_rows(out, "launch (compiler and occupancy)", rows);
}

void print_prediction(std::ostream& out, const Prediction& terms) {
  print_rows(out, "time (predicted)",
             {{"products", time_text(terms.matrix_us), "tensor cores"},
              {"exponentials", time_text(terms.softmax_us), "and what goes with them"},
              {"L2", time_text(terms.l2_us), "sectors over L2 bandwidth"},
              {"DRAM", time_text(terms.dram_us), "misses over DRAM bandwidth"},
              {"latency", time_text(terms.latency_us), "waiting that nothing hides"},
              {"total", time_text(terms.time_us), "the first four overlap"}});
  print_rows(out, "traffic in 32-byte sectors (predicted)",
             traffic_rows(terms.read_sectors + terms.write_sectors, terms.compulsory_misses,
                          terms.excess_misses));
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

class PlainExplanation final : public ExplainedVariant {
 public:
  explicit PlainExplanation(const ExplainRequest& request) : known_(all_known(request)) {}

  void print(std::ostream& out) const override {
    print_subject(out, known_);
    print_launch(out, known_);
    if (known_.prediction) {
      print_measured(out, known_, known_.prediction->time_us);
    }
    print_accesses(out, known_);
    if (known_.prediction) {
      print_prediction(out, *known_.prediction);
    }
    print_limits(out, known_);
  }

  Json json() const override {
    Json json = subject_json(known_);
    json["smem_bytes"] = known_.geometry.dynamic_smem_bytes;
    add_launch_json(known_, json);
    json["roofline"] = roofline_json(known_);
    add_words_json(known_, json);
    json["predicted"] = known_.prediction ? terms_json(*known_.prediction) : Json();
    json["accesses"] = accesses_json(known_.request.problem, known_.result);
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
