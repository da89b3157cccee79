// SPDX-License-Identifier: MIT
// One kernel for unequal sequences on the GPU present, by itself: random problems against the fp64
// reference, then times of families of lengths beside the byte floor of the lengths drawn. The
// kernel is that of selected_serving_attention_config.h; put another folder first to check another
// one.
//   nvcc -std=c++20 -arch=native --use_fast_math -O2 -I. -Iinclude -Itemplates -Itemplates/default
//   \
//        bench/serving_check.cu -o serving_check && ./serving_check
#include "operations/attention_serving/launch_plan.h"
#include "templates/attention_serving/portable/serving_attention.cu"
#include "templates/reference/serving_attention_reference.cu"

#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr swr::ServingAttentionConfig C = swr::kServingConfig;
constexpr int kPageSizes[] = {1, 3, 16, 32, 64, 256};
constexpr double kScale = 0.3;
constexpr double kCap = 20.0;

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
  }
}

/// Values in device memory, and what they were made from.
template <typename Value>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<Value>& values) : size_(values.size()) {
    check(cudaMalloc(&data_, std::max<std::size_t>(1, size_) * sizeof(Value)), "cudaMalloc");
    put(values);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  void put(const std::vector<Value>& values) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(Value), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  std::vector<Value> get() const {
    std::vector<Value> values(size_);
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(Value), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return values;
  }
  Value* data() const { return data_; }

 private:
  std::size_t size_;
  Value* data_ = nullptr;
};

std::uint16_t encoded(float value) {
  if (C.dtype == swr::DType::fp16) {
    const __half half = __float2half(value);
    return *reinterpret_cast<const std::uint16_t*>(&half);
  }
  std::uint32_t bits;
  std::copy_n(reinterpret_cast<const char*>(&value), 4, reinterpret_cast<char*>(&bits));
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
float decoded(std::uint16_t bits) {
  if (C.dtype == swr::DType::fp16) {
    return __half2float(*reinterpret_cast<const __half*>(&bits));
  }
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::copy_n(reinterpret_cast<const char*>(&wide), 4, reinterpret_cast<char*>(&value));
  return value;
}

/// Lengths and launch of one problem; NHD pages, K and V apart, or rows one after another.
struct Problem {
  std::vector<int> seq_q;
  std::vector<int> seq_kv;
  int heads_q = 32;
  int heads_kv = 8;
  int page_size = 16;
  bool with_sinks = false;
  swr::KeyWindow window;
  swr::ItemOrder item_order = swr::ItemOrder::as_given;
};

/// A problem in device memory, pages shuffled, what nobody may read filled with NaN.
class Run {
 public:
  Run(const Problem& problem, unsigned seed, int workers)
      : problem_(problem),
        random_(seed),
        cu_q_(sums(problem.seq_q)),
        used_k_(problem.seq_kv),
        cu_k_(sums(problem.seq_kv)),
        table_(page_table()),
        q_(normal(total_q() * problem.heads_q * C.head_dim)),
        k_(keys(C.head_dim)),
        v_(keys(C.head_dim_v)),
        o_(std::vector<std::uint16_t>(
            static_cast<std::size_t>(total_q() * problem.heads_q * C.head_dim_v), 0xffff)),
        lse_(std::vector<float>(static_cast<std::size_t>(total_q() * problem.heads_q), NAN)),
        sinks_(std::vector<float>(static_cast<std::size_t>(problem.heads_q), 0.5F)) {
    point(workers);
    partials_ = std::make_unique<OnDevice<float>>(
        std::vector<float>(static_cast<std::size_t>(launch_.partials_bytes / 4), NAN));
    arrivals_ = std::make_unique<OnDevice<unsigned>>(
        std::vector<unsigned>(static_cast<std::size_t>(launch_.arrival_words), 0));
    params_.partials = partials_->data();
    params_.arrivals = arrivals_->data();
  }

  void launch() const {
    swr_serving_attention<<<launch_.grid_x, launch_.block_x, launch_.dynamic_smem_bytes>>>(params_);
  }
  /// Rows whose O or log-sum-exp is wrong, and counters that are left.
  int wrong_rows() const {
    const long long rows = total_q() * problem_.heads_q;
    OnDevice<float> o(std::vector<float>(static_cast<std::size_t>(rows * C.head_dim_v), 0.0F));
    OnDevice<double> lse(std::vector<double>(static_cast<std::size_t>(rows), 0.0));
    const dim3 grid(static_cast<unsigned>(params_.batch * params_.max_seq_q),
                    static_cast<unsigned>(problem_.heads_q));
    swr_serving_attention_reference<<<grid, 128>>>(
        params_, static_cast<int>(C.dtype), static_cast<int>(C.mask), C.head_dim, C.head_dim_v,
        kScale, C.softcap == swr::Softcap::none ? 0.0 : kCap, o.data(), lse.data());
    check(cudaDeviceSynchronize(), "reference");
    const auto found = o_.get();
    const auto expected = o.get();
    const auto found_lse = lse_.get();
    const auto expected_lse = lse.get();
    const double rounding = (C.dtype == swr::DType::fp16 ? 2e-3 : 1.6e-2) +
                            (C.softcap == swr::Softcap::approximate ? 2e-2 : 0.0);
    const auto is_near = [&](double a, double b) {
      return std::isinf(b) ? a == b : std::abs(a - b) <= rounding * (1.0 + std::abs(b));
    };
    int wrong = 0;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      bool right = is_near(static_cast<double>(found_lse[row]), expected_lse[row]);
      for (std::size_t d = 0; d < C.head_dim_v; ++d) {
        const std::size_t i = row * C.head_dim_v + d;
        right = right &&
                is_near(static_cast<double>(decoded(found[i])), static_cast<double>(expected[i]));
      }
      wrong += right ? 0 : 1;
    }
    for (const unsigned word : arrivals_->get()) {
      wrong += word != 0 ? 1 : 0;
    }
    return wrong;
  }
  /// Bytes of K and V of the keys, of Q and of O, each once.
  double floor_bytes() const {
    const long long kv = std::accumulate(problem_.seq_kv.begin(), problem_.seq_kv.end(), 0LL);
    return 2.0 * (C.head_dim + C.head_dim_v) *
           static_cast<double>(kv * problem_.heads_kv + total_q() * problem_.heads_q);
  }

 private:
  static std::vector<int> sums(const std::vector<int>& lengths) {
    std::vector<int> ends{0};
    for (const int length : lengths) {
      ends.push_back(ends.back() + length);
    }
    return ends;
  }
  long long total_q() const {
    return std::accumulate(problem_.seq_q.begin(), problem_.seq_q.end(), 0LL);
  }
  std::vector<std::uint16_t> normal(long long count) {
    std::normal_distribution<float> draw;
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    std::generate(values.begin(), values.end(), [&] { return encoded(draw(random_)); });
    return values;
  }
  int width() const {
    const int most = *std::max_element(problem_.seq_kv.begin(), problem_.seq_kv.end());
    return (most + problem_.page_size - 1) / problem_.page_size + 1;
  }
  std::vector<int> page_table() {
    std::vector<int> ids;
    int used = 0;
    for (const int keys : problem_.seq_kv) {
      const int own = (keys + problem_.page_size - 1) / problem_.page_size;
      for (int entry = 0; entry < width(); ++entry) {
        ids.push_back(entry < own ? used++ : -1);
      }
    }
    pages_ = used + 1;
    std::vector<int> shuffled(static_cast<std::size_t>(pages_));
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::shuffle(shuffled.begin(), shuffled.end(), random_);
    for (int& id : ids) {
      id = id < 0 ? id : shuffled[static_cast<std::size_t>(id)];
    }
    host_table_ = ids;
    return ids;
  }
  /// Pages of NaN with normal values where keys are, or rows of normal values.
  std::vector<std::uint16_t> keys(int columns) {
    const long long row = static_cast<long long>(problem_.heads_kv) * columns;
    if (!C.has_pages()) {
      return normal(std::accumulate(problem_.seq_kv.begin(), problem_.seq_kv.end(), 0LL) * row);
    }
    const std::vector<std::uint16_t> block = normal(1 << 20);
    std::vector<std::uint16_t> pool(static_cast<std::size_t>(pages_ * problem_.page_size * row),
                                    0xffff);
    for (std::size_t i = 0; i < problem_.seq_kv.size(); ++i) {
      for (int key = 0; key < problem_.seq_kv[i]; ++key) {
        const auto entry = i * static_cast<std::size_t>(width()) +
                           static_cast<std::size_t>(key / problem_.page_size);
        const long long place = host_table_[entry] * static_cast<long long>(problem_.page_size) +
                                key % problem_.page_size;
        const auto from = static_cast<long>(random_() % (block.size() - row));
        std::copy_n(block.begin() + from, row, pool.begin() + place * row);
      }
    }
    return pool;
  }
  void point(int workers) {
    params_.q = q_.data();
    params_.k = k_.data();
    params_.v = v_.data();
    params_.o = o_.data();
    params_.lse = lse_.data();
    const auto strides = [](int heads, int columns, int rows) {
      return swr::TensorStrides{.batch = static_cast<long long>(rows) * heads * columns,
                                .head = columns,
                                .seq = heads * columns};
    };
    params_.q_strides = strides(problem_.heads_q, C.head_dim, 0);
    params_.o_strides = strides(problem_.heads_q, C.head_dim_v, 0);
    params_.k_strides = strides(problem_.heads_kv, C.head_dim, problem_.page_size);
    params_.v_strides = strides(problem_.heads_kv, C.head_dim_v, problem_.page_size);
    params_.lse_strides = {.batch = 0, .head = 1, .seq = problem_.heads_q};
    params_.batch = static_cast<int>(problem_.seq_q.size());
    params_.heads_q = problem_.heads_q;
    params_.heads_kv = problem_.heads_kv;
    params_.max_seq_q = *std::max_element(problem_.seq_q.begin(), problem_.seq_q.end());
    params_.max_seq_kv = *std::max_element(problem_.seq_kv.begin(), problem_.seq_kv.end());
    params_.total_q = total_q();
    params_.lengths.cu_seqlens_q = cu_q_.data();
    params_.lengths.seqused_k = used_k_.data();
    if (C.has_pages()) {
      params_.pages = {.table = table_.data(),
                       .table_stride = width(),
                       .pages_per_sequence = width(),
                       .page_size = problem_.page_size};
    } else {
      params_.lengths.cu_seqlens_k = cu_k_.data();
    }
    params_.window = problem_.window;
    const bool capped = C.softcap != swr::Softcap::none;
    params_.scale_log2 = static_cast<float>((capped ? kCap : kScale) / std::log(2.0));
    params_.softcap_scale = static_cast<float>(kScale / kCap);
    params_.sinks = problem_.with_sinks ? sinks_.data() : nullptr;
    params_.item_order = problem_.item_order;
    const swr::ServingLaunchPlan plan{.tiles = C.tiles(),
                                      .head_dim_v = C.head_dim_v,
                                      .threads = C.threads(),
                                      .fixed_smem_bytes = C.fixed_smem_bytes(),
                                      .persistence = C.persistence,
                                      .workers = workers};
    launch_ = swr::serving_launch(plan, params_);
    check(cudaFuncSetAttribute(swr_serving_attention, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               launch_.dynamic_smem_bytes),
          "shared memory");
  }

  Problem problem_;
  std::mt19937 random_;
  int pages_ = 0;
  std::vector<int> host_table_;
  OnDevice<int> cu_q_;
  OnDevice<int> used_k_;
  OnDevice<int> cu_k_;
  OnDevice<int> table_;
  OnDevice<std::uint16_t> q_;
  OnDevice<std::uint16_t> k_;
  OnDevice<std::uint16_t> v_;
  OnDevice<std::uint16_t> o_;
  OnDevice<float> lse_;
  OnDevice<float> sinks_;
  std::unique_ptr<OnDevice<float>> partials_;
  std::unique_ptr<OnDevice<unsigned>> arrivals_;
  swr::ServingAttentionParams params_;
  swr::ServingLaunch launch_;
};

/// CTAs that the GPU holds at once.
int resident_ctas() {
  int sms = 0;
  int per_sm = 0;
  const int smem = C.fixed_smem_bytes() + swr::list_bytes(swr::kListEntries);
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
  check(cudaFuncSetAttribute(swr_serving_attention, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             smem),
        "shared memory");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, swr_serving_attention, C.threads(),
                                                      static_cast<std::size_t>(smem)),
        "occupancy");
  return sms * per_sm;
}

int check_random_problems(int rounds, int workers) {
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    const auto drawn = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    Problem problem;
    const int batch = drawn(1, 8);
    const int most_q = drawn(0, 1) == 0 ? 1 : drawn(2, 150);
    problem.heads_kv = drawn(1, 3);
    problem.heads_q = problem.heads_kv * drawn(1, 8);
    problem.page_size =
        C.page_copy == swr::PageCopy::run16 ? 16 << drawn(0, 4) : kPageSizes[drawn(0, 5)];
    problem.with_sinks = drawn(0, 1) == 1;
    problem.window = {drawn(-1, 200), drawn(-1, 50), drawn(0, 2) == 0 ? drawn(1, 300) : 0};
    problem.item_order = static_cast<swr::ItemOrder>(drawn(0, 2));
    for (int i = 0; i < batch; ++i) {
      problem.seq_q.push_back(drawn(0, most_q));
      problem.seq_kv.push_back(drawn(0, 3) == 0 ? drawn(0, 2) : drawn(0, 2000));
    }
    problem.seq_q[0] = std::max(1, problem.seq_q[0]);
    problem.seq_kv[0] = std::max(1, problem.seq_kv[0]);
    const Run run(problem, static_cast<unsigned>(round), drawn(0, 1) == 0 ? workers : drawn(1, 40));
    run.launch();
    check(cudaDeviceSynchronize(), "kernel");
    const int here = run.wrong_rows();
    if (here != 0) {
      std::printf("round %d: %d rows are wrong\n", round, here);
    }
    wrong += here != 0 ? 1 : 0;
  }
  std::printf("%d of %d random problems are wrong\n", wrong, rounds);
  return wrong;
}

/// Several sets of tensors take turns, so that L2 holds none of them.
void time_family(const char* name, const Problem& problem, int workers) {
  constexpr int kSets = 4;
  constexpr int kLaunches = 40;
  std::vector<std::unique_ptr<Run>> runs;
  for (int set = 0; set < kSets; ++set) {
    runs.push_back(std::make_unique<Run>(problem, static_cast<unsigned>(set), workers));
    runs.back()->launch();
  }
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int round = 0; round < 11; ++round) {
    check(cudaEventRecord(begin), "event");
    for (int i = 0; i < kLaunches; ++i) {
      runs[static_cast<std::size_t>(i % kSets)]->launch();
    }
    check(cudaEventRecord(end), "event");
    check(cudaEventSynchronize(end), "kernel");
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    times.push_back(milliseconds * 1000.0F / kLaunches);
  }
  std::nth_element(times.begin(), times.begin() + 5, times.end());
  const double bytes = runs[0]->floor_bytes();
  std::printf("| %s | %d | %.1f | %.1f | %.2f |\n", name, problem.page_size, bytes / 1e6,
              static_cast<double>(times[5]), bytes / static_cast<double>(times[5]) / 1e6);
}

Problem decode(int batch, double mean, double sigma, int page_size) {
  Problem problem;
  problem.page_size = page_size;
  std::mt19937 random(7);
  std::lognormal_distribution<double> draw(std::log(mean) - sigma * sigma / 2, sigma);
  for (int i = 0; i < batch; ++i) {
    problem.seq_q.push_back(1);
    problem.seq_kv.push_back(std::max(1, static_cast<int>(sigma == 0.0 ? mean : draw(random))));
  }
  return problem;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  const int workers = resident_ctas();
  const int wrong = check_random_problems(rounds, workers);
  std::printf("| lengths | page | floor MB | us | TB/s |\n|---|---|---|---|---|\n");
  for (const int page_size : {16, 1, 64}) {
    if (C.page_copy == swr::PageCopy::run16 && page_size < 16) {
      continue;
    }
    time_family("1 x 8K", decode(1, 8192, 0.0, page_size), workers);
    time_family("8 x 8K", decode(8, 8192, 0.0, page_size), workers);
    time_family("64 x 4K, sigma 0", decode(64, 4096, 0.0, page_size), workers);
    time_family("64 x 4K, sigma 1", decode(64, 4096, 1.0, page_size), workers);
    time_family("64 x 4K, sigma 1.4", decode(64, 4096, 1.4, page_size), workers);
  }
  Problem chunk = decode(1, 33280, 0.0, 16);
  chunk.seq_q[0] = 512;
  time_family("512 new on 32K", chunk, workers);
  return wrong == 0 ? 0 : 1;
}
