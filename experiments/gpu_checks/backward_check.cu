// SPDX-License-Identifier: MIT
// Attention backward on the GPU present: random problems against fp64 on the host, the same bits
// from every launch where that is promised, and times as TFLOP/s of five products.
#include "experiments/gpu_checks/backward_kernels.h"
#include "experiments/gpu_checks/sections.h"
#include "tests/emulation/attention_backward_reference.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace swr::gpu {
namespace {

using emulation::AttentionCase;
using emulation::AttentionGradients;
using emulation::AttentionInputs;
using emulation::AttentionOutputs;
using emulation::Values;

constexpr unsigned char kPoison = 0xff;
const cudaStream_t kStream = cudaStreamPerThread;
int host_threads = 1;
Sections* sections = nullptr;

void check(cudaError_t error, const std::string& what) {
  if (error != cudaSuccess) {
    end_section(what + ": " + cudaGetErrorString(error));
  }
}

/// Device memory between guards that nobody writes.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&memory_, bytes + 2 * kGuard), "cudaMalloc");
    poison();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(memory_); }

  void* data() const { return static_cast<char*>(memory_) + kGuard; }
  void poison() const {
    check(cudaMemsetAsync(memory_, kPoison, bytes_ + 2 * kGuard, kStream), "cudaMemset");
  }
  void put(const void* from) const {
    check(cudaMemcpyAsync(data(), from, bytes_, cudaMemcpyHostToDevice, kStream), "cudaMemcpy");
    check(cudaStreamSynchronize(kStream), "upload");
  }
  template <typename Value>
  std::vector<Value> get() const {
    std::vector<Value> values(bytes_ / sizeof(Value));
    check(cudaMemcpyAsync(values.data(), data(), bytes_, cudaMemcpyDeviceToHost, kStream),
          "cudaMemcpy");
    check(cudaStreamSynchronize(kStream), "kernel");
    return values;
  }
  long long disturbed() const {
    std::vector<unsigned char> guards(2 * kGuard);
    check(cudaMemcpy(guards.data(), memory_, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy");
    check(cudaMemcpy(guards.data() + kGuard, static_cast<char*>(data()) + bytes_, kGuard,
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return std::count_if(guards.begin(), guards.end(), [](auto byte) { return byte != kPoison; });
  }

 private:
  static constexpr std::size_t kGuard = 1024;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

std::uint16_t encode(DType dtype, float value) {
  std::uint16_t bits;
  if (dtype == DType::bf16) {
    const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
    std::memcpy(&bits, &rounded, sizeof bits);
  } else {
    const __half rounded = __float2half_rn(value);
    std::memcpy(&bits, &rounded, sizeof bits);
  }
  return bits;
}
double decode(DType dtype, std::uint16_t bits) {
  if (dtype == DType::bf16) {
    const unsigned word = static_cast<unsigned>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return static_cast<double>(value);
  }
  __half value;
  std::memcpy(&value, &bits, sizeof bits);
  return static_cast<double>(__half2float(value));
}

/// How a call is launched, besides what is compiled in.
struct Dealing {
  int parts = 1;
  int section_heads = 1;
  bool last_kv_first = false;
};

/// All memory of a call of kernels I, and its launches.
template <std::size_t I>
class Call {
 public:
  static constexpr KeyPassConfig K = kBackwardKernels[I].key;
  static constexpr QueryPassConfig Q = kBackwardKernels[I].query;

  Call(const AttentionCase& problem, const Dealing& dealing)
      : problem_(problem),
        q_(bytes(problem.heads_q, problem.seq_q, K.head_dim)),
        k_(bytes(problem.heads_kv, problem.seq_kv, K.head_dim)),
        v_(bytes(problem.heads_kv, problem.seq_kv, K.value_dim)),
        o_(bytes(problem.heads_q, problem.seq_q, K.value_dim)),
        d_o_(bytes(problem.heads_q, problem.seq_q, K.value_dim)),
        lse_(bytes(problem.heads_q, problem.seq_q, 2)),
        dq_(bytes(problem.heads_q, problem.seq_q, K.head_dim)),
        dk_(bytes(problem.heads_kv, problem.seq_kv, K.head_dim)),
        dv_(bytes(problem.heads_kv, problem.seq_kv, K.value_dim)),
        plan_(make_plan(dealing)),
        params_(make_params(plan_)),
        geometry_(attention_backward_geometry(plan_, params_)),
        workspace_(static_cast<std::size_t>(geometry_.workspace.bytes)) {
    place_workspace(params_, plan_, geometry_, workspace_.data());
  }

  const Memory& q() const { return q_; }
  const Memory& k() const { return k_; }
  const Memory& v() const { return v_; }
  const Memory& o() const { return o_; }
  const Memory& d_o() const { return d_o_; }
  const Memory& lse() const { return lse_; }
  const Memory& dq() const { return dq_; }
  const Memory& dk() const { return dk_; }
  const Memory& dv() const { return dv_; }
  double workspace_mb() const { return static_cast<double>(geometry_.workspace.bytes) / 1e6; }

  /// All kernels of a call; each may begin while the one ahead ends.
  void launch() const {
    static const BackwardEntries entries = backward_entries<I>();
    run(entries.query_pass, geometry_.query_pass, "pass over Q tiles", false);
    run(entries.prepare, geometry_.prepare, "prepare", false);
    run(entries.key_pass, geometry_.key_pass, "pass over K and V tiles", true);
    run(entries.finish, geometry_.finish, "finish", true);
  }
  void poison_outputs() const {
    for (const Memory* const one : {&dq_, &dk_, &dv_}) {
      one->poison();
    }
  }
  long long disturbed() const {
    return dq_.disturbed() + dk_.disturbed() + dv_.disturbed() + workspace_.disturbed();
  }

 private:
  std::size_t bytes(int heads, int seq, int columns) const {
    return 2ULL * static_cast<std::size_t>(problem_.batch) * static_cast<std::size_t>(heads) *
           static_cast<std::size_t>(seq) * static_cast<std::size_t>(columns);
  }
  static int resident(const void* entry, int threads, int smem) {
    int per_sm = 0;
    check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, smem),
          "shared memory");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, entry, threads,
                                                        static_cast<std::size_t>(smem)),
          "occupancy");
    return per_sm;
  }
  static AttentionBackwardPlan make_plan(const Dealing& dealing) {
    int sms = 0;
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
    const BackwardEntries entries = backward_entries<I>();
    const int per_sm = resident(entries.key_pass, K.threads(), K.smem_bytes());
    const int query_per_sm = entries.query_pass == nullptr
                                 ? 1
                                 : resident(entries.query_pass, Q.threads(), Q.smem_bytes());
    return {.form = K.sums_dq() ? BackwardForm::fused : BackwardForm::two_pass,
            .dq_sum = K.dq_sum,
            .head_dim = K.head_dim,
            .value_dim = K.value_dim,
            .causal = K.causal,
            .tile_m = K.tile_m,
            .tile_n = K.tile_n,
            .threads = K.threads(),
            .smem_bytes = K.smem_bytes(),
            .order = K.order,
            .persistence = K.persistence,
            .workers = sms * per_sm,
            .swizzle = AttentionSwizzle::head_sections,
            .section_heads = dealing.section_heads,
            .parts = dealing.parts,
            .last_kv_first = dealing.last_kv_first,
            .query_tile_m = Q.tile_m,
            .query_threads = Q.threads(),
            .query_smem_bytes = Q.smem_bytes(),
            .query_persistence = Q.persistence,
            .query_workers = sms * query_per_sm,
            .sm_count = sms,
            .ctas_per_sm = per_sm};
  }
  AttentionBackwardParams make_params(const AttentionBackwardPlan& plan) const {
    const auto strides = [](int heads, int seq, int columns) {
      return TensorStrides{
          .batch = 1LL * heads * seq * columns, .head = 1LL * seq * columns, .seq = columns};
    };
    AttentionBackwardParams params;
    params.q = q_.data();
    params.k = k_.data();
    params.v = v_.data();
    params.o = o_.data();
    params.d_o = d_o_.data();
    params.lse = static_cast<const float*>(lse_.data());
    params.dq = dq_.data();
    params.dk = dk_.data();
    params.dv = dv_.data();
    params.q_strides = params.dq_strides = strides(problem_.heads_q, problem_.seq_q, K.head_dim);
    params.o_strides = params.d_o_strides = strides(problem_.heads_q, problem_.seq_q, K.value_dim);
    params.k_strides = params.dk_strides = strides(problem_.heads_kv, problem_.seq_kv, K.head_dim);
    params.v_strides = params.dv_strides = strides(problem_.heads_kv, problem_.seq_kv, K.value_dim);
    params.batch = problem_.batch;
    params.heads_q = problem_.heads_q;
    params.heads_kv = problem_.heads_kv;
    params.seq_q = problem_.seq_q;
    params.seq_kv = problem_.seq_kv;
    params.scale = static_cast<float>(problem_.scale);
    params.scale_log2 = static_cast<float>(problem_.scale / std::log(2.0));
    params.parts = plan.parts;
    return params;
  }
  void run(const void* entry, const KernelLaunch& shape, const char* what, bool early) const {
    if (shape.grid_x == 0) {
      return;
    }
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(shape.grid_x));
    config.blockDim = dim3(static_cast<unsigned>(shape.block_x));
    config.dynamicSmemBytes = static_cast<std::size_t>(shape.dynamic_smem_bytes);
    config.stream = kStream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    AttentionBackwardParams params = params_;
    void* arguments[] = {&params};
    check(cudaLaunchKernelExC(&config, entry, arguments),
          std::string(what) + ", " + std::to_string(shape.block_x) + " threads, " +
              std::to_string(shape.dynamic_smem_bytes) + " bytes");
  }

  AttentionCase problem_;
  Memory q_;
  Memory k_;
  Memory v_;
  Memory o_;
  Memory d_o_;
  Memory lse_;
  Memory dq_;
  Memory dk_;
  Memory dv_;
  AttentionBackwardPlan plan_;
  AttentionBackwardParams params_;
  AttentionBackwardGeometry geometry_;
  Memory workspace_;
};

/// Normal values as the elements' type has them, left in memory too.
Values drawn(std::mt19937& random, DType dtype, const Memory& memory, long long count) {
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
  Values values;
  for (std::uint16_t& one : bits) {
    one = encode(dtype, normal(random));
    values.push_back(decode(dtype, one));
  }
  memory.put(bits.data());
  return values;
}

/// Inputs in memory, forward in fp64.
template <std::size_t I>
AttentionInputs fill(const Call<I>& call, const AttentionCase& problem, unsigned seed) {
  constexpr DType kType = kBackwardKernels[I].key.dtype;
  std::mt19937 random(seed);
  const long long rows = 1LL * problem.batch * problem.heads_q * problem.seq_q;
  const long long keys = 1LL * problem.batch * problem.heads_kv * problem.seq_kv;
  AttentionInputs inputs;
  inputs.q = drawn(random, kType, call.q(), rows * problem.head_dim);
  inputs.k = drawn(random, kType, call.k(), keys * problem.head_dim);
  inputs.v = drawn(random, kType, call.v(), keys * problem.value_dim);
  inputs.d_o = drawn(random, kType, call.d_o(), rows * problem.value_dim);
  const AttentionOutputs outputs = emulation::attention(problem, inputs);
  std::vector<std::uint16_t> o;
  for (const double value : outputs.o) {
    o.push_back(encode(kType, static_cast<float>(value)));
  }
  call.o().put(o.data());
  const std::vector<float> lse(outputs.lse.begin(), outputs.lse.end());
  call.lse().put(lse.data());
  return inputs;
}

/// Relative L2 error of a gradient; infinite when an element is not finite.
double error_of(DType dtype, const Memory& memory, const Values& exact) {
  const auto bits = memory.get<std::uint16_t>();
  double error = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double off = decode(dtype, bits[i]) - exact[i];
    error += off * off;
    size += exact[i] * exact[i];
  }
  const double relative = std::sqrt(error / (size + 1e-6 * static_cast<double>(exact.size())));
  return std::isfinite(relative) ? relative : INFINITY;
}

/// Rounded P, dS and O, each by half a unit, and the results themselves: about 3 units.
double tolerance(DType dtype) { return dtype == DType::bf16 ? 1.2e-2 : 1.6e-3; }

AttentionCase drawn_case(const KeyPassConfig& config, std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  AttentionCase problem;
  problem.batch = draw(1, 2);
  problem.heads_kv = draw(1, 2);
  problem.heads_q = problem.heads_kv * draw(1, 3);
  problem.seq_q = draw(1, 3) == 1 ? draw(1, 40) : draw(64, 400);
  problem.seq_kv = draw(1, 2) == 1 ? problem.seq_q : draw(1, 400);
  problem.head_dim = config.head_dim;
  problem.value_dim = config.value_dim;
  problem.causal = config.causal;
  problem.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  return problem;
}

struct Found {
  std::atomic<int> wrong{0};
  std::atomic<int> next{0};
};

template <std::size_t I>
void check_problem(unsigned seed, Found& found) {
  constexpr KeyPassConfig K = kBackwardKernels[I].key;
  std::mt19937 random(seed);
  const AttentionCase problem = drawn_case(K, random);
  const Dealing dealing{.parts = random() % 3 == 0 ? 2 : 1,
                        .section_heads = static_cast<int>(random() % 3) + 1,
                        .last_kv_first = random() % 2 == 0};
  const Call<I> call(problem, dealing);
  const AttentionInputs inputs = fill(call, problem, seed);
  call.launch();
  const AttentionGradients exact = emulation::attention_gradients(problem, inputs);
  const double errors[] = {error_of(K.dtype, call.dq(), exact.dq),
                           error_of(K.dtype, call.dk(), exact.dk),
                           error_of(K.dtype, call.dv(), exact.dv)};
  const long long disturbed = call.disturbed();
  if (disturbed != 0 || *std::max_element(errors, errors + 3) > tolerance(K.dtype)) {
    ++found.wrong;
    std::fprintf(stderr,
                 "%s, seed %u, b%d h%d/%d s%d/%d parts %d sections %d: errors of dQ %.2e, dK %.2e, "
                 "dV %.2e, %lld bytes disturbed\n",
                 kBackwardKernels[I].name, seed, problem.batch, problem.heads_q, problem.heads_kv,
                 problem.seq_q, problem.seq_kv, dealing.parts, dealing.section_heads, errors[0],
                 errors[1], errors[2], disturbed);
  }
}

void report(const std::string& name, long long count, long long wrong) {
  std::printf("| %s | %lld | %lld |\n", name.c_str(), count, wrong);
  std::fflush(stdout);
  if (wrong != 0) {
    sections->count_failure();
  }
}

template <std::size_t I>
void check_random(int rounds) {
  Found found;
  std::vector<std::thread> threads;
  // Rotated tiles in turns wait for each other: all their CTAs must fit the GPU, which others
  // share.
  constexpr KeyPassConfig K = kBackwardKernels[I].key;
  const bool alone = K.dq_sum == DqSum::ordered && K.order == QOrder::rotated;
  for (int thread = 0; thread < (alone ? 1 : host_threads); ++thread) {
    threads.emplace_back([&] {
      for (int round = found.next++; round < rounds; round = found.next++) {
        check_problem<I>(static_cast<unsigned>(I * 1000U) + static_cast<unsigned>(round), found);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  report(std::string(kBackwardKernels[I].name) + ", against fp64", rounds, found.wrong);
}

/// 100 launches: equal bits where they are promised; else how many launches differed.
template <std::size_t I>
void check_bits() {
  constexpr KeyPassConfig K = kBackwardKernels[I].key;
  constexpr int kLaunches = 100;
  AttentionCase problem;
  problem.heads_q = 8;
  problem.heads_kv = 2;
  problem.seq_q = problem.seq_kv = 500;
  problem.head_dim = K.head_dim;
  problem.value_dim = K.value_dim;
  problem.causal = K.causal;
  problem.scale = 1.0 / std::sqrt(static_cast<double>(K.head_dim));
  const Call<I> call(problem, {.section_heads = 2});
  fill(call, problem, 5);
  std::vector<std::vector<std::uint16_t>> first;
  int differing = 0;
  for (int i = 0; i < kLaunches; ++i) {
    call.poison_outputs();
    call.launch();
    const std::vector<std::vector<std::uint16_t>> now{call.dq().template get<std::uint16_t>(),
                                                      call.dk().template get<std::uint16_t>(),
                                                      call.dv().template get<std::uint16_t>()};
    first = i == 0 ? now : first;
    differing += now == first ? 0 : 1;
  }
  if (K.dq_sum == DqSum::atomic) {
    std::printf("| %s, launches with other bits (allowed) | %d | %d |\n", kBackwardKernels[I].name,
                kLaunches, differing);
    std::fflush(stdout);
  } else {
    report(std::string(kBackwardKernels[I].name) + ", equal bits", kLaunches, differing);
  }
}

/// A gradient with one value changed must show.
void check_planted_fault() {
  AttentionCase problem;
  problem.seq_q = problem.seq_kv = 100;
  problem.head_dim = problem.value_dim = 128;
  problem.causal = true;
  const Call<0> call(problem, {});
  AttentionInputs inputs = fill(call, problem, 1);
  call.launch();
  inputs.k[777] += 3.0;
  const AttentionGradients other = emulation::attention_gradients(problem, inputs);
  report("one changed element of K shows (the check can fail)", 1,
         error_of(DType::bf16, call.dq(), other.dq) > tolerance(DType::bf16) ? 0 : 1);
}

__global__ void fill_small(std::uint16_t* values, long long count, unsigned seed, bool bf16) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    unsigned long long x = static_cast<unsigned long long>(i) * 0x9E3779B97F4A7C15ULL + seed;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    const float value = (static_cast<float>(x >> 40) * 0x1p-24F - 0.5F) * 3.4F;
    values[i] = bf16 ? __bfloat16_as_ushort(__float2bfloat16(value))
                     : __half_as_ushort(__float2half(value));
  }
}
__global__ void fill_floats(float* values, long long count, float value) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    values[i] = value;
  }
}

/// Random data, log-sum-exps such as they have.
template <std::size_t I>
void time_call(int batch, int heads_q, int heads_kv, int seq) {
  constexpr KeyPassConfig K = kBackwardKernels[I].key;
  constexpr int kRounds = 7;
  AttentionCase problem;
  problem.batch = batch;
  problem.heads_q = heads_q;
  problem.heads_kv = heads_kv;
  problem.seq_q = problem.seq_kv = seq;
  problem.head_dim = K.head_dim;
  problem.value_dim = K.value_dim;
  problem.causal = K.causal;
  problem.scale = 1.0 / std::sqrt(static_cast<double>(K.head_dim));
  const Call<I> call(problem, {});
  const long long rows = 1LL * batch * heads_q * seq;
  const long long keys = 1LL * batch * heads_kv * seq;
  const std::pair<const Memory*, long long> tensors[] = {{&call.q(), rows * K.head_dim},
                                                         {&call.k(), keys * K.head_dim},
                                                         {&call.v(), keys * K.value_dim},
                                                         {&call.o(), rows * K.value_dim},
                                                         {&call.d_o(), rows * K.value_dim}};
  unsigned seed = 1;
  for (const auto& [memory, count] : tensors) {
    fill_small<<<1024, 256, 0, kStream>>>(static_cast<std::uint16_t*>(memory->data()), count,
                                          seed++, K.dtype == DType::bf16);
  }
  fill_floats<<<1024, 256, 0, kStream>>>(static_cast<float*>(call.lse().data()), rows,
                                         std::log(static_cast<float>(seq)) + 0.5F);
  check(cudaGetLastError(), "fill");
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  const auto time_of = [&](int launches) {
    check(cudaEventRecord(begin, kStream), "event");
    for (int i = 0; i < launches; ++i) {
      call.launch();
    }
    check(cudaEventRecord(end, kStream), "event");
    check(cudaEventSynchronize(end), "kernel");
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    return static_cast<double>(milliseconds) * 1e3 / launches;
  };
  time_of(2);
  const int launches = std::max(1, static_cast<int>(2e4 / time_of(1)));
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    times.push_back(time_of(launches));
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  const double us = times[kRounds / 2];
  const double pairs = 1.0 * batch * heads_q * seq * (K.causal ? (seq + 1) / 2.0 : seq);
  const double flops = 2.0 * pairs * (3.0 * K.head_dim + 2.0 * K.value_dim);
  std::printf("| %s, b%d h%d/%d s%d, workspace %.0f MB | %.1f us | %.0f TFLOP/s |\n",
              kBackwardKernels[I].name, batch, heads_q, heads_kv, seq, call.workspace_mb(), us,
              flops / us / 1e6);
  std::fflush(stdout);
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
}

template <std::size_t I>
void add_kernel(int rounds) {
  const std::string name = kBackwardKernels[I].name;
  sections->add(name + ", against fp64", [rounds] { check_random<I>(rounds); });
  sections->add(name + ", bits", check_bits<I>);
}
template <std::size_t I>
void add_times() {
  sections->add(std::string(kBackwardKernels[I].name) + ", times", [] {
    time_call<I>(16, 16, 16, 1024);
    time_call<I>(4, 16, 16, 4096);
    time_call<I>(1, 16, 16, 16384);
    time_call<I>(1, 64, 8, 16384);
  });
}

template <std::size_t... I>
void add_everything(int rounds, std::index_sequence<I...> /*kernels*/) {
  sections->add("a planted fault", check_planted_fault);
  (add_kernel<I>(rounds), ...);
  (add_times<I>(), ...);
}

}  // namespace
}  // namespace swr::gpu

int main(int argc, char** argv) {
  using namespace swr::gpu;
  const auto number = [&](int index, int usual) {
    return argc > index ? std::atoi(argv[index]) : usual;
  };
  host_threads = number(2, 16);
  Sections all(number(3, 55));
  sections = &all;
  add_everything(number(1, 32), std::make_index_sequence<kBackwardCount>());
  std::printf("| property | problems or time | wrong or rate |\n|---|---|---|\n");
  const int lost = all.run();
  std::printf("%d properties failed, %d sections had a fault or were not reached\n", all.failures(),
              lost);
  return lost == 0 && all.failures() == 0 ? 0 : 1;
}
