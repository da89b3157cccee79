// SPDX-License-Identifier: MIT
#include "tuner/model/shortlist.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace swr {

std::vector<std::size_t> shortlist(std::span<const AttentionVariant> variants,
                                   std::span<const double> predicted_us) {
  constexpr double kIndistinguishable = 0.002;
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(predicted_us[a], variants[a]) < std::tie(predicted_us[b], variants[b]);
  });
  std::map<AttentionVariant, double> first_us;  // By the variant without its swizzle.
  std::stable_partition(order.begin(), order.end(), [&](std::size_t i) {
    AttentionVariant swizzled = variants[i];
    swizzled.swizzle = Swizzle::q_fastest;
    swizzled.section_heads = 0;
    const auto [entry, is_first] = first_us.try_emplace(swizzled, predicted_us[i]);
    return is_first || predicted_us[i] > entry->second * (1 + kIndistinguishable);
  });
  return order;
}

}  // namespace swr
