// SPDX-License-Identifier: MIT
// An operation from functions over its own structs. Who defines an operation writes these functions
// beside the structs, includes their declarations, and names what no function can say. Functions
// that are not written leave the defaults of Operation.
#pragma once

#include "core/operation.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace swr {

/// Stands for a Typed in a call and converts to nothing else: not to a Problem or a Variant, whose
/// functions would lead back here.
template <typename Typed>
struct Exactly {
  const Typed& typed;
  operator const Typed&() const { return typed; }  // NOLINT: that is what it is for
};

/// Calls of functions that a class hides behind members of the same name.
namespace typed {

template <typename OneProblem>
void check(Exactly<OneProblem> problem) {
  validate(problem);
}
template <typename OneProblem>
double flops(Exactly<OneProblem> problem) {
  return flop_count(problem);
}
template <typename OneProblem>
CompulsoryBytes bytes(Exactly<OneProblem> problem) {
  return compulsory_bytes(problem);
}
template <typename OneProblem>
auto usual_variant(Exactly<OneProblem> problem, const DeviceInfo& device) {
  return default_variant(problem, device);
}
template <typename OneProblem, typename OneVariant>
std::optional<BrokenConstraint> broken(const OneProblem& problem, const OneVariant& variant,
                                       const DeviceInfo& device) {
  return broken_constraint(problem, variant, device);
}

}  // namespace typed

/// Hands problems and variants on as OneProblem and OneVariant, by overloads that are found by
/// their arguments.
template <typename OneProblem, typename OneVariant>
class TypedOperation : public Operation {
 public:
  Problem default_problem() const final { return OneProblem{}; }
  Variant default_axes() const final { return OneVariant{}; }

  void validate(const Problem& problem) const final { typed::check(exactly(problem)); }
  double flop_count(const Problem& problem) const final { return typed::flops(exactly(problem)); }
  CompulsoryBytes compulsory_bytes(const Problem& problem) const final {
    return typed::bytes(exactly(problem));
  }
  std::string text(const Problem& problem) const final {
    if constexpr (requires { to_string(exactly(problem)); }) {
      return to_string(exactly(problem));
    } else {
      return Operation::text(problem);
    }
  }
  std::string file_name(const Problem& problem) const final {
    if constexpr (requires { file_name_of(one(problem)); }) {
      return file_name_of(one(problem));
    } else {
      return Operation::file_name(problem);
    }
  }
  void enlarge(Problem& problem) const final { enlarge_sizes(problem.as<OneProblem>()); }

  Variant default_variant(const Problem& problem, const DeviceInfo& device) const final {
    return typed::usual_variant(exactly(problem), device);
  }
  std::optional<Variant> modelled_variant(const Problem& problem,
                                          const DeviceInfo& device) const final {
    if constexpr (requires { modelled_variant_of(one(problem), device); }) {
      return modelled_variant_of(one(problem), device);
    } else {
      return Operation::modelled_variant(problem, device);
    }
  }
  std::optional<double> quick_time_us(const Problem& problem, const Variant& variant,
                                      const DeviceInfo& device) const final {
    if constexpr (requires { quick_time_us_of(one(problem), one(variant), device); }) {
      return quick_time_us_of(one(problem), one(variant), device);
    } else {
      return Operation::quick_time_us(problem, variant, device);
    }
  }
  double trusted_octaves(const Problem& problem, const DeviceInfo& device) const final {
    if constexpr (requires { trusted_octaves_of(one(problem), device); }) {
      return trusted_octaves_of(one(problem), device);
    } else {
      return Operation::trusted_octaves(problem, device);
    }
  }
  std::optional<Problem> near_kind(const Problem& problem, int index) const final {
    if constexpr (requires { near_kind_of(one(problem), index); }) {
      return near_kind_of(one(problem), index);
    } else {
      return Operation::near_kind(problem, index);
    }
  }
  std::optional<BrokenConstraint> broken_constraint(const Problem& problem, const Variant& variant,
                                                    const DeviceInfo& device) const final {
    return typed::broken(one(problem), one(variant), device);
  }
  std::vector<Variant> points(Family family, const Problem& problem, const DeviceInfo& device,
                              const SpaceOptions& options) const final {
    return points_of(family, one(problem), device, options);
  }
  Variant without_launch_choices(const Variant& variant) const final {
    if constexpr (requires { kernel_choices(one(variant)); }) {
      return kernel_choices(one(variant));
    } else {
      return variant;
    }
  }
  Variant without_tile_order(const Variant& variant) const final {
    if constexpr (requires { in_usual_tile_order(one(variant)); }) {
      return in_usual_tile_order(one(variant));
    } else {
      return variant;
    }
  }
  std::string config_header(const Problem& problem, const Variant& variant) const final {
    return config_header_of(one(problem), one(variant));
  }
  // By functions of the operation, else by the configuration that its config_of() makes, which has
  // smem_bytes(), threads() and ctas(problem, places).
  int smem_bytes(const Problem& problem, const Variant& variant) const final {
    if constexpr (requires { smem_bytes_of(one(problem), one(variant)); }) {
      return smem_bytes_of(one(problem), one(variant));
    } else {
      return config_of(one(problem), one(variant)).smem_bytes();
    }
  }
  int threads_per_cta(const Problem& problem, const Variant& variant) const final {
    if constexpr (requires { threads_of(one(problem), one(variant)); }) {
      return threads_of(one(problem), one(variant));
    } else {
      return config_of(one(problem), one(variant)).threads();
    }
  }
  int computing_warps(const Variant& variant) const final {
    if constexpr (requires { warps_of(one(variant)); }) {
      return warps_of(one(variant));
    } else {
      return config_of(OneProblem{}, one(variant)).threads() / 32;
    }
  }
  bool is_split(const Variant& variant) const final {
    if constexpr (requires { has_splits(one(variant)); }) {
      return has_splits(one(variant));
    } else {
      return Operation::is_split(variant);
    }
  }
  LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant, int sm_count,
                                 int ctas_per_sm) const final {
    if constexpr (requires { geometry_of(one(problem), one(variant), sm_count, ctas_per_sm); }) {
      return geometry_of(one(problem), one(variant), sm_count, ctas_per_sm);
    } else {
      const auto config = config_of(one(problem), one(variant));
      return {.grid_x = config.ctas(one(problem), sm_count * ctas_per_sm),
              .block_x = config.threads(),
              .dynamic_smem_bytes = config.smem_bytes()};
    }
  }

  std::string tile_text(const Variant& variant) const final { return tile_text_of(one(variant)); }
  std::string description(const Variant& variant) const final {
    if constexpr (requires { description_of(one(variant)); }) {
      return description_of(one(variant));
    } else {
      return Operation::description(variant);
    }
  }
  std::string description_without_order(const Variant& variant) const final {
    if constexpr (requires { description_without_order_of(one(variant)); }) {
      return description_without_order_of(one(variant));
    } else {
      return Operation::description_without_order(variant);
    }
  }
  std::string conflict_advice(const Variant& variant) const final {
    if constexpr (requires { conflict_advice_of(one(variant)); }) {
      return conflict_advice_of(one(variant));
    } else {
      return Operation::conflict_advice(variant);
    }
  }

 protected:
  static const OneProblem& one(const Problem& problem) { return problem.as<OneProblem>(); }
  static Exactly<OneProblem> exactly(const Problem& problem) { return {one(problem)}; }
  static const OneVariant& one(const Variant& variant) { return variant.as<OneVariant>(); }

  /// A column of the tuning table from a function over the variant.
  template <typename Text>
  static VariantColumn column(std::string title, bool is_number, Text text) {
    return {std::move(title), is_number,
            [text](const Variant& variant) { return std::string(text(variant.as<OneVariant>())); }};
  }
  template <typename Predicate>
  static bool any_of(std::span<const VariantResult> results, Predicate predicate) {
    for (const VariantResult& result : results) {
      if (predicate(one(result.variant))) {
        return true;
      }
    }
    return false;
  }
};

}  // namespace swr
