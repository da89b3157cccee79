// SPDX-License-Identifier: MIT
// Buffers, launches and verdicts of users' kernels on a driver that runs functions of this test.
#include "kernel_spec/operation/buffers.h"
#include "tests/operations/user_kernel/user_kernel_case.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/support/test.h"

namespace {

float variable[4];
bool writes_behind = false;
unsigned scaled_grid = 0;

template <typename Value>
Value argument(void** arguments, int place) {
  return *static_cast<Value*>(arguments[place]);
}

}  // namespace

extern "C" {

FakeVariable fake_variable_weights{variable, sizeof variable};

void fake_kernel_scale(FakeShape shape, void** arguments) {
  auto* const y = argument<float*>(arguments, 0);
  const auto* const x = argument<const float*>(arguments, 1);
  const auto n = argument<int>(arguments, 3);
  for (int i = 0; i < n; ++i) {
    y[i] = argument<float>(arguments, 2) * x[i];
  }
  if (writes_behind) {
    y[n] = 1.0F;
  }
  scaled_grid = shape.grid[0];
}

/// On the fake driver a texture's number is the address of its elements.
void fake_kernel_lookup(FakeShape /*shape*/, void** arguments) {
  auto* const y = argument<unsigned char*>(arguments, 0);
  const auto* const image = argument<const unsigned char*>(arguments, 1);
  for (int i = 0; i < argument<int>(arguments, 2); ++i) {
    y[i] = image[i];
  }
}

void fake_kernel_increment(FakeShape /*shape*/, void** arguments) {
  ++*argument<float*>(arguments, 0);
}
}

namespace swr {
namespace {

using kernel_spec::PlannedArgument;
using kernel_spec::Point;

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Bound {
  explicit Bound(const KernelSpec& spec, std::vector<std::string> entries = {"scale"})
      : user(kernel_spec::KernelPlan(spec), ""), buffers(user, 1) {
    user.fill(point, user.default_problem(), user.default_axes());
    CompiledKernel compiled{.entry = entries.front(),
                            .further_entries = {entries.begin() + 1, entries.end()}};
    launches.emplace(user, user.plan().steps(), std::make_shared<const Kernel>(compiled), point,
                     buffers);
  }

  PrimaryContext context{0};
  Stream stream;
  UserKernel user;
  ArgumentBuffers buffers;
  Point point;
  std::optional<BoundLaunches> launches;
};

TEST(UserLaunches, ComputeOnTheArgumentsOfTheSpec) {
  Bound bound(test::scale_spec());
  bound.launches->restore(bound.stream);
  bound.launches->enqueue(bound.stream);
  const auto y = floats(bound.launches->vector(0).contents());
  const auto x = floats(bound.launches->vector(1).contents());
  ASSERT_EQ(y.size(), 1000U);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], 3.0F * x[i]) << i;
    ASSERT_TRUE(x[i] >= 0.0F && x[i] < 1.0F) << i;
  }
  EXPECT_NE(x[0], x[1]);
  EXPECT_EQ(scaled_grid, 16U);
  EXPECT_EQ(bound.launches->disturbed_bytes(), 0U);
}

TEST(UserLaunches, NoticeWhatIsWrittenBehindABuffer) {
  Bound bound(test::scale_spec());
  bound.launches->restore(bound.stream);
  writes_behind = true;
  bound.launches->enqueue(bound.stream);
  writes_behind = false;
  EXPECT_GT(bound.launches->disturbed_bytes(), 0U);
  bound.launches->restore(bound.stream);
  EXPECT_EQ(bound.launches->disturbed_bytes(), 0U);
}

TEST(UserLaunches, RestoreWhatKernelsChange) {
  KernelSpec spec = test::scale_spec("counter");
  spec.arguments = {{.name = "sum",
                     .type = "float*",
                     .size = "2",
                     .is_output = true,
                     .fill = KernelFill::value,
                     .value = "5"}};
  spec.steps = {{.entry = "increment", .block = {"1"}, .grid = {"1"}, .repeat = "3"},
                {.entry = "increment", .block = {"1"}, .grid = {"1"}, .when = "n > 5000"}};
  Bound bound(spec, {"increment", "increment"});
  for (int round = 0; round < 2; ++round) {
    bound.launches->restore(bound.stream);
    bound.launches->enqueue(bound.stream);
    EXPECT_THAT(floats(bound.launches->vector(0).contents()), testing::ElementsAre(8.0F, 5.0F));
  }
}

TEST(UserLaunches, FillVariablesOfTheSource) {
  KernelSpec spec = test::scale_spec("weighted");
  spec.arguments.push_back({.name = "weights",
                            .type = "float",
                            .size = "4",
                            .is_constant = true,
                            .fill = KernelFill::index,
                            .value = "i * i"});
  const Bound bound(spec);
  EXPECT_THAT(variable, testing::ElementsAre(0.0F, 1.0F, 4.0F, 9.0F));
  spec.arguments.back().size = "5";
  spec.name = "other";
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { const Bound wrong(spec); }),
              testing::HasSubstr("has 16 bytes, and its argument has 20"));
}

TEST(UserLaunches, RefuseArgumentsThatTheDeviceHasNoRoomFor) {
  KernelSpec spec = test::scale_spec("huge");
  spec.arguments[1].size = "3 * 10 ** 9";
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { const Bound wrong(spec); }),
              testing::HasSubstr("the arguments of huge need 22888 MiB of device memory, and 16384 "
                                 "MiB are free"));
}

TEST(UserLaunches, PutTexturesIntoArrays) {
  KernelSpec spec = test::scale_spec("looked_up");
  spec.arguments = {{.name = "y", .type = "unsigned char*", .size = "n", .is_output = true},
                    {.name = "image",
                     .type = "unsigned char",
                     .texture = KernelTexture{.extent = {"n // 4", "4"}},
                     .fill = KernelFill::index,
                     .value = "i % 251"},
                    {.name = "n", .type = "int", .value = "n"}};
  spec.steps[0].entry = "lookup";
  Bound bound(spec, {"lookup"});
  bound.launches->restore(bound.stream);
  bound.launches->enqueue(bound.stream);
  const auto y = bound.launches->vector(0).contents();
  ASSERT_EQ(y.size(), 1000U);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(std::to_integer<unsigned>(y[i]), i % 251) << i;
  }
  spec.name = "too_wide";
  spec.arguments[1].texture->extent = {"n * 1000"};
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { const Bound wrong(spec, {"lookup"}); }),
              testing::HasSubstr("argument image, extent: a side is 1000000, and must be 1 to"));
}

TEST(UserLaunches, JudgeEachElementByItsTolerance) {
  const UserKernel user(kernel_spec::KernelPlan(test::scale_spec("judged")), "");
  const PlannedArgument& y = user.plan().arguments()[0];
  const auto judged = [&](std::array<float, 3> found) {
    const std::array<float, 3> expected{1.0F, 100.0F, 0.0F};
    return kernel_spec::compare_output(y, std::as_bytes(std::span(found)),
                                       std::as_bytes(std::span(expected)));
  };
  EXPECT_EQ(judged({1.0F, 100.0F, 0.0F}).failure, "");
  EXPECT_EQ(judged({1.0F, 100.005F, 0.0F}).failure, "");
  EXPECT_THAT(judged({1.0F, 100.0F, 0.001F}).failure,
              testing::HasSubstr("1 of 3 elements of y are wrong; element 2 is"));
  EXPECT_NE(judged({std::numeric_limits<float>::quiet_NaN(), 100.0F, 0.0F}).failure, "");
}

}  // namespace
}  // namespace swr
