// SPDX-License-Identifier: MIT
// A database of schema 12, as 0.1.0 wrote it (tests/db/data): today's program names the converter,
// and what is asked of the converted file, and its report, say what the program said that wrote it.
#include "core/json.h"
#include "core/recorded_space.h"
#include "tests/support/test.h"
#include "tests/tuner/cli/program.h"

#include <SQLiteCpp/Database.h>
#include <nlohmann/json.hpp>

namespace swr {
namespace {

using nlohmann::json;
using test::Program;
using test::ProgramResult;

json recorded(const std::string& name) { return json::parse(bytes_of(SWR_DATABASES "/" + name)); }

/// Columns of the page's rows that have the names of metrics() since.
std::string name_today(const std::string& name) {
  return name == "registers"        ? "registers_per_thread"
         : name == "excess_sectors" ? "excess_miss_sectors"
                                    : name;
}

/// Every member that was recorded is there with its value; a program may have come to say more.
void expect_says(const json& now, const json& before, const std::string& where) {
  if (before.is_object()) {
    for (const auto& [name, value] : before.items()) {
      const std::string today = now.contains(name) ? name : name_today(name);
      ASSERT_TRUE(now.contains(today)) << where << " has no " << name;
      expect_says(now[today], value, where + "." + name);
    }
  } else if (before.is_array()) {
    ASSERT_EQ(now.size(), before.size()) << where;
    for (std::size_t i = 0; i < before.size(); ++i) {
      expect_says(now[i], before[i], where + "[" + std::to_string(i) + "]");
    }
  } else if (before.is_string() && where.ends_with("key")) {
    // Axes that came since stand at the end of a key.
    const auto key = now.get<std::string>() + ",";
    EXPECT_THAT(key, ::testing::StartsWith(before.get<std::string>() + ",")) << where;
  } else {
    EXPECT_EQ(now, before) << where;
  }
}

/// Rows of the report by the names of their columns.
json with_named_rows(json report) {
  for (json& field : report["fields"]) {
    for (json& row : field["rows"]) {
      json named;
      for (std::size_t i = 0; i < row.size(); ++i) {
        named[report["columns"][i].get<std::string>()] = row[i];
      }
      row = named;
    }
  }
  report.erase("columns");
  return report;
}

/// Without the rates of GPUs, which come from profiles and not from the database.
json without_rates(json report) {
  for (json& device : report["devices"]) {
    for (const char* const rate : {"clock_mhz", "l2_gb_per_s", "peak_tflop_per_s"}) {
      device.erase(rate);
    }
  }
  return report;
}

class OldDatabase : public ::testing::Test {
 protected:
  void SetUp() override {
    SQLite::Database(old_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
        .exec(bytes_of(SWR_DATABASES "/schema_12.sql"));
  }

  static int convert(const std::filesystem::path& from, const std::filesystem::path& to) {
    const std::string command = SWR_CONVERT_DATABASE;
    return std::system((command + " " + from.string() + " " + to.string() + " 2>&1").c_str());
  }

  ProgramResult run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--db", path_.string()});
    return Program(arguments, {"HOME=" + (directory_ / "home").string()}, directory_.path())
        .finish();
  }

  void expect_same_answers() const {
    for (const json& question : recorded("schema_12_answers.json")) {
      std::vector<std::string> arguments{"query", "--json"};
      for (const json& argument : question["arguments"]) {
        arguments.push_back(argument);
      }
      const ProgramResult result = run(arguments);
      ASSERT_EQ(result.exit_code, question["exit_code"]) << result.err;
      const json answer = json::parse(result.out);
      const json& before = question["answer"]["answers"][0];
      const json& now = answer["answers"][0];
      // What was measured for the question itself stays. Elsewhere what comes with swr and its
      // closed form may know better today.
      if (before["match"] != "exact" && now["match"] != before["match"]) {
        EXPECT_THAT(now["match"], ::testing::AnyOf("nearest", "modelled"));
        EXPECT_FALSE(now["key"].empty());
        continue;
      }
      expect_says(answer, question["answer"], question["arguments"].dump());
    }
  }

  void expect_same_report() const {
    const std::string page = directory_ / "report.html";
    const ProgramResult result = run({"report", "--out", page});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string text = bytes_of(page);
    const auto begin = text.find('{', text.find("type=\"application/json\""));
    const json data = json::parse(text.substr(begin, text.find("</script>", begin) - begin));
    expect_says(with_named_rows(data),
                without_rates(with_named_rows(recorded("schema_12_report.json"))), "");
  }

  TempDirectory directory_;
  std::filesystem::path old_ = directory_ / "old.db";
  std::filesystem::path path_ = directory_ / "new.db";
};

TEST_F(OldDatabase, AnswersAndReportsAsBeforeOnceItIsConverted) {
  const std::string before = bytes_of(old_);
  ASSERT_EQ(convert(old_, path_), 0);
  EXPECT_EQ(bytes_of(old_), before);
  expect_same_answers();
  expect_same_report();
  EXPECT_NE(convert(old_, path_), 0) << "the new file exists";
}

TEST_F(OldDatabase, IsRefusedWithTheNameOfTheConverter) {
  path_ = old_;
  const std::string before = bytes_of(old_);
  const ProgramResult result = run({"query", "--gpu", "h200", "--seq", "1024"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, ::testing::HasSubstr("scripts/convert_database " + old_.string()));
  EXPECT_EQ(bytes_of(old_), before);
}

TEST_F(OldDatabase, OfRowsThatWereNeverSwrsIsNotConverted) {
  for (const char* const edit :
       {"UPDATE variant SET family = 'sideways'", "UPDATE problem SET op = 'convolution'",
        "PRAGMA user_version = 16", "PRAGMA application_id = 7"}) {
    SQLite::Database(old_.string(), SQLite::OPEN_READWRITE).exec(edit);
    EXPECT_NE(convert(old_, path_), 0) << edit;
    EXPECT_FALSE(std::filesystem::exists(path_)) << edit;
  }
}

TEST_F(OldDatabase, ARecordingAsJsonBecomesOneOfToday) {
  path_ = directory_ / "new.spaces";
  ASSERT_EQ(convert(SWR_DATABASES "/recording.json", path_), 0);
  const json old = recorded("recording.json");
  const RecordedSpace space = read_recorded_spaces(path_).at(0);
  EXPECT_EQ(json::parse(Json(space.origin).dump()), old["origin"]);
  EXPECT_EQ(json::parse(Json(space.device).dump()), old["device"]);
  ASSERT_EQ(space.results.size(), old["rows"].size());
  for (std::size_t i = 0; i < space.results.size(); ++i) {
    json named;
    for (std::size_t column = 0; column < old["rows"][i].size(); ++column) {
      named[old["columns"][column].get<std::string>()] = old["rows"][i][column];
    }
    const VariantResult& result = space.results[i];
    json now = json::parse(Json(result.variant).dump());
    now.update({{"state", to_string(result.state)},
                {"registers_per_thread", result.resources.registers_per_thread},
                {"ctas_per_sm", result.ctas_per_sm}});
    if (result.state == ResultState::ok) {
      now.update({{"median_us", result.time_us()}, {"p95_us", result.measurement()->p95_us}});
      now.update(json::parse(Json(*result.measurement()->counters).dump()));
    }
    expect_says(now, named, "row " + std::to_string(i));
  }
}

}  // namespace
}  // namespace swr
