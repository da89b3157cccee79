// SPDX-License-Identifier: MIT
// What swr-tune writes, as a person runs it: no output replaces the database, an input or another
// database by whatever name, and a file that was there stays whole until the new one is.
#include "tests/tuner/cli/program_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

namespace swr {
namespace {

using test::Arguments;
using test::ProgramResult;

namespace fs = std::filesystem;

/// The smallest useful run: one kernel, predicted where the GPU is not present.
const Arguments kTune =
    "--gpu rtx5090 --seq 256 --tile 32x32 --stages 1 --order cyclic --persistence persistent "
    "--quiet";

class Output : public test::ProgramFixture {
 protected:
  void SetUp() override {
    environment_.front() = "HOME=" + path("home");
    run(kTune + "--db " + path("t.db"));
    before_ = bytes_of(path("t.db"));
    ASSERT_FALSE(before_.empty());
  }

  /// One line that says `why`, and nothing lost.
  void expect_refused(const Arguments& arguments, const std::string& why) {
    EXPECT_THAT(error_of(arguments, 2), HasSubstr(why));
    EXPECT_EQ(bytes_of(path("t.db")), before_) << why;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      all.push_back(entry.path().filename().string());
    }
    std::ranges::sort(all);
    return all;
  }

  std::string before_;
};

TEST_F(Output, IsNeverTheDatabase) {
  const Arguments db = "--db " + path("t.db");
  expect_refused("report --out " + path("t.db") + db, "the database of this command");
  for (const char* option : {"--csv", "--events"}) {
    expect_refused(kTune + option + path("t.db") + db, "the database of this command");
  }
  expect_refused("report --out " + path("t.db-wal") + db, "SQLite keeps beside");
}

TEST_F(Output, IsNeverTheDatabaseByAnotherName) {
  fs::create_symlink(path("t.db"), path("link.html"));
  fs::create_hard_link(path("t.db"), path("hard.html"));
  fs::create_directory(path("folder"));
  for (const char* name : {"link.html", "hard.html", "folder/../t.db"}) {
    expect_refused("report --db " + path("t.db") + " --out " + path(name),
                   "the database of this command");
  }
  // One that the run would create.
  fs::create_symlink(path("new.db"), path("new.csv"));
  expect_refused(kTune + ("--db " + path("new.db") + " --csv " + path("new.csv")),
                 "the database of this command");
}

TEST_F(Output, IsNeverAnotherDatabase) {
  expect_refused("emit --variant family=portable --out " + path("t.db"), "database");
  std::ofstream(path("shapes.txt")) << "seq=256\n";
  expect_refused("plan --shapes " + path("shapes.txt") + " --out " + path("t.db"),
                 "an SQLite database");
  fs::copy_file(path("t.db"), path("other.db"));
  expect_refused("report --db " + path("other.db") + " --out " + path("t.db-journal"),
                 "SQLite keeps beside");
}

TEST_F(Output, IsNoFileThatWritesIntoADirectoryWouldReplace) {
  run("db export-csv --help");
  run("db record --db " + path("t.db") + " --out " + path("spaces"));
  const fs::path space = fs::directory_iterator(path("spaces"))->path();
  fs::remove(space);
  fs::create_hard_link(path("t.db"), space);
  expect_refused("db record --db " + path("t.db") + " --out " + path("spaces"),
                 "the database of this command");
}

TEST_F(Output, IsNeverAnInput) {
  std::ofstream(path("shapes.txt")) << "seq=256\n";
  fs::create_symlink(path("shapes.txt"), path("list"));
  expect_refused("plan --shapes " + path("shapes.txt") + " --out " + path("list"),
                 "an input of this command");
  EXPECT_EQ(bytes_of(path("shapes.txt")), "seq=256\n");
  run("plan --shapes " + path("shapes.txt") + " --out " + path("work.json"));
  expect_refused("--gpu rtx5090 --work " + path("work.json") + " --csv " + path("work.json"),
                 "an input of this command");
  fs::create_directories(path("overlay/attention"));
  std::ofstream(path("overlay/added.h")) << "// A template.\n";
  expect_refused("emit --variant family=portable --templates " + path("overlay") + " --out " +
                     path("overlay/added.h"),
                 "among the templates");
}

TEST_F(Output, OfOneCommandGoesToFilesOfItsOwn) {
  expect_refused(
      kTune + "--db " + path("t.db") + "--csv " + path("rows") + "--events " + path("./rows"),
      "named for two outputs");
}

TEST_F(Output, IsNoDatabaseThatSQLiteTakesForItsOwnFile) {
  expect_refused("db merge --from " + path("t.db") + " --out " + path("t.db-wal"),
                 "cannot be a database");
}

TEST_F(Output, KeepsTheFileThatWasThereWhenItCannotBeWrittenWhole) {
  run("report --db " + path("t.db") + " --out " + path("page.html"));
  const std::string page = bytes_of(path("page.html"));
  chmod(path("page.html").c_str(), 0640);
  const auto was_there = names();
  // The shell's limit on the size of files stands for a full disk.
  const std::string command = "ulimit -f 400; exec '" SWR_TUNE_PROGRAM "' report --db '" +
                              path("t.db") + "' --out '" + path("page.html") + "' >'" +
                              path("stdout.txt") + "' 2>&1";
  EXPECT_NE(std::system(("HOME=/nonexistent sh -c \"" + command + "\"").c_str()), 0);
  EXPECT_THAT(bytes_of(path("stdout.txt")), HasSubstr("cannot write all of " + path("page.html")));
  EXPECT_EQ(bytes_of(path("page.html")), page);
  EXPECT_EQ(names(), was_there);
  run("report --db " + path("t.db") + " --out " + path("page.html"));
  struct stat status {};
  ASSERT_EQ(stat(path("page.html").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

/// Whatever is under way when there is no more: destructors take memory, too.
TEST_F(Output, IsOneErrorWhereMemoryRunsOut) {
  std::ofstream list(path("list.json"));
  list << "[0";
  for (int i = 0; i < 200'000; ++i) {
    list << ",[[1],[2]]";
  }
  list << "]";
  list.close();
  int refused = 0;
  for (int mib = 40; mib < 90; mib += 2) {
    const std::string command = "ulimit -v " + std::to_string(mib * 1024) +
                                "; exec '" SWR_TUNE_PROGRAM "' plan --shapes '" +
                                path("list.json") + "' --out '" + path("work.json") + "' >'" +
                                path("stdout.txt") + "' 2>&1";
    const int status = std::system(("sh -c \"" + command + "\"").c_str());
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 128) << mib << " MiB";
    const std::string text = bytes_of(path("stdout.txt"));
    refused += text == "swr-tune: error: there is not enough memory; see `ulimit -v`\n" ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(Output, FollowsALinkInsteadOfReplacingIt) {
  fs::create_directory(path("pages"));
  fs::create_symlink("pages/page.html", path("latest.html"));
  run("report --db " + path("t.db") + " --out " + path("latest.html"));
  EXPECT_TRUE(fs::is_symlink(path("latest.html")));
  EXPECT_GT(fs::file_size(path("pages/page.html")), 1000U);
}

TEST_F(Output, GoesToStandardOutputAndThroughPipes) {
  const Arguments emit = "emit --variant family=portable";
  const std::string source = run(emit);
  ASSERT_THAT(source, HasSubstr("__global__"));
  EXPECT_EQ(run(emit + "--out /dev/stdout"), source);
  run(emit + "--out /dev/null");
  EXPECT_EQ(result_of(emit + "--out /dev/full").exit_code, 1);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [this] { return bytes_of(path("pipe")); });
  run(emit + "--out " + path("pipe"));
  EXPECT_EQ(reader.get(), source);
}

TEST_F(Output, OfEventsAndReportsShareStandardOutput) {
  const std::string result = run(kTune + "--db " + path("t.db") + " --force --events /dev/stdout");
  EXPECT_THAT(result, HasSubstr("\"event\":\"start\""));
  EXPECT_THAT(result, HasSubstr("\"event\":\"end\""));
  EXPECT_THAT(result, HasSubstr("best: 32x32"));
}

}  // namespace
}  // namespace swr
