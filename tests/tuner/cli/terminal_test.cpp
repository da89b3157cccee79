// SPDX-License-Identifier: MIT
// What a person sees on a terminal: widths, colours, Ctrl-C; and what shells and man get.
#include "tests/tuner/cli/program_fixture.h"

#include <regex>
#include <unistd.h>

namespace swr {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Arguments;
using test::ProgramResult;
using test::TerminalProgram;

/// Two kernels and more variants, whose order and workers differ.
const Arguments kSmallTune =
    "--gpu rtx5090 --seq 256 --tile 32x32 --stages 1 --workers 0,48 --quiet "
    "--order cyclic,sawtooth --persistence persistent";

/// Without escape codes, and without what was drawn over.
std::string plain(const std::string& text) {
  static const std::regex kEscape("\x1b\\[[0-9;]*[A-Za-z]");
  return std::regex_replace(text, kEscape, "");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

class Terminal : public test::ProgramFixture {
 protected:
  std::string shown(const Arguments& arguments, int columns,
                    const Arguments& more_environment = {}) {
    std::vector<std::string> environment = environment_;
    environment.insert(environment.end(), more_environment.begin(), more_environment.end());
    TerminalProgram program(arguments, environment, columns);
    EXPECT_EQ(program.finish(), 0) << program.text();
    return program.text();
  }

  /// Keys, paths and commands are for copying and stay in one piece.
  static bool may_be_long(const std::string& line) {
    return line.find("family=") != line.npos || line.starts_with("stored:") ||
           line.starts_with("next:");
  }
};

TEST_F(Terminal, NothingIsWiderThanTheTerminal) {
  for (const int columns : {60, 80, 100, 160}) {
    for (const Arguments& arguments : {kSmallTune,
                                       Arguments("devices"),
                                       {"axes"},
                                       {"--help"},
                                       {"tune", "--help"},
                                       {"query", "--gpu", "rtx5090", "--seq", "256"}}) {
      for (const std::string& line : lines_of(plain(shown(arguments, columns)))) {
        EXPECT_TRUE(line.size() <= static_cast<std::size_t>(columns) || may_be_long(line))
            << columns << ": " << line;
      }
    }
  }
}

TEST_F(Terminal, SaysOnceWhatIsTheSameInAllRows) {
  const std::string narrow = plain(shown(kSmallTune, 80));
  EXPECT_THAT(narrow, ContainsRegex("in all rows: .*tile 32x32"));
  EXPECT_THAT(narrow, HasSubstr("TFLOP/s"));
  EXPECT_THAT(plain(shown(kSmallTune, 200)), Not(HasSubstr("in all rows")));
}

TEST_F(Terminal, APipeGetsTheWholeTableWhateverColumnsSays) {
  const ProgramResult piped = result_of(kSmallTune);
  environment_.push_back("COLUMNS=60");
  const ProgramResult narrow = result_of(kSmallTune);
  EXPECT_EQ(piped.out, narrow.out);
  EXPECT_THAT(piped.out, ContainsRegex("rank +tile +warps +stages +order +persistence +swizzle"));
}

TEST_F(Terminal, ColumnsWinsOverTheTerminal) {
  for (const std::string& line : lines_of(plain(shown("axes", 200, "COLUMNS=70")))) {
    EXPECT_LE(line.size(), 70U) << line;
  }
}

TEST_F(Terminal, ColoursMeanSomethingAndNoColorTurnsThemOff) {
  const std::string yellow = "\x1b[33mpredicted\x1b[39m";
  const std::string green = "\x1b[32mmeasured\x1b[39m";
  EXPECT_THAT(shown(kSmallTune, 100), ::testing::AnyOf(HasSubstr(yellow), HasSubstr(green)));
  EXPECT_THAT(shown(kSmallTune, 100, "NO_COLOR=1"), Not(HasSubstr("\x1b[")));
  EXPECT_THAT(run(kSmallTune), Not(HasSubstr("\x1b")));
}

TEST_F(Terminal, CtrlCIsAnsweredWithATrueSummary) {
  environment_.back() = "SWR_CACHE_DIR=" + (dir_ / "empty_cache").string();
  TerminalProgram program({"--gpu", "gb10", "--seq", "4096"}, environment_, 100);
  program.wait_for("compiling the first kernels");
  program.interrupt();
  program.wait_for("second Ctrl-C");
  EXPECT_EQ(program.finish(), 130);
  const std::string text = plain(program.text());
  EXPECT_THAT(text, HasSubstr("swr-tune: interrupted; ending after what is in hand"));
  EXPECT_THAT(text, Not(HasSubstr("best: none")));
  if (text.find("best: unknown") != text.npos) {
    EXPECT_THAT(text, HasSubstr("stored: nothing"));
    EXPECT_THAT(text, Not(HasSubstr("next:")));
    EXPECT_THAT(text, ContainsRegex("ranked by the model, not compiled:\n  [0-9.]+ (us|ms)  "));
  } else {
    EXPECT_THAT(text, ContainsRegex("interrupted: [0-9]+ variants were tried"));
  }
}

TEST_F(Terminal, ABareCallListsTheCommandsByGroup) {
  const std::string result = run({});
  EXPECT_THAT(result, HasSubstr("\nTune:\n"));
  EXPECT_THAT(result, HasSubstr("\nAsk what is stored:\n"));
  EXPECT_THAT(result, HasSubstr("swr-tune --gpu gb10 --seq 131072"));
  EXPECT_THAT(result, Not(HasSubstr("man-page")));
  EXPECT_EQ(run("help"), result);
  EXPECT_EQ(run("help query"), run("query --help"));
}

TEST_F(Terminal, HelpHasNoListsOfWhatExcludesWhatAndEachCommandItsOwnRemarks) {
  const std::string tune = run("tune --help");
  EXPECT_THAT(tune, Not(HasSubstr("Excludes")));
  EXPECT_THAT(tune, HasSubstr("\nSearch:\n"));
  EXPECT_THAT(tune, HasSubstr("\nMeasuring:\n"));
  EXPECT_THAT(run("plan --help"), Not(AnyOf(HasSubstr("Needs"), HasSubstr("Option Group"))));
  const std::string db = run("db");
  EXPECT_THAT(db, HasSubstr("export-csv"));
  EXPECT_THAT(db, Not(HasSubstr("Exit codes")));
}

TEST_F(Terminal, SuggestsWhatWasProbablyMeant) {
  EXPECT_THAT(error_of("qurey --seq 64", 2), HasSubstr("did you mean query?"));
  EXPECT_THAT(error_of("--seq 64 --causl", 2),
              HasSubstr("unknown option --causl; did you mean --causal?"));
  EXPECT_THAT(error_of("--seq=64 --hed-dim=64", 2), HasSubstr("did you mean --head-dim?"));
  EXPECT_THAT(error_of("export --uot x", 2), HasSubstr("did you mean --out?"));
  EXPECT_THAT(error_of("db exprot-csv", 2), HasSubstr("did you mean export-csv?"));
  EXPECT_THAT(error_of("benchmark", 2), Not(HasSubstr("did you mean")));
  EXPECT_THAT(error_of("devices extra", 2), HasSubstr("'extra' is more than"));
}

TEST_F(Terminal, DoctorSaysWhatIsThereAndWhatToDo) {
  const std::string result = run("doctor");
  EXPECT_THAT(result, StartsWith("swr "));
  EXPECT_THAT(result, ContainsRegex("NVRTC +ok +[0-9]+\\.[0-9]+, compiles a kernel in"));
  EXPECT_THAT(result, ContainsRegex("database +ok +.*which the first tuning creates"));
  EXPECT_THAT(result, ContainsRegex("cache +(ok|note) "));
  const json document = json_of("doctor");
  EXPECT_GE(document["findings"].size(), 6U);
  for (const json& finding : document["findings"]) {
    EXPECT_NE(finding["health"], "broken");
  }
}

TEST_F(Terminal, DoctorFailsForWhatIsBroken) {
  std::ofstream(dir_ / "junk.db") << std::string(8192, 'j');
  const ProgramResult junk = result_of("doctor --db " + (dir_ / "junk.db").string());
  EXPECT_EQ(junk.exit_code, 1);
  EXPECT_THAT(junk.out, ContainsRegex("database +broken .*junk.db"));
  EXPECT_THAT(junk.out, HasSubstr("to do: name another with --db"));
  environment_.push_back("SWR_NVRTC=" + (dir_ / "nowhere.so").string());
  const ProgramResult without = result_of("doctor");
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.out, ContainsRegex("NVRTC +broken .*nowhere.so"));
  std::ofstream(dir_ / "file") << "text";
  const ProgramResult cache = result_of("doctor --cache-dir " + (dir_ / "file/below").string());
  EXPECT_THAT(cache.out, ContainsRegex("cache +broken .*is no directory"));
  fs::create_directory(dir_ / "open");
  fs::permissions(dir_ / "open", fs::perms::group_write, fs::perm_options::add);
  const Arguments group = "doctor --cache-dir " + (dir_ / "open").string();
  EXPECT_THAT(result_of(group).out, ContainsRegex("cache +broken .*changed by other users"));
}

/// What bash offers for the last of the words.
std::string offered(const fs::path& script, const std::string& words) {
  const fs::path out = script.parent_path() / "offered.txt";
  const std::string line = "bash -c 'source " + script.string() + "; COMP_WORDS=(" + words +
                           "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _swr_tune; printf \"%s\\n\" "
                           "\"${COMPREPLY[@]}\"' > " +
                           out.string();
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  return bytes_of(out);
}

bool is_installed(const std::string& program) {
  return std::system(("command -v " + program + " > /dev/null").c_str()) == 0;
}

TEST_F(Terminal, BashCompletesCommandsOptionsAndValues) {
  const std::string script = run("completion bash");
  const fs::path file = dir_ / "swr-tune.bash";
  std::ofstream(file) << script;
  EXPECT_EQ(offered(file, "swr-tune qu"), "query\n");
  EXPECT_THAT(offered(file, "swr-tune --str"), HasSubstr("--strategy\n"));
  EXPECT_THAT(offered(file, "swr-tune query --repl"), HasSubstr("--replayed\n"));
  EXPECT_EQ(offered(file, "swr-tune query --strat"), "\n");
  EXPECT_THAT(offered(file, "swr-tune tune --gpu gb"), HasSubstr("gb10\n"));
  EXPECT_EQ(offered(file, "swr-tune --order saw"), "sawtooth\n");
  EXPECT_EQ(offered(file, "swr-tune db mer"), "merge\n");
  EXPECT_THAT(offered(file, "swr-tune db merge --"), HasSubstr("--from\n"));
  EXPECT_EQ(offered(file, "swr-tune completion z"), "zsh\n");
}

TEST_F(Terminal, EveryShellReadsItsScript) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script = run({"completion", shell});
    EXPECT_THAT(script, HasSubstr("replayed"));
    const fs::path file = dir_ / ("swr-tune." + shell);
    std::ofstream(file) << script;
    if (is_installed(shell)) {
      EXPECT_EQ(std::system((shell + " -n " + file.string()).c_str()), 0) << shell;
    }
  }
  EXPECT_THAT(error_of("completion tcsh", 2), HasSubstr("bash,zsh,fish"));
}

TEST_F(Terminal, TheManualPageHasEveryCommandAndNoWarnings) {
  const std::string page = run("man-page");
  EXPECT_THAT(page, StartsWith(".TH SWR\\-TUNE 1"));
  for (const char* command : {"tune", "query", "db merge", "doctor", "watch"}) {
    EXPECT_THAT(page, HasSubstr(".SS swr\\-tune " +
                                std::regex_replace(std::string(command), std::regex("-"), "\\-")));
  }
  const fs::path file = dir_ / "swr-tune.1";
  std::ofstream(file) << page;
  if (is_installed("groff")) {
    const std::string warnings = (dir_ / "warnings.txt").string();
    EXPECT_EQ(
        std::system(("groff -man -Tutf8 -ww -z " + file.string() + " 2> " + warnings).c_str()), 0);
    EXPECT_EQ(bytes_of(warnings), "");
  }
}

}  // namespace
}  // namespace swr
