// SPDX-License-Identifier: MIT
#include "experiments/studies/peer_times.h"

#include "tests/support/temp_directory.h"
#include <swr/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace swr {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader = "m,n,k,stage,contestant,median_us,p95_us,tflops\n";

class PeerTimesFile : public ::testing::Test {
 protected:
  std::filesystem::path written(const std::string& text) const {
    const auto path = directory_ / "peers.csv";
    std::ofstream(path) << text;
    return path;
  }
  std::string error_of(const std::string& text) const {
    try {
      read_peer_times(written(text));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unreadable);
      return error.what();
    }
    return "no error";
  }

  TempDirectory directory_;
};

TEST_F(PeerTimesFile, GivesTheFinalTimeOfTheLibrarysFirstChoice) {
  const PeerTimes peers = read_peer_times(written(
      std::string(kHeader) + "64,32,16,screening,cublaslt 0,9.5,9.9,1\n" +
      "64,32,16,final,cublaslt 0,8.5,9.9,1\n" + "64,32,16,final,cublaslt 3 (best),8.25,9.9,1\n" +
      "64,32,16,final,64x64x64 coop1 c11 s12 rm1,7.5,9.9,1\n"));
  EXPECT_EQ(peer_time_us(peers, {.m = 64, .n = 32, .k = 16}), 8.5);
  EXPECT_EQ(peer_time_us(peers, {.m = 64, .n = 32, .k = 32}), std::nullopt);
  EXPECT_EQ(peer_time_us(peers, {.m = 64, .n = 32, .k = 16, .dtype = DType::fp16}), std::nullopt);
}

TEST_F(PeerTimesFile, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(error_of("m,n\n"), HasSubstr("line 1: the header is not m,n,k,stage"));
  EXPECT_THAT(error_of(std::string(kHeader) + "64,32,16,final,cublaslt 0,fast,1,1\n"),
              HasSubstr("line 2: m, n, k or median_us is missing or no positive number"));
  EXPECT_THAT(error_of(std::string(kHeader) + "64,32,16,final\n"), HasSubstr("line 2"));
  EXPECT_THAT(error_of(std::string(kHeader) + "64,32,16,final,cublaslt 0,-1,1,1\n"),
              HasSubstr("line 2"));
  EXPECT_THROW(read_peer_times(directory_ / "none.csv"), Error);
}

}  // namespace
}  // namespace swr
