// SPDX-License-Identifier: MIT
// NVRTC, its log, and compilers that are confined.
#include "generator/nvrtc.h"

#include "core/operation.h"
#include "generator/compile_log.h"
#include "tests/support/test.h"
#include <swr/generator.h>

#include <ctime>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace swr {
namespace {
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

// As NVRTC 13.0 writes it, functions in an order of its own.
constexpr std::string_view kSeveralFunctions = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'swr_attention' for 'sm_90'
ptxas info    : Function properties for swr_attention
ptxas         .     1208 bytes stack frame, 3216 bytes spill stores, 3340 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 1208 bytes cumulative stack size
ptxas info    : Compile time = 218.523 ms
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 256 bytes smem
ptxas info    : Compile time = 14.399 ms
ptxas info    : Function properties for _Z6helperPf
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
)";

TEST(CompileLog, ReportsTheEntryAndNoOtherFunction) {
  const auto first = parse_resources(kSeveralFunctions, "swr_attention");
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, (KernelResources{.registers_per_thread = 32,
                                     .spill_store_bytes = 3216,
                                     .spill_load_bytes = 3340,
                                     .stack_bytes = 1208}));
  const auto second = parse_resources(kSeveralFunctions, "other");
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, (KernelResources{
                         .registers_per_thread = 40, .stack_bytes = 8, .static_smem_bytes = 256}));
}

TEST(CompileLog, CountsWarningsAboutWgmma) {
  constexpr std::string_view log =
      "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to insufficient register resources in function 'swr_attention'\n"
      "ptxas info    : (C7519) Potential Performance Loss: warpgroup.arrive is injected\n"
      "ptxas info    : Compiling entry function 'swr_attention' for 'sm_90a'\n"
      "ptxas info    : (C7508) setmaxnreg ignored\n"
      "ptxas info    : Used 168 registers, used 8 barriers\n";
  const auto resources = parse_resources(log, "swr_attention");
  ASSERT_TRUE(resources);
  EXPECT_EQ(resources->wgmma_warnings, 2);  // C7519 is harmless.
}

TEST(CompileLog, ReadsTheFormOfOlderReleasesWithConstantBanks) {
  constexpr std::string_view log =
      "ptxas info    : 0 bytes gmem, 24 bytes cmem[4]\r\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\r\n"
      "ptxas info    : Function properties for helper\r\n"
      "    48 bytes stack frame, 44 bytes spill stores, 40 bytes spill loads\r\n"
      "ptxas info    : Function properties for k\r\n"
      "    0 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\r\n"
      "ptxas info    : Used 255 registers, 49152 bytes smem, 472 bytes cmem[0]\r\n";
  const auto resources = parse_resources(log, "k");
  ASSERT_TRUE(resources);
  EXPECT_EQ(*resources, (KernelResources{.registers_per_thread = 255,
                                         .spill_store_bytes = 12,
                                         .spill_load_bytes = 16,
                                         .static_smem_bytes = 49152}));
}

TEST(CompileLog, DoesNotTakeSharedMemoryFromConstantMemory) {
  constexpr std::string_view log =
      "ptxas info    : Compiling entry function 'k' for 'sm_120'\n"
      "ptxas info    : Used 24 registers, 900 bytes cmem[0]";
  const auto resources = parse_resources(log, "k");
  ASSERT_TRUE(resources);
  EXPECT_EQ(*resources, KernelResources{.registers_per_thread = 24});
}

TEST(CompileLog, TellsAnEntryFromALongerName) {
  EXPECT_FALSE(parse_resources(kSeveralFunctions, "swr_attentio"));
  EXPECT_FALSE(parse_resources(kSeveralFunctions, "_Z6helperPf"));
}

TEST(CompileLog, IsEmptyWhenTheLogHoldsNoReport) {
  EXPECT_FALSE(parse_resources("", "k"));
  EXPECT_FALSE(parse_resources("Used 12 registers", "k"));
  EXPECT_FALSE(
      parse_resources("Compiling entry function 'k' for 'sm_80'\nUsed many registers", "k"));
  EXPECT_FALSE(parse_resources("Compiling entry function 'k", "k"));
}

TEST(CompileLog, SaysWhatToDoAndEachLineOnce) {
  EXPECT_EQ(failure_text("a.cu(1): warning: w\na.cu(3): error: bad\n  x;\n1 error\n"),
            "a.cu(3): error: bad\na.cu(1): warning: w\n  x;\n1 error\n");
  EXPECT_EQ(failure_text("a.cu(1): error: x\r\na.cu(2): error: y"),
            "a.cu(1): error: x\na.cu(2): error: y");
  EXPECT_EQ(failure_text("something\nelse"), "something\nelse");
  EXPECT_EQ(failure_text("only an error"), "only an error");
  EXPECT_EQ(failure_text(""), "");
  const std::string host = failure_text("k.cu(9): error: identifier \"cudaFree\" is undefined\nx");
  EXPECT_EQ(host.substr(0, host.find('\n')),
            "k.cu(9): error: identifier \"cudaFree\" is undefined; code for the host belongs "
            "between #ifndef swr_tune and #endif: swr compiles kernels alone");
  EXPECT_EQ(host.substr(host.find('\n') + 1), "x");
  EXPECT_NE(failure_text("__nv_name_map(2): error: identifier \"k\" is undefined")
                .find("has no kernel of this name"),
            std::string::npos);
  EXPECT_NE(failure_text("k.cu(4): error: texture is not a template").find("cudaTextureObject_t"),
            std::string::npos);
  EXPECT_NE(failure_text("cccl/thrust/system/x.h(1): error: A function").find("block_reduce.cuh"),
            std::string::npos);
}

// What is compiled opens no file: tricks by which a source would read one, or learn that it is
// there.

constexpr const char* kSecret = "hunter2";
constexpr const char* kKernel = "extern \"C\" __global__ void k(int* o) { *o = 1; }\n";

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Confined : public testing::Test {
 protected:
  /// The cubin, or the whole error.
  std::string compiled(const std::string& text, std::map<std::string, std::string> headers = {}) {
    KernelProgram program{.file = "k.cu",
                          .text = text,
                          .headers = std::move(headers),
                          .options = {},
                          .kernels = {"k"}};
    try {
      return text_of(generator_.compile_program(program, 90).cubin);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::compile_failed);
      return error.what();
    }
  }

  TempDirectory directory_;
  const std::string secret_ =
      directory_.write("secret.h", std::string("password = ") + kSecret + " ;\n").string();
  const Generator generator_{GeneratorOptions{}};
};

TEST_F(Confined, AThreadOpensNothingAndOthersDo) {
  tzset();
  const std::string zone = tzname[0];
  ASSERT_TRUE(run_confined([&] {
    struct stat status {};
    EXPECT_EQ(open(secret_.c_str(), O_RDONLY), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(open("/dev/zero", O_RDONLY), -1);
    EXPECT_EQ(stat("/", &status), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(access("/proc/self/environ", F_OK), -1);
    EXPECT_EQ(socket(AF_INET, SOCK_STREAM, 0), -1);
    EXPECT_EQ(syscall(SYS_openat2, AT_FDCWD, secret_.c_str(), nullptr, 0), -1);
    EXPECT_EQ(errno, ENOENT);
    std::thread([&] { EXPECT_EQ(open(secret_.c_str(), O_RDONLY), -1); }).join();
  }));
  EXPECT_TRUE(std::ifstream(secret_).is_open());
  EXPECT_EQ(tzname[0], zone);
  EXPECT_THROW(run_confined([] { throw Error(ErrorCode::not_found, "as it is"); }), Error);
}

TEST_F(Confined, NoSourceBringsAFileIntoAMessageOrACubin) {
  mkfifo((directory_.path() / "pipe").c_str(), 0600);
  std::filesystem::create_symlink(secret_, directory_.path() / "link.h");
  const std::string quoted = "\"" + secret_ + "\"";
  const std::string include = "#include " + quoted + "\n";
  const std::string folder = directory_.path().string();
  const std::string tricks[] = {
      include,
      "#include <" + secret_ + ">\n",
      "# /* */ include /* */ " + quoted + "\n",
      "%:include " + quoted + "\n",
      "?\?=include " + quoted + "\n",
      "#inc\\\nlude \"" + secret_.substr(0, 5) + "\\\n" + secret_.substr(5) + "\"\n",
      "#inc\\ \nlude " + quoted + "\n",
      "/* \n */ #include " + quoted + "\n",
      "#define F " + quoted + "\n#include F\n",
      "#define S(x) #x\n#define T(x) S(x)\n#include T(" + secret_ + ")\n",
      "#include_next " + quoted + "\n",
      "#import " + quoted + "\n",
      "constexpr char s[] = {\n#embed " + quoted + "\n};\n",
      "_Pragma(\"include_alias(\\\"a.h\\\", \\\"" + secret_ + "\\\")\")\n#include \"a.h\"\n",
      "#pragma include_alias(\"a.h\", " + quoted + ")\n#include \"a.h\"\n",
      "#pragma push_macro(\"x\")\n#pragma once\n#line 1 " + quoted + "\n#include \"secret.h\"\n",
      "# 1 " + quoted + " 1\n#include \"secret.h\"\n",
      "const int c = sizeof(L'\"') + sizeof \"/*\";\n" + include + "// */\n",
      "const char* r = R\"x(\n)x\";\n" + include + "const char* q = R\"(\n)\";\n",
      "#define XR\nconst char* a = XR\"(\";\n" + include + "const char* b = \")\";\n",
      "#define S(...) #__VA_ARGS__\n__constant__ const char s[] = S(\n" + include + ");\n",
      "#include \"../../../../../../../../../.." + secret_ + "\"\n",
      "#include \"" + folder + "/./link.h\"\n",
      "#include \"" + folder + "/pipe\"\n",
      "#include \"/dev/zero\"\n",
      "#include \"/dev/stdin\"\n",
      "#include \"/proc/self/environ\"\n",
      "#include \"/proc/self/cwd/secret.h\"\n",
      "#include \"/proc/self/fd/0\"\n",
      "#include \"file://" + secret_ + "\"\n",
      "asm(\".include " + std::string("\\\"") + secret_ + "\\\"\");\n",
      "__device__ void a() { asm volatile(\".file 1 \\\"" + secret_ + "\\\"\"); }\n",
  };
  setenv("SWR_TEST_SECRET", kSecret, 1);
  for (const std::string& trick : tricks) {
    EXPECT_THAT(compiled(trick + kKernel), Not(HasSubstr(kSecret))) << trick;
    EXPECT_THAT(compiled("#include \"h.h\"\n" + std::string(kKernel), {{"h.h", trick}}),
                Not(HasSubstr(kSecret)))
        << trick;
  }
}

TEST_F(Confined, NoSourceLearnsWhichFilesExist) {
  const std::string folder = directory_.path().string();
  for (const std::string& name : {secret_, folder, folder + "/none", secret_ + "/none"}) {
    EXPECT_THAT(compiled("#if __has_include(\"" + name + "\") || __has_include(<" + name +
                         ">)\n#error it is there\n#endif\n" + kKernel),
                Not(HasSubstr("it is there")));
    const std::string message = compiled("#include \"" + name + "\"\n");
    EXPECT_THAT(message, HasSubstr("cannot open source file \"" + name + "\"; there are"));
  }
}

TEST_F(Confined, CubinsNameNoFolderAndAreTheSameFromAny) {
  const std::map<std::string, std::string> headers{
      {"a/h.h", "__device__ __noinline__ int twice(int x) {\n  return 2 * x;\n}\n"}};
  const std::string source =
      "#include \"a/h.h\"\n#include <cuda_fp16.h>\nextern \"C\" __global__ void k(int* o) {\n"
      "  *o = twice(*o) + __half2int_rn(__float2half(*o));\n}\n";
  const std::filesystem::path before = std::filesystem::current_path();
  const std::string here = compiled(source, headers);
  std::filesystem::current_path(directory_.path());
  const std::string there = compiled(source, headers);
  std::filesystem::current_path(before);
  EXPECT_EQ(here, there);
  EXPECT_THAT(here, HasSubstr("h.h"));
  EXPECT_THAT(here, Not(AnyOf(HasSubstr(before.string()), HasSubstr(directory_.path().string()),
                              HasSubstr("/include"))));
}

/// From now on this thread, and those it starts, can install no filter.
void forbid_filters() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0), 0);
}

TEST_F(Confined, WithoutFiltersSpecsAreRefusedAndTemplatesAreNot) {
  std::thread([&] {
    forbid_filters();
    EXPECT_FALSE(run_confined([] { FAIL() << "it is not confined"; }));
    EXPECT_THAT(compiled(kKernel), HasSubstr("cannot keep the compiler away from files"));
    EXPECT_FALSE(
        generator_.compile_template("calibration/read_once.cu", "swr_read_once", 90).cubin.empty());
  }).join();
}

TEST_F(Confined, HeadersOfCudaAreThere) {
  for (const char* const name : {"cuda_fp16.h", "cuda_bf16.h", "mma.h", "cuda/std/type_traits",
                                 "cub/block/block_reduce.cuh"}) {
    EXPECT_THAT(compiled("#include <" + std::string(name) + ">\n" + kKernel), HasSubstr("ELF"))
        << name;
  }
}

}  // namespace
}  // namespace swr
