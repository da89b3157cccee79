// SPDX-License-Identifier: MIT
// Where in a spec an error was found.
#pragma once

#include <swr/error.h>

#include <string>
#include <string_view>

namespace swr::kernel_spec {

/// Where an expression stands, put together for messages alone: spaces compute millions.
struct Place {
  std::string_view kind;
  std::string_view name;
  std::string_view part = {};

  operator std::string() const {
    return std::string(kind).append(name).append(part.empty() ? "" : ", ").append(part);
  }
};

/// Rethrows with the place before the message.
template <typename Where, typename Work>
auto at_place(const Where& where, Work work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), std::string(where) + ": " + error.what());
  }
}

}  // namespace swr::kernel_spec
