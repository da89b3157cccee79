// SPDX-License-Identifier: MIT
// What the runtime's tests share: a tuned database, an export of it and calls, all of the fake
// device, with cubins that the fake driver loads.
#pragma once

#include "core/json.h"
#include "core/operation.h"
#include "core/sha256.h"
#include "driver/devices.h"
#include "export/export.h"
#include "export/manifest.h"
#include "tests/db/fixtures.h"
#include "tests/support/attention.h"
#include <swr/attention_problem.h>
#include <swr/runtime.h>

#include <algorithm>
#include <fstream>

namespace swr {

/// A cubin whose bytes are the variant's key: enough for everything but running it.
inline CompiledKernel key_as_cubin(const Problem& /*problem*/, const Variant& variant,
                                   int sm_arch) {
  const std::string key = to_key(variant);
  const FamilySource& source = family_source(variant);
  CompiledKernel kernel{.entry = std::string(source.entry), .sm_arch = sm_arch};
  std::ranges::transform(key, std::back_inserter(kernel.cubin),
                         [](char c) { return static_cast<std::byte>(c); });
  kernel.cubin_digest = sha256_hex(kernel.cubin);
  kernel.resources.registers_per_thread = 128;
  kernel.may_overlap = source.may_overlap(sm_arch);
  return kernel;
}

/// Contiguous tensors of a problem at addresses that nobody reads.
inline AttentionCall call_of(const AttentionProblem& problem) {
  AttentionCall call{
      .head_dim = problem.head_dim, .dtype = problem.dtype, .causal = problem.causal};
  AttentionParams& p = call.params;
  p.q = p.k = p.v = p.o = reinterpret_cast<void*>(std::uintptr_t{1} << 20U);
  p.batch = problem.batch;
  p.heads_q = problem.heads_q;
  p.heads_kv = problem.heads_kv;
  p.seq_q = problem.seq_q;
  p.seq_kv = problem.seq_kv;
  const long long row = problem.head_dim;
  p.q_strides = p.o_strides = {row * p.heads_q * p.seq_q, row * p.seq_q, row};
  p.k_strides = p.v_strides = {row * p.heads_kv * p.seq_kv, row * p.seq_kv, row};
  return call;
}

/// A database on the first fake device.
class ServingTest : public ::testing::Test {
 protected:
  void record(const Problem& problem, const Variant& variant, double median_us) {
    VariantResult result = measured(variant, median_us);
    result.resources = key_as_cubin(problem, variant, 90).resources;
    result.cubin_digest = key_as_cubin(problem, variant, 90).cubin_digest;
    result.ctas_per_sm = 2;
    store_.record(run_, problem, device_, result);
  }
  std::filesystem::path export_all() {
    export_kernels(store_, key_as_cubin, exported_);
    return exported_;
  }

  /// Makes the export one from before its kernels said whether they wait for the launch before.
  void forget_waits() const {
    Json manifest = Json::parse(bytes_of(exported_ / kManifestFile));
    for (Json& kernel : manifest["kernels"]) {
      kernel.erase("may_overlap");
    }
    std::ofstream(exported_ / kManifestFile) << manifest;
  }

  TempDirectory directory_;
  std::filesystem::path database_ = directory_ / "tuned.db";
  std::filesystem::path exported_ = directory_ / "kernels";
  Store store_{database_, Store::Mode::read_write};
  DeviceInfo device_ = list_devices().front();
  long long run_ = store_.begin_run(some_run());
};

}  // namespace swr
