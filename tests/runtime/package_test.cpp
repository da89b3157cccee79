// SPDX-License-Identifier: MIT
// A package that was exported as C++: its bytes, and what it chooses once it is built outside of
// swr with nothing but the CUDA headers.
#include "db/lookup_table.h"
#include "runtime/kernel_source.h"
#include "tests/runtime/serving.h"
#include "tests/support/attention.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

namespace swr {
namespace {

namespace fs = std::filesystem;

/// Runs a shell command and returns what it prints; fails the test when it fails.
std::string output_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) {
    output += part.data();
  }
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << output;
  return output;
}

AttentionVariant tile_drawing() {
  AttentionVariant variant = tile(128, 16);
  attention(variant).family = Family::hopper;
  attention(variant).warps = 8;
  attention(variant).persistence = Persistence::dynamic;
  return variant;
}

std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) {
      files[entry.path().lexically_relative(directory).string()] = bytes_of(entry.path());
    }
  }
  return files;
}

class PackageTest : public ServingTest {
 protected:
  void SetUp() override {
    record(problem_of(4096), tile(128, 64), 10.0);
    record(problem_of(512), tile(64, 64), 1.0);
    AttentionVariant sections = tile(64, 32);
    sections.swizzle = Swizzle::head_sections;
    sections.section_heads = 4;
    record(problem_of(100000), sections, 90.0);
    AttentionProblem causal = problem_of(1000);
    causal.causal = true;
    AttentionVariant persistent = tile(64, 64);
    persistent.persistence = Persistence::persistent;
    record(causal, persistent, 3.0);
    AttentionProblem wide = problem_of(1000);
    wide.head_dim = 128;
    record(wide, tile_drawing(), 4.0);
    AttentionProblem decode = problem_of(2000);
    decode.heads_kv = 2;
    decode.seq_q = 1;
    AttentionVariant split = tile(64, 16);
    split.kv_splits = 12;
    split.pack_gqa = true;
    record(decode, split, 5.0);
  }
  Manifest do_export(const std::string& name = "my_kernels") const {
    return export_package(store_, key_as_cubin, package_, name);
  }
  /// Builds the consumer in a directory of its own.
  void build() const {
    output_of("cmake -S " SWR_CONSUMER " -B " + build_.string() + " -DPACKAGE_DIR=" +
              package_.string() + " -Dmy_kernels_CUDA_INCLUDE_DIR=" SWR_CUDA_INCLUDE_DIR +
              " -DCMAKE_CXX_FLAGS='" SWR_CONSUMER_FLAGS "' > " + (directory_ / "log").string());
    output_of("cmake --build " + build_.string() + " > " + (directory_ / "log").string());
  }
  /// The consumer's lines for its input.
  std::vector<std::string> ask(const std::string& questions) const {
    std::ofstream(directory_ / "questions") << questions;
    std::istringstream lines(output_of("LD_LIBRARY_PATH=" SWR_FAKE_DRIVER " " +
                                       (build_ / "consumer").string() + " < " +
                                       (directory_ / "questions").string()));
    std::vector<std::string> answers;
    for (std::string line; std::getline(lines, line);) {
      answers.push_back(line);
    }
    return answers;
  }

  fs::path package_ = directory_ / "package";
  fs::path build_ = directory_ / "build";
};

std::string line_of(const AttentionProblem& p) {
  std::ostringstream line;
  line << p.batch << " " << p.heads_q << " " << p.heads_kv << " " << p.seq_q << " " << p.seq_kv
       << " " << p.head_dim << " " << static_cast<int>(p.dtype) << " " << p.causal << "\n";
  return line.str();
}

TEST_F(PackageTest, TheSameDatabaseGivesTheSameBytes) {
  do_export();
  const auto first = contents(package_);
  EXPECT_TRUE(first.contains("CMakeLists.txt"));
  EXPECT_TRUE(first.contains("include/my_kernels/attention.h"));
  do_export();
  EXPECT_EQ(contents(package_), first);
}

TEST_F(PackageTest, NothingOfSwrIsNamedByAnInclude) {
  do_export();
  for (const auto& [path, text] : contents(package_)) {
    EXPECT_EQ(text.find("#include <swr/"), std::string::npos) << path;
    EXPECT_EQ(text.find("swr_package"), std::string::npos) << path;
    EXPECT_EQ(text.find("/work"), std::string::npos) << path;
  }
}

TEST_F(PackageTest, ANameThatIsNoIdentifierIsRefused) {
  for (const char* name : {"", "my-kernels", "1st", "swr", "a;b"}) {
    EXPECT_EQ(error_of([&] { do_export(name); }).code(), ErrorCode::invalid_argument) << name;
  }
  EXPECT_FALSE(fs::exists(package_));
}

TEST_F(PackageTest, AStrangersFileInAPackageIsLeftAlone) {
  do_export();
  std::ofstream(package_ / "src" / "mine.cpp") << "int x;";
  EXPECT_EQ(error_of([&] { do_export(); }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(bytes_of(package_ / "src" / "mine.cpp"), "int x;");
}

TEST_F(PackageTest, BuiltOutsideItChoosesAsTheLookupDoes) {
  const Manifest manifest = do_export();
  build();
  AttentionProblem drawing = problem_of(1000);
  drawing.head_dim = 128;
  EXPECT_THAT(ask(line_of(drawing)), ::testing::ElementsAre(::testing::HasSubstr("d128")))
      << "which brings a tile counter of its own";
  const LookupTable table(lookup_records_of(manifest));
  std::mt19937 random(7);
  std::string questions;
  std::vector<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
    AttentionProblem problem = problem_of(1 << below(18));
    problem.seq_kv = 1 + below(100000);
    problem.batch = 1 + below(4);
    problem.heads_kv = 1 << below(3);
    problem.heads_q = attention(problem).heads_kv << below(3);
    problem.causal = below(3) == 0;
    problem.dtype = below(8) == 0 ? DType::bf16 : DType::fp16;
    questions += line_of(problem);
    const Answer answer = table.best(problem, device_);
    const bool fits = answer.level != MatchLevel::default_only;
    const std::string file =
        fits ? manifest.kernels[static_cast<std::size_t>(answer.result_id - 1)].file : "";
    expected.push_back(fits ? file.substr(0, file.size() - 6) + " " : "error 2 no kernel of");
  }
  const auto answers = ask(questions);
  ASSERT_EQ(answers.size(), expected.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_THAT(answers[i], ::testing::StartsWith(expected[i])) << i;
  }
}

TEST_F(PackageTest, AKernelWhoseBytesChangedIsNotLoaded) {
  do_export();
  for (const auto& [path, text] : contents(package_)) {
    const std::size_t number = path.starts_with("src/cubin_") ? text.find("{\n    0x") : text.npos;
    if (number != std::string::npos) {
      std::string changed = text;
      changed[number + 8] = changed[number + 8] == '1' ? '2' : '1';
      std::ofstream(package_ / path) << changed;
    }
  }
  build();
  EXPECT_THAT(ask(line_of(problem_of(4096))).at(0), ::testing::StartsWith("error 3 "));
}

}  // namespace
}  // namespace swr
