// SPDX-License-Identifier: MIT
// Writes a database for the browser's test: make_page_database OUT SPACES stores the recorded H200
// spaces of a file with finals of the fastest, predictions of one, texts that try to leave their
// place, and repeats the spaces' shapes until 5,000 measurements are there. make_page_database OUT
// stores two results without counters, of a kernel and of one whose spec says no operations.
#include "core/operation.h"
#include "core/recorded_space.h"
#include "model/profile/gpu_profile.h"
#include "tests/operations/user_kernel/user_kernel_case.h"
#include "tests/support/attention.h"
#include <swr/attention_variant.h>
#include <swr/constraints.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/store.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

namespace swr {
namespace {

constexpr long long kMeasurements = 5000;
constexpr const char* kHostile = "</script><script>throw 1</script><b onclick='x'>\"'&";

void record_finals(Store& store, long long run_id, const RecordedSpace& space) {
  constexpr std::size_t kFinalists = 6;
  std::vector<Finalist> finalists;
  for (const VariantResult& result : space.results) {
    if (result.state == ResultState::ok && finalists.size() < kFinalists) {
      Finalist finalist{.result = result};
      auto& measurement = std::get<Measurement>(finalist.result.outcome);
      measurement.sampling = Sampling::finals;
      measurement.samples_us.assign(40, measurement.median_us);
      finalist.ratio = result.time_us() / space.best_us();
      finalist.ratio_low = finalist.ratio * 0.999;
      finalist.ratio_high = finalist.ratio * 1.001;
      finalist.tied = finalist.ratio < 1.005;
      finalists.push_back(finalist);
    }
  }
  store.record_decision(run_id, space.problem, space.device, finalists, 0.005);
}

void record_predictions(Store& store, long long run_id, const RecordedSpace& space) {
  for (VariantResult result : space.results) {
    if (result.state == ResultState::ok) {
      const long long compulsory = compulsory_sectors(space.problem);
      result.outcome = Prediction{.time_us = result.time_us() * 1.1,
                                  .read_sectors = 2 * compulsory,
                                  .write_sectors = compulsory / 4,
                                  .compulsory_misses = compulsory};
      store.record(run_id, space.problem, space.device, result);
    }
  }
}

int make(const char* out, const char* file) {
  const std::vector<RecordedSpace> spaces = read_recorded_spaces(file);
  Store store(out, Store::Mode::read_write);
  const long long run_id = store.begin_run({.command = kHostile,
                                            .swr_version = "0.1.0",
                                            .templates_digest = "00ff",
                                            .nvrtc_version = "13.0",
                                            .driver_version = "13.0",
                                            .l2_state = "warm"});
  VariantResult failure{.variant = AttentionVariant{.tile_m = 48, .tile_n = 48, .warps = 3},
                        .state = ResultState::compile,
                        .detail = kHostile,
                        .outcome = Measurement{}};
  long long measurements = 0;
  for (int round = 0; measurements < kMeasurements; ++round) {
    for (RecordedSpace space : spaces) {
      if (measurements >= kMeasurements) {
        break;
      }
      const bool is_first = round == 0 && measurements == 0;
      attention(space.problem).batch += round;
      for (VariantResult& result : space.results) {
        auto& measurement = std::get<Measurement>(result.outcome);
        measurement.samples_us.assign(1, measurement.median_us);
        store.record(run_id, space.problem, space.device, result);
        ++measurements;
      }
      store.record(run_id, space.problem, space.device, failure);
      record_finals(store, run_id, space);
      if (is_first) {
        record_predictions(store, run_id, space);
      }
    }
  }
  store.finish_run(run_id);
  std::cout << measurements << "\n";
  return EXIT_SUCCESS;
}

/// Of a kernel that somebody else wrote, on a GPU whose counters are refused, little is known.
int make_uncounted(const char* out) {
  Store store(out, Store::Mode::read_write);
  const long long run_id = store.begin_run({.command = "swr-tune kernel scale.json"});
  const DeviceInfo device = load_profile("h200").device;
  KernelSpec silent = test::scale_spec("silent");
  silent.flops = silent.bytes = "";
  for (const KernelSpec& spec : {test::scale_spec(), silent}) {
    const Problem own = register_kernel(spec).default_problem();
    VariantResult uncounted{.variant = default_variant(own, device)};
    uncounted.outcome = Measurement{.samples_us = {5.0}, .median_us = 5.0, .p95_us = 5.1};
    store.record(run_id, own, device, uncounted);
  }
  store.finish_run(run_id);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace swr

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: make_page_database OUT [SPACES]\n";
    return EXIT_FAILURE;
  }
  return argc == 2 ? swr::make_uncounted(argv[1]) : swr::make(argv[1], argv[2]);
}
