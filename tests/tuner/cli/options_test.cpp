// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "tests/support/attention.h"
#include "tuner/cli/tune_command.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

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
