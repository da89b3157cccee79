// SPDX-License-Identifier: MIT
// What is known of a GEMM variant, for people and for programs.
#include "operations/gemm/explained.h"

#include "core/number_text.h"
#include "operations/gemm/model/explanation.h"
#include "operations/gemm/parts.h"
#include "report/explain/analysis.h"
#include "report/explain/describe.h"
#include "report/explain/explain_text.h"
#include "report/explain/memory_access.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <ostream>

namespace swr {
namespace {

struct ExplainedGemm {
  GemmProblem problem;
  GpuProfile profile;
  GemmVariant variant;
  std::string chosen;
  GemmExplanation model;
  /// Measured where there is a measurement, else predicted.
  VariantResult result;
};

VariantResult predicted_result(const ExplainSubject& subject, const GemmExplanation& model) {
  VariantResult result;
  result.variant = subject.variant;
  result.resources = subject.resources;
  result.smem_bytes = static_cast<int>(total_bytes(model.buffers));
  result.ctas_per_sm = model.occupancy.ctas_per_sm;
  result.outcome = as_prediction(model.prediction, model.traffic);
  return result;
}

int threads_of(const ExplainedGemm& all) { return threads_per_cta(all.problem, all.variant); }

double occupied_share(const ExplainedGemm& all) {
  return static_cast<double>(threads_of(all)) * all.model.occupancy.ctas_per_sm /
         all.profile.device.max_threads_per_sm;
}

void print_launch(std::ostream& out, const ExplainedGemm& all) {
  const KernelResources& resources = all.result.resources;
  const GemmExplanation& model = all.model;
  out << "launch (compiler and occupancy)\n";
  line(out, "registers per thread", std::to_string(resources.registers_per_thread));
  line(out, "spills", std::to_string(resources.spill_store_bytes + resources.spill_load_bytes),
       "bytes per thread, stores and loads");
  line(out, "threads", std::to_string(threads_of(all)), "per CTA");
  line(out, "CTAs per SM", std::to_string(model.occupancy.ctas_per_sm),
       "limited by " + model.occupancy.limited_by);
  line(out, "occupancy", percent_text(occupied_share(all)), "of the threads an SM holds at most");
  line(out, "CTAs", grouped_text(model.ctas), "the grid");
  line(out, "tiles", grouped_text(model.launch.schedule.work_items()),
       "of clusters, splits and batch included");
  line(out, "waves", significant_text(model.waves, 3), "tiles over clusters that can run at once");
  line(out, "idle SMs", percent_text(1.0 - model.waves / std::ceil(model.waves)),
       "of the time, as the last round has fewer tiles than the others");
  line(out, "k-blocks", grouped_text(model.traffic.summary.makespan_steps),
       "of the SM that works longest");
}

void print_smem(std::ostream& out, const ExplainedGemm& all) {
  out << "shared memory of a CTA\n";
  for (const NamedBytes& buffer : all.model.buffers) {
    line(out, buffer.name, grouped_text(buffer.bytes), "bytes");
  }
  const long long together = total_bytes(all.model.buffers);
  line(out, "together", grouped_text(together),
       "bytes; alone it would admit " + std::to_string(ctas_by_smem(together, all.profile.device)) +
           " CTAs per SM");
}

/// Lines of a tile start where rows do: at all multiples of what the pitch shares with a line.
void print_pitch(std::ostream& out, const std::string& name, long long row_bytes, double cost) {
  constexpr long long kLine = 128;
  const double starts =
      static_cast<double>(kLine) / static_cast<double>(std::gcd(row_bytes, kLine));
  const bool splits_sectors = row_bytes % kSectorBytes != 0;
  if (starts > 1) {
    line(out, "rows of " + name, grouped_text(row_bytes) + " bytes",
         percent_text(1.0 - 1.0 / starts) + " of a tile's lines lie in two of L2's" +
             (splits_sectors ? ", with an eighth more sectors" : "") + "; loads cost " +
             significant_text(cost, 2) + " times as much");
  }
}

void print_matrices(std::ostream& out, const ExplainedGemm& all) {
  out << "global memory (bytes between L2 and the SMs, from the schedule)\n";
  long long demanded = 0;
  long long compulsory = 0;
  for (const MatrixBytes& matrix : all.model.matrices) {
    line(out, matrix.matrix, grouped_text(matrix.demanded),
         grouped_text(matrix.compulsory) + " compulsory");
    demanded += matrix.demanded;
    compulsory += matrix.compulsory;
  }
  line(out, "amplification",
       significant_text(static_cast<double>(demanded) / static_cast<double>(compulsory), 4),
       "times the compulsory " + grouped_text(compulsory));
  if (all.variant.family == Family::hopper) {
    const LineCosts lines = line_costs_of(all.problem);
    print_pitch(out, "A", a_row_bytes(all.problem), lines.a);
    print_pitch(out, "B", b_row_bytes(all.problem), lines.b);
  }
}

void print_time(std::ostream& out, const GemmPrediction& terms) {
  out << "time (predicted)\n";
  line(out, "products", time_text(terms.matrix_us), "or the shared memory that feeds them");
  line(out, "L2", time_text(terms.l2_us), "sectors over L2 bandwidth");
  line(out, "DRAM", time_text(terms.dram_us), "misses over DRAM bandwidth");
  line(out, "latency", time_text(terms.latency_us),
       "beyond the overlap of these; in it epilogues " + time_text(terms.epilogue_us) +
           ", sums of splits " + time_text(terms.split_us));
  line(out, "total", time_text(terms.time_us),
       std::string("the first three overlap") +
           (terms.relative_error > 0 ? "; uncertain by " + percent_text(terms.relative_error)
                                     : std::string()));
}

void print_traffic(std::ostream& out, const ExplainedGemm& all) {
  const GemmTraffic& traffic = all.model.traffic;
  const long long demanded = traffic.summary.read_sectors + traffic.summary.write_sectors;
  const long long missed = traffic.compulsory_misses + traffic.excess_misses;
  out << "traffic in 32-byte sectors (predicted)\n";
  line(out, "demanded of L2", grouped_text(demanded), with_bytes(demanded));
  line(out, "compulsory misses", grouped_text(traffic.compulsory_misses),
       with_bytes(traffic.compulsory_misses));
  line(out, "capacity misses", grouped_text(traffic.excess_misses),
       with_bytes(traffic.excess_misses) + ", fetched again after eviction");
  line(out, "all misses (DRAM)", grouped_text(missed), with_bytes(missed));
  line(out, "L2, effective", bytes_text(all.profile.l2_effective_bytes),
       "of " + bytes_text(all.profile.device.l2_bytes));
}

Json buffers_json(const GemmExplanation& model) {
  Json buffers = Json::object();
  for (const NamedBytes& buffer : model.buffers) {
    buffers[buffer.name] = buffer.bytes;
  }
  return buffers;
}

Json matrices_json(const GemmExplanation& model) {
  Json matrices = Json::object();
  for (const MatrixBytes& matrix : model.matrices) {
    matrices[matrix.matrix] = {{"demanded_bytes", matrix.demanded},
                               {"compulsory_bytes", matrix.compulsory}};
  }
  return matrices;
}

Json terms_json(const GemmPrediction& terms) {
  return {{"time_us", terms.time_us},     {"relative_error", terms.relative_error},
          {"matrix_us", terms.matrix_us}, {"epilogue_us", terms.epilogue_us},
          {"l2_us", terms.l2_us},         {"dram_us", terms.dram_us},
          {"split_us", terms.split_us},   {"latency_us", terms.latency_us}};
}

Json optional_json(std::optional<double> value) { return value ? Json(*value) : Json(); }

ExplainedGemm explain_all(const ExplainRequest& request) {
  const ExplainSubject& subject = request.subject;
  const auto& problem = request.problem.as<GemmProblem>();
  const auto& variant = subject.variant.as<GemmVariant>();
  ExplainedGemm all{.problem = problem,
                    .profile = request.profile,
                    .variant = variant,
                    .chosen = subject.chosen,
                    .model = explain(problem, variant, subject.resources, request.profile),
                    .result = {}};
  all.result = subject.measured ? *subject.measured : predicted_result(subject, all.model);
  return all;
}

void print_explanation(std::ostream& out, const ExplainedGemm& all) {
  out << "problem  " << to_string(all.problem) << " on " << describe(all.profile.device) << ", "
      << to_string(all.result.provenance()) << "\n"
      << "variant  " << describe(Variant(all.variant)) << " (" << all.chosen << ")\n"
      << "key      " << to_key(all.variant) << "\n";
  print_launch(out, all);
  print_smem(out, all);
  print_matrices(out, all);
  print_measured(out, all.problem, all.result, all.model.prediction.time_us);
  print_accesses(out, all.problem, all.result);
  print_time(out, all.model.prediction);
  print_traffic(out, all);
  print_roofline(out, all.problem, all.result, all.profile);
  print_words(out, all.problem, all.result, all.profile);
}

Json explanation_json(const ExplainedGemm& all) {
  const GemmExplanation& model = all.model;
  const Roofline roof = roofline(all.problem, all.result, all.profile);
  Json json = {{"provenance", std::string(to_string(all.result.provenance()))},
               {"problem", Problem(all.problem)},
               {"device", all.profile.device},
               {"profile", all.profile.id},
               {"variant", Variant(all.variant)},
               {"key", to_key(all.variant)},
               {"chosen", all.chosen},
               {"resources", all.result.resources},
               {"smem_bytes", total_bytes(model.buffers)},
               {"smem_buffers_bytes", buffers_json(model)},
               {"threads", threads_of(all)},
               {"occupancy", occupied_share(all)},
               {"ctas_per_sm", model.occupancy.ctas_per_sm},
               {"limited_by", model.occupancy.limited_by},
               {"ctas", model.ctas},
               {"waves", model.waves},
               {"matrices", matrices_json(model)},
               {"predicted", terms_json(model.prediction)},
               {"compulsory_misses_sectors", model.traffic.compulsory_misses},
               {"excess_miss_sectors", model.traffic.excess_misses},
               {"roofline",
                {{"tflop_per_s", roof.tflop_per_s},
                 {"peak_tflop_per_s", roof.peak_tflop_per_s},
                 {"dram_gb_per_s", roof.dram_gb_per_s},
                 {"algorithmic_intensity", roof.algorithmic_intensity},
                 {"observed_intensity", optional_json(roof.observed_intensity)},
                 {"vertical_gap", roof.vertical_gap()},
                 {"horizontal_gap", optional_json(roof.horizontal_gap())}}},
               {"limits", limits_in_words(all.problem, all.result, all.profile)},
               {"next", next_steps_in_words(all.problem, all.result, all.profile)}};
  json["accesses"] = accesses_json(all.problem, all.result);
  if (const Measurement* measurement = all.result.measurement()) {
    json["measured"] = *measurement;
  }
  return json;
}

class GemmExplained final : public ExplainedVariant {
 public:
  explicit GemmExplained(const ExplainRequest& request) : all_(explain_all(request)) {}

  void print(std::ostream& out) const override { print_explanation(out, all_); }
  Json json() const override { return explanation_json(all_); }

 private:
  ExplainedGemm all_;
};

}  // namespace

std::unique_ptr<ExplainedVariant> explain_gemm(const ExplainRequest& request) {
  return std::make_unique<GemmExplained>(request);
}

}  // namespace swr
