// SPDX-License-Identifier: MIT
// An explanation of attention for people.
#include "core/number_text.h"
#include "operations/attention/explained.h"
#include "report/explain/describe.h"
#include "report/explain/explain_text.h"

#include <cmath>
#include <cstdlib>
#include <ostream>
#include <string>

namespace swr {
namespace {

void print_launch(std::ostream& out, const ExplainedAttention& all) {
  const KernelResources& resources = all.subject.resources;
  out << "launch (compiler and occupancy)\n";
  line(out, "registers per thread", std::to_string(resources.registers_per_thread));
  line(out, "spills", std::to_string(resources.spill_store_bytes + resources.spill_load_bytes),
       "bytes per thread, stores and loads");
  line(out, "threads", std::to_string(all.threads()), "per CTA");
  line(out, "CTAs per SM", std::to_string(all.fit.ctas_per_sm), "limited by " + all.fit.limited_by);
  line(out, "occupancy", percent_text(all.occupancy()), "of the threads an SM holds at most");
  line(out, "CTAs", grouped_text(all.shape.ctas), "the grid");
  line(out, "waves", significant_text(all.waves(), 3));
  const ScheduleSummary& schedule = all.model.traffic.schedule;
  line(out, "KV steps", grouped_text(schedule.steps), "of all CTAs");
  line(out, "busiest SM", grouped_text(schedule.busiest_sm_steps),
       "KV steps; an even share is " +
           significant_text(static_cast<double>(schedule.steps) / all.shape.sm_count, 4));
}

void print_smem(std::ostream& out, const ExplainedAttention& all) {
  out << "shared memory of a CTA\n";
  for (const NamedBytes& buffer : all.buffers) {
    line(out, buffer.name, grouped_text(buffer.bytes), "bytes");
  }
  line(out, "together", grouped_text(total_bytes(all.buffers)),
       "bytes; alone it would admit " +
           std::to_string(ctas_by_smem(total_bytes(all.buffers), all.profile.device)) +
           " CTAs per SM");
  const int ways = bank_conflict_ways(all.problem, all.variant);
  line(out, "bank conflicts", ways == 1 ? "none" : std::to_string(ways) + " ways",
       "reading K and V, by the layout; what was counted stands under memory accesses");
}

void print_global(std::ostream& out, const ExplainedAttention& all) {
  out << "global memory (bytes that CTAs demand of L2, from the schedule)\n";
  for (const TensorBytes& tensor : all.bytes.tensors) {
    line(out, tensor.tensor, grouped_text(tensor.total),
         grouped_text(tensor.block) + " per full block, " + grouped_text(tensor.compulsory) +
             " compulsory");
  }
  line(out, "together", grouped_text(all.bytes.total()),
       grouped_text(all.bytes.block()) + " per full block, " + grouped_text(all.bytes.blocks) +
           " blocks (Q tiles)");
  line(out, "amplification", significant_text(all.bytes.amplification(), 4),
       "times the compulsory " + grouped_text(all.bytes.compulsory()));
}

void print_time(std::ostream& out, const AttentionExplanation& why) {
  const Prediction& prediction = why.prediction;
  out << "time (predicted)\n";
  line(out, "one KV step", significant_text(why.step.compute_clocks, 4),
       "clocks: matrix " + significant_text(why.step.matrix_clocks, 4) + ", softmax " +
           significant_text(why.step.softmax_clocks, 4));
  line(out, "matrix", time_text(prediction.matrix_us), "tensor cores or their shared memory");
  line(out, "softmax", time_text(prediction.softmax_us), "exp2 and fp32 work");
  line(out, "L2", time_text(prediction.l2_us), "sectors over L2 bandwidth");
  line(out, "DRAM", time_text(prediction.dram_us), "misses over DRAM bandwidth");
  line(out, "latency", time_text(prediction.latency_us),
       "waiting, barriers, tails and the launch, on top");
  line(out, "total", time_text(prediction.time_us),
       std::string("the first four overlap") +
           (prediction.relative_error > 0
                ? "; uncertain by " + percent_text(prediction.relative_error)
                : std::string()));
}

void print_traffic(std::ostream& out, const AttentionExplanation& why, const GpuProfile& profile) {
  const L2Traffic& traffic = why.traffic;
  const long long demanded = traffic.schedule.read_sectors + traffic.schedule.write_sectors;
  const long long missed = traffic.compulsory_misses + traffic.excess_misses;
  out << "traffic in 32-byte sectors (predicted)\n";
  line(out, "demanded of L2", grouped_text(demanded), with_bytes(demanded));
  line(out, "compulsory misses", grouped_text(traffic.compulsory_misses),
       with_bytes(traffic.compulsory_misses));
  line(out, "capacity misses", grouped_text(traffic.excess_misses),
       with_bytes(traffic.excess_misses) + ", fetched again after eviction");
  line(out, "all misses (DRAM)", grouped_text(missed), with_bytes(missed));
  line(out, "hit rate", significant_text(100 * traffic.hit_rate(), 4) + " %");
  line(out, "L2, effective", bytes_text(profile.l2_effective_bytes),
       "of " + bytes_text(profile.device.l2_bytes));
  line(out, "misses begin at S",
       why.first_seq_with_excess ? "~" + grouped_text(*why.first_seq_with_excess) : "never",
       why.first_seq_with_excess ? "with this variant"
                                 : "up to " + grouped_text(why.longest_seq_walked));
}

void print_curve(std::ostream& out, const AttentionExplanation& why, long long l2_effective_bytes) {
  out << "capacity misses by size of L2 (predicted, no CTA waits for memory)\n";
  for (const MissPoint& point : why.miss_curve) {
    line(out, bytes_text(point.capacity_bytes), grouped_text(point.excess_misses),
         point.capacity_bytes == l2_effective_bytes ? "this chip" : "");
  }
  line(out, bytes_text(why.capacity_without_excess_bytes), "0", "the smallest without");
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
  if (std::abs(mb) < kNoticeableMb) {
    return "The order costs nothing: " + order + " fetches as much (" + provenance + ").";
  }
  return "All else equal, " + order + " fetches " + significant_text(std::abs(mb), 4) + " MB " +
         (mb > 0 ? "more" : "less") + " (" + provenance + ").";
}

void print_explanation(std::ostream& out, const ExplainedAttention& all) {
  out << "problem  " << to_string(all.problem) << " on " << describe(all.profile.device) << ", "
      << to_string(all.result.provenance()) << "\n"
      << "variant  " << describe(all.subject.variant) << " (" << all.subject.chosen << ")\n"
      << "key      " << to_key(all.variant) << "\n";
  print_launch(out, all);
  print_smem(out, all);
  print_global(out, all);
  print_measured(out, all.problem, all.result, all.model.prediction.time_us);
  print_accesses(out, all.problem, all.result);
  print_time(out, all.model);
  print_traffic(out, all.model, all.profile);
  print_curve(out, all.model, all.profile.l2_effective_bytes);
  print_roofline(out, all.problem, all.result, all.profile);
  print_words(out, all.problem, all.result, all.profile);
  out << "  " << other_order_text(all) << "\n";
}

class ExplainedAttentionVariant final : public ExplainedVariant {
 public:
  explicit ExplainedAttentionVariant(const ExplainRequest& request) : all_(explain_all(request)) {}

  void print(std::ostream& out) const override { print_explanation(out, all_); }
  Json json() const override { return explanation_json(all_); }

 private:
  ExplainedAttention all_;
};

}  // namespace

std::unique_ptr<ExplainedVariant> explain_attention(const ExplainRequest& request) {
  return std::make_unique<ExplainedAttentionVariant>(request);
}

}  // namespace swr
