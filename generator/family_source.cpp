// SPDX-License-Identifier: MIT
#include "generator/family_source.h"

#include <algorithm>
#include <array>

namespace swr {
namespace {

constexpr std::array kSources{
    FamilySource{Family::portable, "attention/portable/attention.cu", "swr_attention", 80},
};

}  // namespace

std::span<const FamilySource> family_sources() { return kSources; }

const FamilySource& family_source(Family family) {
  return *std::ranges::find(kSources, family, &FamilySource::family);
}

}  // namespace swr
