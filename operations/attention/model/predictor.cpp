// SPDX-License-Identifier: MIT
#include "model/l2/traffic_memo.h"
#include "operations/attention/config.h"
#include "operations/attention/model/time.h"
#include "operations/attention/model/walk.h"
#include "operations/attention/parts.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <algorithm>

namespace swr {
namespace {

class AttentionPredictor final : public Predictor {
 public:
  explicit AttentionPredictor(const GpuProfile& profile)
      : profile_(profile), walks_(simulate_l2, profile.l2_policy()) {}

  Prediction predict(const Problem& problem, const Variant& variant,
                     const KernelResources& resources, int ctas_per_sm) override {
    const auto& asked = problem.as<AttentionProblem>();
    const auto& chosen = variant.as<AttentionVariant>();
    const ScheduleShape shape = schedule_on_gpu(asked, chosen, ctas_per_sm, profile_);
    return predict_time(asked, chosen, resources, shape, traffic(shape), profile_);
  }

  std::optional<std::string> beyond_limits(const Problem& problem, const Variant& variant,
                                           int ctas_per_sm) const override {
    return beyond_walk_limits(schedule_on_gpu(
        problem.as<AttentionProblem>(), variant.as<AttentionVariant>(), ctas_per_sm, profile_));
  }

  void prepare(const Problem& problem, const Variant& variant, int ctas_per_sm) override {
    const ScheduleShape shape = schedule_on_gpu(
        problem.as<AttentionProblem>(), variant.as<AttentionVariant>(), ctas_per_sm, profile_);
    if (const auto grid = grid_in_turn(shape)) {
      const std::optional<L2Traffic> walked = walks_.prepare(*grid);
      if (!walked || walked->schedule.in_turn) {
        return;  // Another thread finds out whether it goes in turn, or it does.
      }
    }
    walks_.prepare(shape);
  }

  double bound_us(const Problem& problem, const Variant& variant, const KernelResources& resources,
                  int ctas_per_sm, BoundBy by) const override {
    const auto& asked = problem.as<AttentionProblem>();
    const auto& chosen = variant.as<AttentionVariant>();
    const ScheduleShape shape = schedule_on_gpu(asked, chosen, ctas_per_sm, profile_);
    const L2Traffic least = least_traffic(shape);
    return by == BoundBy::sums
               ? bound_time_us(asked, chosen, resources, shape, least, profile_)
               : predict_time(asked, chosen, resources, shape, least, profile_).time_us;
  }

  double relative_error(const Problem& problem, const Variant& variant,
                        double time_us) const override {
    return prediction_error(problem.as<AttentionProblem>(), variant.as<AttentionVariant>(), time_us,
                            profile_);
  }

  KernelResources estimated_resources(const Problem& problem,
                                      const Variant& variant) const override {
    return swr::estimated_resources(problem.as<AttentionProblem>(), variant.as<AttentionVariant>());
  }

  std::optional<double> floor_us(const Problem& /*problem*/,
                                 const Variant& /*variant*/) const override {
    return std::nullopt;
  }

 private:
  /// Walks of a grid often go in turn, and persistent CTAs then share them.
  L2Traffic traffic(const ScheduleShape& shape) {
    if (const auto grid = grid_in_turn(shape)) {
      const L2Traffic walked = walks_.traffic(*grid);
      if (walked.schedule.in_turn) {
        return walked;
      }
    }
    return walks_.traffic(shape);
  }

  GpuProfile profile_;
  TrafficMemo<ScheduleShape, L2Traffic> walks_;
};

}  // namespace

KernelResources estimated_resources(const AttentionProblem& problem,
                                    const AttentionVariant& variant) {
  /// Operands, addresses and softmax state: what PortableAttentionConfig::q_in_registers leaves
  /// room for.
  constexpr int kWorkingRegisters = 60;
  if (variant.family == Family::hopper) {
    return {.registers_per_thread = make_hopper_config(problem, variant).entry_registers()};
  }
  const PortableAttentionConfig config = make_attention_config(problem, variant);
  const int q_registers = config.q_in_registers() ? config.m_blocks() * config.head_dim / 4 : 0;
  const int wanted = config.accumulator_registers() + q_registers + kWorkingRegisters;
  return {.registers_per_thread = std::min(wanted, config.register_limit())};
}

MissRatioCurve attention_miss_ratios(const AttentionProblem& problem,
                                     const AttentionVariant& variant, int ctas_per_sm,
                                     const GpuProfile& profile,
                                     std::span<const long long> capacities_bytes) {
  const ScheduleShape shape =
      make_schedule_shape(problem, variant, profile.device.sm_count, ctas_per_sm);
  const L2Traffic traffic = simulate_l2(shape, profile.l2_policy());
  const auto demanded =
      static_cast<double>(traffic.schedule.read_sectors + traffic.schedule.write_sectors);
  const MissCurve curve = miss_curve(shape);
  MissRatioCurve ratios{static_cast<double>(curve.compulsory_misses()) / demanded, {}};
  for (const long long bytes : capacities_bytes) {
    const long long misses = curve.compulsory_misses() + curve.excess_misses(bytes / kSectorBytes);
    ratios.ratios.push_back(static_cast<double>(misses) / demanded);
  }
  return ratios;
}

std::unique_ptr<Predictor> make_attention_predictor(const GpuProfile& profile) {
  return std::make_unique<AttentionPredictor>(profile);
}

}  // namespace swr
