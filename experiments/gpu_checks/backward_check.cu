// SPDX-License-Identifier: MIT
// Attention backward on the GPU present: random problems against fp64 on the host, the same bits
// from every launch where that is promised, and times as TFLOP/s of five products.
#include "experiments/gpu_checks/backward_call.h"
#include "experiments/gpu_checks/backward_kernels.h"
#include "experiments/gpu_checks/backward_memory.h"
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
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace swr::gpu {
namespace {

using emulation::AttentionGradients;
using emulation::AttentionInputs;
using emulation::AttentionOutputs;
using emulation::GradientSizes;
using emulation::Values;

int host_threads = 1;
Sections* sections = nullptr;

/// Normal values as the elements' type has them, left in memory too.
Values drawn(std::mt19937& random, DType dtype, const Memory& memory, const Shape& shape) {
  std::normal_distribution<float> normal;
  Bits bits(1ULL * static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(shape.heads) *
            static_cast<std::size_t>(shape.seq) * static_cast<std::size_t>(shape.columns));
  Values values;
  for (std::uint16_t& one : bits) {
    one = encode(dtype, normal(random));
    values.push_back(decode(dtype, one));
  }
  memory.put(to_memory(shape, bits).data());
  return values;
}

/// Inputs in memory, forward in fp64.
template <std::size_t I>
AttentionInputs fill(const Call<I>& call, const AttentionCase& problem, unsigned seed) {
  constexpr DType kType = backward_kernels_of<I>().key.dtype;
  std::mt19937 random(seed);
  const Shape values = call.row_shape(problem.value_dim);
  AttentionInputs inputs;
  inputs.q = drawn(random, kType, call.q(), call.row_shape(problem.head_dim));
  inputs.k = drawn(random, kType, call.k(), call.key_shape(problem.head_dim));
  inputs.v = drawn(random, kType, call.v(), call.key_shape(problem.value_dim));
  inputs.d_o = drawn(random, kType, call.d_o(), values);
  const AttentionOutputs outputs = emulation::attention(problem, inputs);
  Bits o;
  for (const double value : outputs.o) {
    o.push_back(encode(kType, static_cast<float>(value)));
  }
  call.o().put(to_memory(values, o).data());
  const std::vector<float> lse(outputs.lse.begin(), outputs.lse.end());
  call.lse().put(lse.data());
  return inputs;
}

template <typename KeyConfig>
AttentionCase drawn_case(const KeyConfig& config, std::mt19937& random) {
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

/// The first rounds of every kernel grow: one tile, several Q tiles, several K and V tiles, tails.
void make_plain(AttentionCase& problem, Dealing& dealing, int round) {
  constexpr std::pair<int, int> kLengths[] = {
      {64, 64}, {128, 128}, {256, 128}, {256, 256}, {200, 200}};
  constexpr int kRounds = sizeof(kLengths) / sizeof(kLengths[0]);
  if (round < kRounds) {
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.seq_q = kLengths[round].first;
    problem.seq_kv = kLengths[round].second;
    dealing = {};
  }
}

struct Found {
  std::atomic<int> wrong{0};
  std::atomic<int> next{0};

  void note_errors(const Judged (&all)[3], DType dtype) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const Judged& one : all) {
      most_of_all = std::max(most_of_all, one.error.all / unit_of(dtype));
      most_of_row = std::max(most_of_row, one.error.row / unit_of(dtype));
    }
  }
  std::string most() const {
    char text[60];
    std::snprintf(text, sizeof text, ", against fp64, at most %.2f units, %.2f of a row",
                  most_of_all, most_of_row);
    return text;
  }

 private:
  std::mutex mutex;
  double most_of_all = 0.0;  ///< Units.
  double most_of_row = 0.0;
};

template <std::size_t I>
AttentionCase large_case(int batch, int heads_q, int heads_kv, int seq) {
  constexpr auto K = backward_kernels_of<I>().key;
  AttentionCase problem;
  problem.batch = batch;
  problem.heads_q = heads_q;
  problem.heads_kv = heads_kv;
  problem.seq_q = problem.seq_kv = seq;
  problem.head_dim = K.head_dim;
  problem.value_dim = K.value_dim;
  problem.causal = K.causal;
  problem.scale = 1.0 / std::sqrt(static_cast<double>(K.head_dim));
  return problem;
}

/// The seed of a kernel's problem is its number times this, and the round.
constexpr unsigned kSeedsOfKernel = 1000;

template <std::size_t I>
void check_case(const AttentionCase& problem, const Dealing& dealing, unsigned seed, Found& found) {
  constexpr auto K = backward_kernels_of<I>().key;
  const Call<I> call(problem, dealing);
  const AttentionInputs inputs = fill(call, problem, seed);
  call.launch();
  GradientSizes sizes;
  const AttentionGradients exact = emulation::attention_gradients(problem, inputs, sizes);
  const Judged all[] = {
      judge("dQ", K.dtype, call.dq(), call.row_shape(K.head_dim), exact.dq, sizes.dq),
      judge("dK", K.dtype, call.dk(), call.key_shape(K.head_dim), exact.dk, sizes.dk),
      judge("dV", K.dtype, call.dv(), call.key_shape(K.value_dim), exact.dv, sizes.dv)};
  const long long disturbed = call.disturbed();
  found.note_errors(all, K.dtype);
  if (disturbed != 0 || !all[0].right || !all[1].right || !all[2].right) {
    ++found.wrong;
    std::printf(
        "%s, seed %u, b%d h%d/%d s%d/%d parts %d sections %d bands %d%s%s: %lld bytes "
        "disturbed%s%s%s\n",
        backward_kernels_of<I>().name, seed, problem.batch, problem.heads_q, problem.heads_kv,
        problem.seq_q, problem.seq_kv, dealing.parts, dealing.section_heads, dealing.bands,
        dealing.last_kv_first ? " last first" : "", dealing.by_sequence ? " by sequence" : "",
        disturbed, all[0].text.c_str(), all[1].text.c_str(), all[2].text.c_str());
    std::fflush(stdout);
  }
}

template <std::size_t I>
void check_problem(int round, Found& found) {
  constexpr auto K = backward_kernels_of<I>().key;
  const unsigned seed = static_cast<unsigned>(I) * kSeedsOfKernel + static_cast<unsigned>(round);
  std::mt19937 random(seed);
  AttentionCase problem = drawn_case(K, random);
  Dealing dealing{.parts = random() % 3 == 0 ? 2 : 1,
                  .section_heads = static_cast<int>(random() % 3) + 1,
                  .last_kv_first = random() % 2 == 0,
                  .bands = static_cast<int>(random() % 3) + 1,
                  .by_sequence = random() % 2 == 0};
  make_plain(problem, dealing, round);
  check_case<I>(problem, dealing, seed, found);
}

void report(const std::string& name, long long count, long long wrong) {
  std::printf("| %s | %lld | %lld |\n", name.c_str(), count, wrong);
  std::fflush(stdout);
  if (wrong != 0) {
    sections->count_failure();
  }
}

/// One problem, small, but with several tiles of either kind, tails, two heads to a key head and
/// two parts: what racecheck gets through.
template <std::size_t I>
void check_one() {
  AttentionCase problem = large_case<I>(1, 2, 1, 200);
  problem.seq_q = 150;
  Found found;
  check_case<I>(problem, {.parts = 2, .bands = 2}, static_cast<unsigned>(I), found);
  report(std::string(backward_kernels_of<I>().name) + ", one problem", 1, found.wrong);
}

template <std::size_t I>
void check_seeds(const std::vector<unsigned>& seeds) {
  Found found;
  for (const unsigned seed : seeds) {
    check_problem<I>(static_cast<int>(seed % kSeedsOfKernel), found);
  }
  report(backward_kernels_of<I>().name + found.most() + ", seeds said",
         static_cast<long long>(seeds.size()), found.wrong);
}

template <std::size_t I>
void check_random(int rounds) {
  Found found;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < host_threads; ++thread) {
    threads.emplace_back([&] {
      for (int round = found.next++; round < rounds; round = found.next++) {
        check_problem<I>(round, found);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  report(backward_kernels_of<I>().name + found.most(), rounds, found.wrong);
}

/// 100 launches: equal bits where they are promised; else how many launches differed.
template <std::size_t I>
void check_bits() {
  constexpr auto K = backward_kernels_of<I>().key;
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
    std::printf("| %s, launches with other bits (allowed) | %d | %d |\n",
                backward_kernels_of<I>().name, kLaunches, differing);
    std::fflush(stdout);
  } else {
    report(std::string(backward_kernels_of<I>().name) + ", equal bits", kLaunches, differing);
  }
}

/// One element of K changed must show, and so must one row of a gradient that is off by 3 %.
void check_planted_faults() {
  AttentionCase problem;
  problem.seq_q = problem.seq_kv = 128;
  problem.head_dim = problem.value_dim = 128;
  problem.causal = true;
  problem.scale = 1.0 / std::sqrt(128.0);
  const Call<0> call(problem, {});
  AttentionInputs inputs = fill(call, problem, 1);
  call.launch();
  const double unit = unit_of(DType::bf16);
  GradientSizes sizes;
  const AttentionGradients exact = emulation::attention_gradients(problem, inputs, sizes);
  Values found = decoded(DType::bf16, call.dq(), call.row_shape(128));
  report("without a fault dQ is right", 1,
         emulation::gradient_error(found, exact.dq, sizes.dq).is_rounding(unit) ? 0 : 1);
  std::for_each(found.begin() + 100 * 128, found.begin() + 101 * 128,
                [](double& value) { value *= 1.03; });
  report("3 % in one row of 128 show (the check can fail)", 1,
         emulation::gradient_error(found, exact.dq, sizes.dq).is_rounding(unit) ? 1 : 0);
  inputs.k[777] += 3.0;
  const AttentionGradients other = emulation::attention_gradients(problem, inputs, sizes);
  report(
      "one changed element of K shows (the check can fail)", 1,
      judge("dQ", DType::bf16, call.dq(), call.row_shape(128), other.dq, sizes.dq).right ? 1 : 0);
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
void fill_large(const Call<I>& call, const AttentionCase& problem) {
  constexpr auto K = backward_kernels_of<I>().key;
  const long long rows = 1LL * problem.batch * problem.heads_q * problem.seq_q;
  const long long keys = 1LL * problem.batch * problem.heads_kv * problem.seq_kv;
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
                                         std::log(static_cast<float>(problem.seq_kv)) + 0.5F);
  check(cudaGetLastError(), "fill");
}

/// |a - b| / |b| of all values.
double relative_distance(DType dtype, const Bits& a, const Bits& b) {
  double off = 0.0;
  double all = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double exact = decode(dtype, b[i]);
    off += (decode(dtype, a[i]) - exact) * (decode(dtype, a[i]) - exact);
    all += exact * exact;
  }
  return std::sqrt(off / all);
}

/// Sets `found` where some word of a is not b's.
__global__ void find_difference(const unsigned* a, const unsigned* b, std::size_t words,
                                int* found) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
       i += std::size_t{gridDim.x} * blockDim.x) {
    if (a[i] != b[i]) {
      *found = 1;
    }
  }
}

/// What launches leave, beside what the first one left, without a copy to the host.
class Repeated {
 public:
  Repeated(std::vector<const Memory*> outputs, int launches)
      : outputs_(std::move(outputs)), differ_(sizeof(int) * static_cast<std::size_t>(launches)) {
    check(cudaMemsetAsync(differ_.data(), 0, differ_.bytes(), kStream), "cudaMemset");
    for (const Memory* const output : outputs_) {
      first_.push_back(std::make_unique<Memory>(output->bytes()));
    }
  }
  void take(int launch) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Memory& now = *outputs_[i];
      if (launch == 0) {
        check(cudaMemcpyAsync(first_[i]->data(), now.data(), now.bytes(), cudaMemcpyDeviceToDevice,
                              kStream),
              "cudaMemcpy");
      }
      find_difference<<<512, 256, 0, kStream>>>(
          static_cast<const unsigned*>(now.data()), static_cast<const unsigned*>(first_[i]->data()),
          now.bytes() / sizeof(unsigned), static_cast<int*>(differ_.data()) + launch);
      check(cudaGetLastError(), "find_difference");
    }
  }
  int differing() const {
    const std::vector<int> all = differ_.get<int>();
    return static_cast<int>(std::count(all.begin(), all.end(), 1));
  }

 private:
  std::vector<const Memory*> outputs_;
  std::vector<std::unique_ptr<Memory>> first_;
  Memory differ_;
};

/// More tiles in turn than fit the GPU at once: 100 launches with equal bits, dealt in any order
/// with the numbers of kernels Other, whose additions are atomic.
template <std::size_t I, std::size_t Other>
void check_turns() {
  constexpr auto K = backward_kernels_of<I>().key;
  constexpr int kLaunches = 100;
  constexpr double kNear = 1e-3;  // Sums in another order round some values another way.
  const AttentionCase problem = large_case<I>(1, 32, 16, 2000);
  const Call<Other> other(problem, {});
  fill_large(other, problem);
  other.launch();
  const Bits expected = other.dq().template get<std::uint16_t>();
  for (const Dealing& dealing : {Dealing{.bands = 4}, Dealing{.last_kv_first = true, .bands = 3}}) {
    const Call<I> call(problem, dealing);
    fill_large(call, problem);
    Repeated repeated({&call.dq(), &call.dk(), &call.dv()}, kLaunches);
    for (int i = 0; i < kLaunches; ++i) {
      call.poison_outputs();
      call.launch();
      repeated.take(i);
    }
    const int differing = repeated.differing();
    const double distance =
        relative_distance(K.dtype, call.dq().template get<std::uint16_t>(), expected);
    report(std::string(backward_kernels_of<I>().name) + ", many tiles, bands of " +
               std::to_string(dealing.bands) + ", distance of dQ " + std::to_string(distance),
           kLaunches, differing + (distance < kNear ? 0 : 1));
  }
}

template <std::size_t I>
void time_call(int batch, int heads_q, int heads_kv, int seq, const Dealing& dealing = {}) {
  constexpr auto K = backward_kernels_of<I>().key;
  constexpr int kRounds = 7;
  const AttentionCase problem = large_case<I>(batch, heads_q, heads_kv, seq);
  const Call<I> call(problem, dealing);
  fill_large(call, problem);
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
  std::printf(
      "| %s, b%d h%d/%d s%d, sections of %d, %d bands%s, workspace %.0f MB | %.1f us | %.0f "
      "TFLOP/s "
      "|\n",
      backward_kernels_of<I>().name, batch, heads_q, heads_kv, seq, dealing.section_heads,
      dealing.bands, dealing.last_kv_first ? ", last first" : "", call.workspace_mb(), us,
      flops / us / 1e6);
  std::fflush(stdout);
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
}

/// Texts, with commas between them, of which the name of a kernel must have one to be looked at.
std::string wanted;

bool is_wanted(const std::string& name) {
  for (std::size_t begin = 0; begin <= wanted.size();) {
    const std::size_t end = std::min(wanted.find(',', begin), wanted.size());
    if (name.find(wanted.substr(begin, end - begin)) != std::string::npos) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

/// The kernels with the same tiles, type and mask whose additions are atomic; I where there are
/// none.
template <std::size_t I>
constexpr std::size_t atomic_of() {
  std::size_t found = I;
  [&]<std::size_t... J>(std::index_sequence<J...>) {
    ((found =
          [] {
            constexpr auto A = backward_kernels_of<I>().key;
            constexpr auto B = backward_kernels_of<J>().key;
            return A.tile_n == B.tile_n && A.tile_m == B.tile_m && A.head_dim == B.head_dim &&
                   A.value_dim == B.value_dim && A.dtype == B.dtype && A.causal == B.causal &&
                   B.dq_sum == DqSum::atomic;
          }()
              ? J
              : found),
     ...);
  }
  (std::make_index_sequence<kBackwardCount>());
  return found;
}

template <std::size_t I>
void add_kernel(int rounds) {
  const std::string name = backward_kernels_of<I>().name;
  if (!is_wanted(name)) {
    return;
  }
  sections->add(name + ", against fp64", [rounds] { check_random<I>(rounds); });
  sections->add(name + ", bits", check_bits<I>);
  if constexpr (backward_kernels_of<I>().key.dq_sum == DqSum::ordered && atomic_of<I>() != I) {
    sections->add(name + ", many tiles in turn", check_turns<I, atomic_of<I>()>);
  }
}

/// How the tiles of a kernel that is timed are dealt: the first way for every shape, all of them
/// for long sequences.
template <std::size_t I>
std::vector<Dealing> dealings() {
  constexpr auto K = backward_kernels_of<I>().key;
  if (K.dq_sum == DqSum::ordered) {
    return {{.last_kv_first = K.causal, .bands = 4},
            {.last_kv_first = K.causal, .bands = 1},
            {.last_kv_first = K.causal, .bands = 8},
            {.section_heads = 4, .last_kv_first = K.causal}};
  }
  if (K.causal && K.dq_sum == DqSum::atomic) {
    return {{}, {.bands = 4}, {.last_kv_first = true, .bands = 4}};
  }
  return {{}};
}

template <std::size_t I>
void add_times() {
  if (!is_wanted(backward_kernels_of<I>().name)) {
    return;
  }
  const auto add = [](int batch, int heads_q, int heads_kv, int seq, const Dealing& dealing) {
    sections->add(std::string(backward_kernels_of<I>().name) + ", times",
                  [=] { time_call<I>(batch, heads_q, heads_kv, seq, dealing); });
  };
  const std::vector<Dealing> all = dealings<I>();
  for (const Dealing& dealing : all) {
    add(1, 16, 16, 16384, dealing);
    add(4, 16, 16, 4096, dealing);
  }
  add(16, 16, 16, 1024, all.front());
  add(1, 64, 8, 16384, all.front());
}

template <std::size_t I>
void add_one() {
  const std::string name = backward_kernels_of<I>().name;
  if (is_wanted(name)) {
    sections->add(name + ", one problem", check_one<I>);
  }
}

template <std::size_t I>
void add_seeds(const std::vector<unsigned>& seeds) {
  std::vector<unsigned> own;
  std::ranges::copy_if(seeds, std::back_inserter(own),
                       [](unsigned seed) { return seed / kSeedsOfKernel == I; });
  if (!own.empty()) {
    sections->add(backward_kernels_of<I>().name, [own] { check_seeds<I>(own); });
  }
}

/// Of "SEED,SEED".
std::vector<unsigned> numbers_in(const std::string& text) {
  std::vector<unsigned> numbers;
  std::istringstream stream(text);
  for (std::string one; std::getline(stream, one, ',');) {
    numbers.push_back(static_cast<unsigned>(std::stoul(one)));
  }
  return numbers;
}

/// `what`: checks, times after them (all), one problem a kernel (races), or seeds=SEED,SEED.
template <std::size_t... I>
void add_everything(int rounds, const std::string& what, std::index_sequence<I...> /*kernels*/) {
  const std::string seeds = "seeds=";
  if (what.starts_with(seeds)) {
    const std::vector<unsigned> numbers = numbers_in(what.substr(seeds.size()));
    (add_seeds<I>(numbers), ...);
    return;
  }
  if (what == "races") {
    (add_one<I>(), ...);
    return;
  }
  if (rounds > 0) {
    sections->add("planted faults", check_planted_faults);
    (add_kernel<I>(rounds), ...);
  }
  if (what == "all") {
    (add_times<I>(), ...);
  }
}

}  // namespace
}  // namespace swr::gpu

int main(int argc, char** argv) {
  using namespace swr::gpu;
  const auto number = [&](int index, int usual) {
    return argc > index ? std::atoi(argv[index]) : usual;
  };
  host_threads = number(2, 16);
  wanted = argc > 4 ? argv[4] : "";
  Sections all(number(3, 55), number(6, 25));
  sections = &all;
  add_everything(number(1, 32), argc > 5 ? argv[5] : "all",
                 std::make_index_sequence<kBackwardCount>());
  std::printf("| property | problems or time | wrong or rate |\n|---|---|---|\n");
  const int lost = all.run();
  std::printf("%d properties failed, %d sections had a fault or were not reached\n", all.failures(),
              lost);
  return lost == 0 && all.failures() == 0 ? 0 : 1;
}
