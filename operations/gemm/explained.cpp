// SPDX-License-Identifier: MIT
// What is known of a GEMM variant, for people and for programs.
#include "core/number_text.h"
#include "operations/gemm/model/explanation.h"
#include "operations/gemm/parts.h"
#include "report/explain/analysis.h"
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

/// Reads of an operand from memory, beyond which its order is worth a sentence.
constexpr double kOftenRead = 2.0;

struct ExplainedGemm : Explained {
  GemmProblem problem;
  GemmVariant variant;
  GemmExplanation model = {};
  /// Where this order reads an operand again and again.
  std::optional<OtherOrder> other_order = {};
};

void print_launch(std::ostream& out, const ExplainedGemm& all) {
  const GemmExplanation& model = all.model;
  Rows rows = launch_rows(all);
  rows.push_back({"tiles", grouped_text(model.launch.schedule.work_items()),
                  "of clusters, splits and batch included"});
  rows.push_back(
      {"waves", significant_text(all.waves, 3), "tiles over clusters that can run at once"});
  rows.push_back({"idle SMs", percent_text(1.0 - all.waves / std::ceil(all.waves)),
                  "of the time, as the last round has fewer tiles than the others"});
  rows.push_back({"k-blocks", grouped_text(model.traffic.summary.makespan_steps),
                  "of the SM that works longest"});
  print_rows(out, "launch (compiler and occupancy)", rows);
}

/// Lines of a tile start where rows do: at all multiples of what the pitch shares with a line.
void add_pitch(Rows& rows, const std::string& name, long long row_bytes, double cost) {
  constexpr long long kLine = 128;
  const double starts =
      static_cast<double>(kLine) / static_cast<double>(std::gcd(row_bytes, kLine));
  const bool splits_sectors = row_bytes % kSectorBytes != 0;
  if (starts > 1) {
    rows.push_back({"rows of " + name, grouped_text(row_bytes) + " bytes",
                    percent_text(1.0 - 1.0 / starts) + " of a tile's lines lie in two of L2's" +
                        (splits_sectors ? ", with an eighth more sectors" : "") + "; loads cost " +
                        significant_text(cost, 2) + " times as much"});
  }
}

void print_matrices(std::ostream& out, const ExplainedGemm& all) {
  Rows rows;
  long long demanded = 0;
  long long compulsory = 0;
  for (const MatrixBytes& matrix : all.model.matrices) {
    rows.push_back({matrix.matrix, grouped_text(matrix.demanded),
                    grouped_text(matrix.compulsory) + " compulsory"});
    demanded += matrix.demanded;
    compulsory += matrix.compulsory;
  }
  rows.push_back(
      {"amplification",
       significant_text(static_cast<double>(demanded) / static_cast<double>(compulsory), 4),
       "times the compulsory " + grouped_text(compulsory)});
  if (all.variant.family == Family::hopper && all.model.prediction.copy_us == 0.0) {
    const LineCosts lines = line_costs_of(all.problem, all.variant.family);
    add_pitch(rows, "A", a_row_bytes(all.problem), lines.a);
    add_pitch(rows, "B", b_row_bytes(all.problem), lines.b);
  }
  print_rows(out, "global memory (bytes between L2 and the SMs, from the schedule)", rows);
}

void print_time(std::ostream& out, const GemmPrediction& terms) {
  Rows rows{{"products", time_text(terms.matrix_us), "or the shared memory that feeds them"},
            {"L2", time_text(terms.l2_us), "sectors over L2 bandwidth"},
            {"DRAM", time_text(terms.dram_us), "misses over DRAM bandwidth"},
            {"latency", time_text(terms.latency_us),
             "beyond the overlap of these; in it epilogues " + time_text(terms.epilogue_us) +
                 ", sums of splits " + time_text(terms.split_us)}};
  if (terms.copy_us > 0.0) {
    rows.push_back({"copies", time_text(terms.copy_us),
                    "of A and B to rows of whole lines, before the product"});
  }
  rows.push_back({"total", time_text(terms.time_us),
                  "the first three overlap" + uncertainty_text(terms.relative_error)});
  print_rows(out, "time (predicted)", rows);
}

void print_traffic(std::ostream& out, const ExplainedGemm& all) {
  const GemmTraffic& traffic = all.model.traffic;
  Rows rows = traffic_rows(traffic.summary.read_sectors + traffic.summary.write_sectors,
                           traffic.compulsory_misses, traffic.excess_misses);
  rows.push_back(all_misses_row(traffic.compulsory_misses + traffic.excess_misses));
  rows.push_back(effective_l2_row(all.request.profile));
  print_rows(out, "traffic in 32-byte sectors (predicted)", rows);
}

/// "once", "1.3 times", "128 times".
std::string times_text(double times) {
  constexpr double kOnce = 1.05;
  return times < kOnce ? "once" : significant_text(times, 2) + " times";
}

std::string reads_text(const OperandReads& reads) {
  return "A " + times_text(reads.a) + " and B " + times_text(reads.b);
}

void print_order(std::ostream& out, const ExplainedGemm& all) {
  constexpr double kNoticeable = 0.98;
  if (all.model.reads.most() <= kOftenRead) {
    return;
  }
  out << "  From memory this order, " << raster_text(all.variant) << ", reads "
      << reads_text(all.model.reads);
  const double time_us = all.model.prediction.time_us;
  if (all.other_order && all.other_order->time_us < kNoticeable * time_us) {
    out << "; " << raster_text(all.other_order->variant) << " reads "
        << reads_text(all.other_order->reads) << " and changes the time by "
        << change_text(time_us, all.other_order->time_us) << " (predicted).\n";
  } else {
    out << "; no other order saves 2 % of the time (predicted).\n";
  }
}

Json reads_json(const OperandReads& reads) { return {{"A", reads.a}, {"B", reads.b}}; }

Json order_json(const ExplainedGemm& all) {
  Json json{{"raster", raster_text(all.variant)}, {"reads", reads_json(all.model.reads)}};
  if (all.other_order) {
    const auto& [variant, reads, time_us] = *all.other_order;
    json["fastest_other"] = {{"raster", raster_text(variant)},
                             {"key", to_key(variant)},
                             {"reads", reads_json(reads)},
                             {"time_ratio", time_us / all.model.prediction.time_us}};
  }
  return json;
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
  return {{"time_us", terms.time_us},      {"relative_error", terms.relative_error},
          {"matrix_us", terms.matrix_us},  {"epilogue_us", terms.epilogue_us},
          {"l2_us", terms.l2_us},          {"dram_us", terms.dram_us},
          {"split_us", terms.split_us},    {"copy_us", terms.copy_us},
          {"latency_us", terms.latency_us}};
}

ExplainedGemm explain_all(const ExplainRequest& request) {
  ExplainedGemm all{explained(request), request.problem.as<GemmProblem>(),
                    request.subject.variant.as<GemmVariant>()};
  all.model = explain(all.problem, all.variant, request.subject.resources, request.profile);
  all.threads = threads_per_cta(all.problem, all.variant);
  if (all.model.reads.most() > kOftenRead) {
    all.other_order = fastest_other_order(all.problem, all.variant, all.model.occupancy.ctas_per_sm,
                                          request.profile);
  }
  all.ctas = all.model.ctas;
  all.waves = all.model.waves;
  all.buffers = all.model.buffers;
  all.result = known_result(all, as_prediction(all.model.prediction, all.model.traffic),
                            static_cast<int>(total_bytes(all.buffers)));
  return all;
}

Json explanation_json(const ExplainedGemm& all) {
  const GemmExplanation& model = all.model;
  Json json = subject_json(all);
  json["smem_bytes"] = total_bytes(all.buffers);
  json["smem_buffers_bytes"] = buffers_json(all);
  add_launch_json(all, json);
  json["matrices"] = matrices_json(model);
  json["predicted"] = terms_json(model.prediction);
  json["compulsory_misses_sectors"] = model.traffic.compulsory_misses;
  json["excess_miss_sectors"] = model.traffic.excess_misses;
  json["order"] = order_json(all);
  json["roofline"] = roofline_json(all);
  add_words_json(all, json);
  json["accesses"] = accesses_json(all.problem, all.result);
  if (const Measurement* measurement = all.result.measurement()) {
    json["measured"] = *measurement;
  }
  return json;
}

class GemmExplained final : public ExplainedVariant {
 public:
  explicit GemmExplained(const ExplainRequest& request) : all_(explain_all(request)) {}

  void print(std::ostream& out) const override {
    print_subject(out, all_);
    print_launch(out, all_);
    print_smem(out, all_);
    print_matrices(out, all_);
    print_measured(out, all_, all_.model.prediction.time_us);
    print_accesses(out, all_);
    print_time(out, all_.model.prediction);
    print_traffic(out, all_);
    print_order(out, all_);
    print_limits(out, all_);
  }
  Json json() const override { return explanation_json(all_); }

 private:
  ExplainedGemm all_;
};

}  // namespace

std::unique_ptr<ExplainedVariant> explain_gemm(const ExplainRequest& request) {
  return std::make_unique<GemmExplained>(request);
}

}  // namespace swr
