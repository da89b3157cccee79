// SPDX-License-Identifier: MIT
#include "tuner/cli/gpu_choice.h"

#include "tests/support/fake_evaluator.h"
#include "tuner/cli/tune_command.h"
#include "tests/support/test.h"

namespace swr::cli {
namespace {

template <typename Action>
std::string rejection(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "nothing was rejected";
}

std::string rejected_gpus(const std::string& text) {
  return rejection([&] { parse_gpus(text, 4); });
}

std::string rejected_options(const std::vector<std::string>& arguments) {
  return rejection([&] { parse_command(arguments); });
}

TEST(GpuChoice, AllGpusOrSomeByTheirNumbers) {
  EXPECT_THAT(parse_gpus("all", 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(parse_gpus("2", 4), ElementsAre(2));
  EXPECT_THAT(parse_gpus("3,0", 4), ElementsAre(3, 0));
}

TEST(GpuChoice, SaysWhatIsWrongWithTheNumbers) {
  EXPECT_THAT(rejected_gpus("4"), AllOf(HasSubstr("no GPU 4"), HasSubstr("has 4")));
  EXPECT_THAT(rejected_gpus("-1"), HasSubstr("no GPU -1"));
  EXPECT_THAT(rejected_gpus("0,1,0"), HasSubstr("GPU 0 twice"));
  EXPECT_THAT(rejected_gpus("0,"), HasSubstr("--gpus takes whole numbers, not ''"));
  EXPECT_THAT(rejected_gpus("h200"), HasSubstr("--gpus takes whole numbers"));
}

TEST(GpuChoice, UnequalGpusAreRefusedByWhatTheDriverSaysOfThem) {
  const DeviceDetails details{.pci_bus_id = "0000:0a:00.0",
                              .sm_clock_khz = 1980000,
                              .memory_clock_khz = 3201000,
                              .ecc = true};
  const PresentGpu gpu{.number = 1, .device = test::fictional_device(), .details = details};
  PresentGpu other = gpu;
  other.number = 3;
  other.details.pci_bus_id = "0000:0b:00.0";
  require_equal(std::vector{gpu, other});
  const auto refused = [&](const PresentGpu& unequal) {
    return rejection([&] { require_equal(std::vector{gpu, other, unequal}); });
  };
  PresentGpu unequal = other;
  unequal.device.name = "Fictional One MIG 1g";
  EXPECT_THAT(refused(unequal),
              AllOf(HasSubstr("GPUs 1 and 3 are not equal (name is"), HasSubstr("MIG 1g")));
  unequal = other;
  unequal.details.sm_clock_khz = 1785000;
  EXPECT_THAT(refused(unequal), HasSubstr("sm_clock_khz is 1980000 and 1785000"));
  unequal = other;
  unequal.details.memory_clock_khz = 1;
  EXPECT_THAT(refused(unequal), HasSubstr("memory_clock_khz"));
  unequal = other;
  unequal.details.ecc = false;
  EXPECT_THAT(refused(unequal), HasSubstr("ecc is 1 and 0"));
}

TEST(GpuChoice, SeveralGpusArePresentAndHaveAProcessAndAProblemEach) {
  const std::vector<std::string> all{"--seq", "64", "--gpus", "all"};
  EXPECT_EQ(parse_command(all).arguments<TuneArguments>().gpus, "all");
  EXPECT_THAT(rejected_options({"--seq", "64", "--gpus", "all", "--gpu", "h200"}),
              HasSubstr("--gpu excludes --gpus"));
  EXPECT_THAT(rejected_options({"--seq", "64", "--gpus", "all", "--no-isolation"}),
              HasSubstr("--gpus"));
  EXPECT_THAT(rejected_options({"--seq", "64", "--gpus", "all", "--queue", "q"}),
              HasSubstr("--gpus"));
  EXPECT_THAT(rejected_options({"--replay", "spaces.json", "--gpus", "all"}), HasSubstr("--gpus"));
}

TEST(GpuChoice, TheMeasuringProcessOfAGpuGetsItsNumberBesideTheOptionsOfTheRun) {
  const std::vector<std::string> arguments{"measure-worker", "--seq", "64", "--gpus", "all",
                                           "--gpus",         "2"};
  EXPECT_EQ(parse_command(arguments).arguments<TuneArguments>().gpus, "2");
}

TEST(GpuChoice, AMeasuringProcessSeesItsGpuAlone) {
  EXPECT_EQ(visible_alone(std::nullopt, 2), "2");
  EXPECT_EQ(visible_alone("3,1", 0), "3");
  EXPECT_EQ(visible_alone("3,1", 1), "1");
  EXPECT_EQ(visible_alone("GPU-8932f937,GPU-1f6a2c1d", 1), "GPU-1f6a2c1d");
}

}  // namespace
}  // namespace swr::cli
