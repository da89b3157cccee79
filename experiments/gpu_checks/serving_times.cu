// SPDX-License-Identifier: MIT
// Times of kernels for unequal sequences on the GPU present, beside the bytes that have to move and
// beside the dense kernels of the same tiles. Sets of tensors take turns, so that L2 holds none of
// them; every result is compared with fp64 first. Arguments: seconds, and what the name of lengths
// contains ("new" for prefill).
#include "attention/hopper/kernel.cuh"
#include "attention/portable/kernel.cuh"
#include "experiments/gpu_checks/sections.h"
#include "experiments/gpu_checks/serving_kernels.h"
#include "operations/attention/attention_launch.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>

namespace swr::gpu {
namespace {

constexpr int kHeadDim = 128;
constexpr int kHeadsQ = 32;
constexpr int kHeadsKv = 8;
constexpr float kScale = 0.088F;
constexpr double kCap = 30.0;
constexpr double kReadBytesPerUs = 4.66e6;  ///< The best pure read of an H200.

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    end_section(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

/// About normal values in bf16: sums of four uniform ones, of a hash of the place.
__global__ void fill_random(std::uint16_t* values, long long count, unsigned seed) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < count;
       i += step) {
    unsigned long long state = (static_cast<unsigned long long>(i) + seed * 0x9E3779B97F4A7C15ULL);
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
    state ^= state >> 31;
    float sum = -2.0F;
    for (int part = 0; part < 4; ++part) {
      sum += static_cast<float>(state >> (16 * part) & 0xffffU) * 0x1p-16F;
    }
    values[i] = static_cast<std::uint16_t>(__float_as_uint(sum * 1.7F) >> 16);
  }
}

/// Device memory that is freed with its owner.
template <typename Value>
class Array {
 public:
  explicit Array(long long count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(Value)),
        data_(static_cast<Value*>(allocate(bytes_))) {
    fill(data_, 0, bytes_);
  }
  explicit Array(const std::vector<Value>& values) : Array(static_cast<long long>(values.size())) {
    upload(data_, values.data(), bytes_);
    wait();
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { release(data_); }

  Value* data() const { return data_; }
  void randomise(unsigned seed) const {
    fill_random<<<2048, 256, 0, cudaStreamPerThread>>>(reinterpret_cast<std::uint16_t*>(data_),
                                                       static_cast<long long>(bytes_ / 2), seed);
    check(cudaGetLastError(), "fill");
  }
  std::vector<Value> get() const {
    std::vector<Value> values(bytes_ / sizeof(Value));
    download(values.data(), data_, bytes_);
    return values;
  }

 private:
  std::size_t bytes_;
  Value* data_;
};

struct Lengths {
  std::string name;
  std::vector<int> q;
  std::vector<int> kv;
  int page_size = 16;
  int left = -1;  ///< Of a window, for kernels that have one.

  long long total(const std::vector<int>& lengths) const {
    return std::accumulate(lengths.begin(), lengths.end(), 0LL);
  }
  /// Bytes of K and V of the keys, of Q and of O, each once.
  double floor_bytes() const {
    return 4.0 * kHeadDim * static_cast<double>(total(kv) * kHeadsKv + total(q) * kHeadsQ);
  }
  /// Of both products, under a causal mask, of which a window leaves a part.
  double flops() const {
    double pairs = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i) {
      pairs += static_cast<double>(q[i]) * (kv[i] - (q[i] - 1) / 2.0);
      for (int row = 0; left >= 0 && row < q[i]; ++row) {
        pairs -= std::max(0, kv[i] - q[i] + row - left);
      }
    }
    return 4.0 * kHeadDim * kHeadsQ * pairs;
  }
};

std::vector<int> ends_of(const std::vector<int>& lengths) {
  std::vector<int> ends{0};
  for (const int length : lengths) {
    ends.push_back(ends.back() + length);
  }
  return ends;
}

constexpr TensorStrides strides(int heads, long long rows) {
  return {.batch = rows * heads * kHeadDim, .head = kHeadDim, .seq = heads * kHeadDim};
}

/// What a launch may choose of a kernel that deals ranges.
struct Dealing {
  int ctas_per_sm = 0;  ///< 0: as many as fit.
  int least_units = 1;
};

/// What of a launch may run while the one ahead ends.
enum class Overlap { none, beginning, all_but_keys };

/// One set of tensors and a launch of a kernel over them.
class ServingSet {
 public:
  ServingSet(std::size_t kernel, const Lengths& lengths, unsigned seed, Dealing dealing)
      : kernel_(kernel),
        dealing_(dealing),
        config_(kCheckedKernels[kernel].config),
        lengths_(lengths),
        table_(page_table(seed)),
        cu_q_(ends_of(lengths.q)),
        cu_k_(ends_of(lengths.kv)),
        used_k_(lengths.kv),
        q_(lengths.total(lengths.q) * kHeadsQ * kHeadDim),
        o_(lengths.total(lengths.q) * kHeadsQ * kHeadDim),
        k_(kv_rows() * kHeadsKv * kHeadDim),
        v_(kv_rows() * kHeadsKv * kHeadDim) {
    q_.randomise(3 * seed);
    k_.randomise(3 * seed + 1);
    v_.randomise(3 * seed + 2);
    point();
    partials_ = std::make_unique<Array<float>>(launch_.partials_bytes / 4);
    arrivals_ = std::make_unique<Array<unsigned>>(launch_.arrival_words);
    params_.partials = partials_->data();
    params_.arrivals = arrivals_->data();
    wait();
  }

  void launch(Overlap overlap) const {
    ServingAttentionParams params = params_;
    params.lengths_are_ready = overlap == Overlap::all_but_keys;
    launch_serving(kernel_, launch_, params, overlap != Overlap::none);
  }

  /// The largest difference of O from fp64.
  double deviation() const {
    launch(Overlap::none);
    const long long rows = lengths_.total(lengths_.q) * kHeadsQ;
    const Array<float> o(rows * kHeadDim);
    const Array<double> lse(rows);
    launch_reference(config_, params_, static_cast<double>(kScale),
                     config_.softcap == Softcap::none ? 0.0 : kCap, o.data(), lse.data());
    const std::vector<float> expected = o.get();
    const std::vector<std::uint16_t> found = o_.get();
    double worst = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(found[i]) << 16;
      float value;
      std::copy_n(reinterpret_cast<const char*>(&bits), 4, reinterpret_cast<char*>(&value));
      const double off = std::abs(static_cast<double>(value) - static_cast<double>(expected[i]));
      worst = off <= worst ? worst : off;  // NaN is the worst.
    }
    return worst;
  }

 private:
  int width() const {
    const int most = *std::max_element(lengths_.kv.begin(), lengths_.kv.end());
    return (most + lengths_.page_size - 1) / lengths_.page_size;
  }
  long long kv_rows() const {
    return config_.has_pages() ? static_cast<long long>(pages_) * lengths_.page_size
                               : lengths_.total(lengths_.kv);
  }
  std::vector<int> page_table(unsigned seed) {
    std::vector<int> table;
    for (const int keys : lengths_.kv) {
      for (int entry = 0; entry < width(); ++entry) {
        table.push_back(entry * lengths_.page_size < keys ? pages_++ : -1);
      }
    }
    std::vector<int> ids(static_cast<std::size_t>(pages_));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
    for (int& id : table) {
      id = id < 0 ? id : ids[static_cast<std::size_t>(id)];
    }
    return table;
  }
  void point() {
    params_.q = q_.data();
    params_.k = k_.data();
    params_.v = v_.data();
    params_.o = o_.data();
    params_.q_strides = params_.o_strides = strides(kHeadsQ, 0);
    params_.k_strides = params_.v_strides = strides(kHeadsKv, lengths_.page_size);
    params_.batch = static_cast<int>(lengths_.q.size());
    params_.heads_q = kHeadsQ;
    params_.heads_kv = kHeadsKv;
    params_.max_seq_q = *std::max_element(lengths_.q.begin(), lengths_.q.end());
    params_.max_seq_kv = *std::max_element(lengths_.kv.begin(), lengths_.kv.end());
    params_.total_q = lengths_.total(lengths_.q);
    params_.lengths.cu_seqlens_q = cu_q_.data();
    params_.lengths.seqused_k = used_k_.data();
    params_.scale_log2 =
        (config_.softcap == Softcap::none ? kScale : static_cast<float>(kCap)) * 1.44269504F;
    params_.softcap_scale = kScale / static_cast<float>(kCap);
    params_.window = {.left = lengths_.left, .right = 0};
    if (config_.has_pages()) {
      params_.pages = {.table = table_.data(),
                       .table_stride = width(),
                       .pages_per_sequence = width(),
                       .page_size = lengths_.page_size};
    } else {
      params_.lengths.cu_seqlens_k = cu_k_.data();
    }
    const int smem = config_.fixed_smem_bytes() + list_bytes(params_.batch);
    const ServingLaunchPlan plan{.tiles = config_.tiles(),
                                 .head_dim_v = config_.head_dim_v,
                                 .threads = config_.threads(),
                                 .fixed_smem_bytes = config_.fixed_smem_bytes(),
                                 .persistence = config_.persistence,
                                 .workers = dealing_.ctas_per_sm == 0
                                                ? resident_ctas(kernel_, smem)
                                                : dealing_.ctas_per_sm * sm_count()};
    params_.least_units = dealing_.least_units;
    params_.item_order =
        config_.deal == Deal::whole ? ItemOrder::longest_first : ItemOrder::as_given;
    launch_ = serving_launch(plan, params_);
  }

  std::size_t kernel_;
  Dealing dealing_;
  ServingAttentionConfig config_;
  Lengths lengths_;
  int pages_ = 0;
  Array<int> table_;
  Array<int> cu_q_;
  Array<int> cu_k_;
  Array<int> used_k_;
  Array<std::uint16_t> q_;
  Array<std::uint16_t> o_;
  Array<std::uint16_t> k_;
  Array<std::uint16_t> v_;
  ServingAttentionParams params_;
  ServingLaunch launch_;
  std::unique_ptr<Array<float>> partials_;
  std::unique_ptr<Array<unsigned>> arrivals_;
};

/// The median time of launch(i) in us, over rounds that take some milliseconds each.
double median_us(const std::function<void(int)>& launch, int sets) {
  constexpr int kRounds = 9;
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  const auto time_of = [&](int launches) {
    check(cudaEventRecord(begin, cudaStreamPerThread), "event");
    for (int i = 0; i < launches; ++i) {
      launch(i % sets);
    }
    check(cudaEventRecord(end, cudaStreamPerThread), "event");
    check(cudaEventSynchronize(end), "kernel");
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    return static_cast<double>(milliseconds) * 1000.0 / launches;
  };
  time_of(2 * sets);
  const double first = time_of(2 * sets);
  const int launches = std::max(sets, static_cast<int>(4000.0 / first) / sets * sets);
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    times.push_back(time_of(launches));
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

/// So many that their bytes are several times those of L2, and two for launches that overlap.
int sets_for(double bytes) { return std::clamp(static_cast<int>(4e8 / bytes), 2, 12); }

void time_serving(std::size_t kernel, const Lengths& lengths, Dealing dealing = {}) {
  std::vector<std::unique_ptr<ServingSet>> sets;
  const int count = sets_for(lengths.floor_bytes());
  for (int set = 0; set < count; ++set) {
    sets.push_back(
        std::make_unique<ServingSet>(kernel, lengths, static_cast<unsigned>(set), dealing));
  }
  const double off = sets[0]->deviation();
  const auto median = [&](Overlap overlap) {
    return median_us([&](int i) { sets[static_cast<std::size_t>(i)]->launch(overlap); }, count);
  };
  const double us = median(Overlap::none);
  const double beginning_us = median(Overlap::beginning);
  const double overlapping_us = median(Overlap::all_but_keys);
  const double floor_us = lengths.floor_bytes() / kReadBytesPerUs;
  std::string name = kCheckedKernels[kernel].name;
  name += dealing.ctas_per_sm > 0 ? ", " + std::to_string(dealing.ctas_per_sm) + " an SM" : "";
  name += dealing.least_units > 1 ? ", least " + std::to_string(dealing.least_units) : "";
  std::printf("| %s | %s | %d | %.1f | %.1f | %.1f | %.1f | %.2f | %.0f | %.1e |\n",
              lengths.name.c_str(), name.c_str(), lengths.page_size, floor_us, us, beginning_us,
              overlapping_us, lengths.floor_bytes() / us / 1e6, lengths.flops() / us / 1e6, off);
  std::fflush(stdout);
}

// The dense kernels of the same tiles.

constexpr PortableAttentionConfig kDensePrefill{.head_dim = kHeadDim,
                                                .dtype = DType::bf16,
                                                .causal = true,
                                                .alignment_bytes = 16,
                                                .tile_m = 128,
                                                .tile_n = 64,
                                                .warps = 8,
                                                .stages = 2,
                                                .order = Order::cyclic,
                                                .persistence = Persistence::persistent,
                                                .smem_swizzle = true};
constexpr PortableAttentionConfig dense_decode(int tile_n, int stages, bool split_kv = true) {
  PortableAttentionConfig config = kDensePrefill;
  config.tile_m = 16;
  config.tile_n = tile_n;
  config.warps = 4;
  config.stages = stages;
  config.persistence = Persistence::grid;
  config.split_kv = split_kv;
  config.pack_gqa = true;
  return config;
}
constexpr PortableAttentionConfig kDense[] = {kDensePrefill, dense_decode(64, 2),
                                              dense_decode(64, 3), dense_decode(128, 2),
                                              dense_decode(64, 2, false)};

template <std::size_t I>
__global__ void __launch_bounds__(kDense[I].threads(), 1)
    dense_kernel(const __grid_constant__ portable::Arguments<kDense[I]> arguments) {
  extern __shared__ __align__(1024) char shared[];
  portable::run<kDense[I]>(arguments, ptx::shared_address(shared));
}

/// Random tensors of sequences of one length, as the dense kernels take them.
class DenseTensors {
 public:
  DenseTensors(const Lengths& lengths, unsigned seed)
      : q_(elements(lengths.q, kHeadsQ)),
        o_(elements(lengths.q, kHeadsQ)),
        k_(elements(lengths.kv, kHeadsKv)),
        v_(elements(lengths.kv, kHeadsKv)) {
    q_.randomise(3 * seed);
    k_.randomise(3 * seed + 1);
    v_.randomise(3 * seed + 2);
    params_.q = q_.data();
    params_.k = k_.data();
    params_.v = v_.data();
    params_.o = o_.data();
    params_.q_strides = params_.o_strides = strides(kHeadsQ, lengths.q[0]);
    params_.k_strides = params_.v_strides = strides(kHeadsKv, lengths.kv[0]);
    params_.batch = static_cast<int>(lengths.q.size());
    params_.heads_q = kHeadsQ;
    params_.heads_kv = kHeadsKv;
    params_.seq_q = lengths.q[0];
    params_.seq_kv = lengths.kv[0];
    params_.scale_log2 = kScale * 1.44269504F;
    params_.longest_first = 1;
  }

  /// What names them; the launch's own choices are left at their defaults.
  const AttentionParams& params() const { return params_; }

 private:
  static long long elements(const std::vector<int>& lengths, int heads) {
    return static_cast<long long>(lengths.size()) * lengths[0] * heads * kHeadDim;
  }

  Array<std::uint16_t> q_;
  Array<std::uint16_t> o_;
  Array<std::uint16_t> k_;
  Array<std::uint16_t> v_;
  AttentionParams params_;
};

template <std::size_t I>
class DenseSet {
 public:
  static constexpr PortableAttentionConfig C = kDense[I];

  DenseSet(const Lengths& lengths, unsigned seed, int splits)
      : tensors_(lengths, seed), params_(tensors_.params()) {
    plan_launch(splits);
    partials_ = std::make_unique<Array<float>>(geometry_.partials_bytes / 4);
    arrivals_ = std::make_unique<Array<unsigned>>(geometry_.arrival_words);
    params_.partials = partials_->data();
    params_.arrivals = arrivals_->data();
    wait();
  }

  void launch() const {
    dense_kernel<I><<<static_cast<unsigned>(geometry_.grid_x), C.threads(), C.smem_bytes(),
                      cudaStreamPerThread>>>({params_});
    check(cudaGetLastError(), "dense");
  }
  static int resident() {
    int per_sm = 0;
    check(cudaFuncSetAttribute(dense_kernel<I>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               C.smem_bytes()),
          "shared memory");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, dense_kernel<I>, C.threads(),
                                                        C.smem_bytes()),
          "occupancy");
    return per_sm * sm_count();
  }

 private:
  void plan_launch(int splits) {
    params_.kv_splits = splits;
    const AttentionLaunchPlan plan{.tile_m = C.tile_m,
                                   .tile_n = C.tile_n,
                                   .threads = C.threads(),
                                   .dynamic_smem_bytes = C.smem_bytes(),
                                   .persistence = C.persistence,
                                   .workers = resident(),
                                   .kv_splits = splits,
                                   .pack_gqa = C.pack_gqa,
                                   .longest_first = true,
                                   .dtype = C.dtype,
                                   .head_dim = kHeadDim,
                                   .sm_count = sm_count()};
    geometry_ = launch_geometry(plan, params_);
    params_.section_heads = geometry_.section_heads;
  }

  DenseTensors tensors_;
  AttentionParams params_;
  LaunchGeometry geometry_;
  std::unique_ptr<Array<float>> partials_;
  std::unique_ptr<Array<unsigned>> arrivals_;
};

/// The dense Hopper kernel of the serving kernels' tiles.
constexpr HopperAttentionConfig kDenseHopper{.head_dim = kHeadDim,
                                             .dtype = DType::bf16,
                                             .causal = true,
                                             .tile_m = 128,
                                             .tile_n = 128,
                                             .stages = 2,
                                             .mainloop = Mainloop::overlap_ordered,
                                             .order = Order::cyclic,
                                             .persistence = Persistence::persistent,
                                             .p_operand = POperand::registers,
                                             .exp2_fma_eighths = 0,
                                             .unroll = 1};

__global__ void __launch_bounds__(kDenseHopper.threads(), 1)
    dense_hopper_kernel(const __grid_constant__ AttentionParams params,
                        const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                        const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap o) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) char shared[];
  hopper::run<kDenseHopper>(params, {q, k, v, o}, ptx::shared_address(shared));
#endif
}

LaunchCalls encoding_calls() {
  return find_launch_calls([](const char* name) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
    return function;
  });
}

class DenseHopperSet {
 public:
  static constexpr HopperAttentionConfig C = kDenseHopper;

  DenseHopperSet(const Lengths& lengths, unsigned seed)
      : tensors_(lengths, seed), params_(tensors_.params()) {
    const AttentionLaunchPlan plan{.tile_m = C.tile_m,
                                   .tile_n = C.tile_n,
                                   .threads = C.threads(),
                                   .dynamic_smem_bytes = C.smem_bytes(),
                                   .persistence = C.persistence,
                                   .workers = sm_count(),
                                   .longest_first = true,
                                   .dtype = C.dtype,
                                   .head_dim = kHeadDim,
                                   .sm_count = sm_count(),
                                   .q_box = C.q_box(),
                                   .kv_box = C.kv_box()};
    geometry_ = launch_geometry(plan, params_);
    params_.section_heads = geometry_.section_heads;
    if (encode_attention_maps(encoding_calls(), plan, params_, maps_) != CUDA_SUCCESS) {
      end_section("a tensor map was refused");
    }
    check(cudaFuncSetAttribute(dense_hopper_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               C.smem_bytes()),
          "shared memory");
    wait();
  }

  void launch() const {
    dense_hopper_kernel<<<static_cast<unsigned>(geometry_.grid_x), C.threads(), C.smem_bytes(),
                          cudaStreamPerThread>>>(params_, maps_.q, maps_.k, maps_.v, maps_.o);
    check(cudaGetLastError(), "dense");
  }

 private:
  DenseTensors tensors_;
  AttentionParams params_;
  LaunchGeometry geometry_;
  AttentionMaps maps_;
};

template <std::size_t I>
void time_dense(const char* name, const Lengths& lengths, int splits) {
  std::vector<std::unique_ptr<DenseSet<I>>> sets;
  const int count = sets_for(lengths.floor_bytes());
  for (int set = 0; set < count; ++set) {
    sets.push_back(std::make_unique<DenseSet<I>>(lengths, static_cast<unsigned>(set), splits));
  }
  const double us = median_us([&](int i) { sets[static_cast<std::size_t>(i)]->launch(); }, count);
  std::printf("| %s | %s, %d splits | | %.1f | %.1f | | | %.2f | %.0f | |\n", lengths.name.c_str(),
              name, splits, lengths.floor_bytes() / kReadBytesPerUs, us,
              lengths.floor_bytes() / us / 1e6, lengths.flops() / us / 1e6);
  std::fflush(stdout);
}

/// Splits for one wave and for two. Kernels with splits have at least two: with one they would
/// leave parts where no memory is (operations/attention/launch_plan.h provides none).
template <std::size_t I>
void time_dense_decode(const char* name, const Lengths& lengths) {
  const int heads = static_cast<int>(lengths.q.size()) * kHeadsKv;
  int last = 1;
  for (const int waves : {1, 2}) {
    const int splits = waves * DenseSet<I>::resident() / heads;
    if (splits > last) {
      time_dense<I>(name, lengths, splits);
      last = splits;
    }
  }
}

Lengths decode(int batch, int mean, double sigma = 0.0) {
  Lengths lengths;
  lengths.name = std::to_string(batch) + " x " + std::to_string(mean / 1024) + "K";
  if (sigma > 0.0) {
    lengths.name += ", sigma " + std::to_string(sigma).substr(0, 3);
  }
  std::mt19937 random(7);
  std::lognormal_distribution<double> draw(std::log(mean) - sigma * sigma / 2, sigma);
  for (int i = 0; i < batch; ++i) {
    lengths.q.push_back(1);
    lengths.kv.push_back(sigma == 0.0 ? mean : std::max(1, static_cast<int>(draw(random))));
  }
  return lengths;
}

Lengths prompts(int batch, int rows, int cached = 0) {
  Lengths lengths;
  lengths.name = std::to_string(batch) + " x " + std::to_string(rows) +
                 (cached > 0 ? " on " + std::to_string(cached) : " new");
  lengths.q.assign(static_cast<std::size_t>(batch), rows);
  lengths.kv.assign(static_cast<std::size_t>(batch), rows + cached);
  return lengths;
}

void time_decode(const Lengths& lengths) {
  for (const char* const name :
       {"decode 128", "decode 128, 3 stages", "decode 128, 128 keys", "decode 128 run16",
        "decode 128 run16, 128 keys", "decode 128 rows"}) {
    time_serving(kernel_named(name), lengths);
  }
  for (const Dealing dealing : {Dealing{1, 1}, Dealing{0, 4}, Dealing{0, 8}, Dealing{0, 16}}) {
    time_serving(kernel_named("decode 128, 3 stages"), lengths, dealing);
  }
  for (const Dealing dealing : {Dealing{1, 1}, Dealing{0, 4}, Dealing{0, 8}}) {
    time_serving(kernel_named("decode 128, 128 keys"), lengths, dealing);
  }
  time_dense_decode<1>("dense 16x64, 2 stages", lengths);
  time_dense_decode<2>("dense 16x64, 3 stages", lengths);
  time_dense_decode<3>("dense 16x128, 2 stages", lengths);
  time_dense<4>("dense 16x64, 2 stages", lengths, 1);
}

/// What takes turns: a kernel with two sets of tensors.
struct Contender {
  std::string name;
  int page_size = 0;
  std::function<void(int)> launch;
  double off = 0.0;
  std::vector<double> times{};
};

Contender serving_contender(const char* name, Lengths lengths, int page_size) {
  lengths.page_size = page_size == 0 ? 16 : page_size;
  auto sets = std::make_shared<std::vector<std::unique_ptr<ServingSet>>>();
  for (unsigned set = 0; set < 2; ++set) {
    sets->push_back(std::make_unique<ServingSet>(kernel_named(name), lengths, set, Dealing{}));
  }
  const double off = (*sets)[0]->deviation();
  return {name, page_size,
          [sets](int i) { (*sets)[static_cast<std::size_t>(i)]->launch(Overlap::none); }, off};
}
template <typename Set, typename... More>
Contender dense_contender(const char* name, const Lengths& lengths, More... more) {
  auto sets = std::make_shared<std::vector<std::unique_ptr<Set>>>();
  for (unsigned set = 0; set < 2; ++set) {
    sets->push_back(std::make_unique<Set>(lengths, set, more...));
  }
  return {name, 0, [sets](int i) { (*sets)[static_cast<std::size_t>(i)]->launch(); }};
}

double time_of_us(const Contender& contender, int launches) {
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(cudaEventRecord(begin, cudaStreamPerThread), "event");
  for (int i = 0; i < launches; ++i) {
    contender.launch(i % 2);
  }
  check(cudaEventRecord(end, cudaStreamPerThread), "event");
  check(cudaEventSynchronize(end), "kernel");
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  return static_cast<double>(milliseconds) * 1000.0 / launches;
}

/// Every kernel in turn, round after round.
void time_in_turns(const Lengths& lengths, std::vector<Contender> all) {
  constexpr int kRounds = 15;
  for (int round = -1; round < kRounds; ++round) {
    for (Contender& contender : all) {
      const double us = time_of_us(contender, 4);
      if (round >= 0) {
        contender.times.push_back(us);
      }
    }
  }
  for (Contender& contender : all) {
    std::sort(contender.times.begin(), contender.times.end());
    const double us = contender.times[kRounds / 2];
    std::printf("| %s | %s | %d | %.1f | %.1f | | %.1f to %.1f | %.2f | %.0f | %.1e |\n",
                lengths.name.c_str(), contender.name.c_str(), contender.page_size,
                lengths.floor_bytes() / kReadBytesPerUs, us, contender.times.front(),
                contender.times.back(), lengths.floor_bytes() / us / 1e6,
                lengths.flops() / us / 1e6, contender.off);
  }
  std::fflush(stdout);
}

struct Timed {
  const char* kernel;
  int page_size;  ///< 0: rows.
};

std::vector<Contender> serving_contenders(const Lengths& lengths,
                                          std::initializer_list<Timed> all_timed) {
  std::vector<Contender> all;
  for (const Timed& timed : all_timed) {
    all.push_back(serving_contender(timed.kernel, lengths, timed.page_size));
  }
  return all;
}

void time_prompts(const Lengths& lengths) {
  std::vector<Contender> all = serving_contenders(lengths, {{"hopper 128 rows", 0},
                                                            {"hopper 128 pages of 16", 16},
                                                            {"hopper 128 pages of 64, bf16", 64},
                                                            {"hopper 128 pages of 16", 64},
                                                            {"hopper 128 pages of 256", 256},
                                                            {"hopper 128 cap rows", 0},
                                                            {"hopper 128 cap pages of 16", 16},
                                                            {"prefill 128", 16}});
  all.push_back(dense_contender<DenseHopperSet>("dense hopper 128x128", lengths));
  time_in_turns(lengths, std::move(all));
}

/// Where every Q tile ends in the middle of a page.
void time_cut_pages(const Lengths& lengths) {
  time_in_turns(lengths, serving_contenders(lengths, {{"hopper 128 rows", 0},
                                                      {"hopper 128 pages of 16", 16},
                                                      {"hopper 128 pages of 64, bf16", 64}}));
}

void time_window(const Lengths& lengths) {
  time_in_turns(lengths, serving_contenders(lengths, {{"hopper 128 window rows", 0},
                                                      {"hopper 128 window pages of 16", 16},
                                                      {"prefill 128 window", 16}}));
}

void time_chunk(const Lengths& lengths) {
  for (const char* const name :
       {"prefill 128", "chunks in ranges 128", "chunks in ranges 128, packed"}) {
    time_serving(kernel_named(name), lengths);
  }
}

/// Whose names contain `text`.
void add_everything(Sections& sections, const std::string& text) {
  const auto add = [&](const Lengths& lengths, auto take) {
    if (lengths.name.find(text) != std::string::npos) {
      sections.add(lengths.name, [lengths, take] { take(lengths); });
    }
  };
  for (const int batch : {1, 8, 64}) {
    for (const int keys : {8192, 32768}) {
      add(decode(batch, keys), time_decode);
    }
  }
  Lengths chunk = prompts(8, 512, 1001);
  chunk.name += " new";
  add(chunk, time_cut_pages);
  for (const int left : {127, 1023, 4095}) {
    Lengths lengths = prompts(1, 8192);
    lengths.left = left;
    lengths.name += ", window " + std::to_string(left + 1);
    add(lengths, time_window);
  }
  for (const Lengths& lengths : {prompts(1, 4096), prompts(8, 2048), prompts(1, 8192)}) {
    add(lengths, time_prompts);
  }
  add(prompts(1, 512, 32768), time_chunk);
  for (const double sigma : {0.0, 1.0, 1.4}) {
    add(decode(64, 4096, sigma), [](const Lengths& lengths) {
      time_serving(kernel_named("decode 128, 3 stages"), lengths);
    });
  }
  for (const int page_size : {1, 64, 256}) {
    Lengths lengths = decode(8, 8192);
    lengths.page_size = page_size;
    add(lengths,
        [](const Lengths& paged) { time_serving(kernel_named("decode 128, 3 stages"), paged); });
  }
}

}  // namespace
}  // namespace swr::gpu

int main(int argc, char** argv) {
  using namespace swr::gpu;
  Sections sections(argc > 1 ? std::atoi(argv[1]) : 55);
  add_everything(sections, argc > 2 ? argv[2] : "");
  std::printf(
      "| lengths | kernel | page | floor us | us | overlapping, lengths "
      "awaited | overlapping, or range | TB/s | TFLOP/s | "
      "largest "
      "difference from fp64 |\n|---|---|---|---|---|---|---|---|---|---|\n");
  return sections.run() == 0 ? 0 : 1;
}
