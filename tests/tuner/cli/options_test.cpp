// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "model/profile/gpu_profile.h"
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/support/test.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/kernel_range.h"
#include "tuner/cli/tune_command.h"
#include "tuner/cli/work_source.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/kernel.h>

namespace swr::cli {
namespace {

std::string command_of(const std::vector<std::string>& arguments) {
  return parse_command(arguments).text.name;
}

/// What tune is asked.
TuneArguments parse(const std::vector<std::string>& arguments) {
  return parse_command(arguments).arguments<TuneArguments>();
}

/// The message of the invalid_argument that parsing and converting the arguments gives.
std::string rejection(std::vector<std::string> arguments) {
  try {
    const TuneArguments options = parse(arguments);
    problems(options.problem);
    space_options(options.space);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "nothing was rejected";
}

TEST(Options, TuneIsTheDefaultCommand) {
  EXPECT_EQ(command_of({"--seq", "64"}), "tune");
  EXPECT_EQ(command_of({"tune", "--seq", "64"}), "tune");
  EXPECT_EQ(command_of({"query", "--seq", "64"}), "query");
  EXPECT_EQ(command_of({"devices"}), "devices");
}

TEST(Options, HelpAndVersionAreTextAndNoCommand) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"tune", "--help"}, {"query", "-h"}, {"--version"}}) {
    const ParsedCommand parsed = parse_command(arguments);
    EXPECT_FALSE(parsed.run);
    EXPECT_THAT(parsed.help_text, HasSubstr("swr-tune"));
  }
}

TEST(Options, DefaultsDescribeOneHeadOfFp16) {
  const auto all = problems(parse({"--seq", "4096"}).problem);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0], (AttentionProblem{.seq_q = 4096, .seq_kv = 4096}));
}

TEST(Options, ReadsEveryFieldOfTheProblem) {
  const auto all = problems(
      parse({"--seq", "64,128", "--seq-kv", "256", "--batch", "2", "--heads", "8", "--kv-heads",
             "4", "--head-dim", "128", "--dtype", "bf16", "--causal", "--alignment", "8"})
          .problem);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[1], (AttentionProblem{.batch = 2,
                                      .heads_q = 8,
                                      .heads_kv = 4,
                                      .seq_q = 128,
                                      .seq_kv = 256,
                                      .head_dim = 128,
                                      .dtype = DType::bf16,
                                      .causal = true,
                                      .alignment_bytes = 8}));
  EXPECT_EQ(attention(all[0]).seq_q, 64);
}

TEST(Options, KeyAndValueHeadsFollowTheQueryHeads) {
  EXPECT_EQ(attention(problems(parse({"--seq", "64", "--heads", "6"}).problem)[0]).heads_kv, 6);
}

TEST(Options, TheLastOfARepeatedOptionCounts) {
  EXPECT_EQ(attention(problems(parse({"--seq", "64", "--seq", "32"}).problem)[0]).seq_q, 32);
}

TEST(Options, MeasuringIsWarmAndDoneOnceUnlessSaidOtherwise) {
  EXPECT_EQ(parse({"--seq", "64"}).repeat, 1);
  EXPECT_EQ(parse({"--seq", "64", "--repeat", "3"}).repeat, 3);
  const auto l2_state = [](const std::vector<std::string>& arguments) {
    return parse_command(arguments).common.l2_state;
  };
  EXPECT_EQ(l2_state({"--seq", "64"}), L2State::warm);
  EXPECT_EQ(l2_state({"--seq", "64", "--l2", "cold"}), L2State::cold);
  EXPECT_THAT(rejection({"--seq", "64", "--l2", "hot"}), HasSubstr("warm, cold"));
  EXPECT_THAT(rejection({"--seq", "64", "--repeat", "0"}), HasSubstr("--repeat"));
}

TEST(Options, EveryAxisButTheTileHasAnOption) {
  for (const Axis& axis : axes(attention_operation())) {
    if (axis.name == "tile_m" || axis.name == "tile_n" || axis.name == "warps") {
      continue;
    }
    std::string option = "--" + std::string(axis.name);
    std::replace(option.begin(), option.end(), '_', '-');
    const std::string value = to_string(axis.get(AttentionVariant{}));
    const SpaceOptions space =
        space_options(parse({"--seq", "64", option, value + "," + value}).space);
    ASSERT_TRUE(space.restrictions.contains(axis.name)) << axis.name;
    EXPECT_THAT(space.restrictions.find(axis.name)->second, SizeIs(2)) << axis.name;
  }
}

TEST(Options, AxesThatAreNotNamedAreNotRestricted) {
  const SpaceOptions space =
      space_options(parse({"--seq", "64", "--order", "sawtooth,cyclic"}).space);
  ASSERT_THAT(space.restrictions, SizeIs(1));
  EXPECT_THAT(space.restrictions.at("order"),
              ElementsAre(AxisValue("sawtooth"), AxisValue("cyclic")));
  EXPECT_TRUE(space.tiles.empty());
}

TEST(Options, WarpsOfATileMayBeLeftToTheFamily) {
  EXPECT_EQ(parse_tile("64x32").warps, 0);
  EXPECT_EQ(parse_tile("128x64x8").warps, 8);
  EXPECT_EQ(parse_tile("128x64x8").tile_m, 128);
  EXPECT_EQ(parse_tile("128x64x8").tile_n, 64);
  EXPECT_THROW(parse_tile("128x64x0"), Error);
}

TEST(Options, SayWhatIsWrongWithAValue) {
  EXPECT_THAT(rejection({"--seq", "0"}), HasSubstr("seq must be at least 1"));
  EXPECT_THAT(rejection({"--seq", "12x"}), HasSubstr("--seq takes whole numbers, not '12x'"));
  EXPECT_THAT(rejection({"--seq", "64,,64"}), HasSubstr("--seq takes whole numbers, not ''"));
  EXPECT_THAT(rejection({"--seq", "99999999999"}), HasSubstr("--seq takes whole numbers"));
  EXPECT_THAT(rejection({"--seq", "64", "--head-dim", "63"}), HasSubstr("multiple of 16"));
  EXPECT_THAT(rejection({"--seq", "64", "--heads", "6", "--kv-heads", "4"}),
              HasSubstr("heads (6) must be a multiple of kv-heads (4)"));
  EXPECT_THAT(rejection({"--seq", "64", "--dtype", "fp8"}), HasSubstr("fp16, bf16"));
  EXPECT_THAT(rejection({"--seq", "64", "--op", "gemm"}), HasSubstr("attention"));
  EXPECT_THAT(rejection({"--seq", "64", "--tile", "64"}), HasSubstr("MxN"));
  EXPECT_THAT(rejection({"--seq", "64", "--tile", "64xy"}), HasSubstr("whole numbers"));
  EXPECT_THAT(rejection({"--seq", "64", "--jobs", "-1"}), HasSubstr("--jobs"));
  EXPECT_THAT(rejection({"--seq", "64", "--top", "0"}), HasSubstr("--top"));
}

/// Whatever command measures, the measuring process reads its arguments.
TEST(Options, OfAMeasuringProcessAreThoseOfTheCommandThatStartedIt) {
  const std::vector<std::string> of_tune{"measure-worker", "--seq", "64", "--samples", "7"};
  EXPECT_TRUE(parse_command(of_tune).is_worker);
  EXPECT_EQ(parse(of_tune).samples, 7);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"measure-worker", "tune", "--seq", "64"},
        {"compile-worker", "--seq", "64"}}) {
    EXPECT_TRUE(parse_command(arguments).is_worker);
    EXPECT_EQ(command_of(arguments), "tune");
  }
}

/// A list says every problem: whatever option asks for one beside it, of whatever operation.
TEST(Options, OfAProblemAreRefusedBesideAList) {
  const auto refusal = [](const std::vector<std::string>& arguments) {
    std::ostringstream out;
    std::ostringstream err;
    const Environment environment{.home = "/nonexistent"};
    EXPECT_EQ(run(arguments, environment, out, err), kExitBadUsage) << arguments.back();
    return err.str();
  };
  for (const std::vector<std::string>& list :
       {std::vector<std::string>{"--work", "absent.json"}, {"--missed"}}) {
    const auto asked = [&](std::initializer_list<std::string> more) {
      std::vector<std::string> arguments = list;
      arguments.insert(arguments.end(), more);
      return arguments;
    };
    EXPECT_THAT(refusal(asked({"--op", "softmax"})), HasSubstr(list[0] + " excludes --op"));
    for (const Operation* const operation : operations_of_swr()) {
      for (const ProblemField& field : operation->fields()) {
        const std::string name = "--" + std::string(field.option);
        EXPECT_THAT(refusal(field.type == FieldType::flag ? asked({name}) : asked({name, "64"})),
                    HasSubstr(list[0] + " excludes " + name));
      }
    }
  }
}

TEST(Options, RefuseEmptyValues) {
  EXPECT_THAT(rejection({"--seq", "64", "--heads", ""}), HasSubstr("--heads has an empty value"));
  EXPECT_THAT(rejection({"--seq", "64", "--heads="}), HasSubstr("--heads has an empty value"));
  EXPECT_THAT(rejection({"--seq", "64", "--cache-dir", ""}), HasSubstr("--cache-dir"));
}

TEST(Options, SayWhatIsWrongWithTheCommandLine) {
  EXPECT_THAT(rejection({"--heads", "2"}), HasSubstr("--seq is required"));
  EXPECT_THAT(rejection({"--seq", "64", "--bogus"}), HasSubstr("--bogus"));
  EXPECT_THAT(rejection({"frobnicate"}), HasSubstr("unknown command 'frobnicate'"));
  EXPECT_THAT(rejection({"export"}), HasSubstr("--out is required"));
  EXPECT_THAT(rejection({"emit"}), HasSubstr("--variant is required"));
}

}  // namespace
}  // namespace swr::cli

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

namespace swr::cli {
namespace {

using Variables = std::map<std::string, std::string>;

std::string chosen(const Variables& variables, const std::string& asked = "") {
  Environment environment{.launcher = variables};
  return to_string(choose_shard(asked, environment).shard);
}

std::string error_of(const Variables& variables, const std::string& asked = "") {
  try {
    return "no error but " + chosen(variables, asked);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

Variables array(const std::string& id, const std::string& count) {
  return {{"SLURM_ARRAY_TASK_ID", id}, {"SLURM_ARRAY_TASK_COUNT", count}};
}

Variables with(Variables variables, const Variables& more) {
  variables.insert(more.begin(), more.end());
  return variables;
}

const Variables kBatchScript{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
const Variables kStep{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}};
const Variables kPmi{{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}};

TEST(ShardChoice, AnOptionWinsOverEveryLauncher) {
  EXPECT_EQ(chosen(with(array("3", "8"), kOpenMpi), "1/2"), "1/2");
  EXPECT_EQ(chosen(array("3", "8"), "0/1"), "0/1");
}

TEST(ShardChoice, ReadsEachLauncher) {
  EXPECT_EQ(chosen({}), "0/1");
  EXPECT_EQ(chosen(array("3", "8")), "3/8");
  EXPECT_EQ(chosen(array("3", "8"), "auto"), "3/8");
  EXPECT_EQ(chosen(kStep), "2/4");
  EXPECT_EQ(chosen(kOpenMpi), "1/3");
  EXPECT_EQ(chosen(kPmi), "5/6");
}

TEST(ShardChoice, CountsArrayElementsFromTheFirst) {
  EXPECT_EQ(chosen(with(array("7", "4"),
                        {{"SLURM_ARRAY_TASK_MIN", "1"}, {"SLURM_ARRAY_TASK_STEP", "2"}})),
            "3/4");
}

TEST(ShardChoice, ABatchScriptIsRunOnce) { EXPECT_EQ(chosen(kBatchScript), "0/1"); }

TEST(ShardChoice, TheInnermostLauncherCounts) {
  EXPECT_EQ(chosen(with(kStep, kOpenMpi)), "1/3");
  EXPECT_EQ(chosen(with(kBatchScript, kOpenMpi)), "1/3");
  EXPECT_EQ(chosen(with(kStep, kPmi)), "2/4");
}

TEST(ShardChoice, RanksWithinAnArrayElementDivideItsShare) {
  EXPECT_EQ(chosen(with(array("3", "8"), kStep)), "14/32");
  EXPECT_EQ(chosen(with(array("3", "8"), kBatchScript)), "3/8");
}

TEST(ShardChoice, SaysWhatIsWrong) {
  EXPECT_THAT(error_of({}, "auto"), HasSubstr("--shard I/N"));
  EXPECT_THAT(error_of({}, "8/8"), HasSubstr("0/8 to 7/8"));
  EXPECT_THAT(error_of(array("x", "8")), HasSubstr("SLURM_ARRAY_TASK_ID is 'x'"));
  EXPECT_THAT(error_of({{"SLURM_ARRAY_TASK_ID", "1"}}), HasSubstr("SLURM_ARRAY_TASK_COUNT is not"));
  EXPECT_THAT(error_of(array("7", "3")), HasSubstr("without gaps"));
  EXPECT_THAT(error_of(with(array("4", "3"), {{"SLURM_ARRAY_TASK_MIN", "5"}})),
              HasSubstr("contradict"));
  EXPECT_THAT(error_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "-2"}}), HasSubstr("PMI_SIZE is '-2'"));
  EXPECT_THAT(error_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "0"}}), HasSubstr("number 1 of 0"));
}

}  // namespace
}  // namespace swr::cli

namespace swr::cli {
namespace {

std::vector<Problem> problems_of(const std::string& line) {
  std::vector<Problem> all;
  for (const ProblemRange& range : parse_kernel_range(line).problems) {
    range.each(1, [&](const Problem& problem) { all.push_back(problem); });
  }
  return all;
}

TEST(KernelRange, CombinesWhatBarsSeparateAndDrawsTheRest) {
  const auto problems = problems_of(
      "attention draws=50 head_dim=64|128 causal=0|1 heads_kv=2,4 heads_q=heads_kv*8 "
      "seq_q=16..4096/16 seq_kv=seq_q*1");
  ASSERT_EQ(problems.size(), 200U);
  std::set<std::pair<int, bool>> combinations;
  for (const Problem& problem : problems) {
    const auto& asked = problem.as<AttentionProblem>();
    combinations.insert({asked.head_dim, asked.causal});
    EXPECT_EQ(asked.heads_q, 8 * asked.heads_kv);
    EXPECT_EQ(asked.seq_q % 16, 0);
    EXPECT_TRUE(asked.seq_q >= 16 && asked.seq_q <= 4096);
    EXPECT_EQ(asked.seq_kv, asked.seq_q);
  }
  EXPECT_EQ(combinations.size(), 4U);
}

TEST(KernelRange, LeavesOutWhatIsNoProblem) {
  EXPECT_EQ(problems_of("attention draws=3 head_dim=64|72 seq_q=64 seq_kv=64").size(), 3U);
}

TEST(KernelRange, SaysWhatIsWrongWithALine) {
  for (const auto& [line, text] : {std::pair{"attention draws", "has no '='"},
                                   {"attention colour=1", "no field colour"},
                                   {"attention seq_q=long", "'long' is no number"},
                                   {"carpets draws=1", "carpets"}}) {
    const std::string message = message_of(ErrorCode::invalid_argument,
                                           [&] { parse_kernel_range(std::string("# \n") + line); });
    EXPECT_THAT(message, HasSubstr(text));
    EXPECT_THAT(message, HasSubstr("line 2"));
  }
}

TEST(KernelRange, OfThePackageHasEveryOperationAndEveryTemplateBesideThem) {
  const KernelRange range = shipped_range();
  std::set<std::string> operations;
  for (ProblemRange problems : range.problems) {
    problems.draws = 1;
    int count = 0;
    problems.each(1, [&](const Problem&) { ++count; });
    EXPECT_GT(count, 0) << name_of(*problems.operation);
    operations.insert(std::string(name_of(*problems.operation)));
  }
  EXPECT_EQ(operations.size(), operations_of_swr().size());
  EXPECT_EQ(range.templates.size(), 2U);
}

TEST(KernelRange, KernelsThatAreChosenForSomeServeNearlyAll) {
  std::vector<ProblemRange> ranges =
      parse_kernel_range(
          "attention_backward draws=60 head_dim=64|128 head_dim_v=head_dim*1 causal=0|1 "
          "batch=1..64 "
          "heads_kv=1,2,8 heads_q=heads_kv*1,heads_kv*4 seq_q=16..16384 seq_kv=seq_q*1")
          .problems;
  const std::vector<DeviceInfo> devices{load_profile("h200").device};
  std::set<std::string> chosen;
  for (const RangedKernel& kernel : untuned_kernels(ranges, devices, 1)) {
    chosen.insert(kernel.identity);
  }
  EXPECT_LT(chosen.size(), 20U);
  int all = 0;
  int served = 0;
  for (const RangedKernel& kernel : untuned_kernels(ranges, devices, 2)) {
    all += kernel.problems;
    served += chosen.contains(kernel.identity) ? kernel.problems : 0;
  }
  EXPECT_EQ(all, 240);
  EXPECT_GT(served, 0.98 * all);
}

TEST(KernelRange, EveryKernelForAGb10FitsItsSharedMemory) {
  constexpr int kSmemOfACta = 99 * 1024;
  const DeviceInfo gb10 = load_profile("gb10").device;
  std::vector<ProblemRange> ranges = shipped_range().problems;
  for (ProblemRange& range : ranges) {
    range.draws = 4;
  }
  for (const RangedKernel& kernel : untuned_kernels(ranges, {gb10}, 1)) {
    EXPECT_LE(smem_bytes(kernel.problem, kernel.variant), kSmemOfACta)
        << to_string(kernel.problem) << " " << to_key(kernel.variant);
  }
}

}  // namespace
}  // namespace swr::cli

namespace swr::cli {
namespace {

TEST(Environment, SwrVariablesWinOverXdgAndXdgOverHome) {
  Environment environment{.home = "/users/ada"};
  EXPECT_EQ(default_database(environment), "/users/ada/.local/share/swr/tuned.db");
  EXPECT_EQ(default_cache_dir(environment), "/users/ada/.cache/swr");
  environment.xdg_data_home = "/data";
  environment.xdg_cache_home = "/cache";
  EXPECT_EQ(default_database(environment), "/data/swr/tuned.db");
  EXPECT_EQ(default_cache_dir(environment), "/cache/swr");
  environment.database = "/elsewhere/my.db";
  environment.cache_dir = "/elsewhere/cubins";
  EXPECT_EQ(default_database(environment), "/elsewhere/my.db");
  EXPECT_EQ(default_cache_dir(environment), "/elsewhere/cubins");
}

TEST(Environment, AsksForAPlaceWhenThereIsNoHome) {
  EXPECT_THROW(default_database({}), Error);
  EXPECT_THROW(default_cache_dir({}), Error);
}

TEST(Environment, ColumnsWinsOverWhatTheTerminalSaysWhereItMakesSense) {
  EXPECT_EQ(terminal_width(std::nullopt, 132), 132U);
  EXPECT_EQ(terminal_width("100", 132), 100U);
  for (const char* senseless : {"", "0", "-5", "wide", "80x24", "7"}) {
    EXPECT_EQ(terminal_width(senseless, 132), 132U) << senseless;
  }
  EXPECT_EQ(terminal_width(std::nullopt, 0), 80U);
}

TEST(Environment, OutputThatIsNoTerminalHasNoWidth) {
  setenv("COLUMNS", "100", 1);
  const Environment environment = read_environment();
  unsetenv("COLUMNS");
  EXPECT_EQ(environment.stdout_width, environment.stdout_is_terminal ? 100U : 0U);
  EXPECT_EQ(environment.stderr_width, environment.stderr_is_terminal ? 100U : 0U);
}

}  // namespace
}  // namespace swr::cli
