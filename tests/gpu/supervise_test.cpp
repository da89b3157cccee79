// SPDX-License-Identifier: MIT
// Kernels that fault, hang or compute nonsense, each in a supervised process: the kernel is blamed,
// and the next variant is measured. The program is its own measuring process.
#include "driver/devices.h"
#include "tests/gpu/replaced_kernel.h"
#include "tuner/distribute/gpu_history.h"
#include "tuner/distribute/gpu_team.h"
#include "tuner/supervise/supervised_compiler.h"
#include "tuner/supervise/supervised_evaluator.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>

#include <unistd.h>

namespace swr {
namespace {

constexpr const char* kWorker = "measure-worker";

SuperviseOptions this_program() {
  // A hanging kernel costs this twice; contexts are made before it counts.
  return {.command = {"/proc/self/exe", {kWorker}}, .deadline = std::chrono::seconds(10)};
}

class SupervisedKernel : public ReplacedKernel {
 protected:
  VariantResult evaluate(const std::string& body) {
    return evaluate_body(*evaluator_, kProblem, body);
  }
  void expect_the_next_to_be_measured() {
    const VariantResult result = evaluator_->evaluate(
        kProblem, AttentionVariant{}, bench().compile(kProblem, AttentionVariant{}));
    EXPECT_EQ(result.state, ResultState::ok) << result.detail;
    EXPECT_GT(result.time_us(), 0.0);
  }
  void SetUp() override {
    ReplacedKernel::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) {
      evaluator_ = std::make_unique<SupervisedEvaluator>(this_program());
    }
  }

 private:
  const AttentionProblem kProblem = square(1, 128, 64);
  std::unique_ptr<SupervisedEvaluator> evaluator_;
};

TEST_F(SupervisedKernel, ThatWritesOutOfBoundsIsARuntimeFailure) {
  const VariantResult result =
      evaluate("  static_cast<volatile unsigned short*>(params.o)[1LL << 40] = 0;\n");
  EXPECT_EQ(result.state, ResultState::runtime);
  EXPECT_THAT(result.detail, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  expect_the_next_to_be_measured();
}

TEST_F(SupervisedKernel, ThatHangsIsATimeout) {
  // The sleep is a side effect, without which the compiler may drop an endless loop.
  const VariantResult result =
      evaluate("  while (true) {\n    asm volatile(\"nanosleep.u32 100000;\");\n  }\n");
  EXPECT_EQ(result.state, ResultState::timeout);
  EXPECT_THAT(result.detail, HasSubstr("within 10000 ms"));
  expect_the_next_to_be_measured();
}

TEST_F(SupervisedKernel, ThatWritesWrongNumbersIsIncorrect) {
  const VariantResult result = evaluate(R"(
  for (long long i = threadIdx.x; i < params.o_strides.batch; i += blockDim.x) {
    static_cast<unsigned short*>(params.o)[i] = 0;
  }
)");
  EXPECT_EQ(result.state, ResultState::correctness);
  expect_the_next_to_be_measured();
}

/// Measures small problems on every GPU present.
class SmallWork final : public TeamWork {
 public:
  explicit SmallWork(std::size_t gpus) : references_(gpus) {}

  std::unique_ptr<Evaluator> start(std::size_t member) override {
    SuperviseOptions options = this_program();
    options.command.arguments.push_back(std::to_string(member));
    return std::make_unique<SupervisedEvaluator>(options);
  }
  void check(std::size_t member, Evaluator& evaluator,
             std::optional<std::size_t> /*tuned*/) override {
    references_[member].push_back(
        measure_reference(evaluator, kernels(reference_problem(), evaluator)));
  }
  void tune(std::size_t /*member*/, Evaluator& evaluator, std::size_t piece) override {
    const AttentionProblem problem = square(1, 128 * (1 + static_cast<int>(piece)), 64);
    const VariantResult result = evaluator.evaluate(
        problem, AttentionVariant{}, kernels(problem, evaluator)(AttentionVariant{}));
    EXPECT_EQ(result.state, ResultState::ok) << result.detail;
  }
  void lost(std::size_t member, const Error& why) override {
    ADD_FAILURE() << "GPU " << member << ": " << why.what();
  }

  const std::vector<std::vector<GpuReference>>& references() const { return references_; }

 private:
  KernelSource kernels(const Problem& problem, const Evaluator& evaluator) const {
    return [this, problem, sm_arch = evaluator.device().sm_arch](const Variant& variant) {
      return generator_.compile(problem, variant, sm_arch);
    };
  }

  Generator generator_{GeneratorOptions{}};
  std::vector<std::vector<GpuReference>> references_;
};

class TeamOfGpus : public GpuTest {};

TEST_F(TeamOfGpus, MeasuresOnEveryGpuPresentInAProcessEach) {
  constexpr std::size_t kPieces = 6;
  std::vector<int> gpus(list_devices().size());
  std::iota(gpus.begin(), gpus.end(), 0);
  SmallWork work(gpus.size());
  std::size_t next = 0;
  run_team(
      gpus, [&] { return next < kPieces ? std::optional(next++) : std::nullopt; }, work);
  std::size_t checks = 0;
  for (const auto& references : work.references()) {
    for (const GpuReference& reference : references) {
      EXPECT_EQ(reference.state, ResultState::ok);
      EXPECT_NEAR(reference.median_us, work.references()[0][0].median_us,
                  0.2 * reference.median_us);
      ++checks;
    }
  }
  EXPECT_EQ(checks, gpus.size() + kPieces);
}

}  // namespace
}  // namespace swr

int main(int argc, char** argv) {
  using namespace swr;
  if (argc > 1 && std::string_view(argv[1]) == kWorker) {
    const Generator generator(GeneratorOptions{});
    serve_evaluator(STDIN_FILENO, [&] {
      MeasureOptions options = without_counters();
      options.device_ordinal = argc > 2 ? std::stoi(argv[2]) : 0;
      return std::make_unique<MeasuringEvaluator>(generator, options);
    });
    return 0;
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
