// SPDX-License-Identifier: MIT
// Kernels that fault, hang or compute nonsense, each in a supervised process: the kernel is blamed,
// and the next variant is measured. The program is its own measuring process.
#include "tests/gpu/replaced_kernel.h"
#include "tuner/supervise/supervised_evaluator.h"
#include "tuner/supervise/worker.h"

#include <gmock/gmock.h>

#include <memory>
#include <string_view>
#include <unistd.h>

namespace swr {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace swr

int main(int argc, char** argv) {
  using namespace swr;
  if (argc > 1 && std::string_view(argv[1]) == kWorker) {
    const Generator generator(GeneratorOptions{});
    serve_evaluator(STDIN_FILENO, [&] {
      return std::make_unique<MeasuringEvaluator>(generator, without_counters());
    });
    return 0;
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
