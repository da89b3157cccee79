// SPDX-License-Identifier: MIT
// A measuring process whose evaluator misbehaves as the variant says
// (tests/tuner/supervise/behaviours.h).
#include "tests/support/attention.h"
#include "tests/support/fake_evaluator.h"
#include "tests/tuner/supervise/behaviours.h"
#include "tuner/supervise/supervised_compiler.h"
#include <swr/attention_variant.h>
#include <swr/error.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace swr::test {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void crash() {
  std::signal(SIGSEGV, SIG_DFL);  // A sanitizer would make an exit code of it.
  raise(SIGSEGV);
  std::abort();
}

[[noreturn]] void hang() {
  for (;;) {
    pause();
  }
}

[[noreturn]] void crash_with_last_words() {
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  std::fprintf(stderr, "core files of %llu bytes\n",
               static_cast<unsigned long long>(core.rlim_max));
  crash();
}

void exhaust_memory() {
  constexpr rlim_t kLimitBytes = rlim_t{1} << 30;
  const rlimit limit{kLimitBytes, kLimitBytes};
  setrlimit(RLIMIT_AS, &limit);
  const auto hoard = std::make_unique<char[]>(std::size_t{8} << 30);
  std::cerr << "got " << static_cast<const void*>(hoard.get()) << "\n";
}

[[noreturn]] void crash_loudly() {
  constexpr int kLines = 20'000;  // 16 bytes each; a pipe holds 65536 bytes.
  for (int i = 0; i < kLines; ++i) {
    std::fputs("noise and noise\n", stderr);
  }
  std::fputs("the last straw\n\n", stderr);
  crash();
}

class MisbehavingEvaluator final : public test::PlainEvaluator {
 public:
  explicit MisbehavingEvaluator(fs::path directory) : directory_(std::move(directory)) {}

  const DeviceInfo& device() const override { return device_; }

  void prepare(const Problem& problem) override {
    ++times_prepared_;
    switch (attention(problem).batch) {
      case kCrashesWhenPrepared:
        crash();
      case kHangsWhenPreparedOnce:
        return is_first(kHangsWhenPreparedOnce) ? hang() : void();
      case kRunsTrials:
        return run_trials();
      default:
        return;
    }
  }

  ReferenceTrials* reference_trials() override { return &trials_; }

  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    if (attention(problem).batch == kRunsTrials) {
      run_trials();
    }
    VariantResult result{.variant = variant,
                         .detail = "process " + std::to_string(getpid()),
                         .resources = kernel.resources,
                         .smem_bytes = smem_bytes(problem, variant),
                         .ctas_per_sm = 1,
                         .cubin_digest = kernel.cubin_digest,
                         .outcome = timed(1.0 + attention(variant).workers)};
    if (attention(variant).workers == kTellsHowOftenItPrepared) {
      result.outcome = timed(times_prepared_);
    }
    behave(attention(variant).workers, result);
    if (damaged_) {
      fail(result, ResultState::runtime, "CUDA_ERROR_ILLEGAL_ADDRESS in a context that was lost");
    }
    damaged_ = damaged_ || attention(variant).workers == kDamagesTheProcess;
    return result;
  }

  std::vector<CounterReading> count(const Problem& /*problem*/,
                                    std::span<const Contender> contenders) override {
    crash_if_any(contenders);
    return {contenders.size(), CounterReading{Counters{.l2_hits = 7}, ""}};
  }

  RaceResult race(const Problem& /*problem*/, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    crash_if_any(contenders);
    RaceResult result;
    for (const Contender& contender : contenders) {
      result.samples_us.emplace_back(static_cast<std::size_t>(options.rounds),
                                     1.0 + attention(contender.variant).workers);
    }
    return result;
  }

 private:
  static Measurement timed(double time_us) {
    return Measurement{.samples_us = {time_us},
                       .median_us = time_us,
                       .p95_us = time_us,
                       .counters_missing_because = "a fake has no counters"};
  }

  static void fail(VariantResult& result, ResultState state, const std::string& detail) {
    result.state = state;
    result.detail = detail;
    result.outcome = Measurement{};
  }

  static void crash_if_any(std::span<const Contender> contenders) {
    for (const Contender& contender : contenders) {
      if (attention(contender.variant).workers == kCrashesWhenCounted) {
        crash();
      }
    }
  }

  void behave(int behaviour, VariantResult& result) {
    switch (behaviour) {
      case kCrashes:
        crash_with_last_words();
      case kHangs:
        hang();
      case kIsWrong:
        fail(result, ResultState::correctness, "relative L2 error inf");
        std::get<Measurement>(result.outcome).relative_error =
            std::numeric_limits<double>::infinity();
        return;
      case kExhaustsMemory:
        return exhaust_memory();
      case kFaults:
        damaged_ = true;
        return;
      case kWaits:
        meet();
      case kWaitsOnce:
        return is_first(behaviour) ? meet() : void();
      case kCrashesLoudly:
        crash_loudly();
      case kLosesTheDevice:
        throw Error(ErrorCode::driver_failed, "the device fell off the bus");
      case kLosesTheDeviceOnce:
        if (is_first(behaviour)) {
          throw Error(ErrorCode::driver_failed, "the device fell off the bus");
        }
        return;
      case kTalksNonsense:
        [[maybe_unused]] const ssize_t count = write(STDIN_FILENO, "\0\0\0\2\xff\xff", 6);
        return hang();
    }
  }

  void run_trials() {
    for (const int behaviour : {kCrashes, kHangs, kLosesTheDevice, kGood}) {
      const Variant variant = AttentionVariant{.workers = behaviour};
      if (std::ranges::find(trials_.unfit, variant) == trials_.unfit.end()) {
        VariantResult unused;
        trials_.announce(&variant);
        behave(behaviour, unused);
        trials_.announce(nullptr);
      }
    }
  }

  /// True in the first process that asks.
  bool is_first(int behaviour) const {
    const fs::path mark = directory_ / ("seen-" + std::to_string(behaviour));
    return !fs::exists(mark) && std::ofstream(mark).good();
  }

  [[noreturn]] void meet() const {
    const int meeting = open((directory_ / kMeetingPlace).c_str(), O_WRONLY);
    const std::string text = std::to_string(getpid()) + "\n";
    [[maybe_unused]] const ssize_t count = write(meeting, text.data(), text.size());
    hang();
  }

  ReferenceTrials trials_;
  fs::path directory_;
  DeviceInfo device_ = fictional_device();
  bool damaged_ = false;
  int times_prepared_ = 0;
};

}  // namespace
}  // namespace swr::test

int main(int argc, char** argv) {
  using namespace swr;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string mood = arguments.size() > 1 ? arguments[1] : "";
  const bool is_gone =
      mood == test::kDiesWhenGone &&
      std::filesystem::exists(std::filesystem::path(arguments[0]) / test::kGoneMark);
  if (mood == test::kDiesAtStart || is_gone) {
    std::cerr << "no time to live\n";
    return 3;
  }
  serve_evaluator(STDIN_FILENO, [&] {
    if (mood == test::kWithoutDevice) {
      throw Error(ErrorCode::no_driver, "there is no device here");
    }
    return std::make_unique<test::MisbehavingEvaluator>(arguments.at(0));
  });
}
