// SPDX-License-Identifier: MIT
#include "core/metrics.h"

#include "core/number_text.h"

namespace swr {
namespace {

using Value = std::optional<MetricValue>;
using Problem = Problem;
using Result = VariantResult;

double as_double(const MetricValue& value) {
  return std::visit([](auto number) { return static_cast<double>(number); }, value);
}

std::string plain(const MetricValue& value) {
  if (const auto* integer = std::get_if<long long>(&value)) {
    return std::to_string(*integer);
  }
  return significant_text(std::get<double>(value), 4);
}
std::string count(const MetricValue& value) {
  return count_text(static_cast<long long>(as_double(value)));
}
std::string kibibytes(const MetricValue& value) {
  return significant_text(as_double(value) / 1024, 3);
}
std::string duration(const MetricValue& value) { return time_text(as_double(value)); }

Value of(std::optional<long long> value) { return value ? Value(*value) : std::nullopt; }

/// A member of an outcome of its kind; nothing where there is none, or the variant failed.
template <auto Member, typename Outcome>
Value member_of(const Outcome* outcome, const Result& result) {
  const bool is_there = outcome != nullptr && result.state == ResultState::ok;
  return is_there ? Value(outcome->*Member) : std::nullopt;
}

template <auto Member>
Value measured(const Problem& /*problem*/, const Result& result) {
  return member_of<Member>(result.measurement(), result);
}

template <auto Member>
Value predicted(const Problem& /*problem*/, const Result& result) {
  return member_of<Member>(result.prediction(), result);
}

/// A counter that the chip lacks is 0 in a measurement that says which are missing.
template <auto Member>
Value counted(const Problem& /*problem*/, const Result& result) {
  const Measurement* measurement = result.measurement();
  if (measurement == nullptr || !measurement->counters) {
    return std::nullopt;
  }
  const long long value = (*measurement->counters).*Member;
  const bool may_be_missing = !measurement->counters_missing_because.empty();
  return value == 0 && may_be_missing ? std::nullopt : Value(value);
}

template <auto Member>
Value resource(const Problem& /*problem*/, const Result& result) {
  return static_cast<long long>(result.resources.*Member);
}

template <auto Member>
Value field(const Problem& /*problem*/, const Result& result) {
  return static_cast<long long>(result.*Member);
}

template <typename Read>
Value of_energy(const Result& result, Read&& read) {
  const Measurement* measurement = result.measurement();
  const bool is_known = measurement != nullptr && measurement->energy.has_value();
  return is_known ? Value(read(*measurement->energy)) : std::nullopt;
}

constexpr std::array kMetrics{
    Metric{"registers_per_thread", "regs", "Registers of one thread.",
           resource<&KernelResources::registers_per_thread>, plain},
    Metric{"smem_bytes", "smem KiB", "Dynamic shared memory of one CTA.",
           field<&Result::smem_bytes>, kibibytes},
    Metric{"ctas_per_sm", "CTAs/SM", "CTAs resident on one SM.", field<&Result::ctas_per_sm>,
           plain},
    Metric{"l2_sectors", "L2 sectors", "32-byte sectors that the SMs asked L2 for.",
           [](const Problem&, const Result& result) {
             return result.state == ResultState::ok ? of(l2_sectors(result)) : std::nullopt;
           },
           count},
    Metric{
        "compulsory_sectors", "compulsory", "First touch of each sector of Q, K, V and O.",
        [](const Problem& problem, const Result&) -> Value { return compulsory_sectors(problem); },
        count},
    Metric{"excess_miss_sectors", "excess", "Sectors fetched again after eviction.",
           [](const Problem& problem, const Result& result) {
             return result.state == ResultState::ok ? of(excess_miss_sectors(problem, result))
                                                    : std::nullopt;
           },
           count},
    Metric{"l2_misses_sectors", "L2 misses", "Sectors that missed in L2, by hardware counter.",
           counted<&Counters::l2_misses>, count},
    Metric{"l2_hits_sectors", "", "Sectors that hit in L2, by hardware counter.",
           counted<&Counters::l2_hits>, count},
    Metric{"l2_lookups_sectors", "", "Sectors looked up in L2, by hardware counter.",
           counted<&Counters::l2_lookups>, count},
    Metric{"l2_fabric_sectors", "", "Traffic between L2 partitions, by hardware counter.",
           counted<&Counters::l2_fabric_sectors>, count},
    Metric{"dram_read_bytes", "", "Bytes read from DRAM, by hardware counter.",
           counted<&Counters::dram_read_bytes>, count},
    Metric{"dram_write_bytes", "", "Bytes written to DRAM, by hardware counter.",
           counted<&Counters::dram_write_bytes>, count},
    Metric{"time_us", "time", "Median of the samples, or the predicted time.",
           [](const Problem&, const Result& result) -> Value {
             return result.state == ResultState::ok ? Value(result.time_us()) : std::nullopt;
           },
           duration},
    Metric{"p95_us", "", "95th percentile of the samples.", measured<&Measurement::p95_us>,
           duration},
    Metric{"tflop_per_s", "TFLOP/s", "Operations of both products over the time.",
           [](const Problem& problem, const Result& result) -> Value {
             const auto rate = tflop_per_s(problem, result);
             return rate && result.state == ResultState::ok ? Value(*rate) : std::nullopt;
           },
           plain},
    Metric{"energy_mj", "mJ",
           "Energy of one launch of many in a row, what an idle GPU takes included.",
           [](const Problem&, const Result& result) {
             return of_energy(result, [](const Energy& energy) { return energy.mean_mj(); });
           },
           plain, false, true},
    Metric{"power_w", "W", "What the GPU drew meanwhile.",
           [](const Problem&, const Result& result) {
             return of_energy(result, [](const Energy& energy) { return energy.power_w(); });
           },
           plain, false, true},
    Metric{"idle_power_w", "", "What the GPU drew with nothing to do.",
           [](const Problem&, const Result& result) {
             return of_energy(result, [](const Energy& energy) { return energy.idle_power_w; });
           },
           plain, false, true},
    Metric{"gflop_per_j", "", "Operations over the energy.",
           [](const Problem& problem, const Result& result) {
             constexpr double kOperationsPerGigaAndMillijoule = 1e6;
             const double flops = flop_count(problem);
             const auto each = of_energy(result, [&](const Energy& energy) {
               return flops / energy.mean_mj() / kOperationsPerGigaAndMillijoule;
             });
             return flops > 0.0 ? each : std::nullopt;
           },
           plain, false, true},
    Metric{"relative_error", "", "L2 norm of the error over that of the fp32 reference.",
           measured<&Measurement::relative_error>, plain},
    Metric{"prediction_error", "",
           "Share by which measured times are expected to differ from the predicted one.",
           [](const Problem&, const Result& result) -> Value {
             const Prediction* prediction = result.prediction();
             const bool is_known = prediction != nullptr && result.state == ResultState::ok &&
                                   prediction->relative_error > 0;
             return is_known ? Value(prediction->relative_error) : std::nullopt;
           },
           plain},
    Metric{"matrix_us", "", "Predicted time of the matrix products alone.",
           predicted<&Prediction::matrix_us>, duration},
    Metric{"softmax_us", "", "Predicted time of the softmax alone.",
           predicted<&Prediction::softmax_us>, duration},
    Metric{"l2_us", "", "Predicted time of the L2 traffic alone.", predicted<&Prediction::l2_us>,
           duration},
    Metric{"dram_us", "", "Predicted time of the DRAM traffic alone.",
           predicted<&Prediction::dram_us>, duration},
    Metric{"latency_us", "", "Predicted waiting that nothing hides.",
           predicted<&Prediction::latency_us>, duration},
    Metric{"spill_bytes", "spill B", "Bytes a thread spills, stores and loads.",
           [](const Problem&, const Result& result) -> Value {
             return static_cast<long long>(result.resources.spill_store_bytes +
                                           result.resources.spill_load_bytes);
           },
           plain, true},
};

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

std::optional<double> tflop_per_s(const Problem& problem, const VariantResult& result) {
  constexpr double kOperationsPerTeraAndMicrosecond = 1e6;
  const double flops = flop_count(problem);
  return flops > 0.0 && result.time_us() > 0.0
             ? std::optional(flops / result.time_us() / kOperationsPerTeraAndMicrosecond)
             : std::nullopt;
}

}  // namespace swr
