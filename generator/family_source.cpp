// SPDX-License-Identifier: MIT
#include "generator/family_source.h"

#include "core/architectures.h"

#include <algorithm>
#include <array>
#include <limits>

namespace swr {
namespace {

constexpr int kNoLastArch = std::numeric_limits<int>::max();
/// griddepcontrol exists from here on.
constexpr int kFirstWaitingArch = 90;
constexpr int kNeverWaits = std::numeric_limits<int>::max();

constexpr std::array kSources{
    FamilySource{.op = Op::attention,
                 .family = Family::portable,
                 .file = "attention/portable/attention.cu",
                 .entry = "swr_attention",
                 .first_arch = 80,
                 .last_arch = kNoLastArch,
                 .first_waiting_arch = kFirstWaitingArch,
                 .arch_suffix = "",
                 .config_header = "selected_portable_attention_config.h"},
    FamilySource{.op = Op::attention,
                 .family = Family::hopper,
                 .file = "attention/hopper/attention.cu",
                 .entry = "swr_attention",
                 .first_arch = kHopperArch,
                 .last_arch = kHopperArch,
                 .first_waiting_arch = kFirstWaitingArch,
                 .arch_suffix = "a",
                 .config_header = "selected_hopper_attention_config.h"},
    FamilySource{.op = Op::gemm,
                 .family = Family::portable,
                 .file = "gemm/portable/gemm.cu",
                 .entry = "swr_gemm",
                 .first_arch = 80,
                 .last_arch = kNoLastArch,
                 .first_waiting_arch = kNeverWaits,
                 .arch_suffix = "",
                 .config_header = "selected_portable_gemm_config.h"},
    FamilySource{.op = Op::gemm,
                 .family = Family::hopper,
                 .file = "gemm/hopper/gemm.cu",
                 .entry = "swr_gemm",
                 .first_arch = kHopperArch,
                 .last_arch = kHopperArch,
                 .first_waiting_arch = kFirstWaitingArch,
                 .arch_suffix = "a",
                 .config_header = "selected_hopper_gemm_config.h"},
};

}  // namespace

std::span<const FamilySource> family_sources() { return kSources; }

const FamilySource& family_source(Op op, Family family) {
  return *std::ranges::find_if(kSources, [&](const FamilySource& source) {
    return source.op == op && source.family == family;
  });
}

}  // namespace swr
