// SPDX-License-Identifier: MIT
// swr-tune explain: all that is known of one variant, measured or predicted, and what it says.
#include "tuner/analysis.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/explained.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/number_text.h"
#include "tuner/report.h"
#include <swr/error.h>

#include <cstdlib>
#include <ostream>
#include <string>

namespace swr::cli {
namespace {

/// One line: name, value, remark.
void line(std::ostream& out, std::string name, const std::string& value,
          const std::string& remark = "") {
  constexpr std::size_t kNameWidth = 26;
  constexpr std::size_t kValueWidth = 14;
  name.resize(kNameWidth, ' ');
  const std::size_t pad = value.size() < kValueWidth ? kValueWidth - value.size() : 0;
  out << "  " << name << std::string(pad, ' ') << value << (remark.empty() ? "" : "  " + remark)
      << "\n";
}

void print_launch(std::ostream& out, const Explained& all) {
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

void print_smem(std::ostream& out, const Explained& all) {
  out << "shared memory of a CTA\n";
  for (const NamedBytes& buffer : all.buffers) {
    line(out, buffer.name, grouped_text(buffer.bytes), "bytes");
  }
  line(out, "together", grouped_text(total_bytes(all.buffers)),
       "bytes; alone it would admit " +
           std::to_string(ctas_by_smem(total_bytes(all.buffers), all.profile.device)) +
           " CTAs per SM");
  const int ways = bank_conflict_ways(all.problem, all.subject.variant);
  line(out, "bank conflicts", ways == 1 ? "none" : std::to_string(ways) + " ways",
       "reading K and V, by the layout; not counted");
}

void print_global(std::ostream& out, const Explained& all) {
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

void print_time(std::ostream& out, const Explanation& why) {
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
  line(out, "total", time_text(prediction.time_us), "the first four overlap");
}

std::string with_bytes(long long sectors) { return bytes_text(sectors * kSectorBytes); }

void print_traffic(std::ostream& out, const Explanation& why, const GpuProfile& profile) {
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
       why.first_seq_with_excess ? "with this variant" : "up to " + grouped_text(kLongestSequence));
}

void print_curve(std::ostream& out, const Explanation& why, long long l2_effective_bytes) {
  out << "capacity misses by size of L2 (predicted, no CTA waits for memory)\n";
  for (const MissPoint& point : why.miss_curve) {
    line(out, bytes_text(point.capacity_bytes), grouped_text(point.excess_misses),
         point.capacity_bytes == l2_effective_bytes ? "this chip" : "");
  }
  line(out, bytes_text(why.capacity_without_excess_bytes), "0", "the smallest without");
}

void print_counters(std::ostream& out, const Explained& all, const Measurement& measurement) {
  if (!measurement.counters) {
    line(out, "counters", "none", measurement.counters_missing_because);
    return;
  }
  const Counters& counters = *measurement.counters;
  const long long compulsory = compulsory_sectors(all.problem);
  line(out, "demanded of L2", grouped_text(counters.sectors_demanded),
       "read sectors, " + with_bytes(counters.sectors_demanded));
  line(out, "L2 misses", grouped_text(counters.l2_misses),
       "of " + grouped_text(counters.l2_lookups) + " lookups");
  line(out, "compulsory", grouped_text(compulsory), with_bytes(compulsory));
  if (const auto excess = excess_miss_sectors(all.problem, all.result)) {
    line(out, "excess", grouped_text(*excess),
         with_bytes(*excess) + ", fetched again after eviction");
  }
  line(out, "memory read, written", bytes_text(counters.dram_read_bytes),
       bytes_text(counters.dram_write_bytes));
}

void print_measured(std::ostream& out, const Explained& all) {
  const Measurement* measurement = all.result.measurement();
  if (measurement == nullptr) {
    return;
  }
  out << "measured, " << to_string(measurement->l2_state) << " L2\n";
  line(out, "time", time_text(measurement->median_us),
       "median; p95 " + time_text(measurement->p95_us));
  line(out, "predicted time", time_text(all.model.prediction.time_us),
       change_text(measurement->median_us, all.model.prediction.time_us) + " against the measured");
  print_counters(out, all, *measurement);
}

void print_roofline(std::ostream& out, const Explained& all) {
  const Roofline roof = roofline(all.problem, all.result, all.profile);
  const double intensity = roof.observed_intensity.value_or(roof.algorithmic_intensity);
  out << "roofline (" << to_string(all.result.provenance()) << ", roofs of profile "
      << all.profile.id << ")\n";
  line(out, "rate", significant_text(roof.tflop_per_s, 4),
       "TFLOP/s of " + significant_text(roof.roof_tflop_per_s(intensity), 4) +
           " under the roof there");
  line(out, "intensity, algorithmic", significant_text(roof.algorithmic_intensity, 4),
       "FLOP per compulsory byte");
  line(out, "intensity, observed",
       roof.observed_intensity ? significant_text(*roof.observed_intensity, 4) : "unknown",
       "FLOP per byte of memory");
  line(out, "vertical gap", significant_text(roof.vertical_gap(), 3), "times below the roof");
  line(out, "horizontal gap",
       roof.horizontal_gap() ? significant_text(*roof.horizontal_gap(), 3) : "unknown",
       "times the compulsory bytes");
  for (const UnitUse& unit : unit_use(all.problem, all.result, all.profile)) {
    line(out, unit.unit, percent_text(unit.share), "of the time, at full rate");
  }
}

std::string other_order_text(const Explained& all) {
  if (!all.other) {
    return "The other order is no variant of its own here (one Q tile per CTA, or a constraint).";
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

void print_words(std::ostream& out, const Explained& all) {
  out << "what limits it\n";
  for (const std::string& sentence : limits_in_words(all.problem, all.result, all.profile)) {
    out << "  " << sentence << "\n";
  }
  out << "what to try next\n";
  for (const std::string& sentence : next_steps_in_words(all.problem, all.result, all.profile)) {
    out << "  " << sentence << "\n";
  }
  out << "  " << other_order_text(all) << "\n";
}

void print_explanation(std::ostream& out, const Explained& all) {
  out << "problem  " << to_string(all.problem) << " on " << describe(all.profile.device) << ", "
      << to_string(all.result.provenance()) << "\n"
      << "variant  " << describe(all.subject.variant) << " (" << all.subject.chosen << ")\n"
      << "key      " << to_key(all.subject.variant) << "\n";
  print_launch(out, all);
  print_smem(out, all);
  print_global(out, all);
  print_measured(out, all);
  print_time(out, all.model);
  print_traffic(out, all.model, all.profile);
  print_curve(out, all.model, all.profile.l2_effective_bytes);
  print_roofline(out, all);
  print_words(out, all);
}

}  // namespace

namespace {

/// Throws: Error{invalid_argument} for what explain does not know.
const AttentionProblem& require_attention(const Problem& problem) {
  if (op_of(problem) != Op::attention) {
    throw Error(ErrorCode::invalid_argument,
                "explain knows attention alone so far; swr-tune query --op gemm says what was "
                "measured");
  }
  return std::get<AttentionProblem>(problem);
}

}  // namespace

int run_explain(const Session& session) {
  const GpuChoice gpu = choose_gpu(session.options.gpu);
  const GpuProfile profile = gpu.profile ? *gpu.profile : profile_for_device(gpu.device);
  Json document = Json::object();
  document["explanations"] = Json::array();
  for (const Problem& asked : problems(session.options.problem)) {
    const AttentionProblem& problem = require_attention(asked);
    const Explained all = explain_all(problem, profile, choose_subject(session, problem, profile));
    if (session.options.json) {
      document["explanations"].push_back(explanation_json(all));
    } else {
      print_explanation(session.out, all);
    }
  }
  if (session.options.json) {
    session.out << json_document(document);
  }
  return kExitSuccess;
}

}  // namespace swr::cli
