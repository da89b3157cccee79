// SPDX-License-Identifier: MIT
// A package that was exported as C++: its bytes, and what it chooses once it is built outside of
// swr with nothing but the CUDA headers.
#include "db/lookup_table.h"
#include "runtime/kernel_source.h"
#include "tests/export/built_package.h"
#include "tests/runtime/serving.h"
#include "tests/support/attention.h"
#include "tests/support/with.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

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

void expect_prefixes(const std::vector<std::string>& lines,
                     const std::vector<std::string>& prefixes) {
  ASSERT_EQ(lines.size(), prefixes.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], StartsWith(prefixes[i])) << i;
  }
}

/// An export, a build of a consumer with it, and what that answers.
class PackageTest : public ServingTest {
 protected:
  Manifest do_export(const std::string& name = "my_kernels",
                     const ExportFilter& filter = {}) const {
    return export_package(store_, key_as_cubin, package_, name, filter);
  }
  /// How an answer begins: with the kernel that the lookup over the package's kernels chooses.
  std::string expected(const Manifest& manifest, const LookupTable& table,
                       const Problem& problem) const {
    const auto answer = table.stored(problem, device_, LookupTable::Kinds::own);
    if (!answer) {
      return "error 2 no kernel of";
    }
    const std::string& file =
        manifest.kernels[static_cast<std::size_t>(answer->result_id - 1)].file;
    return file.substr(0, file.size() - std::string(".cubin").size()) + " ";
  }

  fs::path package_ = directory_ / "package";
};

class AttentionPackageTest : public PackageTest {
 protected:
  void SetUp() override {
    record(problem_of(4096), tile(128, 64), 10.0);
    record(problem_of(512), tile(64, 64), 1.0);
    AttentionVariant sections = tile(64, 32);
    sections.swizzle = AttentionSwizzle::head_sections;
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
};

std::string line_of(const AttentionProblem& p) {
  std::ostringstream line;
  line << p.batch << " " << p.heads_q << " " << p.heads_kv << " " << p.seq_q << " " << p.seq_kv
       << " " << p.head_dim << " " << static_cast<int>(p.dtype) << " " << p.causal << "\n";
  return line.str();
}

TEST_F(AttentionPackageTest, TheSameDatabaseGivesTheSameBytes) {
  do_export();
  const auto first = contents(package_);
  EXPECT_TRUE(first.contains("CMakeLists.txt"));
  EXPECT_TRUE(first.contains("include/my_kernels/attention.h"));
  do_export();
  EXPECT_EQ(contents(package_), first);
}

TEST_F(AttentionPackageTest, NothingOfSwrIsNamedByAnInclude) {
  do_export();
  for (const auto& [path, text] : contents(package_)) {
    EXPECT_EQ(text.find("#include <swr/"), std::string::npos) << path;
    EXPECT_EQ(text.find("swr_package"), std::string::npos) << path;
    EXPECT_EQ(text.find("/work"), std::string::npos) << path;
  }
}

TEST_F(AttentionPackageTest, ANameThatIsNoIdentifierIsRefused) {
  for (const char* name : {"", "my-kernels", "1st", "swr", "a;b"}) {
    EXPECT_EQ(error_of([&] { do_export(name); }).code(), ErrorCode::invalid_argument) << name;
  }
  EXPECT_FALSE(fs::exists(package_));
}

TEST_F(AttentionPackageTest, AStrangersFileInAPackageIsLeftAlone) {
  do_export();
  std::ofstream(package_ / "src" / "mine.cpp") << "int x;";
  EXPECT_EQ(error_of([&] { do_export(); }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(bytes_of(package_ / "src" / "mine.cpp"), "int x;");
}

/// And rebuilt with bytes of its kernels changed, it loads none of them.
TEST_F(AttentionPackageTest, BuiltOutsideItChoosesAsTheLookupDoes) {
  const Manifest manifest = do_export();
  const test::BuiltPackage built(package_, directory_);
  AttentionProblem drawing = problem_of(4000);
  drawing.head_dim = 128;
  EXPECT_THAT(built.ask("attention", line_of(drawing)),
              ElementsAre(AllOf(HasSubstr("d128"), EndsWith("overlaps 1"))))
      << "which brings a tile counter of its own";
  const LookupTable table(lookup_records_of(manifest));
  std::mt19937 random(7);
  std::string questions;
  std::vector<std::string> expected_kernels;
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
    expected_kernels.push_back(expected(manifest, table, problem));
  }
  expect_prefixes(built.ask("attention", questions), expected_kernels);

  for (const auto& [path, text] : contents(package_)) {
    const std::size_t number = path.starts_with("src/cubin_") ? text.find("{\n    0x") : text.npos;
    if (number != std::string::npos) {
      std::string changed = text;
      changed[number + 8] = changed[number + 8] == '1' ? '2' : '1';
      std::ofstream(package_ / path) << changed;
    }
  }
  built.build();
  EXPECT_THAT(built.ask("attention", line_of(problem_of(4096))).at(0), StartsWith("error 3 "));
}

/// Of GEMM: problems whose rows have 16 bytes of alignment in the consumer, C's too: a package has
/// no other kernel of the Hopper family for those that have less, where a look-up gives the one to
/// be compiled.
GemmProblem product(int m, int n, int k) { return {.m = m, .n = n, .k = k}; }

GemmVariant gemm_tile(Family family, int tile_m, int tile_n) {
  GemmVariant variant{.family = family, .tile_m = tile_m, .tile_n = tile_n};
  if (family == Family::hopper) {
    variant.tile_k = 64;
    variant.stages = 2;
    variant.consumers = tile_m / 64;
  }
  return variant;
}

GemmVariant rastered() {
  return with(gemm_tile(Family::hopper, 64, 128), &GemmVariant::cluster_m, 2,
              &GemmVariant::persistence, Persistence::persistent, &GemmVariant::raster,
              Raster::serpentine, &GemmVariant::raster_group, 4, &GemmVariant::swizzle_stride,
              1024);
}

GemmVariant split() { return with(gemm_tile(Family::hopper, 64, 64), &GemmVariant::splits, 4); }

std::string line_of(const GemmProblem& p, const std::string& memory = "own") {
  std::ostringstream line;
  line << p.batch << " " << p.m << " " << p.n << " " << p.k << " " << static_cast<int>(p.dtype)
       << " " << static_cast<int>(p.output) << " " << static_cast<int>(p.layout) << " "
       << (p.reads_c ? 0.5 : 0.0) << " " << memory << "\n";
  return line.str();
}

class GemmPackageTest : public PackageTest {
 protected:
  void SetUp() override {
    record(product(4096, 4096, 4096), rastered(), 100.0);
    record(product(64, 4096, 4096), split(), 10.0);
    record(product(500, 300, 100), gemm_tile(Family::portable, 64, 64), 3.0);
    GemmProblem transposed = product(1000, 1000, 1000);
    transposed.layout = GemmLayout::tn;
    transposed.output = OutputType::fp32;
    transposed.reads_c = true;
    GemmVariant persistent = gemm_tile(Family::portable, 128, 64);
    persistent.persistence = Persistence::persistent;
    record(transposed, persistent, 5.0);
  }

  void expect_the_choices_of_the_lookup(const test::BuiltPackage& built,
                                        const Manifest& manifest) const {
    const LookupTable table(lookup_records_of(manifest));
    std::mt19937 random(11);
    std::string questions;
    std::vector<std::string> expected_kernels;
    for (int i = 0; i < 300; ++i) {
      const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
      GemmProblem problem = product(1 << below(14), 8 << below(10), 1 + below(8000));
      problem.batch = 1 + below(3);
      if (below(4) == 0) {
        problem.layout = GemmLayout::tn;
        problem.output = OutputType::fp32;
        problem.reads_c = true;
      }
      problem.dtype = below(8) == 0 ? DType::fp16 : DType::bf16;
      questions += line_of(problem);
      expected_kernels.push_back(expected(manifest, table, problem));
    }
    expect_prefixes(built.ask("gemm", questions), expected_kernels);
  }

  void expect_launches_with_the_choices_of_the_kernel(const test::BuiltPackage& built) const {
    const auto answers =
        built.ask("gemm", line_of(product(4096, 4096, 4096)) + line_of(product(64, 4096, 4096)) +
                              line_of(product(500, 300, 100)));
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_THAT(answers[0], HasSubstr("cluster 2 block 256"));
    EXPECT_THAT(answers[0], HasSubstr("raster 3 group 4 stride 1024 splits 1 "
                                      "partials (nil) arrivals (nil) overlaps 1 bytes 0"));
    // 64 tiles in 4 splits: sums of 64 x 64 each, and a word per tile.
    EXPECT_THAT(answers[1], HasSubstr("grid 256 cluster 1"));
    EXPECT_THAT(answers[1], HasSubstr("splits 4 partials 0x"));
    EXPECT_THAT(answers[1], EndsWith(" bytes " + std::to_string(64 * 4 * 64 * 64 * 4 + 64 * 4)));
    EXPECT_THAT(answers[2], HasSubstr("grid 40 cluster 1 block 128"));
    EXPECT_THAT(answers[2], HasSubstr("overlaps 0")) << "the portable family";
  }

  void expect_splits_to_take_the_callers_workspace_or_refuse_it(
      const test::BuiltPackage& built) const {
    const GemmProblem problem = product(64, 4096, 4096);
    const auto answers =
        built.ask("gemm", line_of(problem, "workspace") + line_of(problem, "small") +
                              line_of(product(500, 300, 100), "workspace"));
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_THAT(answers[0], HasSubstr("cleared 64 of 1048640, kept 7"))
        << "the words alone are cleared, and nothing beyond";
    EXPECT_THAT(answers[1], HasSubstr("error 0 the workspace must be 4194560 bytes"));
    EXPECT_THAT(answers[2], HasSubstr("cleared 0 of 0, kept 7"));
  }

  void expect_one_clear_error_where_no_kernel_serves(const test::BuiltPackage& built) const {
    GemmProblem other = product(100, 64, 64);
    other.layout = GemmLayout::nn;
    const auto answers = built.ask("gemm", line_of(other) + line_of(product(0, 64, 64)));
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_THAT(answers[0], StartsWith("error 2 no kernel of this package fits batch 1, m "
                                       "100, n 64, k 64, bf16 nn bf16, alignment 16 on Fake"));
    EXPECT_THAT(answers[1], StartsWith("error 0 m, n, k and batch must be 1 to 16777216"));
  }
};

TEST_F(GemmPackageTest, TheSameDatabaseGivesTheSameBytes) {
  do_export();
  const auto first = contents(package_);
  EXPECT_TRUE(first.contains("include/my_kernels/gemm.h"));
  EXPECT_TRUE(first.contains("src/hopper_config.h"));
  EXPECT_FALSE(first.contains("include/my_kernels/attention.h")) << "nothing of it was exported";
  for (const auto& [path, text] : first) {
    EXPECT_EQ(text.find("#include <swr/"), std::string::npos) << path;
    EXPECT_EQ(text.find("#include \"templates/"), std::string::npos) << path;
    EXPECT_EQ(text.find("swr_package"), std::string::npos) << path;
  }
  do_export();
  EXPECT_EQ(contents(package_), first);
}

/// With attention beside it: one build answers all.
TEST_F(GemmPackageTest, BuiltOutsideItServesAsSwrDoes) {
  record(problem_of(4096), tile(128, 64), 10.0);
  const Manifest manifest = do_export();
  const test::BuiltPackage built(package_, directory_);
  expect_the_choices_of_the_lookup(built, manifest);
  expect_launches_with_the_choices_of_the_kernel(built);
  expect_splits_to_take_the_callers_workspace_or_refuse_it(built);
  expect_one_clear_error_where_no_kernel_serves(built);
  EXPECT_THAT(built.ask("attention", line_of(problem_of(4096))).at(0), StartsWith("attention_b1"));
  EXPECT_THAT(built.ask("gemm", line_of(product(64, 4096, 4096))).at(0), StartsWith("gemm_b1"));
  do_export("my_kernels", {.op = &attention_operation()});
  EXPECT_FALSE(fs::exists(package_ / "include/my_kernels/gemm.h"));
}

}  // namespace
}  // namespace swr
