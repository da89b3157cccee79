// SPDX-License-Identifier: MIT
// Runs of variants that tell what is right where no reference does. Any of them may end its
// process.
#pragma once

#include <swr/variant.h>

#include <functional>
#include <vector>

namespace swr {

struct ReferenceTrials {
  /// Told of the variant that is about to run, and with nullptr that it is over.
  std::function<void(const Variant*)> announce = [](const Variant* /*variant*/) {};
  /// Variants that ended a process when they ran: they are left out.
  std::vector<Variant> unfit;
};

}  // namespace swr
