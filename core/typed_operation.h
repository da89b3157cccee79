// SPDX-License-Identifier: MIT
// An operation from functions over its own structs. Who defines an operation writes these functions
// beside the structs and includes their declarations: those that every operation has are found by
// their arguments, others are named in its TypedParts.
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

/// Functions that an operation may have; what is nullptr leaves the default of Operation, whose
/// members say what each is for.
template <typename OneProblem, typename OneVariant>
struct TypedParts {
  // Words.
  std::string (*text)(const OneProblem&) = nullptr;
  std::string (*file_name)(const OneProblem&) = nullptr;
  std::string (*description)(const OneVariant&) = nullptr;
  std::string (*description_without_order)(const OneVariant&) = nullptr;
  std::string (*conflict_advice)(const OneVariant&) = nullptr;
  // Choices without a measurement.
  OneVariant (*modelled_variant)(const OneProblem&, const DeviceInfo&) = nullptr;
  double (*quick_time_us)(const OneProblem&, const OneVariant&, const DeviceInfo&) = nullptr;
  double (*trusted_octaves)(const OneProblem&, const DeviceInfo&) = nullptr;
  std::optional<OneProblem> (*near_kind)(OneProblem, int) = nullptr;
  // Variants that are equal in part.
  OneVariant (*without_launch_choices)(OneVariant) = nullptr;
  OneVariant (*without_tile_order)(OneVariant) = nullptr;
  bool (*is_split)(const OneVariant&) = nullptr;
};

/// Hands problems and variants on as OneProblem and OneVariant.
template <typename OneProblem, typename OneVariant>
class OperationOver : public Operation {
 public:
  using Parts = TypedParts<OneProblem, OneVariant>;

  explicit OperationOver(const Parts& parts = {}) : parts_(parts) {}

  Problem default_problem() const final { return OneProblem{}; }
  Variant default_axes() const final { return OneVariant{}; }

  void validate(const Problem& problem) const final { typed::check(exactly(problem)); }
  double flop_count(const Problem& problem) const final { return typed::flops(exactly(problem)); }
  CompulsoryBytes compulsory_bytes(const Problem& problem) const final {
    return typed::bytes(exactly(problem));
  }
  std::string text(const Problem& problem) const final {
    return parts_.text ? parts_.text(one(problem)) : Operation::text(problem);
  }
  std::string file_name(const Problem& problem) const final {
    return parts_.file_name ? parts_.file_name(one(problem)) : Operation::file_name(problem);
  }
  void enlarge(Problem& problem) const final { enlarge_sizes(problem.as<OneProblem>()); }

  Variant default_variant(const Problem& problem, const DeviceInfo& device) const final {
    return typed::usual_variant(exactly(problem), device);
  }
  std::optional<Variant> modelled_variant(const Problem& problem,
                                          const DeviceInfo& device) const final {
    return parts_.modelled_variant
               ? std::optional<Variant>(parts_.modelled_variant(one(problem), device))
               : std::nullopt;
  }
  std::optional<double> quick_time_us(const Problem& problem, const Variant& variant,
                                      const DeviceInfo& device) const final {
    return parts_.quick_time_us
               ? std::optional(parts_.quick_time_us(one(problem), one(variant), device))
               : std::nullopt;
  }
  double trusted_octaves(const Problem& problem, const DeviceInfo& device) const final {
    return parts_.trusted_octaves ? parts_.trusted_octaves(one(problem), device)
                                  : Operation::trusted_octaves(problem, device);
  }
  std::optional<Problem> near_kind(const Problem& problem, int index) const final {
    return parts_.near_kind ? std::optional<Problem>(parts_.near_kind(one(problem), index))
                            : std::nullopt;
  }
  std::optional<BrokenConstraint> broken_constraint(const Problem& problem, const Variant& variant,
                                                    const DeviceInfo& device) const final {
    return typed::broken(one(problem), one(variant), device);
  }
  Points points(Family family, const Problem& problem, const DeviceInfo& device,
                const SpaceOptions& options) const final {
    return {points_of(family, one(problem), device, options)};
  }
  Variant without_launch_choices(const Variant& variant) const final {
    return parts_.without_launch_choices ? Variant(parts_.without_launch_choices(one(variant)))
                                         : variant;
  }
  Variant without_tile_order(const Variant& variant) const final {
    return parts_.without_tile_order ? Variant(parts_.without_tile_order(one(variant))) : variant;
  }
  bool is_split(const Variant& variant) const final {
    return parts_.is_split != nullptr && parts_.is_split(one(variant));
  }
  std::string config_header(const Problem& problem, const Variant& variant) const final {
    return config_header_of(one(problem), one(variant));
  }
  std::string tile_text(const Variant& variant) const final { return tile_text_of(one(variant)); }
  std::string description(const Variant& variant) const final {
    return parts_.description ? parts_.description(one(variant)) : Operation::description(variant);
  }
  std::string description_without_order(const Variant& variant) const final {
    return parts_.description_without_order ? parts_.description_without_order(one(variant))
                                            : Operation::description_without_order(variant);
  }
  std::string conflict_advice(const Variant& variant) const final {
    return parts_.conflict_advice ? parts_.conflict_advice(one(variant))
                                  : Operation::conflict_advice(variant);
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

 private:
  Parts parts_;
};

/// The same with functions for what launches depend on.
template <typename OneProblem, typename OneVariant>
class TypedOperation : public OperationOver<OneProblem, OneVariant> {
 public:
  using OperationOver<OneProblem, OneVariant>::OperationOver;

  int smem_bytes(const Problem& problem, const Variant& variant) const final {
    return smem_bytes_of(this->one(problem), this->one(variant));
  }
  int threads_per_cta(const Problem& problem, const Variant& variant) const final {
    return threads_of(this->one(problem), this->one(variant));
  }
  int computing_warps(const Variant& variant) const final { return warps_of(this->one(variant)); }
  LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant, int sm_count,
                                 int ctas_per_sm) const final {
    return geometry_of(this->one(problem), this->one(variant), sm_count, ctas_per_sm);
  }
};

}  // namespace swr
