// SPDX-License-Identifier: MIT
// All that is known of one variant of attention, measured or predicted, and what follows from it.
#include "core/number_text.h"
#include "operations/attention/config.h"
#include "operations/attention/model/cta_memory.h"
#include "operations/attention/model/explanation.h"
#include "operations/attention/parts.h"
#include "report/explain/analysis.h"
#include "report/explain/explain_text.h"
#include "report/explain/memory_access.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/constraints.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>

namespace swr {
namespace {

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

struct ExplainedAttention : Explained {
  AttentionProblem problem;
  AttentionVariant variant;
  ScheduleShape shape = {};
  GlobalBytes bytes = {};
  AttentionExplanation model = {};
  std::optional<OtherOrder> other = std::nullopt;

  const GpuProfile& profile() const { return request.profile; }
};

long long modelled_excess(const ExplainedAttention& all, const AttentionVariant& variant) {
  const ScheduleShape shape =
      schedule_on_gpu(all.problem, variant, all.fit.ctas_per_sm, all.profile());
  return simulate_l2(shape, all.profile().l2_policy()).excess_misses;
}

/// Empty when the other order is no variant of its own, as in launches of one Q tile per CTA.
std::optional<OtherOrder> other_order(const ExplainedAttention& all) {
  const AttentionVariant other =
      in_other_order(all.request.subject.variant)->as<AttentionVariant>();
  if (check_constraints(all.problem, other, all.profile().device)) {
    return std::nullopt;
  }
  if (all.request.subject.measured && all.request.subject.measured_other) {
    const auto own = excess_miss_sectors(all.problem, *all.request.subject.measured);
    const auto its = excess_miss_sectors(all.problem, *all.request.subject.measured_other);
    if (own && its) {
      return OtherOrder{other, *its, *own, Provenance::measured};
    }
  }
  return OtherOrder{other, modelled_excess(all, other), modelled_excess(all, all.variant),
                    Provenance::predicted};
}

ExplainedAttention explain_all(const ExplainRequest& request) {
  ExplainedAttention all{explained(request), request.problem.as<AttentionProblem>(),
                         request.subject.variant.as<AttentionVariant>()};
  const GpuProfile& profile = request.profile;
  all.model = explain(all.problem, all.variant, request.subject.resources, profile);
  all.shape =
      make_schedule_shape(all.problem, all.variant, profile.device.sm_count, all.fit.ctas_per_sm);
  all.threads = threads_per_cta(make_family_config(all.problem, all.variant));
  all.ctas = all.shape.ctas;
  all.waves = static_cast<double>(all.ctas) /
              (static_cast<double>(profile.device.sm_count) * all.fit.ctas_per_sm);
  all.buffers = smem_buffers(all.problem, all.variant);
  all.bytes =
      global_bytes(all.problem, all.variant.tile_m, all.variant.tile_n, all.shape.packed_heads);
  all.result = known_result(all, all.model.prediction, smem_bytes(all.problem, all.variant));
  all.other = other_order(all);
  return all;
}

Json traffic_json(const AttentionExplanation& why) {
  const L2Traffic& traffic = why.traffic;
  const long long demanded = traffic.schedule.read_sectors + traffic.schedule.write_sectors;
  const long long missed = traffic.compulsory_misses + traffic.excess_misses;
  return {{"demanded_sectors", demanded},
          {"compulsory_misses_sectors", traffic.compulsory_misses},
          {"excess_miss_sectors", traffic.excess_misses},
          {"misses_sectors", missed},
          {"l2_bytes", demanded * kSectorBytes},
          {"dram_bytes", missed * kSectorBytes},
          {"hit_rate", traffic.hit_rate()}};
}

Json curve_json(const AttentionExplanation& why) {
  Json points = Json::array();
  for (const MissPoint& point : why.miss_curve) {
    points.push_back(
        {{"capacity_bytes", point.capacity_bytes}, {"excess_miss_sectors", point.excess_misses}});
  }
  return points;
}

/// What the model says, beside the resources and bytes.
void add_model(const AttentionExplanation& why, Json& json) {
  json["kv_steps"] = why.traffic.schedule.steps;
  json["busiest_sm_kv_steps"] = why.traffic.schedule.busiest_sm_steps;
  json["step_clocks"] = {{"matrix", why.step.matrix_clocks},
                         {"softmax", why.step.softmax_clocks},
                         {"compute", why.step.compute_clocks}};
  json["predicted"] = why.prediction;
  json["predicted"]["relative_error"] = why.prediction.relative_error;
  json["predicted"]["miss_wait_us"] = why.miss_wait_us;
  json["traffic"] = traffic_json(why);
  json["first_seq_with_excess"] =
      why.first_seq_with_excess ? Json(*why.first_seq_with_excess) : Json();
  json["miss_curve"] = curve_json(why);
  json["capacity_without_excess_bytes"] = why.capacity_without_excess_bytes;
}

Json global_json(const ExplainedAttention& all) {
  Json json = {{"blocks", all.bytes.blocks},
               {"block_bytes", all.bytes.block()},
               {"total_bytes", all.bytes.total()},
               {"amplification", all.bytes.amplification()}};
  for (const TensorBytes& tensor : all.bytes.tensors) {
    json["tensors"][tensor.tensor] = {{"block_bytes", tensor.block},
                                      {"total_bytes", tensor.total},
                                      {"compulsory_bytes", tensor.compulsory}};
  }
  return json;
}

Json other_order_json(const ExplainedAttention& all) {
  if (!all.other) {
    return {};
  }
  return {{"key", to_key(all.other->variant)},
          {"excess_miss_sectors", all.other->other_sectors},
          {"mb_more", all.other->mb_more()},
          {"provenance", std::string(to_string(all.other->provenance))}};
}

Json explanation_json(const ExplainedAttention& all) {
  Json json = subject_json(all);
  json["smem_bytes"] = total_bytes(all.buffers);
  json["smem_buffers_bytes"] = buffers_json(all);
  json["bank_conflict_ways"] = bank_conflict_ways(all.problem, all.variant);
  add_launch_json(all, json);
  json["global"] = global_json(all);
  json["l2_effective_bytes"] = all.profile().l2_effective_bytes;
  add_model(all.model, json);
  if (const Measurement* measurement = all.result.measurement()) {
    const auto excess = excess_miss_sectors(all.problem, all.result);
    json["measured"] = *measurement;
    json["measured"]["excess_miss_sectors"] = excess ? Json(*excess) : Json();
  }
  json["accesses"] = accesses_json(all.problem, all.result);
  json["roofline"] = roofline_json(all);
  json["roofline"]["unit_use"] = Json::object();
  for (const UnitUse& unit : unit_use(all.problem, all.result, all.profile())) {
    json["roofline"]["unit_use"][unit.unit] = unit.share;
  }
  json["other_order"] = other_order_json(all);
  add_words_json(all, json);
  return json;
}

void print_launch(std::ostream& out, const ExplainedAttention& all) {
  const ScheduleSummary& schedule = all.model.traffic.schedule;
  Rows rows = launch_rows(all);
  rows.push_back({"waves", significant_text(all.waves, 3)});
  rows.push_back({"KV steps", grouped_text(schedule.steps), "of all CTAs"});
  rows.push_back(
      {"busiest SM", grouped_text(schedule.busiest_sm_steps),
       "KV steps; an even share is " +
           significant_text(static_cast<double>(schedule.steps) / all.shape.sm_count, 4)});
  print_rows(out, "launch (compiler and occupancy)", rows);
}

Row conflicts_row(const ExplainedAttention& all) {
  const int ways = bank_conflict_ways(all.problem, all.variant);
  return {"bank conflicts", ways == 1 ? "none" : std::to_string(ways) + " ways",
          "reading K and V, by the layout; what was counted stands under memory accesses"};
}

void print_global(std::ostream& out, const ExplainedAttention& all) {
  Rows rows;
  for (const TensorBytes& tensor : all.bytes.tensors) {
    rows.push_back({tensor.tensor, grouped_text(tensor.total),
                    grouped_text(tensor.block) + " per full block, " +
                        grouped_text(tensor.compulsory) + " compulsory"});
  }
  rows.push_back({"together", grouped_text(all.bytes.total()),
                  grouped_text(all.bytes.block()) + " per full block, " +
                      grouped_text(all.bytes.blocks) + " blocks (Q tiles)"});
  rows.push_back({"amplification", significant_text(all.bytes.amplification(), 4),
                  "times the compulsory " + grouped_text(all.bytes.compulsory())});
  print_rows(out, "global memory (bytes that CTAs demand of L2, from the schedule)", rows);
}

void print_time(std::ostream& out, const AttentionExplanation& why) {
  const Prediction& prediction = why.prediction;
  print_rows(out, "time (predicted)",
             {{"one KV step", significant_text(why.step.compute_clocks, 4),
               "clocks: matrix " + significant_text(why.step.matrix_clocks, 4) + ", softmax " +
                   significant_text(why.step.softmax_clocks, 4)},
              {"matrix", time_text(prediction.matrix_us), "tensor cores or their shared memory"},
              {"softmax", time_text(prediction.softmax_us), "exp2 and fp32 work"},
              {"L2", time_text(prediction.l2_us), "sectors over L2 bandwidth"},
              {"DRAM", time_text(prediction.dram_us), "misses over DRAM bandwidth"},
              {"latency", time_text(prediction.latency_us),
               "waiting, barriers, tails and the launch, on top"},
              {"waiting for misses", time_text(why.miss_wait_us),
               "of the latency: gone if K and V always came from L2"},
              {"total", time_text(prediction.time_us),
               "the first four overlap" + uncertainty_text(prediction.relative_error)}});
}

void print_traffic(std::ostream& out, const AttentionExplanation& why, const GpuProfile& profile) {
  const L2Traffic& traffic = why.traffic;
  Rows rows = traffic_rows(traffic.schedule.read_sectors + traffic.schedule.write_sectors,
                           traffic.compulsory_misses, traffic.excess_misses);
  rows.push_back(all_misses_row(traffic.compulsory_misses + traffic.excess_misses));
  rows.push_back({"hit rate", significant_text(100 * traffic.hit_rate(), 4) + " %"});
  rows.push_back(effective_l2_row(profile));
  rows.push_back(
      {"misses begin at S",
       why.first_seq_with_excess ? "~" + grouped_text(*why.first_seq_with_excess) : "never",
       why.first_seq_with_excess ? "with this variant"
                                 : "up to " + grouped_text(why.longest_seq_walked)});
  print_rows(out, "traffic in 32-byte sectors (predicted)", rows);
}

void print_curve(std::ostream& out, const AttentionExplanation& why, long long l2_effective_bytes) {
  Rows rows;
  for (const MissPoint& point : why.miss_curve) {
    rows.push_back({bytes_text(point.capacity_bytes), grouped_text(point.excess_misses),
                    point.capacity_bytes == l2_effective_bytes ? "this chip" : ""});
  }
  rows.push_back({bytes_text(why.capacity_without_excess_bytes), "0", "the smallest without"});
  print_rows(out, "capacity misses by size of L2 (predicted, no CTA waits for memory)", rows);
}

/// Where both were measured; else explain's list of other choices says it.
std::string other_order_time(const ExplainedAttention& all) {
  const ExplainSubject& subject = all.request.subject;
  return subject.measured && subject.measured_other
             ? " and takes " + time_text(subject.measured_other->time_us()) + " (" +
                   change_text(subject.measured->time_us(), subject.measured_other->time_us()) + ")"
             : "";
}

std::string other_order_text(const ExplainedAttention& all) {
  if (!all.other) {
    return "Here both orders are one, or a constraint drops the other: a CTA has to walk K and V "
           "more than once, as with --persistence persistent or pairs.";
  }
  const double mb = all.other->mb_more();
  const std::string order(to_string(all.other->variant.order));
  const std::string provenance(to_string(all.other->provenance));
  constexpr double kNoticeableMb = 0.1;
  const std::string amount = std::abs(mb) < kNoticeableMb ? "as much"
                                                          : significant_text(std::abs(mb), 4) +
                                                                " MB " + (mb > 0 ? "more" : "less");
  return "All else equal, " + order + " fetches " + amount + other_order_time(all) + " (" +
         provenance + ").";
}

class ExplainedAttentionVariant final : public ExplainedVariant {
 public:
  explicit ExplainedAttentionVariant(const ExplainRequest& request) : all_(explain_all(request)) {}

  void print(std::ostream& out) const override {
    print_subject(out, all_);
    print_launch(out, all_);
    print_smem(out, all_, {conflicts_row(all_)});
    print_global(out, all_);
    print_measured(out, all_, all_.model.prediction.time_us);
    print_accesses(out, all_);
    print_time(out, all_.model);
    print_traffic(out, all_.model, all_.profile());
    print_curve(out, all_.model, all_.profile().l2_effective_bytes);
    print_limits(out, all_);
    out << "  " << other_order_text(all_) << "\n";
  }
  Json json() const override { return explanation_json(all_); }

 private:
  ExplainedAttention all_;
};

}  // namespace

std::unique_ptr<ExplainedVariant> explain_attention(const ExplainRequest& request) {
  return std::make_unique<ExplainedAttentionVariant>(request);
}

}  // namespace swr
