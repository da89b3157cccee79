// SPDX-License-Identifier: MIT
#include "operations/attention/explained.h"
#include "report/explain/analysis.h"
#include "report/explain/memory_access.h"

#include <utility>

namespace swr {
namespace {

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
  json["traffic"] = traffic_json(why);
  json["first_seq_with_excess"] =
      why.first_seq_with_excess ? Json(*why.first_seq_with_excess) : Json();
  json["miss_curve"] = curve_json(why);
  json["capacity_without_excess_bytes"] = why.capacity_without_excess_bytes;
}

Json buffers_json(const ExplainedAttention& all) {
  Json buffers = Json::object();
  for (const NamedBytes& buffer : all.buffers) {
    buffers[buffer.name] = buffer.bytes;
  }
  return buffers;
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

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json roofline_json(const ExplainedAttention& all) {
  const Roofline roof = roofline(all.problem, all.result, all.profile);
  Json use = Json::object();
  for (const UnitUse& unit : unit_use(all.problem, all.result, all.profile)) {
    use[unit.unit] = unit.share;
  }
  return {{"tflop_per_s", roof.tflop_per_s},
          {"peak_tflop_per_s", roof.peak_tflop_per_s},
          {"dram_gb_per_s", roof.dram_gb_per_s},
          {"algorithmic_intensity", roof.algorithmic_intensity},
          {"observed_intensity", or_null(roof.observed_intensity)},
          {"vertical_gap", roof.vertical_gap()},
          {"horizontal_gap", or_null(roof.horizontal_gap())},
          {"unit_use", std::move(use)}};
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

}  // namespace

Json explanation_json(const ExplainedAttention& all) {
  const ExplainSubject& subject = all.subject;
  Json json = Json::object();
  json["provenance"] = std::string(to_string(all.result.provenance()));
  json["problem"] = Problem(all.problem);
  json["device"] = all.profile.device;
  json["profile"] = all.profile.id;
  json["variant"] = Variant(all.variant);
  json["key"] = to_key(all.variant);
  json["chosen"] = subject.chosen;
  json["resources"] = subject.resources;
  json["smem_bytes"] = total_bytes(all.buffers);
  json["smem_buffers_bytes"] = buffers_json(all);
  json["bank_conflict_ways"] = bank_conflict_ways(all.problem, all.variant);
  json["threads"] = all.threads();
  json["occupancy"] = all.occupancy();
  json["ctas_per_sm"] = all.fit.ctas_per_sm;
  json["limited_by"] = all.fit.limited_by;
  json["ctas"] = all.shape.ctas;
  json["waves"] = all.waves();
  json["global"] = global_json(all);
  json["l2_effective_bytes"] = all.profile.l2_effective_bytes;
  add_model(all.model, json);
  if (const Measurement* measurement = all.result.measurement()) {
    json["measured"] = *measurement;
    json["measured"]["excess_miss_sectors"] = or_null(excess_miss_sectors(all.problem, all.result));
  }
  json["accesses"] = accesses_json(all.problem, all.result);
  json["roofline"] = roofline_json(all);
  json["other_order"] = other_order_json(all);
  json["limits"] = limits_in_words(all.problem, all.result, all.profile);
  json["next"] = next_steps_in_words(all.problem, all.result, all.profile);
  return json;
}

}  // namespace swr
