// SPDX-License-Identifier: MIT
#include "tuner/supervise/supervised_compiler.h"

#include "tests/support/test.h"

namespace swr {
namespace {

using std::chrono::milliseconds;

class SupervisedCompiler : public ::testing::Test {
 protected:
  static CompileTask task(const std::string& source) {
    return {.files = {{"kernel.cu", source}},
            .sm_arch = 90,
            .arch_suffix = "a",
            .options = {"--fast", "-v"}};
  }

  CompiledProgram compile(const std::string& source) { return compiler_(task(source)); }

  void limit_memory(long long bytes) {
    compiler_ = supervised_compiler({.command = {.program = SWR_TEST_COMPILER,
                                                 .arguments = {},
                                                 .role = "compiling process",
                                                 .memory_bytes = bytes},
                                     .deadline = milliseconds(60'000)});
  }

  Error refusal(const std::string& source) {
    try {
      compile(source);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return {ErrorCode::invalid_argument, ""};
  }

  std::function<CompiledProgram(const CompileTask&)> compiler_ = supervised_compiler(
      {.command = {SWR_TEST_COMPILER, {}, "compiling process"}, .deadline = milliseconds(60'000)});
};

TEST_F(SupervisedCompiler, CompilesInOneProcessForEachThread) {
  const CompiledProgram first = compile("a \x80 source\n");
  EXPECT_EQ(first.cubin, std::vector<std::byte>(3, std::byte{7}));
  EXPECT_THAT(first.log, AllOf(HasSubstr("a \x80 source\n sm_90a by "), HasSubstr(" --fast -v")));
  EXPECT_EQ(compile("a \x80 source\n").log, first.log);
  std::string of_another;
  std::thread([&] { of_another = compile("a \x80 source\n").log; }).join();
  EXPECT_NE(of_another, first.log);
}

TEST_F(SupervisedCompiler, PassesOnTheKernelsOfAUserAndTheirLimit) {
  CompileTask named = task("good");
  named.kernels = {"add<4>", "scale"};
  named.limit_s = 2.5;
  const CompiledProgram program = compiler_(named);
  EXPECT_THAT(program.lowered_names, ElementsAre("_Zadd<4>", "_Zscale"));
  EXPECT_THAT(program.log, HasSubstr(" within 2.5"));
  EXPECT_THAT(program.log, Not(HasSubstr("foreign")));
  named.is_foreign = true;
  EXPECT_THAT(compiler_(named).log, HasSubstr(" foreign"));
}

TEST_F(SupervisedCompiler, PassesOnWhatTheCompilerSays) {
  const std::string before = compile("good").log;
  const Error error = refusal("fail");
  EXPECT_EQ(error.code(), ErrorCode::compile_failed);
  EXPECT_STREQ(error.what(), "line 1: no such thing\nline 2: either");
  EXPECT_EQ(compile("good").log, before);
}

TEST_F(SupervisedCompiler, AKernelThatKillsItCostsThatKernelAlone) {
  compile("good");
  const Error error = refusal("crash");
  EXPECT_EQ(error.code(), ErrorCode::compile_failed);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("did not survive kernel.cu for sm_90"),
                                  HasSubstr("the compiling process was ended by signal SIGABRT")));
  EXPECT_THAT(compile("good").log, HasSubstr("good"));
}

TEST_F(SupervisedCompiler, AKernelThatTakesTooMuchMemoryCostsThatKernelAlone) {
  limit_memory(512LL << 20);
  const Error error = refusal("hoard");
  EXPECT_EQ(error.code(), ErrorCode::compile_failed);
  EXPECT_THAT(error.what(),
              HasSubstr("the compiling process was ended because it used more than 512 MiB"));
  EXPECT_THAT(compile("good").log, HasSubstr("good"));
}

TEST_F(SupervisedCompiler, MemoryThatIsReservedAndNotUsedDoesNotCount) {
  limit_memory(512LL << 20);
  EXPECT_THAT(compile("reserve").log, HasSubstr("reserve"));
}

TEST_F(SupervisedCompiler, TriesAgainAfterTheFirstDeath) {
  const TempDirectory directory;
  CompileTask once = task("crash once");
  once.files.emplace_back("mark", (directory / "mark").string());
  EXPECT_THAT(compiler_(once).log, HasSubstr("crash once"));
}

TEST_F(SupervisedCompiler, AKernelThatIsNeverDoneMeetsItsDeadline) {
  compiler_ = supervised_compiler(
      {.command = {SWR_TEST_COMPILER, {}, "compiling process"}, .deadline = milliseconds(200)});
  const Error error = refusal("hang");
  EXPECT_EQ(error.code(), ErrorCode::compile_failed);
  EXPECT_THAT(error.what(), HasSubstr("no answer from the compiling process within 200 ms"));
}

TEST_F(SupervisedCompiler, AKernelWithALimitMeetsThatOne) {
  CompileTask endless = task("hang");
  endless.limit_s = -4.9;  // A tenth of a second, with what it has to notice.
  EXPECT_THAT(message_of(ErrorCode::compile_failed, [&] { compiler_(endless); }),
              HasSubstr("took longer than its limit of"));
}

}  // namespace
}  // namespace swr
