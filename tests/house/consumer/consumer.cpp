// SPDX-License-Identifier: MIT
// A program outside the project: stores a result and asks for it back through the public headers.
#include <swr/attention_problem.h>
#include <swr/swr.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: consumer DATABASE\n";
    return 2;
  }
  const swr::DeviceInfo device{.name = "fictional",
                               .sm_arch = 90,
                               .sm_count = 4,
                               .l2_bytes = 1 << 20,
                               .dram_gb_per_s = 100.0,
                               .smem_per_cta_bytes = 101376,
                               .smem_per_sm_bytes = 102400,
                               .registers_per_sm = 65536,
                               .max_threads_per_sm = 1536,
                               .max_ctas_per_sm = 24};
  const swr::AttentionProblem problem{.seq_q = 1024, .seq_kv = 1024};
  swr::VariantResult result;
  result.variant = swr::default_variant(problem, device);
  result.outcome = swr::Measurement{.samples_us = {5.0}, .median_us = 5.0, .p95_us = 5.0};

  swr::Store store(argv[1], swr::Store::Mode::read_write);
  const long long run = store.begin_run({.command = "consumer", .swr_version = SWR_VERSION});
  store.record(run, problem, device, result);
  const auto match = store.best(problem, device);
  const bool found =
      match && match->level == swr::MatchLevel::exact && match->result.variant == result.variant;
  std::cout << (found ? "found" : "lost") << " the stored variant with swr " << SWR_VERSION << '\n';
  return found ? 0 : 1;
}
