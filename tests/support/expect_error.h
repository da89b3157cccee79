// SPDX-License-Identifier: MIT
// Checks the code and the message of an Error.
#pragma once

#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace swr {

/// Runs `action`, which must throw an Error; returns its message after checking its code.
template <typename Action>
std::string message_of(ErrorCode code, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace swr
