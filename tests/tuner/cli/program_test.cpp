// SPDX-License-Identifier: MIT
// swr-tune as a person runs it: a child process with an environment of its own. A named GPU is
// used throughout, which is measured or predicted depending on the machine.
#include "core/json.h"
#include "tests/support/fictional.h"
#include "tests/tuner/cli/program_fixture.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/variant.h>

#include <fcntl.h>
#include <regex>
#include <sys/stat.h>
#include <unistd.h>

namespace swr {
namespace {

using nlohmann::json;
using test::Arguments;
using test::Program;
using test::ProgramResult;

namespace fs = std::filesystem;

/// The smallest useful run: two kernels.
const Arguments kSmallTune =
    "--gpu rtx5090 --seq 256 --tile 32x32 --stages 1 --persistence persistent";

class SwrTune : public test::ProgramFixture {
 protected:
  /// A path that nobody can create, not even root.
  std::string below_a_file() const {
    std::ofstream(dir_ / "file") << "text";
    return path("file") + "/below";
  }
};

TEST_F(SwrTune, PrintsARankedTableAndTheBestVariant) {
  const ProgramResult result = result_of(kSmallTune + "--verbose");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("rank +tile +warps +stages +order +persistence +swizzle"));
  EXPECT_THAT(result.out, ContainsRegex("\n +1 +32x32 +2 +1 "));
  EXPECT_THAT(result.out, HasSubstr("best: 32x32x2 stages 1 "));
  EXPECT_THAT(result.out, HasSubstr("sawtooth against cyclic"));
  EXPECT_THAT(result.out, HasSubstr("stored: 2 rows in " + path(".local/share/swr/tuned.db")));
  EXPECT_THAT(result.err, HasSubstr("[2/2]"));
  EXPECT_THAT(result.out + result.err, Not(HasSubstr("\x1b")));
}

TEST_F(SwrTune, SaysTheBestAndTheNextCommandAndTheRestWhenAsked) {
  const std::string usual = run(kSmallTune + "--quiet");
  EXPECT_THAT(usual, ContainsRegex("\nbest: .*\n(predicted times are .*\n)?next: swr-tune query "
                                   "--gpu rtx5090 --seq 256\n"));
  const std::string verbose = run(kSmallTune + "--quiet --verbose");
  for (const char* const more : {"  key ", "sawtooth against cyclic", "\ntook ", "\nship it: "}) {
    EXPECT_THAT(usual, Not(HasSubstr(more)));
    EXPECT_THAT(verbose, HasSubstr(more));
  }
}

TEST_F(SwrTune, RanksWithoutCompiling) {
  const Arguments wide = "--gpu gb10 --seq 1024 --order cyclic --dry-run";
  const json plan = json_of(wide).at("plans").at(0);
  const std::vector<double> times_us = plan["predicted_us"];
  ASSERT_EQ(times_us.size(), plan["variants"].size());
  EXPECT_LT(times_us.front(), times_us.back());
  EXPECT_THAT(run(wide), ContainsRegex("ranked by the model, nothing compiled\nrun   family=.*  "
                                       "[0-9.]+ (us|ms)\n"));
  EXPECT_FALSE(fs::exists(dir_ / ".local"));
}

TEST_F(SwrTune, SaysWhyNothingIsTimedBesideTheBest) {
  EXPECT_THAT(error_of("--gpu gb10 --seq 256 --against torch", 2),
              HasSubstr("--against times a call on the GPU itself, and NVIDIA GB10 is not here"));
  EXPECT_THAT(error_of("--gpu gb10 --seq 256 --against jax", 2), HasSubstr("--against"));
}

TEST_F(SwrTune, CompletesTheValuesOfOptions) {
  const std::string script = run("completion bash");
  EXPECT_THAT(script, ContainsRegex("'tune --op'\\) words='attention gemm "));
  EXPECT_THAT(script, ContainsRegex("'tune --dtype'\\) words='fp16 bf16"));
  EXPECT_THAT(script, HasSubstr("'tune --layout') words='nt nn tn'"));
  EXPECT_THAT(script, HasSubstr("'tune --strategy') words='exhaustive random model learned'"));
  EXPECT_THAT(script, HasSubstr("'query --l2') words='warm cold'"));
}

TEST_F(SwrTune, TheHelpOfOneOperationLeavesOutTheOptionsOfOthers) {
  const std::string all = run("tune --help");
  const std::string gemm = run("tune --op gemm --help");
  EXPECT_THAT(all, HasSubstr("\n  --causal "));
  EXPECT_THAT(gemm, Not(HasSubstr("\n  --causal ")));
  EXPECT_THAT(gemm, HasSubstr("--tile-k"));
  EXPECT_THAT(gemm, HasSubstr("--budget"));
}

/// Kernels that somebody else could have put there.
TEST_F(SwrTune, TakesAGroupsCacheOnlyWhereItIsToldTo) {
  const Arguments tune =
      "--gpu rtx5090 --seq 256 --tile 32x32 --stages 1 --quiet --db " + path("t.db");
  environment_.back() = "SWR_CACHE_DIR=" + path("cache");
  fs::create_directory(dir_ / "cache");
  fs::permissions(dir_ / "cache", fs::perms::group_all, fs::perm_options::add);
  EXPECT_THAT(error_of(tune, 1), HasSubstr("--shared-cache"));
  EXPECT_FALSE(fs::exists(dir_ / "t.db"));
  const Arguments emit = "export --out " + path("kernels") + " --db " + path("t.db");
  run(tune + "--shared-cache");
  EXPECT_THAT(error_of(emit, 1), HasSubstr("--shared-cache"));
  run(emit + "--shared-cache");
}

TEST_F(SwrTune, AnswersAQueryWithWhatItStored) {
  run(kSmallTune + "--quiet");
  const std::string exact = run("query --gpu rtx5090 --seq 256");
  EXPECT_THAT(exact, ContainsRegex("match    (exact|predicted)\n"));
  EXPECT_THAT(exact, ContainsRegex("known    (predicted(, uncertain by [0-9]+ %)?|measured)\n"));
}

TEST_F(SwrTune, SaysWhoseTimeItPrintsAndScalesIt) {
  const Arguments tune =
      "--gpu rtx5090 --seq 2048 --heads 16 --tile 64x128 --stages 1,2 --order cyclic --persistence "
      "grid";
  run(tune + "--quiet");
  const Arguments query = "query --gpu rtx5090 --seq 4096 --heads 16";
  const std::string nearest = run(query + "--json");
  const json answer = json::parse(nearest)["answers"][0];
  EXPECT_THAT(answer["match"], ::testing::AnyOf("nearest", "predicted"));
  EXPECT_EQ(answer["stored_problem"]["seq_q"], 2048);
  EXPECT_GT(answer["distance"].get<double>(), 0.0);
  EXPECT_EQ(answer["prediction_error"].is_null(), answer["provenance"] == "measured");
  EXPECT_EQ(answer["key"], answer["result"]["key"]);
  EXPECT_DOUBLE_EQ(answer["expected_us"].get<double>(),
                   4 * answer["result"]["predicted"]["time_us"].get<double>());
  const std::string shown = run(query);
  EXPECT_THAT(shown, ContainsRegex(
                         "expected .*, scaled by the operations from the time of .* s2048/2048 "));
  EXPECT_THAT(shown, ContainsRegex("known    (predicted|measured), of attention .* s2048/2048 "));
}

TEST_F(SwrTune, AnswersWithoutADatabaseByWhatComesWithSwr) {
  const Arguments query =
      "query --gpu h200 --seq 8192 --heads 32 --kv-heads 8 --head-dim 128 --dtype bf16 --batch 2 "
      "--causal";
  const std::string result = run(query);
  EXPECT_THAT(result, HasSubstr("match    exact, came with swr\n"));
  EXPECT_THAT(result, ContainsRegex("expected .*, measured for this problem\n"));
  const json answer = json_of(query)["answers"][0];
  EXPECT_EQ(answer["shipped"], true);
  EXPECT_EQ(answer["provenance"], "measured");
  EXPECT_NE(result_of(query + "--db " + path("none.db")).exit_code, 0)
      << "a file that is named must be there";
}

TEST_F(SwrTune, AnswersByTheClosedFormAndSaysSoWhenNothingFits) {
  run(kSmallTune + "--quiet");
  const std::string result = run("query --gpu a100 --seq 64 --causal");
  EXPECT_THAT(result, HasSubstr("match    modelled"));
  EXPECT_THAT(result, HasSubstr("neither measured nor predicted"));
}

TEST_F(SwrTune, AnswersFromReplacedTemplatesOnlyToThoseWhoUseThem) {
  fs::create_directories(dir_ / "overlay");
  std::ofstream(dir_ / "overlay" / "added.h") << "// Makes the templates others.\n";
  const Arguments overlay = "--templates " + path("overlay");
  Arguments tune = kSmallTune;
  tune.push_back("--quiet");
  run(tune + overlay);
  const Arguments query = "query --gpu rtx5090 --seq 256";
  EXPECT_THAT(run(query), HasSubstr("match    modelled"));
  EXPECT_THAT(run(query + overlay), ContainsRegex("match    (exact|predicted)\n"));
  error_of("export --out " + path("kernels"), 1);
  run("db record --out " + path("spaces"));
  for (const auto& file : fs::directory_iterator(path("spaces"))) {
    EXPECT_THAT(file.path().filename().string(), HasSubstr("_overlay-"));
  }
}

TEST_F(SwrTune, RecordsAllSpacesInOneFileThatCanBeReplayed) {
  Arguments arguments = kSmallTune;
  arguments[3] = "256,384";
  run(arguments + "--quiet");
  const std::string recorded = run("db record --out " + path("tuned.spaces"));
  EXPECT_THAT(recorded, HasSubstr("wrote 2 spaces"));
  const std::string replayed = run("--replay " + path("tuned.spaces") + " --json --quiet");
  EXPECT_EQ(json::parse(replayed)["reports"].size(), 2U);
}

TEST_F(SwrTune, KeepsRecordingsOfWhatTheDatabaseLacks) {
  run(kSmallTune + "--quiet");
  run("db record --out " + path("old.spaces"));
  Arguments other = kSmallTune;
  other[3] = "384";
  for (const Arguments& tune : {kSmallTune, other}) {
    run(tune + "--quiet --db " + path("new.db"));
  }
  const Arguments keep =
      "db record --db " + path("new.db") + " --keep " + path("old.spaces") + " --out";
  const ProgramResult both = result_of(keep + path("both.spaces"));
  EXPECT_THAT(both.out, HasSubstr("wrote 2 spaces to ")) << both.err;
  Arguments of_one = kSmallTune;
  of_one[3] = "512";
  run(of_one + "--quiet --db " + path("third.db"));
  const ProgramResult all = result_of("db record --db " + path("third.db") + " --keep " +
                                      path("both.spaces") + " --out " + path("all.spaces"));
  EXPECT_THAT(all.out, HasSubstr("wrote 3 spaces to "));
  error_of("db record --db " + path("third.db") + " --keep " + path("all.spaces") + " --out " +
               path("all.spaces"),
           2);
}

TEST_F(SwrTune, BeginsNoProblemOnceItsTimeIsOverAndGoesOnTheNextTime) {
  Arguments many = kSmallTune;
  many[3] = "256,320,384";
  const ProgramResult none = result_of(many + "--within 0.000001");
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_THAT(none.err, HasSubstr("the time was over before 3 of 3 problems were begun"));
  const ProgramResult all = result_of(many + "--within 5:00");
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.err, Not(HasSubstr("time was over")));
  EXPECT_THAT(error_of("--seq 256 --within soon", 2), HasSubstr("--within takes"));
}

TEST_F(SwrTune, TunesARangeThatAnswersForEveryLengthInside) {
  Arguments range = kSmallTune;
  range[3] = "256..1024";
  const std::string tuned = run(range + "--json --quiet");
  const json found = json::parse(tuned)["range"];
  EXPECT_GE(found["tuned_lengths"], 3);
  EXPECT_EQ(found["parts"].front()["from"], 256);
  EXPECT_EQ(found["parts"].back()["to"], 1024);
  EXPECT_TRUE(found["parts"].front()["held_out"].is_number());
  const ProgramResult query = result_of("query --gpu rtx5090 --seq 700 --json");
  EXPECT_NE(json::parse(query.out)["answers"][0]["match"], "default_only");
  EXPECT_THAT(run(range + "--quiet"), HasSubstr("range: "));
  const ProgramResult cut = result_of(range + "--quiet --within 0.000001 --db " + path("cut.db"));
  EXPECT_THAT(cut.err, HasSubstr("the time was over before every part of the range was settled"));
  EXPECT_THAT(error_of("--gpu rtx5090 --seq 9..3", 2), HasSubstr("LOW..HIGH"));
  EXPECT_THAT(error_of("--gpu rtx5090 --seq 1..9 --batch 1,2", 2),
              HasSubstr("take one value each"));
}

class MissedQuestions : public SwrTune {
 protected:
  void note(const std::string& length) const {
    std::ofstream(path("tuned.db.missed"), std::ios::app)
        << R"({"op":"attention","batch":1,"heads_q":1,"heads_kv":1,"seq_q":)" << length
        << R"(,"seq_kv":)" << length
        << R"(,"head_dim":64,"dtype":"fp16","causal":false,"alignment_bytes":16})"
        << "\n";
  }

  const Arguments kTune = "tune --missed --db " + path("tuned.db") +
                          " --quiet --gpu rtx5090 --tile 32x32 --stages 1 --persistence persistent";
};

TEST_F(MissedQuestions, AreTunedAndForgotten) {
  EXPECT_THAT(result_of(kTune).err, HasSubstr("no question was missed that can be tuned"));
  for (const char* const length : {"256", "320", "320"}) {
    note(length);
  }
  const json reports = json_of(kTune)["reports"];
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0]["problem"]["seq_q"], 320) << "asked most";
  EXPECT_FALSE(fs::exists(path("tuned.db.missed")));
  EXPECT_THAT(run("query --gpu rtx5090 --seq 320 --db " + path("tuned.db")),
              ContainsRegex("match    (exact|predicted)\n"));
  note("320");
  EXPECT_THAT(result_of(kTune).err, HasSubstr("no question was missed")) << "it is answered now";
  EXPECT_THAT(error_of("tune --missed --seq 256", 2), HasSubstr("--missed"));
}

TEST_F(MissedQuestions, ThatCannotBeTunedKeepNoOtherFromIt) {
  note("16777216");
  run(kTune);
  note("384");
  const ProgramResult tuned = result_of(kTune + "--json");
  EXPECT_EQ(json::parse(tuned.out)["reports"].size(), 1U);
  EXPECT_THAT(tuned.err, HasSubstr("s16777216/16777216 d64 fp16 is left out: "));
  EXPECT_TRUE(fs::exists(path("tuned.db.missed"))) << "the large one is left";
}

TEST_F(SwrTune, SaysWhereEventsCannotBeKept) {
  environment_.push_back("TMPDIR=" + path("nowhere"));
  EXPECT_THAT(error_of("--gpu rtx5090 --seq 256 --watch", 1), HasSubstr("TMPDIR"));
}

TEST_F(SwrTune, WritesOneJsonDocumentForSeveralProblems) {
  Arguments arguments = kSmallTune;
  arguments[3] = "256,384";
  const ProgramResult result = result_of(arguments + "--json --quiet");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  const json document = json::parse(result.out);
  ASSERT_EQ(document["reports"].size(), 2U);
  EXPECT_EQ(document["reports"][1]["problem"]["seq_q"], 384);
  for (const json& report : document["reports"]) {
    for (const json& row : report["results"]) {
      EXPECT_EQ(row["provenance"], document["provenance"]);
    }
  }
}

TEST_F(SwrTune, WritesEveryRowToCsv) {
  const std::string result = run(kSmallTune + "--csv " + path("rows.csv") + " --quiet");
  const std::string text = bytes_of(dir_ / "rows.csv");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST_F(SwrTune, ExportsTheWinner) {
  run(kSmallTune + "--quiet");
  const std::string result = run("export --out " + path("kernels") + " --gpu rtx5090");
  EXPECT_THAT(result, HasSubstr("wrote 1 kernel and manifest.json"));
  std::ifstream file(dir_ / "kernels" / "manifest.json");
  EXPECT_TRUE(json::parse(file).is_object());
}

TEST_F(SwrTune, ListsWhatADryRunWouldTryAndStoresNothing) {
  const std::string result = run("--gpu gb10 --seq 64 --tile 128x128x8 --dry-run");
  EXPECT_THAT(result, ContainsRegex("\nrun +family=portable,tile_m=128,"));
  EXPECT_THAT(result, ContainsRegex("\ndrop +.*shared_memory: [0-9]+ bytes exceed"));
  EXPECT_FALSE(fs::exists(dir_ / ".local"));
}

TEST_F(SwrTune, EmitsASourceThatNamesTheVariantsTile) {
  const std::string result = run("emit --variant tile_m=32,tile_n=32,warps=2,stages=1");
  EXPECT_THAT(result, StartsWith("// swr-tune emit --variant family=portable,tile_m=32,"));
  EXPECT_THAT(result, HasSubstr("nvcc -std=c++20"));
  EXPECT_THAT(result, HasSubstr("__global__"));
  EXPECT_THAT(result, ContainsRegex("tile_m = 32"));
}

TEST_F(SwrTune, ExplainsThePredictionOfAVariantThatIsNamed) {
  const Arguments explain =
      "explain --gpu gb10 --seq 4096 --variant tile_m=32,tile_n=32,warps=2,stages=1";
  const std::string text = run(explain);
  EXPECT_THAT(text, HasSubstr("predicted"));
  EXPECT_THAT(text, HasSubstr("named by --variant"));
  EXPECT_THAT(text, ContainsRegex("CTAs per SM +[0-9]+ +limited by "));
  const json document = json_of(explain)["explanations"][0];
  EXPECT_EQ(document["provenance"], "predicted");
  EXPECT_EQ(document["traffic"]["compulsory_misses_sectors"], 16 * 4096);
}

TEST_F(SwrTune, ExplainsTheBestStoredWithoutAKey) {
  run(kSmallTune + "--quiet");
  const std::string stored = run("explain --gpu rtx5090 --seq 256");
  EXPECT_THAT(stored, HasSubstr("best stored"));
  EXPECT_THAT(stored, HasSubstr("32x32x2 stages 1"));
}

TEST_F(SwrTune, ListsDevicesAndAxes) {
  const std::string devices = run("devices");
  EXPECT_THAT(devices, ContainsRegex("gb10 +NVIDIA GB10 +sm_121"));
  EXPECT_TRUE(json_of("devices")["profiles"].contains("h200"));
  const std::string numbers = run("devices --gpu gb10");
  EXPECT_THAT(numbers, ContainsRegex("dram_efficiency +0.846 +231 GB/s measured"));
  EXPECT_EQ(json_of("devices --gpu gb10")["id"], "gb10");
  const std::string listed = run("axes");
  for (const Axis& axis : axes(attention_operation())) {
    EXPECT_THAT(listed, HasSubstr("\n" + std::string(axis.name) + " "));
  }
  EXPECT_THAT(listed, HasSubstr("shared_memory"));
}

TEST_F(SwrTune, RejectsBadValuesInOneLineWithExitCode2) {
  EXPECT_THAT(error_of("--gpu gb99 --seq 64", 2), HasSubstr("gb10"));
  EXPECT_THAT(error_of("--gpu gb10 --seq 0", 2), HasSubstr("seq must be"));
  EXPECT_THAT(error_of("--gpu gb10 --seq 64 --head-dim 63", 2), HasSubstr("multiple of 16"));
  EXPECT_THAT(error_of("--gpu gb10 --seq 64 --heads 6 --kv-heads 4", 2),
              HasSubstr("multiple of kv-heads"));
  EXPECT_THAT(error_of("--gpu gb10 --seq 64 --order zigzag", 2), HasSubstr("cyclic, sawtooth"));
  EXPECT_THAT(error_of("--gpu gb10 --seq 64 --tile 0x64", 2), HasSubstr("tile_m must be between"));
  EXPECT_THAT(error_of("--gpu gb10 --seq 64 --op gemm", 2), HasSubstr("attention"));
  EXPECT_THAT(error_of("--nonsense", 2), HasSubstr("--help"));
  EXPECT_THAT(error_of("measure-worker --seq 64", 2), HasSubstr("not by hand"));
  EXPECT_THAT(error_of("explain --gpu gb10 --seq 64 --variant tile_m=100", 2),
              HasSubstr("tile_shape"));
  EXPECT_THAT(error_of("emit --variant tile_m=100", 2), HasSubstr("tile_shape"));
}

TEST_F(SwrTune, RefusesObjectivesThatCannotBe) {
  const auto error = [this](const std::string& objective) {
    return error_of(kSmallTune + Arguments{"--objective", objective}, 2);
  };
  EXPECT_THAT(error("energi_mj"), HasSubstr("did you mean 'energy_mj'?"));
  EXPECT_THAT(error("time_us / (1 - 1)"), HasSubstr("zero"));
  EXPECT_THAT(error_of("tune --gpu gb10 --seq 256 --objective energy", 2),
              HasSubstr("only a GPU that is present"));
}

TEST_F(SwrTune, AnswersByAnObjectiveOnlyWhatItDecided) {
  run(kSmallTune);
  const std::string error = error_of("query --gpu rtx5090 --seq 256 --objective energy", 1);
  EXPECT_THAT(error, HasSubstr("no run with --objective 'energy' decided anything"));
}

TEST_F(SwrTune, NamesTheConstraintAndNumbersOfATileThatCannotFit) {
  const std::string error = error_of("--gpu gb10 --seq 64 --tile 256x256 --head-dim 256", 2);
  EXPECT_THAT(error, HasSubstr("shared_memory"));
  EXPECT_THAT(error, ContainsRegex("[0-9]+ bytes exceed the 101376"));
}

TEST_F(SwrTune, SaysWhatIsWrongWithADatabaseAndLeavesItAlone) {
  EXPECT_THAT(error_of("query --gpu gb10 --seq 64 --db " + path("none.db"), 1),
              HasSubstr(path("none.db")));
  EXPECT_FALSE(fs::exists(dir_ / "none.db"));
  const std::string junk(8192, 'j');
  std::ofstream(dir_ / "junk.db") << junk;
  for (const Arguments& command : {Arguments("query"), {"tune"}}) {
    Arguments arguments = command;
    arguments += "--gpu gb10 --seq 64 --db " + path("junk.db");
    EXPECT_THAT(error_of(arguments, 1), HasSubstr("junk.db"));
  }
  EXPECT_EQ(bytes_of(dir_ / "junk.db"), junk);
}

TEST_F(SwrTune, SaysWhichPlaceCannotBeWritten) {
  const std::string bad = below_a_file();
  const Arguments tune = "--gpu gb10 --seq 64";
  for (const std::string option : {"--db", "--cache-dir", "--csv"}) {
    Arguments arguments = tune;
    arguments += Arguments{option, bad};
    EXPECT_THAT(error_of(arguments, 1), HasSubstr(path("file"))) << option;
  }
  run(kSmallTune + "--quiet");
  EXPECT_THAT(error_of("export --out " + bad, 1), HasSubstr(path("file")));
}

TEST_F(SwrTune, SaysThatNvrtcIsMissingAndHowToGetIt) {
  environment_.push_back("SWR_NVRTC=" + path("libnvrtc.so"));
  const std::string error = error_of("--gpu gb10 --seq 64", 1);
  EXPECT_THAT(error, HasSubstr(path("libnvrtc.so")));
  EXPECT_THAT(error, HasSubstr("install"));
}

TEST_F(SwrTune, QueriesWithoutNvrtc) {
  run(kSmallTune + "--quiet");
  environment_.push_back("SWR_NVRTC=" + path("libnvrtc.so"));
  run("query --gpu rtx5090 --seq 256");
}

TEST_F(SwrTune, KeepsStoredRowsWhenALaterRunFails) {
  run(kSmallTune + "--quiet");
  error_of({"--gpu", "gb10", "--seq", "64", "--csv", below_a_file()}, 1);
  environment_.push_back("SWR_NVRTC=" + path("libnvrtc.so"));
  error_of("--gpu gb10 --seq 64", 1);
  EXPECT_THAT(run("query --gpu rtx5090 --seq 256"), ContainsRegex("match    (exact|predicted)\n"));
}

TEST_F(SwrTune, SaysThatItsWorkingDirectoryWasRemoved) {
  const std::string command =
      "mkdir '" + path("gone") + "' && cd '" + path("gone") + "' && rmdir '" + path("gone") +
      "' && exec '" SWR_TUNE_PROGRAM "' query --gpu gb10 --seq 64 --db x.db 2>'" +
      path("said.txt") + "'";
  EXPECT_NE(std::system(command.c_str()), 0);
  const std::string text = bytes_of(dir_ / "said.txt");
  EXPECT_THAT(text, StartsWith("swr-tune: error: "));
  EXPECT_THAT(text, Not(HasSubstr("unexpected")));
}

/// As batch systems send it before they kill: the lease of a piece is given back.
TEST_F(SwrTune, EndsCleanlyOnSigtermAndGivesItsPieceBack) {
  fs::create_directories(dir_ / "results");
  Program program({"--gpu", "rtx5090", "--seq", "256,384", "--head-dim", "128", "--cache-dir",
                   path("cold"), "--queue", path("queue"), "--db", path("results/")},
                  environment_, dir_);
  program.wait_for_stderr("variants\n");
  program.send_signal(SIGTERM);
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_TRUE(fs::is_empty(dir_ / "queue/queue/leased"));
  EXPECT_TRUE(fs::exists(dir_ / "queue/queue/open/000000"));
}

TEST_F(SwrTune, EndsCleanlyOnInterruptWithCode130) {
  // A cache of its own, so that there is far more to compile than fits before the signal.
  Program program(
      {"--gpu", "rtx5090", "--seq", "256", "--head-dim", "128", "--cache-dir", path("cold")},
      environment_, dir_);
  program.wait_for_stderr("variants\n");
  program.send_signal(SIGINT);
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.out, HasSubstr("interrupted"));
}

TEST_F(SwrTune, FailsWhenItsOutputCannotBeWritten) {
  if (!fs::exists("/dev/full")) {
    GTEST_SKIP() << "this system has no /dev/full";
  }
  fs::create_symlink("/dev/full", dir_ / "stdout.txt");
  const ProgramResult result = result_of("axes");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("standard output"));
}

TEST_F(SwrTune, WritesEventsAsTheyHappen) {
  run(kSmallTune + "--events " + path("events.jsonl") + " --quiet");
  std::ifstream file(path("events.jsonl"));
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(json::parse(line));
  }
  ASSERT_GE(lines.size(), 4U);
  EXPECT_EQ(lines.front().at("event"), "start");
  EXPECT_EQ(lines.front().at("problem").at("seq_q"), 256);
  EXPECT_EQ(lines.back().at("event"), "end");
  EXPECT_TRUE(lines.back().at("best").is_string());
}

TEST_F(SwrTune, ReplaysARecordedSpaceWithoutGpuNvrtcOrDatabase) {
  environment_.push_back("SWR_NVRTC=" + path("libnvrtc.so"));
  const std::string file = SWR_TEST_DATA "/h100_hopper.spaces";
  const std::string text = run("--replay " + file + " --quiet");
  EXPECT_THAT(text, StartsWith("Measured, replayed: "));
  EXPECT_THAT(text, HasSubstr("nothing is stored"));
  const std::string result =
      run("tune --replay " + file + " --strategy model --budget 4 --json --quiet --events " +
          path("events.jsonl"));
  const json report = json::parse(result)["reports"][0];
  EXPECT_TRUE(report["replayed"].get<bool>());
  EXPECT_LT(report["regret"].get<double>(), 0.02);
  EXPECT_FALSE(fs::exists(dir_ / ".local"));
  EXPECT_TRUE(fs::exists(dir_ / "events.jsonl"));
}

TEST_F(SwrTune, RefusesToReplayWhatIsNoRecording) {
  EXPECT_THAT(error_of("--replay " + path("none.spaces"), 1), HasSubstr("db record"));
  std::ofstream(dir_ / "old.json") << "{\"format\": \"swr-recorded-space\"";
  EXPECT_THAT(error_of("--replay " + path("old.json"), 1), HasSubstr("scripts/convert_database"));
  std::ofstream(dir_ / "junk.db") << std::string(8192, 'j');
  EXPECT_THAT(error_of("--replay " + path("junk.db"), 1), HasSubstr("junk.db"));
  EXPECT_THAT(error_of("--replay " + path("none.db"), 1), HasSubstr("none.db"));
  for (const Arguments& excluded : {Arguments("--seq 64"), {"--gpu", "gb10"}, {"--force"}}) {
    EXPECT_THAT(error_of("--replay " + path("none.spaces") + excluded, 2), HasSubstr("excludes"));
  }
  EXPECT_THAT(error_of("--quiet", 2), HasSubstr("--seq is required"));
}

/// The options that replay 14 small recordings of one environment.
Arguments small_replay() {
  return {"--replay", SWR_TEST_DATA "/h100_portable.spaces", "--quiet", "--json"};
}

Arguments query_of_a_replayed_shape() {
  return {"query", "--gpu",      "h100", "--batch", "16",   "--seq",  "1024",       "--heads",
          "16",    "--head-dim", "64",   "--dtype", "bf16", "--json", "--replayed", "--db"};
}

TEST_F(SwrTune, ReplaysInSharesThatMergeToWhatOneRunStores) {
  run(small_replay() + "--db " + path("single.db"));
  Arguments shares;
  for (int i = 0; i < 3; ++i) {
    const std::string number = std::to_string(i);
    const ProgramResult result =
        result_of(small_replay() + "--db " + path("w.db") + ("--shard " + number + "/3"));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("shard " + number + "/3 (--shard)"));
    EXPECT_FALSE(json::parse(result.out)["reports"].empty());
    shares.push_back(path("w." + number + "-of-3.db"));
  }
  EXPECT_FALSE(fs::exists(path("w.db")));
  const Arguments merge = "db merge --out " + path("merged.db") + " --from";
  const std::string merged = run(merge + shares);
  EXPECT_THAT(merged, HasSubstr("of 14 new runs"));
  EXPECT_THAT(run(merge + shares), HasSubstr("added 0 results and 0 decisions of 0 new runs"));
  const Arguments query = query_of_a_replayed_shape();
  const json answer = json::parse(run(query + path("merged.db")));
  EXPECT_EQ(answer, json::parse(run(query + path("single.db"))));
  EXPECT_EQ(answer["answers"][0]["match"], "exact");
  EXPECT_TRUE(answer["replayed"].get<bool>());
}

TEST_F(SwrTune, AReplayedDatabaseAnswersOnlyWhoAsksForIt) {
  run(small_replay() + "--db " + path("replayed.db"));
  EXPECT_THAT(error_of("query --gpu h200 --seq 4096 --db " + path("replayed.db"), 1),
              HasSubstr("--replayed"));
  EXPECT_THAT(error_of("export --out " + path("kernels") + " --db " + path("replayed.db"), 1),
              HasSubstr("--replayed"));
  // A second replay takes over what the first has stored.
  const std::string again = run(small_replay() + "--db " + path("replayed.db"));
  const json document = json::parse(again);
  for (const json& report : document["reports"]) {
    EXPECT_EQ(report["known"], report["results"].size());
  }
  EXPECT_THAT(error_of(kSmallTune + "--db " + path("replayed.db"), 1), HasSubstr("replayed.db"));
}

TEST_F(SwrTune, TakesItsShareFromTheLauncher) {
  environment_.insert(environment_.end(), {"SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=2"});
  const ProgramResult result = result_of(small_replay() + "--db " + path("w.db"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("shard 1/2 (SLURM_ARRAY_TASK_ID): 7 of 14 problems, database"));
  EXPECT_TRUE(fs::exists(path("w.1-of-2.db")));
  EXPECT_THAT(error_of("--replay " + path("none.spaces") + " --shard 2/2", 2), HasSubstr("0/8"));
}

TEST_F(SwrTune, WorkersTakeProblemsFromAQueueAndAKilledOnesComesBack) {
  run(small_replay() + "--db " + path("single.db"));
  const Arguments queue = "--queue " + path("queue") + " --lease 2 --db " + path("results/");
  fs::create_directories(dir_ / "results");
  // A pipe that nobody reads from keeps the first worker at its first problem.
  ASSERT_EQ(mkfifo(path("events").c_str(), 0600), 0);
  Arguments stuck = small_replay();
  stuck += queue;
  stuck += "--events " + path("events");
  Program first(stuck, environment_, dir_);
  const int pipe = open(path("events").c_str(), O_RDONLY);
  fcntl(pipe, F_SETPIPE_SZ, 4096);
  char byte = 0;
  ASSERT_EQ(read(pipe, &byte, 1), 1);
  first.send_signal(SIGKILL);
  EXPECT_EQ(first.finish().exit_code, 128 + SIGKILL);
  close(pipe);
  const ProgramResult second = result_of(small_replay() + queue);
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("queue " + path("queue") + ": 14 of 14 problems, database"));
  EXPECT_EQ(json::parse(second.out)["reports"].size(), 14U);
  EXPECT_TRUE(json::parse(run(small_replay() + queue))["reports"].empty());
  Arguments merge = "db merge --out " + path("merged.db") + " --from";
  for (const auto& entry : fs::directory_iterator(dir_ / "results")) {
    if (entry.path().extension() == ".db") {
      merge.push_back(entry.path().string());
    }
  }
  const std::string merged = run(merge);
  const Arguments query = query_of_a_replayed_shape();
  EXPECT_EQ(json::parse(run(query + path("merged.db")))["answers"][0]["key"],
            json::parse(run(query + path("single.db")))["answers"][0]["key"]);
  EXPECT_THAT(error_of("--replay " + path("none.spaces") + " --lease 9", 2), HasSubstr("--queue"));
}

TEST_F(SwrTune, TunesTheProblemsOfAPlan) {
  std::ofstream(dir_ / "shapes.txt") << "seq=128,256\nseq=256\n";
  const std::string plan =
      run("plan --shapes " + path("shapes.txt") + " --out " + path("work.json"));
  EXPECT_THAT(plan, StartsWith("wrote 2 problems"));
  Arguments tune = kSmallTune;
  std::replace(tune.begin(), tune.end(), std::string("--seq"), std::string("--work"));
  std::replace(tune.begin(), tune.end(), std::string("256"), path("work.json"));
  const std::string result = run(tune + "--quiet --json");
  EXPECT_EQ(json::parse(result)["reports"].size(), 2U);
  EXPECT_THAT(error_of("--work " + path("work.json") + " --seq 64", 2), HasSubstr("excludes"));
  EXPECT_THAT(error_of("--work " + path("shapes.txt") + " --gpu gb10", 1), HasSubstr("JSON"));
  EXPECT_THAT(error_of("plan --out " + path("x.json"), 2), HasSubstr("--shapes or --model"));
  EXPECT_THAT(error_of("plan --model " + path("config.json"), 2), HasSubstr("--seq"));
  EXPECT_THAT(error_of("plan --shapes " + path("shapes.txt") + " --seq 64", 2),
              HasSubstr("--model"));
}

TEST_F(SwrTune, ImportsT4AndGivesItBackAsT4AndCsv) {
  const Json result{{"configuration", AttentionVariant{}},
                    {"objectives", {"time"}},
                    {"times", {{"runtimes", {0.5, 0.25, 0.75}}}},
                    {"invalidity", "correct"},
                    {"correctness", 1},
                    {"measurements", Json::array()}};
  const Json about{{"problem", AttentionProblem{.seq_q = 512, .seq_kv = 512}},
                   {"device", test::fictional_device()},
                   {"swr_version", "0"},
                   {"templates_digest", "digest"},
                   {"nvrtc_version", "13.0"},
                   {"driver_version", "13.0"},
                   {"l2_state", "warm"}};
  std::ofstream(path("in.json")) << Json{
      {"schema_version", "1.0.0"}, {"results", Json::array({result})}, {"swr", about}};
  const Arguments database = "--db " + path("tuned.db");
  run("db import --from " + path("in.json") + database);
  run("db export-t4 --out " + path("t4") + database);
  run("db export-csv --out " + path("csv") + database);
  const std::string name = "attention_b1_h1_s512_d64_fp16_fictional-one";
  std::ifstream exported(dir_ / "t4" / (name + ".t4.json"));
  const json document = json::parse(exported);
  EXPECT_EQ(document.at("results").at(0).at("times").at("runtimes"), json({0.5, 0.25, 0.75}));
  EXPECT_TRUE(fs::exists(dir_ / "csv" / (name + ".csv")));
  std::ofstream(path("foreign.json")) << R"({"schema_version": "1.0.0", "results": []})";
  EXPECT_THAT(error_of("db import-t4 --from " + path("foreign.json") + " --db " + path("x.db"), 1),
              HasSubstr("swr"));
  EXPECT_FALSE(fs::exists(path("x.db")));
}

TEST_F(SwrTune, WritesAReportOfWhatIsStored) {
  run(kSmallTune);
  const std::string written = run("report --out " + path("report.html"));
  EXPECT_THAT(written, StartsWith("wrote 1 tuned shape to "));
  const std::string page = bytes_of(path("report.html"));
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("\"problem\":{\"op\":\"attention\",\"batch\":1"));
}

TEST_F(SwrTune, SaysWhyNoReportCanBeWritten) {
  EXPECT_THAT(error_of("report", 2), HasSubstr("--out"));
  EXPECT_THAT(error_of("report --out " + path("r.html") + " --db " + path("none.db"), 1),
              HasSubstr("none.db"));
  run(kSmallTune);
  EXPECT_THAT(error_of({"report", "--out", below_a_file()}, 1), HasSubstr("cannot write"));
}

/// Every --option that the text mentions.
std::set<std::string> options_in(const std::string& text) {
  static const std::regex kOption("--[a-z][a-z-]*");
  std::set<std::string> all;
  for (std::sregex_iterator match(text.begin(), text.end(), kOption), end; match != end; ++match) {
    all.insert(match->str());
  }
  return all;
}

TEST_F(SwrTune, PlansAndPredictsGemm) {
  const Arguments gemm = "--op gemm --m 4096 --n 4096 --k 4096 --gpu h200";
  const std::string plan = run(gemm + "--dry-run");
  EXPECT_THAT(plan, HasSubstr("gemm b1 m4096 n4096 k4096 fp16 nt fp16"));
  EXPECT_THAT(plan, HasSubstr("family=hopper,tile_m=128"));
  const std::string predicted =
      run("--op gemm --m 1024 --n 1024 --k 512 --gpu rtx5090 --tile 64x64 --tile-k 32 --stages 3 "
          "--warps-m 2 --warps-n 2");
  EXPECT_THAT(predicted, HasSubstr("Predicted: gemm b1 m1024 n1024 k512 fp16 nt fp16 on"));
  EXPECT_THAT(predicted, HasSubstr("TFLOP/s (predicted)"));
  EXPECT_THAT(error_of("--op gemm --m 64 --n 64 --gpu h200", 2), HasSubstr("--k is required"));
  EXPECT_THAT(error_of("--op gemm --m 64 --n 64 --k 64 --causal", 2),
              HasSubstr("--causal belongs to --op attention"));
  EXPECT_THAT(error_of("--seq 64 --layout nn", 2), HasSubstr("belongs to --op gemm"));
}

TEST_F(SwrTune, CompilesForAnAbsentGpuWhatTheModelRanksFirst) {
  const Arguments softmax = "--op softmax --rows 4096 --columns 1024 --gpu gb10";
  const json plan = json_of(softmax + "--dry-run").at("plans").at(0);
  const std::size_t space = plan["variants"].size();
  const std::string predicted = run(softmax + "--quiet --verbose");
  EXPECT_THAT(predicted, HasSubstr("compiled: " + std::to_string(space / 10) + " of " +
                                   std::to_string(space) + " variants"));
  // Who names an axis sees each of its values.
  EXPECT_THAT(run(softmax + "--quiet --verbose --stages 1 --vector 8 --held 1"),
              Not(HasSubstr("those that the model ranks first")));
}

TEST_F(SwrTune, EveryOptionOfTheHelpIsInTheDocumentationAndTheReverse) {
  const std::string documentation = bytes_of(SWR_CLI_DOC);
  std::string help = run("--help");
  for (const std::string command :
       {"tune", "query", "explain", "calibrate", "export", "devices", "emit", "axes", "plan",
        "judge", "report", "watch", "doctor", "completion", "kernel"}) {
    EXPECT_THAT(documentation, HasSubstr("swr-tune " + command)) << command;
    help += run({command, "--help"});
  }
  for (const std::string command : {"record", "export-t4", "import", "export-csv", "merge"}) {
    EXPECT_THAT(documentation, HasSubstr("swr-tune db " + command));
    help += run({"db", command, "--help"});
  }
  for (const std::string command : {"build", "show"}) {
    EXPECT_THAT(documentation, HasSubstr("swr-tune kernels " + command));
    help += run({"kernels", command, "--help"});
  }
  EXPECT_EQ(options_in(documentation), options_in(help));
}

}  // namespace
}  // namespace swr
