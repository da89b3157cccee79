// SPDX-License-Identifier: MIT
#include "tests/gpu/launch_chain.h"

#include "driver/cuda_driver.h"

namespace swr {
namespace {

constexpr int kRepeats = 20;

}  // namespace

LaunchChain::Bytes LaunchChain::one_at_a_time() {
  reset();
  for (int i = 0; i < launches_; ++i) {
    launch(i, LaunchOverlap::none);
    bench().stream.synchronize();
  }
  return result();
}

LaunchChain::Bytes LaunchChain::overlapping() {
  reset();
  launch_all(LaunchOverlap::allowed);
  return result();
}

void LaunchChain::expect_overlapping_launches_give_the_same() {
  const Bytes expected = one_at_a_time();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    ASSERT_TRUE(overlapping() == expected) << "repeat " << repeat;
  }
}

void LaunchChain::expect_captured_launches_give_the_same() {
  const Bytes expected = one_at_a_time();
  const Graph graph(bench().stream, [&] { launch_all(LaunchOverlap::allowed); });
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    reset();
    graph.launch(bench().stream);
    ASSERT_TRUE(result() == expected) << "repeat " << repeat;
  }
}

void LaunchChain::launch_all(LaunchOverlap overlap) {
  for (int i = 0; i < launches_; ++i) {
    launch(i, overlap);
  }
}

LaunchChain::Bytes LaunchChain::result() const {
  bench().stream.synchronize();
  Bytes all;
  for (const DeviceBuffer* memory : results()) {
    Bytes bytes(memory->size_bytes());
    memory->download(bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

}  // namespace swr
