// SPDX-License-Identifier: MIT
#include "tuner/measure/measuring_evaluator.h"

#include "driver/devices.h"
#include <swr/error.h>

#include <gtest/gtest.h>

namespace swr {
namespace {

/// The error that listing devices ends in; skips the test where there is a GPU.
class NoDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      list_devices();
    } catch (const Error& error) {
      code_ = error.code();
      message_ = error.what();
      return;
    }
    GTEST_SKIP() << "this machine has a driver and a GPU";
  }

  ErrorCode code_ = ErrorCode::invalid_argument;
  std::string message_;
};

TEST_F(NoDriver, IsOneErrorThatSaysWhatStillWorks) {
  EXPECT_EQ(code_, ErrorCode::no_driver);
  EXPECT_NE(message_.find("--gpu"), std::string::npos) << message_;
  EXPECT_EQ(message_.find('\n'), std::string::npos) << message_;
}

TEST_F(NoDriver, StopsTheMeasuringEvaluatorBeforeAnythingElse) {
  const Generator generator{GeneratorOptions{}};
  try {
    const MeasuringEvaluator evaluator(generator, MeasureOptions{});
    FAIL() << "an evaluator without a GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_driver);
  }
}

}  // namespace
}  // namespace swr
