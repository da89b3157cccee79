// SPDX-License-Identifier: MIT
// swr-tune explain: every term of one variant's prediction.
#include "core/json.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/compile_queue.h"
#include "tuner/model/explanation.h"
#include "tuner/model/predicting_evaluator.h"
#include "tuner/number_text.h"
#include "tuner/report.h"
#include "tuner/text_table.h"
#include "tuner/tuner.h"
#include <swr/error.h>
#include <swr/store.h>

#include <algorithm>
#include <ostream>
#include <thread>

namespace swr::cli {
namespace {

/// The variant to explain and where it comes from.
struct Subject {
  Variant variant;
  KernelResources resources;
  std::string chosen;
};

Subject named_subject(const Session& session, const AttentionProblem& problem,
                      const DeviceInfo& device) {
  const Variant variant = parse_variant(session.options.variant_key);
  if (const auto dropped = check_constraints(problem, variant, device)) {
    throw Error(ErrorCode::invalid_argument,
                "--variant breaks the constraint " + dropped->constraint + ": " + dropped->reason);
  }
  const Generator generator(generator_options(session));
  return {variant, generator.compile(problem, variant, device.sm_arch).resources,
          "named by --variant"};
}

/// Empty when there is no database, or nothing in it for exactly this problem and device.
std::optional<Subject> stored_subject(const Session& session, const AttentionProblem& problem,
                                      const DeviceInfo& device) {
  if (!std::filesystem::exists(database_path(session))) {
    return std::nullopt;
  }
  const Store store(database_path(session), Store::Mode::read_only);
  const auto match = store.best(problem, device, setting(session));
  if (!match || match->problem != problem || !same_device(match->device, device)) {
    return std::nullopt;
  }
  return Subject{match->result.variant, match->result.resources,
                 "best stored (" + std::string(to_string(match->result.provenance())) + " " +
                     time_text(match->result.time_us()) + ")"};
}

/// Compiles and predicts the whole space; nothing is stored.
Subject predicted_subject(const Session& session, const AttentionProblem& problem,
                          const GpuProfile& profile) {
  const auto groups = group_by_kernel(require_variants(problem, profile.device, {}).variants);
  std::vector<Variant> kernels;
  for (const auto& group : groups) {
    kernels.push_back(group.front());
  }
  const Generator generator(generator_options(session));
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  CompileQueue queue(threads, [&](const Variant& variant) {
    return generator.compile(problem, variant, profile.device.sm_arch);
  });
  queue.want(kernels);
  PredictingEvaluator evaluator(profile);
  std::optional<VariantResult> best;
  for (const auto& group : groups) {
    const CompiledKernel kernel = queue.take(group.front());
    for (const Variant& variant : group) {
      const VariantResult result = evaluator.evaluate(problem, variant, kernel);
      if (result.state == ResultState::ok && (!best || result.time_us() < best->time_us())) {
        best = result;
      }
    }
  }
  if (!best) {
    throw Error(ErrorCode::compile_failed, "no variant of " + to_string(problem) +
                                               " survives compilation; see swr-tune --dry-run");
  }
  return {best->variant, best->resources, "best predicted; nothing is stored for this problem"};
}

Subject choose_subject(const Session& session, const AttentionProblem& problem,
                       const GpuProfile& profile) {
  if (!session.options.variant_key.empty()) {
    return named_subject(session, problem, profile.device);
  }
  const auto stored = stored_subject(session, problem, profile.device);
  return stored ? *stored : predicted_subject(session, problem, profile);
}

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

void print_launch(std::ostream& out, const AttentionProblem& problem, const Subject& subject,
                  const Explanation& why) {
  out << "launch (compiler and occupancy)\n";
  line(out, "registers per thread", std::to_string(subject.resources.registers_per_thread));
  line(out, "shared memory", bytes_text(smem_bytes(problem, subject.variant)), "per CTA");
  line(out, "CTAs per SM", std::to_string(why.occupancy.ctas_per_sm),
       "limited by " + why.occupancy.limited_by);
  line(out, "CTAs", grouped_text(why.shape.ctas));
  line(out, "waves", significant_text(why.waves, 3));
  line(out, "KV steps", grouped_text(why.traffic.schedule.steps), "of all CTAs");
  line(out, "busiest SM", grouped_text(why.traffic.schedule.busiest_sm_steps),
       "KV steps; an even share is " +
           significant_text(static_cast<double>(why.traffic.schedule.steps) / why.shape.sm_count,
                            4));
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

Json traffic_json(const Explanation& why) {
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

Json curve_json(const Explanation& why) {
  Json points = Json::array();
  for (const MissPoint& point : why.miss_curve) {
    points.push_back(
        {{"capacity_bytes", point.capacity_bytes}, {"excess_miss_sectors", point.excess_misses}});
  }
  return points;
}

Json explanation_json(const AttentionProblem& problem, const GpuProfile& profile,
                      const Subject& subject, const Explanation& why) {
  Json json = Json::object();
  json["provenance"] = std::string(to_string(Provenance::predicted));
  json["problem"] = problem;
  json["device"] = profile.device;
  json["profile"] = profile.id;
  json["variant"] = subject.variant;
  json["key"] = to_key(subject.variant);
  json["chosen"] = subject.chosen;
  json["resources"] = subject.resources;
  json["smem_bytes"] = smem_bytes(problem, subject.variant);
  json["ctas_per_sm"] = why.occupancy.ctas_per_sm;
  json["limited_by"] = why.occupancy.limited_by;
  json["ctas"] = why.shape.ctas;
  json["waves"] = why.waves;
  json["kv_steps"] = why.traffic.schedule.steps;
  json["busiest_sm_kv_steps"] = why.traffic.schedule.busiest_sm_steps;
  json["step_clocks"] = {{"matrix", why.step.matrix_clocks},
                         {"softmax", why.step.softmax_clocks},
                         {"compute", why.step.compute_clocks}};
  json["predicted"] = why.prediction;
  json["traffic"] = traffic_json(why);
  json["l2_effective_bytes"] = profile.l2_effective_bytes;
  json["first_seq_with_excess"] =
      why.first_seq_with_excess ? Json(*why.first_seq_with_excess) : Json();
  json["miss_curve"] = curve_json(why);
  json["capacity_without_excess_bytes"] = why.capacity_without_excess_bytes;
  return json;
}

void print_explanation(std::ostream& out, const AttentionProblem& problem,
                       const GpuProfile& profile, const Subject& subject, const Explanation& why) {
  out << "problem  " << to_string(problem) << " on " << describe(profile.device) << ", predicted\n"
      << "variant  " << describe(subject.variant) << " (" << subject.chosen << ")\n"
      << "key      " << to_key(subject.variant) << "\n";
  print_launch(out, problem, subject, why);
  print_time(out, why);
  print_traffic(out, why, profile);
  print_curve(out, why, profile.l2_effective_bytes);
}

}  // namespace

int run_explain(const Session& session) {
  const GpuChoice gpu = choose_gpu(session.options.gpu);
  const GpuProfile profile = gpu.profile ? *gpu.profile : profile_for_device(gpu.device);
  Json document = Json::object();
  document["explanations"] = Json::array();
  for (const AttentionProblem& problem : problems(session.options.problem)) {
    const Subject subject = choose_subject(session, problem, profile);
    const Explanation why = explain(problem, subject.variant, subject.resources, profile);
    if (session.options.json) {
      document["explanations"].push_back(explanation_json(problem, profile, subject, why));
    } else {
      print_explanation(session.out, problem, profile, subject, why);
    }
  }
  if (session.options.json) {
    session.out << json_document(document);
  }
  return kExitSuccess;
}

}  // namespace swr::cli
