// SPDX-License-Identifier: MIT
// Parts of an operation, right, and with WRONG beside them wrong ones, which check_parts sees
// refused.
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
using Parts = TypedParts<OneProblem, OneVariant>;

std::optional<OneProblem> near_kind_of(OneProblem problem, int index) {
  return index == 0 ? std::optional(problem) : std::nullopt;
}

constexpr Parts kParts{.near_kind = near_kind_of};
static_assert(kParts.near_kind != nullptr);

class Serving final : public OperationServing {
  std::unique_ptr<ReadyLaunch> make_ready(const Problem&, const Variant&, int,
                                          const ServingTools&) const override;
};
static_assert(sizeof(Serving) > 0);

struct Config {
  int tile = 0;
  bool is_split = false;
};
[[maybe_unused]] constexpr auto kMembers = all_members<Config, &Config::tile, &Config::is_split>();

#ifdef WRONG
std::optional<OneProblem> near_kind_without_index(OneProblem problem) { return problem; }

constexpr Parts kUnknownPart{.near_kinds = near_kind_of};
constexpr Parts kUnknownFunction{.near_kind = near_kind_that_is_nowhere};
constexpr Parts kWrongSignature{.near_kind = near_kind_without_index};

class Misspelt final : public OperationServing {
  std::unique_ptr<ReadyLaunch> make_launch(const Problem&, const Variant&, int,
                                           const ServingTools&) const override;
};
class WithoutCtas final : public OperationServing {
  std::unique_ptr<ReadyLaunch> make_ready(const Problem&, const Variant&,
                                          const ServingTools&) const override;
};
constexpr auto kMissing = all_members<Config, &Config::tile>();
#endif

}  // namespace
}  // namespace swr
