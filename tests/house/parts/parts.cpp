// SPDX-License-Identifier: MIT
// Parts of an operation, right in CASE 0 and wrong in every other: check_parts compiles them all.
#include "core/members.h"
#include "core/typed_operation.h"

namespace swr {
namespace {

struct OneProblem {
  int size = 0;
};
struct OneVariant {
  int tile = 0;
};

std::optional<OneProblem> near_kind_of(OneProblem problem, int index) {
  return index == 0 ? std::optional(problem) : std::nullopt;
}
[[maybe_unused]] std::optional<OneProblem> near_kind_without_index(OneProblem problem) {
  return problem;
}

constexpr TypedParts<OneProblem, OneVariant> kParts{
#if CASE == 1  // A name that no part has.
    .near_kinds = near_kind_of
#elif CASE == 2  // A function that is nowhere.
    .near_kind = near_kinds_of
#elif CASE == 3  // A signature that the part does not have.
    .near_kind = near_kind_without_index
#else
    .near_kind = near_kind_of
#endif
};

class Serving final : public OperationServing {
#if CASE == 4  // A misspelt member, which would leave the default.
  std::unique_ptr<ReadyLaunch> make_launch(const Problem&, const Variant&, int,
                                           const ServingTools&) const override;
#elif CASE == 5  // Without the number of CTAs.
  std::unique_ptr<ReadyLaunch> make_ready(const Problem&, const Variant&,
                                          const ServingTools&) const override;
#else
  std::unique_ptr<ReadyLaunch> make_ready(const Problem&, const Variant&, int,
                                          const ServingTools&) const override;
#endif
};

struct Config {
  int tile = 0;
  bool is_split = false;
};
constexpr auto members_of(const Config& /*of*/) {
#if CASE == 6  // A member that nobody listed.
  return all_members<Config, &Config::tile>();
#else
  return all_members<Config, &Config::tile, &Config::is_split>();
#endif
}

static_assert(kParts.near_kind != nullptr);
static_assert(sizeof(Serving) > 0);
static_assert(sizeof(members_of(Config{})) > 0);

}  // namespace
}  // namespace swr
