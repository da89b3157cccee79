// SPDX-License-Identifier: MIT
// What is compiled opens no file: tricks by which a source would read one, or learn that it is
// there.
#include "generator/confined.h"

#include "core/operation.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_directory.h"
#include <swr/generator.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace swr {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

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
