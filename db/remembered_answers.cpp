// SPDX-License-Identifier: MIT
#include "db/remembered_answers.h"

#include <tuple>

namespace swr {
namespace {

/// All that may decide an answer.
auto numbers(const DeviceInfo& device) {
  return std::tie(device.sm_arch, device.sm_count, device.l2_bytes, device.dram_gb_per_s,
                  device.mig, device.smem_per_cta_bytes, device.smem_per_sm_bytes,
                  device.smem_reserved_per_cta_bytes, device.registers_per_sm,
                  device.max_threads_per_sm, device.max_ctas_per_sm);
}

}  // namespace

RememberedAnswers::Shard& RememberedAnswers::shard_of(const ProblemKey& problem) {
  // The low bits choose the place in a shard's map.
  constexpr unsigned kHighBits = 40;
  return shards_[(hash_of(problem) >> kHighBits) % kShards];
}

std::optional<Answer> RememberedAnswers::find(const ProblemKey& problem, const DeviceInfo& device) {
  Shard& shard = shard_of(problem);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.answers.find(problem);
  if (found == shard.answers.end() || numbers(found->second.device) != numbers(device)) {
    return std::nullopt;
  }
  return found->second.answer;
}

void RememberedAnswers::remember(const ProblemKey& problem, const DeviceInfo& device,
                                 const Answer& answer) {
  Remembered remembered{device, answer};
  remembered.device.name.clear();
  Shard& shard = shard_of(problem);
  const std::lock_guard lock(shard.mutex);
  if (shard.answers.size() >= kMostOfAShard) {
    shard.answers.clear();
  }
  shard.answers.insert_or_assign(problem, std::move(remembered));
}

}  // namespace swr
