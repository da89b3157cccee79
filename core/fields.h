// SPDX-License-Identifier: MIT
// The fields of the vocabulary types by name, once for JSON and for the database: a visitor is
// called as visit(name, field) or visit(name, field, low, high), where the bounds are the values
// that are believed when they come from outside.
#pragma once

#include <swr/device.h>
#include <swr/error.h>
#include <swr/kernel.h>
#include <swr/result.h>

#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace swr {

inline constexpr long long kMaxInt = std::numeric_limits<int>::max();
inline constexpr long long kMaxLong = std::numeric_limits<long long>::max();
/// Of what is counted: every double up to here is exact, and the sums and bytes that are made of
/// counts stay within a long long. No launch comes near it.
inline constexpr long long kMaxCount = 1LL << 53;

/// Far above every chip, low enough that products of the two stay within an int.
inline constexpr long long kMaxSms = 1 << 16;
inline constexpr long long kMaxCtasPerSm = 1 << 10;

[[noreturn]] inline void reject_out_of_bounds(std::string_view name, long long value, long long low,
                                              long long high) {
  throw Error(ErrorCode::invalid_argument,
              std::string(name) + " must be between " + std::to_string(low) + " and " +
                  std::to_string(high) + ", not " + std::to_string(value));
}

/// Throws: Error{invalid_argument} when an integer is out of bounds.
inline void require_between(std::string_view name, long long value, long long low, long long high) {
  if (value < low || value > high) {
    reject_out_of_bounds(name, value, low, high);
  }
}

template <typename T, typename Type>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Type>;

template <MaybeConst<DeviceInfo> Device, typename Visitor>
void visit_fields(Device& device, Visitor&& visit) {
  visit("name", device.name);
  visit("sm_arch", device.sm_arch, 1, 999);
  visit("sm_count", device.sm_count, 1, kMaxSms);
  visit("l2_bytes", device.l2_bytes, 1, kMaxLong);
  visit("dram_gb_per_s", device.dram_gb_per_s);
  visit("mig", device.mig);
  visit("smem_per_cta_bytes", device.smem_per_cta_bytes);
  visit("smem_per_sm_bytes", device.smem_per_sm_bytes);
  visit("smem_reserved_per_cta_bytes", device.smem_reserved_per_cta_bytes);
  visit("registers_per_sm", device.registers_per_sm);
  visit("max_threads_per_sm", device.max_threads_per_sm);
  visit("max_ctas_per_sm", device.max_ctas_per_sm, 0, kMaxCtasPerSm);
}

template <MaybeConst<KernelResources> Resources, typename Visitor>
void visit_fields(Resources& resources, Visitor&& visit) {
  visit("registers_per_thread", resources.registers_per_thread, 0, 255);
  visit("spill_store_bytes", resources.spill_store_bytes);
  visit("spill_load_bytes", resources.spill_load_bytes);
  visit("stack_bytes", resources.stack_bytes);
  visit("static_smem_bytes", resources.static_smem_bytes);
  visit("wgmma_warnings", resources.wgmma_warnings);
}

template <MaybeConst<LaunchGeometry> Geometry, typename Visitor>
void visit_fields(Geometry& geometry, Visitor&& visit) {
  visit("grid_x", geometry.grid_x, 1, kMaxInt);
  visit("block_x", geometry.block_x, 1, 1024);
  visit("dynamic_smem_bytes", geometry.dynamic_smem_bytes);
  visit("section_heads", geometry.section_heads, 1, kMaxInt);
  visit("partials_bytes", geometry.partials_bytes);
  visit("arrival_words", geometry.arrival_words);
}

template <MaybeConst<Counters> Values, typename Visitor>
void visit_fields(Values& counters, Visitor&& visit) {
  visit("sectors_demanded", counters.sectors_demanded, 0, kMaxCount);
  visit("l2_lookups", counters.l2_lookups, 0, kMaxCount);
  visit("l2_hits", counters.l2_hits, 0, kMaxCount);
  visit("l2_misses", counters.l2_misses, 0, kMaxCount);
  visit("l2_fabric_sectors", counters.l2_fabric_sectors, 0, kMaxCount);
  visit("dram_read_bytes", counters.dram_read_bytes, 0, kMaxCount);
  visit("dram_write_bytes", counters.dram_write_bytes, 0, kMaxCount);
}

template <MaybeConst<AccessCounters> Values, typename Visitor>
void visit_fields(Values& accesses, Visitor&& visit) {
  visit("smem_load_wavefronts", accesses.smem_load_wavefronts);
  visit("smem_load_conflicts", accesses.smem_load_conflicts);
  visit("smem_store_wavefronts", accesses.smem_store_wavefronts);
  visit("smem_store_conflicts", accesses.smem_store_conflicts);
  visit("smem_copy_wavefronts", accesses.smem_copy_wavefronts);
  visit("smem_copy_conflicts", accesses.smem_copy_conflicts);
  visit("smem_wgmma_wavefronts", accesses.smem_wgmma_wavefronts);
  visit("smem_wgmma_conflicts", accesses.smem_wgmma_conflicts);
  visit("global_load_requests", accesses.global_load_requests);
  visit("global_load_sectors", accesses.global_load_sectors);
  visit("global_load_bytes", accesses.global_load_bytes);
  visit("global_store_requests", accesses.global_store_requests);
  visit("global_store_sectors", accesses.global_store_sectors);
  visit("global_store_bytes", accesses.global_store_bytes);
  visit("global_copy_requests", accesses.global_copy_requests);
  visit("global_copy_sectors", accesses.global_copy_sectors);
  visit("global_copy_bytes", accesses.global_copy_bytes);
  visit("tma_load_sectors", accesses.tma_load_sectors);
}

template <MaybeConst<GpuCondition> Condition, typename Visitor>
void visit_fields(Condition& condition, Visitor&& visit) {
  visit("sm_clock_mhz", condition.sm_clock_mhz);
  visit("memory_clock_mhz", condition.memory_clock_mhz);
  visit("temperature_c", condition.temperature_c);
  visit("power_mw", condition.power_mw);
  visit("throttle_reasons", condition.throttle_reasons);
}

/// The numbers that summarise the samples; samples, conditions, counters and accesses are stored
/// apart.
template <MaybeConst<Measurement> Observed, typename Visitor>
void visit_fields(Observed& measurement, Visitor&& visit) {
  visit("median_us", measurement.median_us);
  visit("p95_us", measurement.p95_us);
  visit("relative_error", measurement.relative_error);
}

template <MaybeConst<Prediction> Modelled, typename Visitor>
void visit_fields(Modelled& prediction, Visitor&& visit) {
  visit("time_us", prediction.time_us);
  visit("matrix_us", prediction.matrix_us);
  visit("softmax_us", prediction.softmax_us);
  visit("l2_us", prediction.l2_us);
  visit("dram_us", prediction.dram_us);
  visit("latency_us", prediction.latency_us);
  visit("read_sectors", prediction.read_sectors, 0, kMaxCount);
  visit("write_sectors", prediction.write_sectors, 0, kMaxCount);
  visit("compulsory_misses", prediction.compulsory_misses, 0, kMaxCount);
  visit("excess_misses", prediction.excess_misses, 0, kMaxCount);
}

}  // namespace swr
