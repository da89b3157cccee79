// SPDX-License-Identifier: MIT
// Kernels for unequal sequences with the memory of the emulation's harness, NaN wherever nobody may
// read: random problems against fp64 on the host, launches that begin before the one ahead has
// written what they read, equal bits wherever pages lie, replays of a graph with other lengths, and
// pages whose places take more than 32 bits. SWR_SERVING_KERNELS says how many kernels are drawn
// (default 8), each for 24 problems (or SWR_DRAWN_PROBLEMS); test i depends on i alone, so tests
// may be spread over processes.
#include "tests/emulation/serving_problem.h"

#include "operations/attention_serving/parts.h"
#include "operations/attention_serving/serving_launch.h"
#include "operations/guarded_rows.h"
#include "tests/emulation/append_problem.h"
#include "tests/gpu/device_arrays.h"
#include "tests/gpu/drawn_kernel.h"

namespace swr {
namespace {

using serving_test::ArrayUse;
using serving_test::drawn;
using serving_test::one_in;
using Lengths = serving_test::Problem;
using serving_test::Random;
using serving_test::ServingMemory;

/// One compiled variant.
class ServingKernel {
 public:
  ServingKernel(GpuBench& bench, const ServingAttentionProblem& kind, const DrawnKernel& drawn)
      : stream_(bench.stream),
        config_(config_of(kind, drawn.variant.as<ServingAttentionVariant>())),
        kernel_(drawn.compiled),
        plan_(plan_of(kind, drawn.variant.as<ServingAttentionVariant>(), bench.device.sm_count,
                      drawn.ctas_per_sm)) {
    kernel_.allow_dynamic_smem(smem_bytes_of(kind, drawn.variant.as<ServingAttentionVariant>()));
  }
  ServingKernel(GpuBench& bench, const ServingAttentionProblem& kind,
                const ServingAttentionVariant& variant)
      : ServingKernel(bench, kind, compiled_kernel(bench, kind, variant)) {}

  /// What the harness needs to know: no padding shifts the pages of the Hopper family.
  ServingAttentionConfig config() const {
    if (const auto* const portable = std::get_if<ServingAttentionConfig>(&config_)) {
      return *portable;
    }
    const auto& hopper = std::get<HopperServingConfig>(config_);
    return {.head_dim = hopper.head_dim,
            .head_dim_v = hopper.head_dim,
            .dtype = hopper.dtype,
            .mask = hopper.mask,
            .softcap = hopper.softcap,
            .kv_source = hopper.kv_source,
            .page_copy = PageCopy::run16};
  }
  Lengths drawn_lengths(Random& random, int size) const {
    Lengths lengths = serving_test::drawn_problem(config().page_copy, random, size);
    if (one_in(random, 2)) {
      lengths.workers = drawn(random, 1, 300);
    }
    if (const auto* const hopper = std::get_if<HopperServingConfig>(&config_)) {
      lengths.page_size = hopper->piece_rows << drawn(random, 0, 2);
    }
    return lengths;
  }
  ServingMemory memory(const Lengths& lengths, unsigned seed) const {
    return {config(), lengths, seed};
  }

  ServingLaunchPlan plan_for(const Lengths& lengths) const {
    ServingLaunchPlan plan = plan_;
    plan.workers = lengths.workers;
    return plan;
  }
  void enqueue(const ServingLaunch& launch, const ServingAttentionParams& params) const {
    launch_serving_attention({cuda_driver().launch_calls, kernel_.handles(),
                              overlap_where(kernel_.may_overlap()), stream_.handle()},
                             plan_.maps,
                             {.ctas = launch.grid_x,
                              .threads = launch.block_x,
                              .dynamic_smem_bytes = launch.dynamic_smem_bytes},
                             params);
  }

 private:
  const Stream& stream_;
  ServingFamilyConfig config_;
  Kernel kernel_;
  ServingLaunchPlan plan_;
};

/// Arrays that the launch before writes when the one after may already run.
struct LateArray {
  CUdeviceptr target;
  CUdeviceptr source;
  unsigned long long bytes;
};
constexpr const char* kWriteLate = R"(
struct LateArray { char* target; const char* source; unsigned long long bytes; };
extern "C" __global__ void swr_write_late(const LateArray* arrays, int count) {
  asm volatile("griddepcontrol.launch_dependents;");
  for (int i = 0; i < 100; ++i) {
    __nanosleep(1000);
  }
  for (int i = 0; i < count; ++i) {
    for (unsigned long long byte = threadIdx.x; byte < arrays[i].bytes; byte += blockDim.x) {
      arrays[i].target[byte] = arrays[i].source[byte];
    }
  }
}
)";

/// A problem on host and device, and one launch for it.
class Call {
 public:
  Call(const ServingKernel& kernel, ServingMemory memory, const Stream& stream)
      : kernel_(kernel),
        stream_(stream),
        memory_(std::move(memory)),
        launch_(memory_.prepare(kernel.plan_for(memory_.problem()))),
        arrays_(memory_),
        params_(memory_.params()) {
    ServingAttentionParams& p = params_;
    arrays_.translate(p.q, p.k, p.v, p.o, p.lse, p.sinks, p.partials, p.arrivals);
    SequenceLengths& lengths = p.lengths;
    arrays_.translate(lengths.cu_seqlens_q, lengths.seqused_q, lengths.cu_seqlens_k,
                      lengths.seqused_k, lengths.leftpad_k, lengths.kv_batch_index,
                      lengths.cu_seqlens_k_new);
    arrays_.translate(p.pages.table, p.pages.indptr, p.pages.indices, p.pages.last_page_len);
  }

  ServingMemory& memory() { return memory_; }
  const DeviceArrays& arrays() const { return arrays_; }
  ServingAttentionParams& params() { return params_; }

  void enqueue() const { kernel_.enqueue(launch_, params_); }
  void fetch() {
    stream_.synchronize();
    arrays_.fetch(memory_);
  }
  void run() {
    enqueue();
    fetch();
  }
  /// Behind a launch that lets this one begin, sleeps longer than that takes, and writes.
  void run_early(const Kernel& write_late) {
    constexpr unsigned char kNaN = 0xff;
    const bool lengths_too = !memory_.problem().lengths_are_ready;
    std::vector<DeviceBuffer> sources;
    std::vector<LateArray> late;
    arrays_.for_each(memory_,
                     [&](const DeviceBuffer& target, std::span<std::byte> bytes, ArrayUse use) {
                       if (use == ArrayUse::tensor || (lengths_too && use != ArrayUse::other)) {
                         sources.emplace_back(bytes.size()).upload(bytes);
                         late.push_back({target.address(), sources.back().address(), bytes.size()});
                         // Lengths of 0 and page 0 make the kernel end early or read NaN, and harm
                         // nothing.
                         target.fill(use == ArrayUse::tensor ? kNaN : 0, stream_);
                       }
                     });
    const DeviceBuffer list(late.size() * sizeof(LateArray));
    list.upload(std::as_bytes(std::span(late)));
    write_late.launch({.block_x = 1024}, stream_, list.address(), static_cast<int>(late.size()));
    enqueue();
    fetch();
  }

 private:
  const ServingKernel& kernel_;
  const Stream& stream_;
  ServingMemory memory_;
  ServingLaunch launch_;
  DeviceArrays arrays_;
  ServingAttentionParams params_;
};

void expect_right(ServingMemory& memory) {
  const int wrong = memory.wrong_values();
  const auto& first = memory.first_wrong();
  EXPECT_EQ(wrong, 0) << "first: sequence " << first.sequence << " query " << first.query
                      << " head " << first.head << " column " << first.column << " found "
                      << first.found << " expected " << first.expected << "; " << memory.problem();
  EXPECT_EQ(memory.disturbed(), 0) << memory.problem();
}

class ServingProblems : public GpuTest {
 protected:
  static Call call(const ServingKernel& kernel, const Lengths& lengths, unsigned seed) {
    return {kernel, kernel.memory(lengths, seed), bench().stream};
  }
  /// Bits of all results with the values of another problem that has the same sequences.
  static std::vector<float> results(const ServingKernel& kernel, const Lengths& lengths,
                                    const ServingMemory& values) {
    ServingMemory memory = kernel.memory(lengths, 2);
    memory.take_values(values);
    Call call(kernel, std::move(memory), bench().stream);
    call.run();
    return call.memory().results();
  }
  static bool has_hopper() { return bench().device.sm_arch == 90; }
};

class DrawnServingProblems : public ServingProblems, public ::testing::WithParamInterface<int> {
 protected:
  static ServingAttentionProblem drawn_kind(Random& random) {
    constexpr std::array<std::pair<int, int>, 6> kDims{
        {{64, 64}, {96, 96}, {128, 128}, {128, 128}, {192, 128}, {256, 256}}};
    constexpr std::array kPages{0, 16, 16, 8, 64, 128};
    const auto [head_dim, value_dim] = kDims[static_cast<std::size_t>(drawn(random, 0, 5))];
    ServingAttentionProblem kind{.batch = 8,
                                 .heads_q = 8,
                                 .heads_kv = 2,
                                 .seq_q = one_in(random, 2) ? 2 : 300,
                                 .seq_kv = 2000,
                                 .head_dim = head_dim,
                                 .head_dim_v = value_dim};
    kind.dtype = one_in(random, 2) ? DType::fp16 : DType::bf16;
    kind.mask = static_cast<ServingMask>(drawn(random, 0, 2));
    kind.window = kind.mask == ServingMask::window ? 100 : 0;
    kind.softcap = one_in(random, 2) ? Softcap::none : static_cast<Softcap>(drawn(random, 1, 2));
    kind.page_size = kPages[static_cast<std::size_t>(drawn(random, 0, 5))];
    return kind;
  }
  static Kernel write_late(const TempDirectory& overlay) {
    constexpr const char* kFile = "reference/shake_placement.cu";
    std::filesystem::create_directories(overlay.path() / "reference");
    std::ofstream(overlay.path() / kFile) << kWriteLate;
    GeneratorOptions options;
    options.template_overlay = overlay.path();
    return load_template(Generator(options), bench().device.sm_arch, kFile, "swr_write_late");
  }
};

TEST_P(DrawnServingProblems, AreRightAlsoBehindALaunchThatHasNotEnded) {
  Random random(static_cast<unsigned>(GetParam()));
  const ServingAttentionProblem kind = drawn_kind(random);
  const DrawnKernel drawn = drawn_kernel(bench(), kind, random);
  SCOPED_TRACE(to_string(Problem(kind)) + " " + to_key(drawn.variant));
  const ServingKernel kernel(bench(), kind, drawn);
  const TempDirectory overlay;
  const bool overlaps = drawn.compiled.may_overlap;
  const Kernel late = overlaps ? write_late(overlay) : Kernel();
  const int rounds = count_of("SWR_DRAWN_PROBLEMS", 24);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const Lengths lengths = kernel.drawn_lengths(random, round % 8 == 7 ? 4 : 1);
    Call one = call(kernel, lengths, static_cast<unsigned>(random()));
    if (overlaps && round % 4 == 3) {
      one.run_early(late);
    } else {
      one.run();
    }
    expect_right(one.memory());
  }
}

INSTANTIATE_TEST_SUITE_P(Drawn, DrawnServingProblems,
                         ::testing::Range(0, count_of("SWR_SERVING_KERNELS", 8)));

ServingAttentionProblem kind_of(int page_size) {
  return {.batch = 5,
          .heads_q = 8,
          .heads_kv = 2,
          .seq_q = 700,
          .seq_kv = 1700,
          .head_dim = 128,
          .head_dim_v = 128,
          .dtype = DType::bf16,
          .page_size = page_size};
}
constexpr ServingAttentionVariant kDecode{.pack_gqa = true};
constexpr ServingAttentionVariant kHopper{.family = Family::hopper,
                                          .tile_m = 128,
                                          .tile_n = 128,
                                          .warps = 8,
                                          .persistence = Persistence::persistent,
                                          .deal = Deal::whole,
                                          .page_copy = PageCopy::run16};

/// Two sequences and more, lengths that fill no tile.
Lengths unequal_sequences(std::vector<int> seq_q = {1, 5, 2, 0, 3}) {
  Lengths lengths;
  lengths.batch = 5;
  lengths.heads_q = 8;
  lengths.heads_kv = 2;
  lengths.max_seq_q = *std::ranges::max_element(seq_q);
  lengths.max_seq_kv = 1700;
  lengths.seq_q = std::move(seq_q);
  lengths.seq_kv = {1500, 33, 1700, 64, 0};
  lengths.workers = 132;
  return lengths;
}

/// The same values wherever they lie, however often: every bit of every result.
TEST_F(ServingProblems, PlacesOfKAndVChangeNoBit) {
  const ServingKernel kernel(bench(), kind_of(16), kDecode);
  const ServingKernel rows(bench(), kind_of(0), kDecode);
  Call first = call(kernel, unequal_sequences(), 1);
  first.run();
  const std::vector<float> expected = first.memory().results();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(results(kernel, unequal_sequences(), first.memory()) == expected) << i;
  }
  for (const int page_size : {1, 3, 7, 16, 19, 64, 256}) {
    for (const bool outside : {false, true}) {
      Lengths lengths = unequal_sequences();
      lengths.page_size = page_size;
      lengths.heads_outside_rows = lengths.k_and_v_together = outside;
      lengths.table_is_csr = !outside;
      EXPECT_TRUE(results(kernel, lengths, first.memory()) == expected) << lengths;
    }
  }
  for (const bool ragged : {false, true}) {
    Lengths lengths = unequal_sequences();
    lengths.ragged_k = ragged;
    EXPECT_TRUE(results(rows, lengths, first.memory()) == expected) << lengths;
  }
  Lengths alone = unequal_sequences();
  alone.workers = 1;  // Another order of additions: the test can fail.
  EXPECT_FALSE(results(kernel, alone, first.memory()) == expected);
}

/// The same of the Hopper family, whose boxes differ with the page, and under windows, whose ends
/// cut pages and tiles anywhere.
TEST_F(ServingProblems, PlacesOfKAndVChangeNoBitOfTheHopperFamily) {
  if (!has_hopper()) {
    GTEST_SKIP() << "needs sm_90";
  }
  for (const int window : {-1, 0, 3, 127}) {
    ServingAttentionProblem kinds[] = {kind_of(0), kind_of(16), kind_of(256)};
    Lengths lengths = unequal_sequences({700, 65, 128, 0, 1});
    for (ServingAttentionProblem& kind : kinds) {
      kind.mask = window < 0 ? ServingMask::causal : ServingMask::window;
      kind.window = std::max(window, 0);
    }
    lengths.window = {.left = window, .right = window % 2 == 0 ? 0 : 5};
    const ServingKernel rows(bench(), kinds[0], kHopper);
    const ServingKernel pages(bench(), kinds[1], kHopper);
    const ServingKernel long_pages(bench(), kinds[2], kHopper);
    Call first = call(rows, lengths, 1);
    first.run();
    const std::vector<float> expected = first.memory().results();
    for (const int page_size : {16, 48, 128, 256}) {
      for (const bool outside : {false, true}) {
        lengths.page_size = page_size;
        lengths.heads_outside_rows = lengths.k_and_v_together = outside;
        lengths.table_is_csr = !outside;
        EXPECT_TRUE(results(pages, lengths, first.memory()) == expected) << lengths;
        EXPECT_TRUE(page_size != 256 || results(long_pages, lengths, first.memory()) == expected)
            << lengths;
      }
    }
    lengths.ragged_k = true;
    lengths.ragged_q = false;
    EXPECT_TRUE(results(rows, lengths, first.memory()) == expected) << lengths;
  }
}

/// Several entries a lane of the list of sequences, several sequences an entry.
TEST_F(ServingProblems, LongBatchesAreRight) {
  const ServingKernel kernel(bench(), kind_of(16), kDecode);
  for (const int batch : {64, 513, 1025, 5000}) {
    Random random(static_cast<unsigned>(batch));
    Lengths lengths = kernel.drawn_lengths(random, 1);
    lengths.batch = batch;
    lengths.heads_q = lengths.heads_kv = lengths.max_seq_q = 1;
    lengths.max_seq_kv = 300;
    lengths.workers = 264;
    lengths.leftpad.clear();
    lengths.seq_q.clear();
    lengths.seq_kv.clear();
    for (int i = 0; i < batch; ++i) {
      lengths.seq_q.push_back(one_in(random, 3) ? 1 : 0);
      lengths.seq_kv.push_back(serving_test::drawn_length(random, 1, 300));
    }
    Call one = call(kernel, lengths, 1);
    one.run();
    expect_right(one.memory());
  }
}

/// A problem whose arrays and strides depend on the bounds alone.
Lengths replayed_lengths(unsigned seed) {
  Random random(seed);
  Lengths lengths;
  lengths.batch = 9;
  lengths.heads_q = 8;
  lengths.heads_kv = 2;
  lengths.max_seq_q = 4;
  lengths.max_seq_kv = 3000;
  lengths.k_and_v_together = true;
  lengths.lse_by_token = true;
  lengths.workers = 132;
  for (int i = 0; i < lengths.batch; ++i) {
    lengths.seq_q.push_back(seed == 0 ? 4 : drawn(random, 0, 4));
    lengths.seq_kv.push_back(seed == 0 ? 3000 : drawn(random, 0, 3000));
  }
  return lengths;
}

/// One graph, captured for the bounds, replayed with lengths and pages of other problems.
TEST_F(ServingProblems, GraphsReplayWithOtherLengths) {
  std::vector<std::unique_ptr<ServingKernel>> kernels;
  kernels.push_back(std::make_unique<ServingKernel>(bench(), kind_of(16), kDecode));
  for (const int page_size : {0, 16}) {
    if (has_hopper()) {
      kernels.push_back(std::make_unique<ServingKernel>(bench(), kind_of(page_size), kHopper));
    }
  }
  for (const auto& kernel : kernels) {
    Call bounds = call(*kernel, replayed_lengths(0), 1);
    const Graph graph(bench().stream, [&] { bounds.enqueue(); });
    for (unsigned replay = 0; replay < 8; ++replay) {
      ServingMemory other = kernel->memory(replayed_lengths(replay), replay);
      other.prepare(kernel->plan_for(other.problem()));
      bounds.arrays().upload(other);
      graph.launch(bench().stream);
      bench().stream.synchronize();
      bounds.arrays().fetch(other);
      expect_right(other);
    }
  }
}

/// Pages of a pool whose places need more than 32 bits.
TEST_F(ServingProblems, PagesMayLieFar) {
  constexpr std::size_t kPoolBytes = 9ULL << 30;
  for (const ServingAttentionVariant& variant : {kDecode, kHopper}) {
    if (variant.family == Family::hopper && !has_hopper()) {
      continue;
    }
    const ServingKernel kernel(bench(), kind_of(16), variant);
    Call far = call(kernel, unequal_sequences(), 3);
    const auto page_bytes = static_cast<std::size_t>(far.params().k_strides.batch) * 2;
    const std::size_t own = static_cast<std::size_t>(far.memory().container_count());
    const auto id_of = [&](std::size_t page) {
      return (kPoolBytes / page_bytes - 1) * (page + 1) / own;
    };
    const DeviceBuffer k_pool(kPoolBytes);
    const DeviceBuffer v_pool(kPoolBytes);
    for (const DeviceBuffer* const pool : {&k_pool, &v_pool}) {
      pool->fill(0xff, bench().stream);
    }
    bench().stream.synchronize();
    far.memory().for_each_page([&](int page, const void* k, const void* v) {
      const std::size_t place = id_of(static_cast<std::size_t>(page)) * page_bytes;
      cuda_driver().copy_to_device(k_pool.address() + place, k, page_bytes);
      cuda_driver().copy_to_device(v_pool.address() + place, v, page_bytes);
    });
    std::vector<int> table = far.memory().page_table();
    for (int& id : table) {
      const bool is_own = 0 <= id && static_cast<std::size_t>(id) < own;
      id = is_own ? static_cast<int>(id_of(static_cast<std::size_t>(id))) : id;
    }
    cuda_driver().copy_to_device(reinterpret_cast<CUdeviceptr>(far.params().pages.table),
                                 table.data(), table.size() * sizeof(int));
    // NOLINTBEGIN(performance-no-int-to-ptr): device addresses are integers.
    far.params().k = reinterpret_cast<const void*>(k_pool.address());
    far.params().v = reinterpret_cast<const void*>(v_pool.address());
    // NOLINTEND(performance-no-int-to-ptr)
    far.run();
    expect_right(far.memory());
  }
}

TEST_F(ServingProblems, OneWrongPageShows) {
  const ServingKernel kernel(bench(), kind_of(16), kDecode);
  Call one = call(kernel, unequal_sequences(), 4);
  std::vector<int> table = one.memory().page_table();
  table[5] = table[6];
  cuda_driver().copy_to_device(reinterpret_cast<CUdeviceptr>(one.params().pages.table),
                               table.data(), table.size() * sizeof(int));
  one.run();
  EXPECT_GT(one.memory().wrong_values(), 0);
}

TEST_F(ServingProblems, AppendedRowsLandTurnedAndNothingElseChanges) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const Kernel append = load_template(
        bench().generator, bench().device.sm_arch, "attention_serving/append/append_kv.cu",
        dtype == DType::bf16 ? "swr_append_kv_bf16" : "swr_append_kv_fp16");
    for (unsigned seed = 0; seed < 60 && !HasFailure(); ++seed) {
      serving_test::Appending problem(dtype, seed);
      const DeviceArrays arrays(problem);
      KvAppendParams p = problem.params();
      ServingAttentionParams& attention = p.attention;
      arrays.translate(attention.q, attention.k, attention.v, attention.pages.table,
                       attention.lengths.seqused_k, attention.lengths.cu_seqlens_q,
                       attention.lengths.cu_seqlens_k_new);
      arrays.translate(p.k_new, p.v_new, p.rotary.cos, p.rotary.sin, p.rotary.first_position,
                       p.q_rotated);
      const int ctas = append_ctas(problem.params(), bench().device.sm_count);
      append.launch({.grid_x = static_cast<unsigned>(ctas), .block_x = kThreadsBesideAttention},
                    bench().stream, p);
      bench().stream.synchronize();
      arrays.fetch(problem);
      EXPECT_EQ(problem.wrong_elements(), 0) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace swr
