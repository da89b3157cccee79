// SPDX-License-Identifier: MIT
// GEMM's variants in words.
#include "operations/gemm/parts.h"
#include <swr/gemm_variant.h>

#include <string>

namespace swr {

std::string tile_text_of(const GemmVariant& variant) {
  return std::to_string(variant.tile_m) + "x" + std::to_string(variant.tile_n) + "x" +
         std::to_string(variant.tile_k);
}

/// Who computes a tile, and with whom.
std::string form_text(const GemmVariant& variant) {
  if (variant.family == Family::portable) {
    return std::to_string(variant.warps_m) + "x" + std::to_string(variant.warps_n) + " warps";
  }
  const bool is_clustered = variant.cluster_m * variant.cluster_n * variant.cluster_k > 1;
  const std::string along_k = variant.cluster_k > 1 ? "x" + std::to_string(variant.cluster_k) : "";
  return std::string(to_string(variant.mainloop)) + " " + std::to_string(variant.consumers) +
         (is_clustered ? ", cluster " + std::to_string(variant.cluster_m) + "x" +
                             std::to_string(variant.cluster_n) + along_k
                       : "");
}

std::string persistence_text(const GemmVariant& variant) {
  const std::string workers = variant.workers > 0 ? "/" + std::to_string(variant.workers) : "";
  return std::string(to_string(variant.persistence)) + workers;
}

std::string raster_text(const GemmVariant& variant) {
  return std::string(to_string(variant.raster)) +
         (variant.raster_group > 1 ? "/" + std::to_string(variant.raster_group) : "") +
         (variant.swizzle_stride > 0 ? ", stride " + std::to_string(variant.swizzle_stride) : "");
}

std::string description_without_order_of(const GemmVariant& variant) {
  return tile_text_of(variant) + " " + form_text(variant) + " " + persistence_text(variant) + " " +
         raster_text(variant);
}

std::string description_of(const GemmVariant& variant) {
  return std::string(to_string(variant.family)) + " " + tile_text_of(variant) + " " +
         form_text(variant) + " stages " + std::to_string(variant.stages) + " " +
         persistence_text(variant) + " " + raster_text(variant) +
         (variant.splits > 1 ? " splits " + std::to_string(variant.splits) : "") +
         (variant.promote_every > 0 ? " promote " + std::to_string(variant.promote_every) : "") +
         (variant.k_order == Order::cyclic ? "" : " k " + std::string(to_string(variant.k_order)));
}

std::string conflict_advice_of(const GemmVariant& variant) {
  if (variant.family == Family::hopper) {
    return "the layout is the one that TMA and wgmma share; another --tile, or no --cluster-k, "
           "moves what is left";
  }
  constexpr int kAllBanks = 64;  // Elements of 2 bytes.
  return variant.tile_k < kAllBanks
             ? "--tile-k 64 makes rows that reach over all banks"
             : "rows are swizzled already; another --tile or --stages moves what is left";
}

const Advice& gemm_advice() {
  static constexpr Advice advice{
      .more_ctas = "smaller tiles or several --splits make more CTAs",
      .fuller_waves = "try tiles that divide the work into even rounds, or --splits",
      .hopper = "try other tiles, --mainloop, --consumers and clusters",
      .fewer_passes =
          "larger tiles, --raster grouped,serpentine,hilbert or --swizzle-stride keep more of A "
          "and B in the L2",
      .fewer_misses =
          "try --raster grouped,serpentine,hilbert, --swizzle-stride, larger tiles, or --k-order "
          "sawtooth in persistent launches",
      .fuller_sectors =
          "rows that are multiples of 32 bytes fill sectors; a wider --tile or --tile-k has fewer "
          "ends",
      .splits_option = "--splits"};
  return advice;
}

}  // namespace swr
