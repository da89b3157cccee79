// SPDX-License-Identifier: MIT
#include "export/export.h"

#include "core/files.h"
#include "core/json.h"
#include "core/sha256.h"
#include "tests/db/fixtures.h"
#include <swr/attention_variant.h>
#include <swr/version.h>

#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

/// A cubin whose bytes are the variant's key: enough for everything but running it.
CompiledKernel key_as_cubin(const Problem& /*problem*/, const Variant& variant, int sm_arch) {
  const std::string key = to_key(variant);
  CompiledKernel kernel{.entry = "swr_attention", .sm_arch = sm_arch};
  std::ranges::transform(key, std::back_inserter(kernel.cubin),
                         [](char c) { return static_cast<std::byte>(c); });
  kernel.cubin_digest = sha256_hex(kernel.cubin);
  kernel.resources.registers_per_thread = 128;
  kernel.may_overlap = sm_arch >= 90;
  return kernel;
}

class ExportTest : public ::testing::Test {
 protected:
  void record(const Problem& problem, VariantResult result,
              const DeviceInfo& device = fictional_gpu()) {
    result.ctas_per_sm = 2;
    result.cubin_digest = key_as_cubin(problem, result.variant, device.sm_arch).cubin_digest;
    store_.record(run_, problem, device, result);
  }
  Manifest do_export(const ExportFilter& filter = {}) const {
    return export_kernels(store_, key_as_cubin, out_, filter);
  }
  Error export_error() const {
    return error_of([&] { do_export(); });
  }
  /// File names and contents of the export.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(out_)) {
      files[entry.path().filename().string()] = bytes_of(entry.path());
    }
    return files;
  }
  /// What else lies beside the export and the database.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      const std::string name = entry.path().filename().string();
      if (name != "out" && !name.starts_with("tuned.db")) {
        names.push_back(name);
      }
    }
    return names;
  }

  TempDirectory directory_;
  fs::path out_ = directory_ / "out";
  Store store_{directory_ / "tuned.db", Store::Mode::read_write};
  long long run_ = store_.begin_run(some_run());
};

/// Programs load from it meanwhile, and the exporting process may be killed at any moment.
TEST_F(ExportTest, IsThereAtEveryMomentWhileItIsReplaced) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  do_export();
  std::atomic<bool> is_over = false;
  std::atomic<int> absent = 0;
  std::thread watcher([&] {
    struct stat status {};
    while (!is_over) {
      absent += stat(out_.c_str(), &status) == 0 ? 0 : 1;
    }
  });
  for (int i = 0; i < 200; ++i) {
    do_export();
  }
  is_over = true;
  watcher.join();
  EXPECT_EQ(absent, 0);
  EXPECT_THAT(leftovers(), ::testing::IsEmpty());
}

TEST_F(ExportTest, LeavesAFolderWithTheNameOfItsOwnAlone) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  const fs::path taken = out_.string() + ".new-" + std::to_string(getpid());
  fs::create_directory(taken);
  std::ofstream(taken / "thesis") << "years";
  const fs::path link = taken.string() + "-1";
  fs::create_symlink(taken, link);
  do_export();
  EXPECT_EQ(bytes_of(taken / "thesis"), "years");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(std::distance(fs::directory_iterator(taken), fs::directory_iterator()), 1);
  EXPECT_EQ(read_manifest(out_).kernels.size(), 1U);
}

TEST_F(ExportTest, RemovesWhatKilledOnesLeft) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  const pid_t child = fork();
  if (child == 0) {
    constexpr rlimit kLessThanACubin{.rlim_cur = 16, .rlim_max = 16};
    setrlimit(RLIMIT_FSIZE, &kLessThanACubin);
    std::signal(SIGXFSZ, SIG_DFL);
    export_kernels(store_, key_as_cubin, out_, {});
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_THAT(leftovers(), ::testing::ElementsAre("out.new-" + std::to_string(child)));
  do_export();
  EXPECT_THAT(leftovers(), ::testing::IsEmpty());
}

TEST_F(ExportTest, LeavesAloneWhatLivingOnesStage) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  const auto staged = [&](const std::string& name) {
    fs::create_directory(directory_ / name.c_str());
    std::ofstream(directory_ / (name + "/half.cubin").c_str()) << "half";
    return directory_ / (name + "/.swr-staging").c_str();
  };
  const FileDescriptor held(open(staged("out.new-1").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  fs::create_symlink("../tuned.db", staged("out.new-2"));
  std::ofstream{staged("elsewhere")};
  fs::create_directory_symlink("elsewhere", directory_ / "out.new-3");
  fs::create_hard_link(directory_ / "elsewhere/half.cubin", staged("out.new-4"));
  do_export();
  EXPECT_THAT(leftovers(), ::testing::UnorderedElementsAre("out.new-1", "out.new-2", "out.new-3",
                                                           "out.new-4", "elsewhere"));
  EXPECT_TRUE(fs::exists(directory_ / "elsewhere/half.cubin"));
  ASSERT_EQ(flock(held.get(), LOCK_UN), 0);
  do_export();
  EXPECT_FALSE(fs::exists(directory_ / "out.new-1"));
}

TEST_F(ExportTest, ThatHoldsALinkOfOthersIsNotReplaced) {
  record(problem_of(4096), measured(tile(64, 64), 10.0));
  do_export();
  fs::create_directory_symlink(directory_.path(), out_ / "elsewhere");
  EXPECT_THAT(export_error().what(), HasSubstr("'elsewhere', which no export wrote"));
  EXPECT_TRUE(fs::is_symlink(out_ / "elsewhere"));
}

TEST_F(ExportTest, WritesTheWinnerWithItsCubinAndLaunch) {
  AttentionVariant persistent = tile(128, 64);
  persistent.persistence = Persistence::persistent;
  persistent.order = Order::sawtooth;
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  record(problem_of(4096), measured(persistent, 10.0));
  do_export();
  const Manifest manifest = read_manifest(out_);
  EXPECT_EQ(manifest.swr_version, SWR_VERSION);
  ASSERT_EQ(manifest.kernels.size(), 1U);
  const ExportedKernel& kernel = manifest.kernels[0];
  EXPECT_EQ(kernel.entry, "swr_attention");
  EXPECT_EQ(kernel.sm_arch, 90);
  EXPECT_EQ(kernel.problem, problem_of(4096));
  EXPECT_EQ(kernel.variant, persistent);
  EXPECT_EQ(kernel.device.name, "Fictional F1");
  EXPECT_EQ(kernel.provenance, Provenance::measured);
  EXPECT_EQ(kernel.time_us, 10.0);
  EXPECT_EQ(kernel.ctas_per_sm, 2);
  EXPECT_FALSE(kernel.rebuilt);
  EXPECT_TRUE(kernel.may_overlap);
  // 8 heads of 32 tiles exceed 2 CTAs on each of 96 SMs.
  EXPECT_EQ(kernel.launch.grid_x, 192);
  EXPECT_EQ(kernel.launch.block_x, 128);
  EXPECT_EQ(kernel.launch.dynamic_smem_bytes, (128 + 2 * 2 * 64) * 64 * 2 + 32);
  EXPECT_EQ(kernel.launch.section_heads, 1);
  EXPECT_EQ(read_cubin(out_, kernel), key_as_cubin({}, persistent, 90).cubin);
  EXPECT_THAT(kernel.file, ::testing::MatchesRegex(
                               "attention_b1_h8_8_s4096_4096_d64_fp16_sm90_[0-9a-f]+\\.cubin"));
}

TEST_F(ExportTest, TheSameDatabaseGivesTheSameBytes) {
  record(problem_of(4096), measured(tile(64, 64), 20.0 / 3.0));
  record(problem_of(8192), predicted(tile(128, 64), 0.1));
  do_export();
  const auto first = contents();
  EXPECT_EQ(first.size(), 3U);
  do_export();
  EXPECT_EQ(contents(), first);
  EXPECT_TRUE(leftovers().empty());
}

TEST_F(ExportTest, TwoDevicesOfOneArchitectureGetTheirOwnFiles) {
  DeviceInfo cousin = fictional_gpu();
  cousin.sm_count = 48;
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  record(problem_of(4096), measured(tile(64, 64), 40.0), cousin);
  do_export();
  const Manifest manifest = read_manifest(out_);
  ASSERT_EQ(manifest.kernels.size(), 2U);
  EXPECT_NE(manifest.kernels[0].file, manifest.kernels[1].file);
}

TEST_F(ExportTest, TheFilterSelectsProblemAndDevice) {
  DeviceInfo cousin = fictional_gpu();
  cousin.sm_count = 48;
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  record(problem_of(8192), measured(tile(64, 64), 80.0));
  record(problem_of(8192), measured(tile(64, 64), 160.0), cousin);
  const auto times = [](const Manifest& manifest) {
    std::vector<double> all;
    std::ranges::transform(manifest.kernels, std::back_inserter(all), &ExportedKernel::time_us);
    return all;
  };
  EXPECT_EQ(times(do_export({.problem = problem_of(8192), .device = {}})),
            (std::vector{80.0, 160.0}));
  EXPECT_EQ(times(do_export({.problem = {}, .device = cousin})), std::vector{160.0});
  const Error error = error_of([&] { do_export({.problem = problem_of(4096), .device = cousin}); });
  EXPECT_EQ(error.code(), ErrorCode::nothing_stored);
  EXPECT_EQ(read_manifest(out_).kernels.size(), 1U) << "the earlier export is untouched";
}

TEST_F(ExportTest, ACubinThatDiffersFromTheRecordedOneIsMarked) {
  VariantResult result = measured(tile(64, 64), 20.0);
  result.ctas_per_sm = 2;
  result.cubin_digest = std::string(64, '0');
  store_.record(run_, problem_of(4096), fictional_gpu(), result);
  EXPECT_TRUE(do_export().kernels[0].rebuilt);
  const ExportedKernel kernel = read_manifest(out_).kernels[0];
  EXPECT_TRUE(kernel.rebuilt);
  // Recomputed for the new cubin: 40 KiB of tiles and 1 KiB reserved, three times in 128 KiB.
  EXPECT_EQ(kernel.ctas_per_sm, 3);
}

TEST_F(ExportTest, NothingStoredIsSaidAndNothingIsWritten) {
  EXPECT_EQ(export_error().code(), ErrorCode::nothing_stored);
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(ExportTest, AnEmptyDirectoryIsFilled) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  fs::create_directory(out_);
  out_ += "/";
  do_export();
  EXPECT_EQ(read_manifest(out_).kernels.size(), 1U);
}

TEST_F(ExportTest, ADirectoryOfSomethingElseIsLeftAlone) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  fs::create_directory(out_);
  std::ofstream(out_ / "thesis.tex") << "chapter 1";
  EXPECT_EQ(export_error().code(), ErrorCode::invalid_argument);
  std::ofstream(out_ / kManifestFile) << R"({"format": "npm"})";
  EXPECT_EQ(export_error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(bytes_of(out_ / "thesis.tex"), "chapter 1");
}

TEST_F(ExportTest, AnExportWithAStrangersFileIsLeftAlone) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  do_export();
  std::ofstream(out_ / "notes.txt") << "keep me";
  const Error error = export_error();
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error.what(), HasSubstr("notes.txt"));
  EXPECT_EQ(bytes_of(out_ / "notes.txt"), "keep me");
}

TEST_F(ExportTest, AFileIsNoDirectory) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  std::ofstream(out_) << "text";
  EXPECT_EQ(export_error().code(), ErrorCode::invalid_argument);
}

TEST_F(ExportTest, AReadOnlyPlaceIsNotWritable) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  fs::create_directory(directory_ / "locked");
  chmod((directory_ / "locked").c_str(), 0555);
  out_ = directory_ / "locked" / "out";
  const WithoutPrivileges nobody;
  EXPECT_EQ(export_error().code(), ErrorCode::not_writable);
}

TEST_F(ExportTest, ACompilationThatFailsLeavesNothingBehind) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  const CubinSource failing = [](const auto&, const auto&, int) -> CompiledKernel {
    throw Error(ErrorCode::compile_failed, "no");
  };
  EXPECT_EQ(error_of([&] { export_kernels(store_, failing, out_); }).code(),
            ErrorCode::compile_failed);
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_TRUE(leftovers().empty());
}

TEST_F(ExportTest, ADamagedCubinIsFound) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  const std::string file = do_export().kernels[0].file;
  std::ofstream(out_ / file, std::ios::app) << "x";
  EXPECT_EQ(error_of([&] { read_manifest(out_); }).code(), ErrorCode::unreadable);
  fs::remove(out_ / file);
  const Error error = error_of([&] { read_manifest(out_); });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr(file));
}

TEST_F(ExportTest, AMissingManifestIsNotFound) {
  EXPECT_EQ(error_of([&] { read_manifest(out_); }).code(), ErrorCode::not_found);
}

struct Tampering {
  const char* name;
  std::function<void(Json& manifest)> change;
  const char* complaint;
};

/// A manifest changed by hand must not lead to a file outside or to a wrong launch.
class TamperedManifestTest : public ExportTest, public ::testing::WithParamInterface<Tampering> {};

TEST_P(TamperedManifestTest, IsRefusedWithTheField) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  do_export();
  Json manifest = Json::parse(bytes_of(out_ / kManifestFile));
  GetParam().change(manifest);
  std::ofstream(out_ / kManifestFile) << manifest;
  const Error error = error_of([&] { read_manifest(out_); });
  EXPECT_EQ(error.code(), ErrorCode::unreadable);
  EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
  EXPECT_THAT(error.what(), HasSubstr(out_.string()));
}

INSTANTIATE_TEST_SUITE_P(
    Export, TamperedManifestTest,
    ::testing::Values(
        Tampering{"NotAnObject", [](Json& m) { m = Json::array(); }, "format"},
        Tampering{"NewerVersion", [](Json& m) { m["format_version"] = 3; }, "format_version"},
        Tampering{"NoKernels", [](Json& m) { m.erase("kernels"); }, "kernels"},
        Tampering{"KernelsNoList", [](Json& m) { m["kernels"] = "none"; }, "kernels"},
        Tampering{"Outside", [](Json& m) { m["kernels"][0]["file"] = "../tuned.db"; }, "file"},
        Tampering{"Absolute", [](Json& m) { m["kernels"][0]["file"] = "/x.cubin"; }, "file"},
        Tampering{"Hidden", [](Json& m) { m["kernels"][0]["file"] = "..cubin"; }, "file"},
        Tampering{"Entry", [](Json& m) { m["kernels"][0]["entry"] = "a b"; }, "entry"},
        Tampering{"MissingAxis", [](Json& m) { m["kernels"][0]["variant"].erase("stages"); },
                  "stages"},
        Tampering{"UnknownAxis", [](Json& m) { m["kernels"][0]["variant"]["depth"] = 3; }, "depth"},
        Tampering{"AxisText", [](Json& m) { m["kernels"][0]["variant"]["order"] = "random"; },
                  "order"},
        Tampering{"IllegalVariant", [](Json& m) { m["kernels"][0]["variant"]["tile_m"] = 72; },
                  "tile_shape"},
        Tampering{"Launch", [](Json& m) { m["kernels"][0]["launch"]["grid_x"] = 1; }, "launch"},
        Tampering{"HugeNumber",
                  [](Json& m) { m["kernels"][0]["launch"]["grid_x"] = 18446744073709551615ULL; },
                  "grid_x"},
        Tampering{"HeadDim", [](Json& m) { m["kernels"][0]["problem"]["head_dim"] = 63; },
                  "head-dim"},
        Tampering{"Causal", [](Json& m) { m["kernels"][0]["problem"]["causal"] = 1; }, "causal"},
        Tampering{"Provenance", [](Json& m) { m["kernels"][0]["provenance"] = "sworn"; },
                  "provenance"},
        Tampering{"Waits", [](Json& m) { m["kernels"][0]["may_overlap"] = 1; }, "may_overlap"},
        Tampering{"Time", [](Json& m) { m["kernels"][0]["time_us"] = -1; }, "time_us"},
        Tampering{"Device", [](Json& m) { m["kernels"][0]["device"]["sm_count"] = 0; }, "sm_count"},
        Tampering{"UnknownKernel",
                  [](Json& m) { m["kernels"][0]["problem"]["op"] = "blur_1f68dcc7"; },
                  "knows no kernel 'blur_1f68dcc7'; register its spec"},
        Tampering{"Digest", [](Json& m) { m["kernels"][0]["sha256"] = "00"; }, "cubin"}),
    [](const auto& tampering) { return tampering.param.name; });

TEST_F(ExportTest, AManifestThatNestsWithoutEndIsRefused) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  do_export();
  std::string text = bytes_of(out_ / kManifestFile);
  const std::string deep = std::string(110'000, '[') + std::string(110'000, ']');
  const std::string launch = "\"launch\": ";
  text.insert(text.find(launch) + launch.size(), deep + ", \"more\": ");
  std::ofstream(out_ / kManifestFile) << text;
  EXPECT_THAT(error_of([&] { read_manifest(out_); }).what(), HasSubstr("deep"));
  EXPECT_EQ(export_error().code(), ErrorCode::invalid_argument) << "it is no export to replace";
}

TEST_F(ExportTest, APackageCannotBeCalledByAWordOfTheLanguage) {
  record(problem_of(4096), measured(tile(64, 64), 20.0));
  for (const char* name : {"int", "class", "all", "NULL", "std", "test", "swr", "9lives", ""}) {
    const Error error = error_of([&] { export_package(store_, key_as_cubin, out_, name); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << name;
    EXPECT_FALSE(fs::exists(out_)) << name;
  }
}

TEST_F(ExportTest, TextThatIsNoJsonIsRefused) {
  fs::create_directory(out_);
  std::ofstream(out_ / kManifestFile) << "{";
  EXPECT_EQ(error_of([&] { read_manifest(out_); }).code(), ErrorCode::unreadable);
}

}  // namespace
}  // namespace swr
