// SPDX-License-Identifier: MIT
// What swr-tune writes, as a person runs it: no output replaces the database, an input or another
// database by whatever name, and a file that was there stays whole until the new one is.
#include "tests/tuner/cli/program.h"

#include "tests/support/test.h"

#include <sys/stat.h>
#include <unistd.h>

namespace swr {
namespace {

using test::Program;
using test::ProgramResult;

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

/// The smallest useful run: one kernel, predicted where the GPU is not present.
const Arguments kTune{"--gpu",         "rtx5090",    "--seq",  "256",     "--tile",
                      "32x32",         "--stages",   "1",      "--order", "cyclic",
                      "--persistence", "persistent", "--quiet"};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Output : public ::testing::Test {
 protected:
  void SetUp() override {
    environment_ = {"HOME=" + path("home"), test::kept_folder("XDG_STATE_HOME"),
                    test::kept_folder("SWR_CACHE_DIR")};
    ASSERT_EQ(run(kTune, {"--db", path("t.db")}).exit_code, 0);
    before_ = text_of(path("t.db"));
    ASSERT_FALSE(before_.empty());
  }

  ProgramResult run(Arguments arguments, const Arguments& more = {}) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Program(arguments, environment_, directory_.path()).finish();
  }

  /// One line that says `why`, and nothing lost.
  void expect_refused(const Arguments& arguments, const Arguments& more, const std::string& why) {
    const ProgramResult result = run(arguments, more);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, StartsWith("swr-tune: error: "));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_EQ(text_of(path("t.db")), before_) << why;
  }

  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      all.push_back(entry.path().filename().string());
    }
    std::ranges::sort(all);
    return all;
  }

  TempDirectory directory_;
  std::vector<std::string> environment_;
  std::string before_;
};

TEST_F(Output, IsNeverTheDatabase) {
  const Arguments db{"--db", path("t.db")};
  expect_refused({"report", "--out", path("t.db")}, db, "the database of this command");
  for (const char* option : {"--csv", "--events"}) {
    Arguments tune = kTune;
    tune.insert(tune.end(), {option, path("t.db")});
    expect_refused(tune, db, "the database of this command");
  }
  expect_refused({"report", "--out", path("t.db-wal")}, db, "SQLite keeps beside");
}

TEST_F(Output, IsNeverTheDatabaseByAnotherName) {
  fs::create_symlink(path("t.db"), path("link.html"));
  fs::create_hard_link(path("t.db"), path("hard.html"));
  fs::create_directory(path("folder"));
  for (const char* name : {"link.html", "hard.html", "folder/../t.db"}) {
    expect_refused({"report", "--db", path("t.db"), "--out", path(name)}, {},
                   "the database of this command");
  }
  // One that the run would create.
  fs::create_symlink(path("new.db"), path("new.csv"));
  Arguments tune = kTune;
  tune.insert(tune.end(), {"--db", path("new.db"), "--csv", path("new.csv")});
  expect_refused(tune, {}, "the database of this command");
}

TEST_F(Output, IsNeverAnotherDatabase) {
  expect_refused({"emit", "--variant", "family=portable", "--out", path("t.db")}, {}, "database");
  std::ofstream(path("shapes.txt")) << "seq=256\n";
  expect_refused({"plan", "--shapes", path("shapes.txt"), "--out", path("t.db")}, {},
                 "an SQLite database");
  fs::copy_file(path("t.db"), path("other.db"));
  expect_refused({"report", "--db", path("other.db"), "--out", path("t.db-journal")}, {},
                 "SQLite keeps beside");
}

TEST_F(Output, IsNoFileThatWritesIntoADirectoryWouldReplace) {
  ASSERT_EQ(run({"db", "export-csv", "--help"}).exit_code, 0);
  ASSERT_EQ(run({"db", "record", "--db", path("t.db"), "--out", path("spaces")}).exit_code, 0);
  const fs::path space = fs::directory_iterator(path("spaces"))->path();
  fs::remove(space);
  fs::create_hard_link(path("t.db"), space);
  expect_refused({"db", "record", "--db", path("t.db"), "--out", path("spaces")}, {},
                 "the database of this command");
}

TEST_F(Output, IsNeverAnInput) {
  std::ofstream(path("shapes.txt")) << "seq=256\n";
  fs::create_symlink(path("shapes.txt"), path("list"));
  expect_refused({"plan", "--shapes", path("shapes.txt"), "--out", path("list")}, {},
                 "an input of this command");
  EXPECT_EQ(text_of(path("shapes.txt")), "seq=256\n");
  ASSERT_EQ(run({"plan", "--shapes", path("shapes.txt"), "--out", path("work.json")}).exit_code, 0);
  expect_refused({"--gpu", "rtx5090", "--work", path("work.json"), "--csv", path("work.json")}, {},
                 "an input of this command");
  fs::create_directories(path("overlay/attention"));
  std::ofstream(path("overlay/added.h")) << "// A template.\n";
  expect_refused({"emit", "--variant", "family=portable", "--templates", path("overlay"), "--out",
                  path("overlay/added.h")},
                 {}, "among the templates");
}

TEST_F(Output, OfOneCommandGoesToFilesOfItsOwn) {
  Arguments tune = kTune;
  tune.insert(tune.end(), {"--csv", path("rows"), "--events", path("./rows")});
  expect_refused(tune, {"--db", path("t.db")}, "named for two outputs");
}

TEST_F(Output, IsNoDatabaseThatSQLiteTakesForItsOwnFile) {
  expect_refused({"db", "merge", "--from", path("t.db"), "--out", path("t.db-wal")}, {},
                 "cannot be a database");
}

TEST_F(Output, KeepsTheFileThatWasThereWhenItCannotBeWrittenWhole) {
  ASSERT_EQ(run({"report", "--db", path("t.db"), "--out", path("page.html")}).exit_code, 0);
  const std::string page = text_of(path("page.html"));
  chmod(path("page.html").c_str(), 0640);
  const auto was_there = names();
  // The shell's limit on the size of files stands for a full disk.
  const std::string command = "ulimit -f 400; exec '" SWR_TUNE_PROGRAM "' report --db '" +
                              path("t.db") + "' --out '" + path("page.html") + "' >'" +
                              path("stdout.txt") + "' 2>&1";
  EXPECT_NE(std::system(("HOME=/nonexistent sh -c \"" + command + "\"").c_str()), 0);
  EXPECT_THAT(text_of(path("stdout.txt")), HasSubstr("cannot write all of " + path("page.html")));
  EXPECT_EQ(text_of(path("page.html")), page);
  EXPECT_EQ(names(), was_there);
  ASSERT_EQ(run({"report", "--db", path("t.db"), "--out", path("page.html")}).exit_code, 0);
  struct stat status {};
  ASSERT_EQ(stat(path("page.html").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST_F(Output, FollowsALinkInsteadOfReplacingIt) {
  fs::create_directory(path("pages"));
  fs::create_symlink("pages/page.html", path("latest.html"));
  ASSERT_EQ(run({"report", "--db", path("t.db"), "--out", path("latest.html")}).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(path("latest.html")));
  EXPECT_GT(fs::file_size(path("pages/page.html")), 1000U);
}

TEST_F(Output, GoesToStandardOutputAndThroughPipes) {
  const Arguments emit{"emit", "--variant", "family=portable"};
  const std::string source = run(emit).out;
  ASSERT_THAT(source, HasSubstr("__global__"));
  EXPECT_EQ(run(emit, {"--out", "/dev/stdout"}).out, source);
  EXPECT_EQ(run(emit, {"--out", "/dev/null"}).exit_code, 0);
  EXPECT_EQ(run(emit, {"--out", "/dev/full"}).exit_code, 1);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [this] { return text_of(path("pipe")); });
  EXPECT_EQ(run(emit, {"--out", path("pipe")}).exit_code, 0);
  EXPECT_EQ(reader.get(), source);
}

TEST_F(Output, OfEventsAndReportsShareStandardOutput) {
  const ProgramResult result =
      run(kTune, {"--db", path("t.db"), "--force", "--events", "/dev/stdout"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"event\":\"start\""));
  EXPECT_THAT(result.out, HasSubstr("\"event\":\"end\""));
  EXPECT_THAT(result.out, HasSubstr("best: 32x32"));
}

}  // namespace
}  // namespace swr
