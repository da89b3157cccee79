// SPDX-License-Identifier: MIT
#include "report/explain/explanation.h"

namespace swr {

std::optional<Variant> in_other_order(Variant variant) {
  const auto order = order_of(variant);
  if (!order) {
    return std::nullopt;
  }
  set_order(variant, *order == Order::sawtooth ? Order::cyclic : Order::sawtooth);
  return variant;
}

}  // namespace swr
