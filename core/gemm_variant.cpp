// SPDX-License-Identifier: MIT
#include "core/axis_values.h"
#include "core/enum_text.h"
#include "core/gemm_config.h"
#include <swr/error.h>
#include <swr/gemm_variant.h>

#include <array>
#include <type_traits>
#include <vector>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kFamilies{"portable"sv, "hopper"sv};
constexpr std::array kOrders{"cyclic"sv, "sawtooth"sv};
constexpr std::array kPersistences{"grid"sv, "persistent"sv};
constexpr std::array kRasters{"along_n"sv, "along_m"sv, "grouped"sv, "serpentine"sv, "hilbert"sv};
constexpr std::array kLayouts{"nt"sv, "nn"sv, "tn"sv};
constexpr std::array kMainloops{"cooperative"sv, "pingpong"sv};
constexpr std::array kOutputs{"fp16"sv, "bf16"sv, "fp32"sv};

template <int GemmVariant::*Member, int Low, int High>
constexpr GemmAxis integer_axis(std::string_view name, std::string_view summary,
                                std::optional<Family> only = {}) {
  return {.name = name,
          .summary = summary,
          .get = [](const GemmVariant& variant) -> AxisValue {
            return static_cast<long long>(variant.*Member);
          },
          .set =
              [](const GemmAxis& axis, GemmVariant& variant, const AxisValue& value) {
                variant.*Member = require_in_range(value, axis.name, Low, High);
              },
          .spellings = {},
          .only = only};
}

template <auto Member>
constexpr GemmAxis enum_axis(std::string_view name, std::string_view summary,
                             std::span<const std::string_view> spellings,
                             std::optional<Family> only = {}) {
  return {.name = name,
          .summary = summary,
          .get = [](const GemmVariant& variant) -> AxisValue {
            return std::string(to_string(variant.*Member));
          },
          .set =
              [](const GemmAxis& axis, GemmVariant& variant, const AxisValue& value) {
                using Enum = std::remove_reference_t<decltype(variant.*Member)>;
                variant.*Member = parse_enum<Enum>(axis.spellings, to_string(value), axis.name);
              },
          .spellings = spellings,
          .only = only};
}

constexpr std::array kAxes{
    enum_axis<&GemmVariant::family>("family", "Kernel family.", kFamilies),
    integer_axis<&GemmVariant::tile_m, 16, 256>("tile_m", "Rows of C per tile."),
    integer_axis<&GemmVariant::tile_n, 16, 256>("tile_n", "Columns of C per tile."),
    integer_axis<&GemmVariant::tile_k, 32, 128>("tile_k", "Columns of k per step."),
    integer_axis<&GemmVariant::stages, 2, 16>("stages", "Tiles of A and B in shared memory."),
    integer_axis<&GemmVariant::warps_m, 1, 8>("warps_m", "Warps along m.", Family::portable),
    integer_axis<&GemmVariant::warps_n, 1, 8>("warps_n", "Warps along n.", Family::portable),
    enum_axis<&GemmVariant::mainloop>("mainloop", "How consumers share tiles.", kMainloops,
                                      Family::hopper),
    integer_axis<&GemmVariant::consumers, 1, 2>("consumers", "Computing warpgroups.",
                                                Family::hopper),
    integer_axis<&GemmVariant::cluster_m, 1, 2>("cluster_m", "CTAs that share tiles of B.",
                                                Family::hopper),
    integer_axis<&GemmVariant::cluster_n, 1, 2>("cluster_n", "CTAs that share tiles of A.",
                                                Family::hopper),
    enum_axis<&GemmVariant::persistence>("persistence", "How tiles are handed to CTAs.",
                                         kPersistences),
    integer_axis<&GemmVariant::workers, 0, 1 << 20>("workers",
                                                    "CTAs of a persistent launch; 0: all slots."),
    enum_axis<&GemmVariant::k_order>("k_order", "Direction in which tiles walk k.", kOrders),
    integer_axis<&GemmVariant::splits, 1, 64>("splits", "Parts of k summed by different CTAs."),
    enum_axis<&GemmVariant::raster>("raster", "Order of tiles inside a column group.", kRasters),
    integer_axis<&GemmVariant::raster_group, 1, 1024>("raster_group", "Rows of clusters per band."),
    integer_axis<&GemmVariant::swizzle_stride, 0, 1 << 24>(
        "swizzle_stride", "Elements of n per column group; 0: off."),
};

const GemmAxis* find_gemm_axis(std::string_view name) {
  for (const GemmAxis& axis : kAxes) {
    if (axis.name == name) {
      return &axis;
    }
  }
  return nullptr;
}

}  // namespace

std::span<const GemmAxis> gemm_axes() { return kAxes; }

std::string to_key(const GemmVariant& variant) {
  std::string key;
  for (const GemmAxis& axis : kAxes) {
    if (axis.belongs_to(variant.family)) {
      key += key.empty() ? "" : ",";
      key += std::string(axis.name) + "=" + to_string(axis.get(variant));
    }
  }
  return key;
}

GemmVariant parse_gemm_variant(std::string_view key) {
  GemmVariant variant;
  std::vector<const GemmAxis*> named;
  while (!key.empty()) {
    const auto comma = key.find(',');
    const std::string_view part = key.substr(0, comma);
    key = comma == std::string_view::npos ? std::string_view{} : key.substr(comma + 1);
    const auto equals = part.find('=');
    const GemmAxis* const axis = find_gemm_axis(part.substr(0, equals));
    if (equals == std::string_view::npos || axis == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  "'" + std::string(part) + "' is no axis=value part of a GEMM variant");
    }
    axis->set(*axis, variant, std::string(part.substr(equals + 1)));
    named.push_back(axis);
  }
  for (const GemmAxis* const axis : named) {
    if (!axis->belongs_to(variant.family)) {
      throw Error(ErrorCode::invalid_argument, "family " + std::string(to_string(variant.family)) +
                                                   " has no axis " + std::string(axis->name));
    }
  }
  return variant;
}

std::string_view to_string(Raster value) { return enum_text(kRasters, value); }
std::string_view to_string(GemmLayout value) { return enum_text(kLayouts, value); }
std::string_view to_string(GemmMainloop value) { return enum_text(kMainloops, value); }
std::string_view to_string(OutputType value) { return enum_text(kOutputs, value); }

HopperGemmConfig make_hopper_gemm_config(const GemmProblem& problem, const GemmVariant& variant) {
  return {.dtype = problem.dtype,
          .output = problem.output,
          .layout = problem.layout,
          .reads_c = problem.reads_c,
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .tile_k = variant.tile_k,
          .stages = variant.stages,
          .mainloop = variant.mainloop,
          .consumers = variant.consumers,
          .cluster_m = variant.cluster_m,
          .cluster_n = variant.cluster_n,
          .persistence = variant.persistence,
          .k_order = variant.k_order,
          .split_k = variant.splits > 1};
}

PortableGemmConfig make_portable_gemm_config(const GemmProblem& problem,
                                             const GemmVariant& variant) {
  return {.dtype = problem.dtype,
          .output = problem.output,
          .layout = problem.layout,
          .reads_c = problem.reads_c,
          .alignment_bytes = problem.alignment_bytes,
          .tile_m = variant.tile_m,
          .tile_n = variant.tile_n,
          .tile_k = variant.tile_k,
          .warps_m = variant.warps_m,
          .warps_n = variant.warps_n,
          .stages = variant.stages,
          .persistence = variant.persistence,
          .k_order = variant.k_order,
          .split_k = variant.splits > 1};
}

GemmFamilyConfig make_gemm_config(const GemmProblem& problem, const GemmVariant& variant) {
  if (variant.family == Family::hopper) {
    return make_hopper_gemm_config(problem, variant);
  }
  return make_portable_gemm_config(problem, variant);
}

GemmParams make_gemm_params(const GemmProblem& problem, const GemmVariant& variant) {
  GemmParams params;
  params.m = problem.m;
  params.n = problem.n;
  params.k = problem.k;
  params.batch = problem.batch;
  params.raster = variant.raster;
  params.raster_group = variant.raster_group;
  params.swizzle_stride = variant.swizzle_stride;
  params.splits = variant.splits;
  return params;
}

}  // namespace swr
