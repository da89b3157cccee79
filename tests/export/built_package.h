// SPDX-License-Identifier: MIT
// A package of kernels built outside of swr, with a program that asks it on the fake driver.
#pragma once

#include "tests/support/test.h"

namespace swr::test {

/// Runs a shell command and returns what it prints; fails the test when it fails.
inline std::string output_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) {
    output += part.data();
  }
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << output;
  return output;
}

/// With the name my_kernels, and the consumers of tests/export/package_consumer.
class BuiltPackage {
 public:
  BuiltPackage(const std::filesystem::path& package, const TempDirectory& scratch)
      : scratch_(scratch) {
    output_of("cmake -G Ninja -S " SWR_CONSUMER " -B " + build_ + " -DPACKAGE_DIR=" +
              package.string() + " -Dmy_kernels_CUDA_INCLUDE_DIR=" SWR_CUDA_INCLUDE_DIR +
              " -DCMAKE_CXX_FLAGS='" SWR_CONSUMER_FLAGS "'");
    build();
  }
  /// Again, once files of the package have changed.
  void build() const { output_of("cmake --build " + build_); }

  /// The lines of an operation's consumer for its input.
  std::vector<std::string> ask(const std::string& operation, const std::string& questions) const {
    const std::string input = scratch_.write("questions", questions).string();
    std::istringstream lines(output_of("LD_LIBRARY_PATH=" SWR_FAKE_DRIVER " " + build_ + "/" +
                                       operation + "_consumer < " + input));
    std::vector<std::string> answers;
    for (std::string line; std::getline(lines, line);) {
      answers.push_back(line);
    }
    return answers;
  }

 private:
  const TempDirectory& scratch_;
  const std::string build_ = (scratch_ / "build").string();
};

}  // namespace swr::test
