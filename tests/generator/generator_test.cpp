// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "core/sha256.h"
#include "generator/cubin_cache.h"
#include "generator/nvrtc.h"
#include "generator/template_set.h"
#include "operations/attention/config.h"
#include "operations/gemm/config.h"
#include "tests/support/test.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/generator.h>

#include <sys/wait.h>
#include <unistd.h>

namespace swr {
namespace {

constexpr std::string_view kSaxpy = R"(
#include "tools/multiply.cuh"
extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] += multiply(a, x[i]);
  }
}
)";
constexpr std::string_view kMultiply = R"(#pragma once
__device__ inline float multiply(float a, float b) { return a * b; }
)";

/// A small kernel of its own in an overlay.
class OverlayGenerator : public testing::Test {
 protected:
  OverlayGenerator() {
    overlay_.write("tools/saxpy.cu", kSaxpy);
    overlay_.write("tools/multiply.cuh", kMultiply);
  }

  GeneratorOptions options() const {
    return {.template_overlay = overlay_.path(),
            .cache_dir = cache_.path() / "cubins of swr",
            .nvrtc_library = {}};
  }

  CompiledKernel compile(int sm_arch = 90) const {
    return Generator(options()).compile_template("tools/saxpy.cu", "saxpy", sm_arch);
  }

  TempDirectory overlay_;
  TempDirectory cache_;
};

TEST_F(OverlayGenerator, CompilesATemplateWithoutAVariant) {
  const CompiledKernel kernel = compile();
  EXPECT_EQ(kernel.entry, "saxpy");
  EXPECT_EQ(kernel.sm_arch, 90);
  EXPECT_FALSE(kernel.from_cache);
  EXPECT_EQ(kernel.cubin_digest, sha256_hex(kernel.cubin));
  EXPECT_GT(kernel.resources.registers_per_thread, 0);
  EXPECT_EQ(kernel.resources.spill_store_bytes, 0);
  const std::string_view image(reinterpret_cast<const char*>(kernel.cubin.data()), 4);
  EXPECT_EQ(image,
            "\x7f"
            "ELF");
}

TEST_F(OverlayGenerator, SecondCompilationComesFromTheCache) {
  const CompiledKernel cold = compile();
  const CompiledKernel warm = compile();
  EXPECT_TRUE(warm.from_cache);
  EXPECT_EQ(warm.cubin, cold.cubin);
  EXPECT_EQ(warm.resources, cold.resources);
  EXPECT_EQ(warm.source_digest, cold.source_digest);
}

TEST_F(OverlayGenerator, IncludedTextAndArchitectureArePartOfTheKey) {
  const CompiledKernel original = compile();
  EXPECT_NE(compile(80).source_digest, original.source_digest);
  overlay_.write("tools/multiply.cuh", std::string(kMultiply) + "// changed\n");
  const CompiledKernel changed = compile();
  EXPECT_FALSE(changed.from_cache);
  EXPECT_NE(changed.source_digest, original.source_digest);
}

TEST_F(OverlayGenerator, UnrelatedTemplatesAreNotPartOfTheKey) {
  const CompiledKernel original = compile();
  overlay_.write("tools/unrelated.cuh", "#pragma once\n");
  EXPECT_EQ(compile().source_digest, original.source_digest);
}

TEST_F(OverlayGenerator, WorksWithoutACache) {
  GeneratorOptions uncached = options();
  uncached.cache_dir.reset();
  const Generator generator(uncached);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(generator.compile_template("tools/saxpy.cu", "saxpy", 90).from_cache);
  }
}

TEST_F(OverlayGenerator, NamesAnEntryThatDoesNotExist) {
  const Generator generator(options());
  const std::string message = message_of(ErrorCode::compile_failed, [&] {
    generator.compile_template("tools/saxpy.cu", "daxpy", 90);
  });
  EXPECT_THAT(message, HasSubstr("'daxpy'"));
}

TEST_F(OverlayGenerator, CompileErrorCarriesTheLogWithTheRealFileName) {
  overlay_.write("tools/multiply.cuh", "#pragma once\n\nfloat multiply(undeclared a);\n");
  const std::string message = message_of(ErrorCode::compile_failed, [&] { compile(); });
  EXPECT_THAT(message, HasSubstr("tools/multiply.cuh(3): error"));
}

TEST_F(OverlayGenerator, ThreadsCompileAtTheSameTime) {
  const Generator generator(options());
  std::vector<std::thread> threads;
  for (const int arch : {80, 86, 89, 90, 80, 86, 89, 90}) {
    threads.emplace_back([&generator, arch] {
      EXPECT_EQ(generator.compile_template("tools/saxpy.cu", "saxpy", arch).sm_arch, arch);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(OverlayGenerator, MayBeDestroyedBeforeTheThreadsThatCompiled) {
  // NVRTC leaves thread-local state behind, whose destructors run when the thread ends.
  std::promise<void> compiled;
  std::promise<void> destroyed;
  std::thread thread;
  {
    const Generator generator(options());
    thread = std::thread([&] {
      generator.compile_template("tools/saxpy.cu", "saxpy", 90);
      compiled.set_value();
      destroyed.get_future().wait();
    });
    compiled.get_future().wait();
  }
  destroyed.set_value();
  thread.join();
}

/// Compiles for several architectures in a child process; returns the child's id.
pid_t compile_in_child(const GeneratorOptions& options, const std::vector<int>& archs) {
  const pid_t child = fork();
  if (child != 0) {
    return child;
  }
  try {
    const Generator generator(options);
    for (const int arch : archs) {
      if (generator.compile_template("tools/saxpy.cu", "saxpy", arch).cubin.empty()) {
        _exit(1);
      }
    }
  } catch (const std::exception& error) {
    _exit(2);
  }
  _exit(0);
}

TEST_F(OverlayGenerator, TwoProcessesShareAColdCache) {
  const std::vector<int> archs{80, 86, 89, 90, 100, 120};
  const pid_t first = compile_in_child(options(), archs);
  const pid_t second = compile_in_child(options(), archs);
  for (const pid_t child : {first, second}) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  const Generator generator(options());
  for (const int arch : archs) {
    EXPECT_TRUE(generator.compile_template("tools/saxpy.cu", "saxpy", arch).from_cache) << arch;
  }
}

TEST_F(OverlayGenerator, TemplatesDigestTellsAnOverlayFromStockTemplates) {
  const Generator overlaid(options());
  const Generator stock({});
  EXPECT_NE(overlaid.templates_digest(), stock.templates_digest());
  EXPECT_EQ(stock.templates_digest(), Generator({}).templates_digest());
}

TEST(Generator, RejectsAnArchitectureThatNvrtcDoesNotKnow) {
  const Generator generator({});
  const std::string message = message_of(ErrorCode::invalid_argument, [&] {
    generator.compile(AttentionProblem{.seq_q = 64, .seq_kv = 64}, AttentionVariant{}, 91);
  });
  EXPECT_THAT(message, HasSubstr("it supports"));
}

TEST(Generator, RejectsAnArchitectureBelowTheFamily) {
  const Generator generator({});
  const std::string message = message_of(ErrorCode::invalid_argument, [&] {
    generator.compile(AttentionProblem{.seq_q = 64, .seq_kv = 64}, AttentionVariant{}, 75);
  });
  EXPECT_THAT(message, HasSubstr("needs sm_80"));
}

TEST(Generator, RejectsAProblemBeforeItReachesSource) {
  const Generator generator({});
  const AttentionProblem problem{.seq_q = 64, .seq_kv = 64, .head_dim = 63};
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] { generator.config_header(problem, AttentionVariant{}); }),
              HasSubstr("head-dim"));
}

TEST(Generator, SaysWhichCacheDirectoryCannotBeUsed) {
  const TempDirectory directory;
  const auto file = directory.write("file", "");
  const std::string message = message_of(ErrorCode::not_writable, [&] {
    const Generator generator({.template_overlay = {}, .cache_dir = file, .nvrtc_library = {}});
  });
  EXPECT_THAT(message, HasSubstr(file.string()));
  EXPECT_THAT(message, HasSubstr("--cache-dir"));
}

TEST(Generator, SaysThatTheOverlayIsMissing) {
  const std::string message = message_of(ErrorCode::unreadable, [] {
    const Generator generator(
        {.template_overlay = "/no/templates", .cache_dir = {}, .nvrtc_library = {}});
  });
  EXPECT_THAT(message, HasSubstr("/no/templates"));
}

TEST(Generator, SaysThatNvrtcIsMissing) {
  const std::string message = message_of(ErrorCode::no_nvrtc, [] {
    const Generator generator(
        {.template_overlay = {}, .cache_dir = {}, .nvrtc_library = "/no/libnvrtc.so"});
  });
  EXPECT_THAT(message, HasSubstr("/no/libnvrtc.so"));
}

TEST(Generator, ServesTemplateTexts) {
  const Generator generator({});
  EXPECT_THAT(generator.template_text("common/attention_schedule.h"), HasSubstr("map_tile"));
  EXPECT_THAT(generator.template_text("swr/axes.h"), HasSubstr("sawtooth"));
  EXPECT_THROW(generator.template_text("nowhere.cu"), Error);
}

/// griddepcontrol exists from sm_90 on; portable GEMM does without.
TEST(Generator, SaysWhichKernelsWaitForTheLaunchBefore) {
  const Generator generator({});
  const AttentionProblem problem{.seq_q = 64, .seq_kv = 64, .head_dim = 16};
  const AttentionVariant small{.tile_m = 16, .tile_n = 16, .warps = 1, .stages = 1};
  EXPECT_FALSE(generator.compile(problem, small, 80).may_overlap);
  EXPECT_TRUE(generator.compile(problem, small, 90).may_overlap);
  EXPECT_TRUE(generator.compile(problem, small, 121).may_overlap);
  const GemmProblem product{.m = 64, .n = 64, .k = 64};
  EXPECT_FALSE(generator.compile(product, GemmVariant{}, 90).may_overlap);
}

TEST(Generator, FlattensAVariantWithItsConfiguration) {
  const Generator generator({});
  const std::string flat = generator.flatten(
      AttentionProblem{.seq_q = 64, .seq_kv = 64, .head_dim = 128}, AttentionVariant{.stages = 3});
  EXPECT_THAT(flat, HasSubstr(".head_dim = 128,"));
  EXPECT_THAT(flat, HasSubstr(".stages = 3,"));
  EXPECT_THAT(flat, HasSubstr("swr_attention"));
}

// Sets of templates and the text that is written for a variant.

struct GoldenCase {
  const char* file;
  AttentionProblem problem;
  AttentionVariant variant;
};

const std::array kGolden{
    GoldenCase{.file = "default.h", .problem = {.seq_q = 128, .seq_kv = 128}, .variant = {}},
    GoldenCase{.file = "bf16_causal_sawtooth.h",
               .problem = {.seq_q = 1,
                           .seq_kv = 99,
                           .head_dim = 128,
                           .dtype = DType::bf16,
                           .causal = true,
                           .alignment_bytes = 2},
               .variant = {.tile_m = 80,
                           .tile_n = 48,
                           .warps = 5,
                           .stages = 3,
                           .order = Order::sawtooth,
                           .persistence = Persistence::persistent,
                           .workers = 7,
                           .swizzle = AttentionSwizzle::head_fastest,
                           .smem_swizzle = false}},
    GoldenCase{.file = "pairs.h",
               .problem = {.seq_q = 4096, .seq_kv = 4096, .head_dim = 256},
               .variant = {.tile_m = 128,
                           .tile_n = 32,
                           .warps = 8,
                           .stages = 1,
                           .order = Order::sawtooth,
                           .persistence = Persistence::pairs}},
    GoldenCase{.file = "hopper.h",
               .problem = {.seq_q = 4096, .seq_kv = 4096, .head_dim = 96, .causal = true},
               .variant = {.family = Family::hopper,
                           .tile_m = 192,
                           .tile_n = 128,
                           .warps = 12,
                           .order = Order::right_to_left,
                           .persistence = Persistence::snake,
                           .mainloop = Mainloop::overlap_ordered,
                           .p_operand = POperand::shared}},
};

std::string header(const AttentionProblem& problem, const AttentionVariant& variant) {
  return std::visit([](const auto& config) { return config_header(config); },
                    make_family_config(problem, variant));
}

/// The golden file, rewritten first when SWR_UPDATE_GOLDEN=1.
std::string golden(const std::string& name, const std::string& actual) {
  const std::string path = std::string(SWR_GOLDEN_DIR) + "/" + name;
  const char* update = std::getenv("SWR_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << actual;
  }
  return bytes_of(path);
}

TEST(ConfigHeader, MatchesTheGoldenFiles) {
  for (const GoldenCase& test : kGolden) {
    const std::string actual = header(test.problem, test.variant);
    EXPECT_EQ(actual, golden(test.file, actual)) << test.file << ": review the difference, then "
                                                 << "run this test with SWR_UPDATE_GOLDEN=1";
  }
}

const HopperGemmConfig kHopperGemm{.dtype = DType::fp16,
                                   .output = OutputType::fp32,
                                   .layout = GemmLayout::tn,
                                   .reads_c = true,
                                   .tile_m = 64,
                                   .tile_n = 176,
                                   .tile_k = 128,
                                   .stages = 2,
                                   .mainloop = GemmMainloop::pingpong,
                                   .consumers = 2,
                                   .cluster_m = 1,
                                   .cluster_n = 2,
                                   .cluster_k = 1,
                                   .persistence = Persistence::persistent,
                                   .k_order = Order::sawtooth,
                                   .split_k = true};
const PortableGemmConfig kPortableGemm{.dtype = DType::bf16,
                                       .output = OutputType::fp16,
                                       .layout = GemmLayout::nn,
                                       .reads_c = false,
                                       .alignment_bytes = 2,
                                       .tile_m = 64,
                                       .tile_n = 48,
                                       .tile_k = 32,
                                       .warps_m = 2,
                                       .warps_n = 1,
                                       .stages = 3,
                                       .persistence = Persistence::grid,
                                       .k_order = Order::cyclic,
                                       .split_k = false};

TEST(ConfigHeader, OfGemmMatchesTheGoldenFiles) {
  const std::string hopper = config_header(kHopperGemm);
  EXPECT_EQ(hopper, golden("gemm_hopper.h", hopper));
  const std::string portable = config_header(kPortableGemm);
  EXPECT_EQ(portable, golden("gemm_portable.h", portable));
}

TEST(ConfigHeader, HasTheFormOfTheHandWrittenDefault) {
  const std::string by_hand =
      TemplateSet::built_in().text("default/selected_portable_attention_config.h");
  const std::string generated = header({.seq_q = 1, .seq_kv = 1}, {});
  EXPECT_EQ(generated.substr(generated.find("#pragma once")),
            by_hand.substr(by_hand.find("#pragma once")));
}

TEST(ConfigHeader, LeavesLaunchTimeChoicesOut) {
  const AttentionProblem problem{.heads_q = 8, .heads_kv = 8, .seq_q = 64, .seq_kv = 64};
  const AttentionVariant plain{.persistence = Persistence::persistent};
  AttentionVariant launched_differently = plain;
  launched_differently.workers = 48;
  launched_differently.swizzle = AttentionSwizzle::head_sections;
  launched_differently.section_heads = 4;
  EXPECT_EQ(header(problem, plain), header(problem, launched_differently));
}

TEST(Flatten, InlinesEveryTemplateOnceInOrderOfInclusion) {
  const TemplateSet set = TemplateSet::built_in()
                              .with("a.cu", "#include \"b.h\"\n#include <c.h>\nint a;")
                              .with("b.h", "#pragma once\n#include \"c.h\"\nint b;\n")
                              .with("c.h", "#pragma once\n#include <cuda_fp16.h>\nint c;\n");
  EXPECT_EQ(flatten_template(set, "a.cu"),
            "// ---- b.h\n"
            "// ---- c.h\n"
            "#include <cuda_fp16.h>\n"
            "int c;\n"
            "// ---- end of c.h\n"
            "int b;\n"
            "// ---- end of b.h\n"
            "int a;\n");
}

void expect_flat_compiles(const FamilySource& source, const std::string& config) {
  static const Nvrtc nvrtc(std::nullopt);
  const TemplateSet set = TemplateSet::built_in().with(std::string(source.config_header), config);
  const std::string flat = flatten_template(set, source.file);
  EXPECT_THAT(flat, Not(HasSubstr("#include")));
  const std::array files{TemplateFile{.path = "flat.cu", .text = flat}};
  const std::array<std::string_view, 1> options{"--std=c++20"};
  EXPECT_FALSE(nvrtc.compile(files, source.first_arch, source.arch_suffix, options).cubin.empty());
}

TEST(Flatten, OfEveryFamilyCompilesOnItsOwn) {
  for (const FamilySource& source : gemm_operation().families()) {
    expect_flat_compiles(source, source.family == Family::hopper ? config_header(kHopperGemm)
                                                                 : config_header(kPortableGemm));
  }
  for (const FamilySource& source : attention_operation().families()) {
    const AttentionVariant variant{.family = source.family, .tile_m = 128, .warps = 8};
    expect_flat_compiles(source, header({.seq_q = 64, .seq_kv = 64}, variant));
  }
}

using testing::IsSupersetOf;

std::vector<std::string> paths_of(const std::vector<TemplateFile>& files) {
  std::vector<std::string> paths;
  for (const TemplateFile& file : files) {
    paths.emplace_back(file.path);
  }
  return paths;
}

TEST(TemplateSet, EmbedsEveryFileOfTheTemplatesFoldersUnchanged) {
  const TemplateSet set = TemplateSet::built_in();
  for (const std::filesystem::path root : {SWR_TEMPLATES_DIR, SWR_WRITTEN_TEMPLATES_DIR}) {
    int checked = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const auto extension = entry.path().extension();
      if (extension == ".h" || extension == ".cuh" || extension == ".cu") {
        const std::string path = entry.path().lexically_relative(root).generic_string();
        EXPECT_EQ(set.text(path), bytes_of(entry.path())) << path;
        ++checked;
      }
    }
    EXPECT_GE(checked, 1) << root;
  }
}

TEST(TemplateSet, ServesThePublicHeadersThatKernelsInclude) {
  EXPECT_THAT(TemplateSet::built_in().paths(),
              IsSupersetOf({"swr/annotations.h", "swr/attention_params.h", "swr/axes.h"}));
}

TEST(TemplateSet, HoldsTheKernelOfEveryFamily) {
  for (const Operation* const operation : operations()) {
    for (const FamilySource& source : operation->families()) {
      EXPECT_THAT(TemplateSet::built_in().text(source.file), HasSubstr(source.entry))
          << source.file;
    }
  }
}

TEST(TemplateSet, ClosureListsIncludesOnceInOrder) {
  const TemplateSet set =
      TemplateSet::built_in()
          .with("a.cu", "#include \"b.h\"\n  #  include <c.h>\n#include \"b.h\"")
          .with("b.h", "#include <c.h>\n#include \"d.h\"\r\n")
          .with("c.h", "#include \"a.cu\"\n#include <cuda_fp16.h>\n")
          .with("d.h", "// #include \"nowhere.h\"\n");
  EXPECT_THAT(paths_of(set.closure("a.cu")), ElementsAre("a.cu", "b.h", "c.h", "d.h"));
}

TEST(TemplateSet, NamesTheFileWhoseIncludeIsMissing) {
  const TemplateSet set = TemplateSet::built_in().with("a.cu", "#include \"nowhere.h\"\n");
  const std::string message = message_of(ErrorCode::not_found, [&] { set.closure("a.cu"); });
  EXPECT_THAT(message, HasSubstr("'a.cu' includes \"nowhere.h\""));
}

TEST(TemplateSet, ListsWhatThereIsWhenATemplateIsMissing) {
  const std::string message =
      message_of(ErrorCode::not_found, [] { TemplateSet::built_in().text("nowhere.cu"); });
  EXPECT_THAT(message, HasSubstr("nowhere.cu"));
  EXPECT_THAT(message, HasSubstr("attention/config.h"));
}

TEST(TemplateSet, ClosureDigestChangesWithWhatIsIncludedAndNothingElse) {
  const TemplateSet set = TemplateSet::built_in()
                              .with("a.cu", "#include \"b.h\"\n")
                              .with("b.h", "int b;\n")
                              .with("unrelated.h", "int x;\n");
  const std::string digest = set.closure_digest("a.cu");
  EXPECT_EQ(set.with("unrelated.h", "int y;\n").closure_digest("a.cu"), digest);
  EXPECT_NE(set.with("b.h", "int c;\n").closure_digest("a.cu"), digest);
  EXPECT_NE(set.with("unrelated.h", "int y;\n").digest(), set.digest());
}

TEST(TemplateSet, OverlayShadowsAndAddsFiles) {
  const TempDirectory overlay;
  overlay.write("attention/config.h", "// mine\n");
  overlay.write("extra/reference.cu", "// added\n");
  overlay.write("notes.txt", "not a template\n");
  const TemplateSet set = TemplateSet::overlaid(overlay.path());
  EXPECT_EQ(set.text("attention/config.h"), "// mine\n");
  EXPECT_EQ(set.text("extra/reference.cu"), "// added\n");
  EXPECT_EQ(set.text("common/attention_schedule.h"),
            TemplateSet::built_in().text("common/attention_schedule.h"));
  EXPECT_EQ(set.paths().size(), TemplateSet::built_in().paths().size() + 1);
  EXPECT_NE(set.digest(), TemplateSet::built_in().digest());
}

TEST(TemplateSet, AnEmptyOverlayChangesNothing) {
  const TempDirectory overlay;
  EXPECT_EQ(TemplateSet::overlaid(overlay.path()).digest(), TemplateSet::built_in().digest());
}

TEST(TemplateSet, RejectsAnOverlayThatIsNoDirectory) {
  const TempDirectory parent;
  const auto file = parent.write("file", "");
  EXPECT_THAT(message_of(ErrorCode::unreadable, [&] { TemplateSet::overlaid(file); }),
              HasSubstr("is no directory"));
  EXPECT_THAT(
      message_of(ErrorCode::unreadable, [&] { TemplateSet::overlaid(parent.path() / "missing"); }),
      HasSubstr("does not exist"));
}

TEST(TemplateSet, ParsesIncludeLines) {
  const auto quoted = parse_include("\t# include\t\"a/b.h\" // why");
  ASSERT_TRUE(quoted);
  EXPECT_EQ(quoted->path, "a/b.h");
  EXPECT_TRUE(quoted->quoted);
  const auto angled = parse_include("#include<swr/axes.h>\r");
  ASSERT_TRUE(angled);
  EXPECT_EQ(angled->path, "swr/axes.h");
  EXPECT_FALSE(angled->quoted);
  for (const char* line : {"", "#", "include \"a.h\"", "#include a.h", "#include \"a.h",
                           "#define x", "// #include \"a.h\"", "#pragma once"}) {
    EXPECT_FALSE(parse_include(line)) << line;
  }
}

}  // namespace
}  // namespace swr
