// SPDX-License-Identifier: MIT
#include "generator/nvrtc.h"

#include "tests/support/expect_error.h"
#include "tests/support/temp_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <ctime>

namespace swr {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr std::array<std::string_view, 1> kOptions{"--std=c++20"};

TEST(Nvrtc, TellsItsVersion) {
  EXPECT_THAT(Nvrtc(std::nullopt).version(), MatchesRegex("[0-9]+\\.[0-9]+"));
}

TEST(Nvrtc, TriesOnlyTheLibraryThatIsNamed) {
  const std::string message = message_of(
      ErrorCode::no_nvrtc, [] { const Nvrtc nvrtc(std::filesystem::path("/no/libnvrtc.so")); });
  EXPECT_THAT(message, HasSubstr("(tried /no/libnvrtc.so)"));
  EXPECT_THAT(message, HasSubstr("SWR_NVRTC"));
}

TEST(Nvrtc, RejectsALibraryThatIsSomethingElse) {
  const std::string message = message_of(
      ErrorCode::no_nvrtc, [] { const Nvrtc nvrtc(std::filesystem::path("libm.so.6")); });
  EXPECT_THAT(message, HasSubstr("libm.so.6 has no function nvrtc"));
  const TempDirectory directory;
  const auto text = directory.write("libnvrtc.so", "not a library");
  EXPECT_THROW(const Nvrtc nvrtc(text), Error);
}

TEST(Nvrtc, ListsTheArchitecturesWhenOneIsUnknown) {
  const Nvrtc nvrtc(std::nullopt);
  EXPECT_NO_THROW(nvrtc.require_arch(80));
  const std::string message =
      message_of(ErrorCode::invalid_argument, [&] { nvrtc.require_arch(91); });
  EXPECT_THAT(message, HasSubstr("sm_91"));
  EXPECT_THAT(message, HasSubstr("sm_80, "));
}

TEST(Nvrtc, ReportsErrorsAtTheRealFileAndLine) {
  const Nvrtc nvrtc(std::nullopt);
  const std::array files{
      TemplateFile{.path = "folder/entry.cu", .text = "#include \"folder/kernel.cuh\"\n"},
      TemplateFile{.path = "folder/kernel.cuh", .text = "\n\nint broken = nothing;\n"}};
  const std::string message =
      message_of(ErrorCode::compile_failed, [&] { nvrtc.compile(files, 80, "", kOptions); });
  EXPECT_THAT(message, HasSubstr("folder/entry.cu for sm_80"));
  EXPECT_THAT(message, HasSubstr("folder/kernel.cuh(3): error"));
}

TEST(Nvrtc, CompilingLosesNoInterruptThatIsUnderWay) {
  const Nvrtc nvrtc(std::nullopt);
  nvrtc.prepare();
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  raise(SIGINT);
  const std::array files{TemplateFile{.path = "entry.cu", .text = "__global__ void entry() {}\n"}};
  nvrtc.compile(files, 80, "", kOptions);
  const timespec no_time{};
  EXPECT_EQ(sigtimedwait(&interrupt, nullptr, &no_time), SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
}

TEST(Nvrtc, ReportsAnOptionItDoesNotKnow) {
  const Nvrtc nvrtc(std::nullopt);
  const std::array files{TemplateFile{.path = "entry.cu", .text = "int x;\n"}};
  const std::array<std::string_view, 1> options{"--no-such-option"};
  const std::string message =
      message_of(ErrorCode::compile_failed, [&] { nvrtc.compile(files, 80, "", options); });
  EXPECT_THAT(message, HasSubstr("no-such-option"));
}

}  // namespace
}  // namespace swr
