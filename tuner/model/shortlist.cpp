// SPDX-License-Identifier: MIT
#include "tuner/model/shortlist.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace swr {
namespace {

Variant without_tile_order(const Variant& variant) {
  if (auto attention = std::get_if<AttentionVariant>(&variant)) {
    AttentionVariant plain = *attention;
    plain.swizzle = Swizzle::q_fastest;
    plain.section_heads = 0;
    return plain;
  }
  const GemmVariant usual;
  GemmVariant plain = std::get<GemmVariant>(variant);
  plain.raster = usual.raster;
  plain.raster_group = usual.raster_group;
  plain.swizzle_stride = usual.swizzle_stride;
  return plain;
}

}  // namespace

std::vector<std::size_t> shortlist(std::span<const Variant> variants,
                                   std::span<const double> predicted_us) {
  constexpr double kIndistinguishable = 0.002;
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(predicted_us[a], variants[a]) < std::tie(predicted_us[b], variants[b]);
  });
  std::map<Variant, double> first_us;  // By the variant without its order of tiles.
  std::stable_partition(order.begin(), order.end(), [&](std::size_t i) {
    const auto [entry, is_first] =
        first_us.try_emplace(without_tile_order(variants[i]), predicted_us[i]);
    return is_first || predicted_us[i] > entry->second * (1 + kIndistinguishable);
  });
  return order;
}

}  // namespace swr
