// SPDX-License-Identifier: MIT
// The kernels for unequal sequences on the GPU present, against fp64: the problems of the emulation
// tests and larger ones, and what only a GPU can show. A line per property; exit code 1 when any
// value is wrong, a launch fails, or time is over. README.md has the build and the command.
#include "experiments/gpu_checks/device_arrays.h"
#include "experiments/gpu_checks/sections.h"
#include "experiments/gpu_checks/serving_kernels.h"
#include "tests/emulation/append_problem.h"
#include "tests/emulation/serving_problem.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

namespace swr::gpu {
namespace {

using serving_test::ArrayUse;
using serving_test::drawn;
using serving_test::one_in;
using serving_test::Problem;
using serving_test::Random;
using serving_test::Row;
using serving_test::ServingMemory;

int host_threads = 1;
Sections* sections = nullptr;

/// One line of the report. `wrong` of `count` is what should be 0.
void report(const std::string& property, long long count, long long wrong) {
  std::printf("| %s | %lld | %lld |\n", property.c_str(), count, wrong);
  std::fflush(stdout);
  if (wrong != 0) {
    sections->count_failure();
  }
}

/// Runs take(0) to take(count - 1) on all host threads and adds up what they return.
long long sum_over(int count, const std::function<long long(int)>& take) {
  std::atomic<int> next = 0;
  std::atomic<long long> sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < host_threads; ++i) {
    threads.emplace_back([&] {
      for (int index = next++; index < count; index = next++) {
        sum += take(index);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return sum;
}

/// A problem's arrays in device memory, and its launch there.
template <ServingAttentionConfig C>
class OnDevice {
 public:
  explicit OnDevice(ServingMemory<C>& memory) : memory_(memory), launch_(memory.prepare()) {
    memory.for_each_array([&](auto& array, ArrayUse /*use*/) { arrays_.add(array); });
    params_ = translated(memory.params());
  }

  const ServingLaunch& launch() const { return launch_; }
  ServingAttentionParams& params() { return params_; }
  DeviceArrays& arrays() { return arrays_; }

  /// Brings everything back, so that writes where none belong show too.
  void fetch() {
    wait();
    arrays_.fetch_all();
  }

 private:
  ServingAttentionParams translated(ServingAttentionParams p) const {
    arrays_.translate(p.q, p.k, p.v, p.o, p.lse, p.sinks, p.partials, p.arrivals);
    SequenceLengths& lengths = p.lengths;
    arrays_.translate(lengths.cu_seqlens_q, lengths.seqused_q, lengths.cu_seqlens_k,
                      lengths.seqused_k, lengths.leftpad_k, lengths.kv_batch_index,
                      lengths.cu_seqlens_k_new);
    arrays_.translate(p.pages.table, p.pages.indptr, p.pages.indices, p.pages.last_page_len);
    return p;
  }

  ServingMemory<C>& memory_;
  ServingLaunch launch_;
  DeviceArrays arrays_;
  ServingAttentionParams params_;
};

/// Rows that swr_serving_attention_reference computes for what is in memory.
template <ServingAttentionConfig C>
class ReferenceRows {
 public:
  ReferenceRows(const ServingMemory<C>& memory, const ServingAttentionParams& params)
      : memory_(memory),
        heads_(static_cast<std::size_t>(params.heads_q)),
        o_(static_cast<std::size_t>(memory.query_rows()) * heads_ * C.head_dim_v),
        lse_(static_cast<std::size_t>(memory.query_rows()) * heads_) {
    auto* const o = static_cast<float*>(allocate(o_.size() * 4));
    auto* const lse = static_cast<double*>(allocate(lse_.size() * 8));
    // Rows that are no query stay NaN.
    fill(o, 0xff, o_.size() * 4);
    fill(lse, 0xff, lse_.size() * 8);
    launch_reference(C, params, ServingMemory<C>::scale(),
                     static_cast<double>(memory.problem().cap), o, lse);
    download(o_.data(), o, o_.size() * 4);
    download(lse_.data(), lse, lse_.size() * 8);
    release(o);
    release(lse);
  }

  Row operator()(int sequence, int query, int head) const {
    const std::size_t row = static_cast<std::size_t>(memory_.row_of(sequence, query)) * heads_ +
                            static_cast<std::size_t>(head);
    const auto first = o_.begin() + static_cast<long>(row * C.head_dim_v);
    return {.o = {first, first + C.head_dim_v}, .lse = lse_[row]};
  }

 private:
  const ServingMemory<C>& memory_;
  std::size_t heads_;
  std::vector<float> o_;
  std::vector<double> lse_;
};

/// A query that sees one key gets its row of V, also where fp32 has no normal number for fp16's: a
/// reference that flushes those is no reference.
void check_reference() {
  constexpr std::size_t kKernel = kernel_named("decode 128 fp16, 8 warps");
  constexpr ServingAttentionConfig C = kCheckedKernels[kKernel].config;
  Problem problem;
  problem.batch = 8;
  problem.value_scale = 2e-5F;
  problem.seq_q.assign(8, 1);
  problem.seq_kv.assign(8, 1);
  ServingMemory<C> memory(problem, 1);
  OnDevice<C> device(memory);
  const ReferenceRows<C> reference(memory, device.params());
  long long off = 0;
  for (int i = 0; i < problem.batch; ++i) {
    for (int head = 0; head < problem.heads_q; ++head) {
      const Row on_device = reference(i, 0, head);
      const Row on_host = memory.expected(i, 0, head);
      for (std::size_t d = 0; d < C.head_dim_v; ++d) {
        off += on_device.o[d] == on_host.o[d] ? 0 : 1;
      }
    }
  }
  report("the reference keeps subnormal values: host and device equal", problem.batch, off);
}

/// What the launch before may still write is written while the kernel may already run.
template <std::size_t I, ServingAttentionConfig C>
void run_early(ServingMemory<C>& memory, OnDevice<C>& device) {
  std::vector<LateArray> late;
  const bool lengths_too = !memory.problem().lengths_are_ready;
  memory.for_each_array([&](auto& array, ArrayUse use) {
    const bool is_late = use == ArrayUse::tensor || (lengths_too && use != ArrayUse::other);
    if (!is_late || array.empty()) {
      return;
    }
    const std::size_t bytes = array.size() * sizeof(array[0]);
    void* const source = allocate(bytes);
    upload(source, array.data(), bytes);
    void* const target = device.arrays().device_of(array);
    // Lengths of 0 and page 0 make the kernel end early or read NaN, and harm nothing.
    fill(target, use == ArrayUse::tensor ? 0xff : 0, bytes);
    late.push_back({target, source, bytes});
  });
  launch_serving_early(I, device.launch(), device.params(), late);
  for (const LateArray& one : late) {
    release(const_cast<void*>(one.source));
  }
}

/// Everything wrong with one problem of kernel I: values, and writes where none belong.
enum class Compared { with_host, with_device };
template <std::size_t I>
long long wrong_of(const Problem& problem, unsigned seed, Compared compared, bool early = false) {
  constexpr ServingAttentionConfig C = kCheckedKernels[I].config;
  ServingMemory<C> memory(problem, seed);
  OnDevice<C> device(memory);
  if (early) {
    run_early<I>(memory, device);
  } else {
    launch_serving(I, device.launch(), device.params());
  }
  long long wrong = 0;
  if (compared == Compared::with_device) {
    const ReferenceRows<C> reference(memory, device.params());
    device.fetch();
    wrong = memory.wrong_values(reference);
  } else {
    device.fetch();
    wrong = memory.wrong_values();
  }
  wrong += memory.disturbed();
  if (wrong != 0) {
    std::ostringstream text;
    const auto& first = memory.first_wrong();
    text << "first: sequence " << first.sequence << " query " << first.query << " head "
         << first.head << " column " << first.column << " found " << first.found << " expected "
         << first.expected << "; " << problem;
    std::fprintf(stderr, "%s, seed %u: %lld wrong; %s\n", kCheckedKernels[I].name, seed, wrong,
                 text.str().c_str());
  }
  return wrong;
}

template <std::size_t I>
Problem gpu_problem(Random& random, int size) {
  constexpr ServingAttentionConfig C = kCheckedKernels[I].config;
  Problem problem = serving_test::drawn_problem<C>(random, size);
  if (one_in(random, 2)) {
    problem.workers = drawn(random, 1, 300);
  }
  if (kCheckedKernels[I].is_hopper()) {
    problem.page_size = kCheckedKernels[I].piece_rows << drawn(random, 0, 2);
  }
  return problem;
}

template <std::size_t I>
void check_random(int rounds) {
  const std::string name = kCheckedKernels[I].name;
  const auto check = [&](const char* what, int count, int size, Compared compared, bool early) {
    report(name + what, count, sum_over(count, [&](int round) {
             const auto seed = static_cast<unsigned>(I * 100000U + 1000U * size + round);
             Random random(seed);
             return wrong_of<I>(gpu_problem<I>(random, size), seed, compared, early);
           }));
  };
  check(", small", rounds, 1, Compared::with_host, false);
  check(", larger", rounds, 8, Compared::with_device, false);
  check(", behind a launch that has not ended", rounds / 4, 1, Compared::with_device, true);
}

/// Two sequences and more, lengths that fill no tile.
Problem unequal_sequences() {
  Problem problem;
  problem.batch = 5;
  problem.heads_q = 8;
  problem.heads_kv = 2;
  problem.max_seq_q = 5;
  problem.max_seq_kv = 1700;
  problem.seq_q = {1, 5, 2, 0, 3};
  problem.seq_kv = {1500, 33, 1700, 64, 0};
  problem.workers = 132;
  return problem;
}

template <std::size_t I, typename First>
long long bits_off(const Problem& problem, const First& first, const std::vector<float>& expected) {
  constexpr ServingAttentionConfig C = kCheckedKernels[I].config;
  ServingMemory<C> other(problem, 2);
  other.take_values(first);
  OnDevice<C> device(other);
  launch_serving(I, device.launch(), device.params());
  device.fetch();
  const std::vector<float> found = other.results();
  long long off = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    off += found[i] == expected[i] ? 0 : 1;
  }
  return off;
}

/// The same values wherever they lie, however often: every bit of every result.
void check_bits() {
  constexpr ServingAttentionConfig C = kCheckedKernels[0].config;
  ServingMemory<C> first(unequal_sequences(), 1);
  OnDevice<C> device(first);
  launch_serving(0, device.launch(), device.params());
  device.fetch();
  const std::vector<float> expected = first.results();
  long long off = 0;
  for (int i = 0; i < 100; ++i) {
    off += bits_off<0>(unequal_sequences(), first, expected);
  }
  report("100 launches, pages permuted anew: bits equal", 100, off);
  off = 0;
  for (const int page_size : {1, 3, 7, 16, 19, 64, 256}) {
    for (const bool outside : {false, true}) {
      Problem problem = unequal_sequences();
      problem.page_size = page_size;
      problem.heads_outside_rows = outside;
      problem.k_and_v_together = outside;
      problem.table_is_csr = !outside;
      off += bits_off<0>(problem, first, expected);
    }
  }
  report("page sizes 1 to 256, NHD and HND, table and CSR: bits equal", 14, off);
  Problem runs = unequal_sequences();
  runs.page_size = 32;
  Problem ragged = unequal_sequences();
  ragged.ragged_k = true;
  report("runs of 16 rows, batch dimension, ragged rows: bits equal", 3,
         bits_off<1>(runs, first, expected) + bits_off<2>(unequal_sequences(), first, expected) +
             bits_off<2>(ragged, first, expected));
  Problem alone = unequal_sequences();
  alone.workers = 1;
  report("another order of additions: bits differ (the check can fail)", 1,
         bits_off<0>(alone, first, expected) == 0 ? 1 : 0);
}

/// Under a window, whose ends cut pages and tiles anywhere.
void check_hopper_window_bits(Problem problem) {
  constexpr std::size_t kRows = kernel_named("hopper 128 window rows");
  constexpr std::size_t kPages = kernel_named("hopper 128 window pages of 16");
  constexpr ServingAttentionConfig C = kCheckedKernels[kRows].config;
  long long off = 0;
  for (const int left : {-1, 0, 3, 16, 127, 300}) {
    problem.window = {.left = left, .right = left % 2 == 0 ? 0 : 5};
    ServingMemory<C> first(problem, 1);
    OnDevice<C> device(first);
    launch_serving(kRows, device.launch(), device.params());
    device.fetch();
    const std::vector<float> expected = first.results();
    for (const int page_size : {16, 48, 256}) {
      problem.page_size = page_size;
      off += bits_off<kPages>(problem, first, expected);
    }
  }
  report("hopper, windows, rows and pages of 16 to 256: bits equal", 18, off);
}

/// The same of kernels of the Hopper family, whose boxes differ with the page.
void check_hopper_bits() {
  constexpr std::size_t kRows = kernel_named("hopper 128 rows");
  constexpr std::size_t kPages16 = kernel_named("hopper 128 pages of 16");
  constexpr std::size_t kPages256 = kernel_named("hopper 128 pages of 256");
  constexpr ServingAttentionConfig C = kCheckedKernels[kRows].config;
  Problem problem = unequal_sequences();
  problem.max_seq_q = 700;
  problem.seq_q = {700, 65, 128, 0, 1};
  ServingMemory<C> first(problem, 1);
  OnDevice<C> device(first);
  launch_serving(kRows, device.launch(), device.params());
  device.fetch();
  const std::vector<float> expected = first.results();
  long long off = 0;
  for (int i = 0; i < 20; ++i) {
    off += bits_off<kPages16>(problem, first, expected);
  }
  report("hopper, 20 launches, pages permuted anew: bits equal to those of rows", 20, off);
  off = 0;
  for (const int page_size : {16, 48, 64, 128, 256}) {
    for (const bool outside : {false, true}) {
      problem.page_size = page_size;
      problem.heads_outside_rows = outside;
      problem.k_and_v_together = outside;
      problem.table_is_csr = !outside;
      off += bits_off<kPages16>(problem, first, expected);
      if (page_size % 128 == 0) {
        off += bits_off<kPages256>(problem, first, expected);
      }
    }
  }
  report("hopper, pages of 16 to 256, NHD and HND, table and CSR: bits equal", 14, off);
  problem.ragged_k = true;
  problem.ragged_q = false;
  report("hopper, ragged rows and a batch dimension: bits equal", 1,
         bits_off<kRows>(problem, first, expected));
  check_hopper_window_bits(problem);
}

/// Long batches: several entries a lane of the list, several sequences an entry.
void check_long_batches() {
  for (const int batch : {64, 512, 513, 1025, 5000}) {
    const auto wrong = [&](int round) {
      Random random(static_cast<unsigned>(batch + round));
      Problem problem = gpu_problem<0>(random, 1);
      problem.batch = batch;
      problem.heads_q = problem.heads_kv = 1;
      problem.max_seq_q = 1;
      problem.max_seq_kv = 300;
      problem.workers = 264;
      problem.leftpad.clear();
      problem.seq_q.clear();
      problem.seq_kv.clear();
      for (int i = 0; i < batch; ++i) {
        problem.seq_q.push_back(one_in(random, 3) ? 1 : 0);
        problem.seq_kv.push_back(serving_test::drawn_length(random, 1, 300));
      }
      return wrong_of<0>(problem, static_cast<unsigned>(round), Compared::with_device);
    };
    report("batch " + std::to_string(batch), 6, sum_over(6, wrong));
  }
}

/// A problem whose arrays and strides depend on the bounds alone.
Problem replayed_problem(unsigned seed) {
  Random random(seed);
  Problem problem;
  problem.batch = 9;
  problem.heads_q = 8;
  problem.heads_kv = 2;
  problem.max_seq_q = 4;
  problem.max_seq_kv = 3000;
  problem.k_and_v_together = true;
  problem.lse_by_token = true;
  problem.uses_fewer_q = false;
  problem.workers = 132;
  for (int i = 0; i < problem.batch; ++i) {
    problem.seq_q.push_back(seed == 0 ? 4 : drawn(random, 0, 4));
    problem.seq_kv.push_back(seed == 0 ? 3000 : drawn(random, 0, 3000));
  }
  return problem;
}

/// One graph, captured for the bounds, replayed with lengths and pages of other problems. The host
/// draws and compares in many threads, apart from the replays: its part takes thousands of times as
/// long as theirs, and a section that is ended for its length must not look like a kernel that
/// hangs.
template <std::size_t I>
void check_replay() {
  constexpr ServingAttentionConfig C = kCheckedKernels[I].config;
  constexpr int kReplays = 40;
  const std::clock_t cpu_began = std::clock();
  const double began = seconds_now();
  note("drawing problems");
  std::vector<std::unique_ptr<ServingMemory<C>>> others(kReplays);
  sum_over(kReplays, [&](int replay) -> long long {
    auto& other = others[static_cast<std::size_t>(replay)];
    other = std::make_unique<ServingMemory<C>>(replayed_problem(static_cast<unsigned>(replay)),
                                               static_cast<unsigned>(replay));
    other->prepare();
    return 0;
  });
  note("capturing");
  ServingMemory<C> bounds(replayed_problem(0), 1);
  OnDevice<C> device(bounds);
  const CapturedServing graph(I, device.launch(), device.params());
  const double drawn_at = seconds_now();
  for (int replay = 0; replay < kReplays; ++replay) {
    ServingMemory<C>& other = *others[static_cast<std::size_t>(replay)];
    std::ostringstream text;
    text << "replay " << replay << ", which has not ended: " << other.problem();
    device.arrays().replace(other, bounds);
    wait();
    note(text.str());
    graph.replay();
    wait();
    note("fetching of replay " + std::to_string(replay));
    device.arrays().fetch_into(other, bounds);
  }
  const double replayed_at = seconds_now();
  note("comparing");
  const long long wrong = sum_over(kReplays, [&](int replay) -> long long {
    ServingMemory<C>& other = *others[static_cast<std::size_t>(replay)];
    return other.wrong_values() + other.disturbed();
  });
  report(std::string(kCheckedKernels[I].name) + ", one graph replayed with other lengths", kReplays,
         wrong);
  std::fprintf(stderr,
               "%s, replay: problems drawn in %.2f s, replayed in %.2f s, compared in %.2f s; "
               "%.2f s of all CPUs\n",
               kCheckedKernels[I].name, drawn_at - began, replayed_at - drawn_at,
               seconds_now() - replayed_at,
               static_cast<double>(std::clock() - cpu_began) / CLOCKS_PER_SEC);
}

/// Pages of a pool whose places need more than 32 bits.
template <std::size_t I>
void check_far_pages() {
  constexpr ServingAttentionConfig C = kCheckedKernels[I].config;
  Problem problem = unequal_sequences();
  problem.page_size = 16;
  ServingMemory<C> memory(problem, 3);
  OnDevice<C> near(memory);
  const long long page_bytes = near.params().k_strides.batch * 2;
  const long long pool =
      std::min<long long>(static_cast<long long>(free_bytes()) * 2 / 5, 40LL << 30);
  const long long pages = pool / page_bytes;
  const int own = memory.container_count();
  std::vector<void*> pools{allocate(static_cast<std::size_t>(pages * page_bytes)),
                           allocate(static_cast<std::size_t>(pages * page_bytes))};
  std::vector<int> ids(static_cast<std::size_t>(own));
  for (int page = 0; page < own; ++page) {
    ids[static_cast<std::size_t>(page)] = static_cast<int>((pages - 1) * (page + 1) / own);
  }
  for (void* const one : pools) {
    fill(one, 0xff, static_cast<std::size_t>(pages * page_bytes));
  }
  memory.for_each_page([&](int page, const void* k, const void* v) {
    const long long place = ids[static_cast<std::size_t>(page)] * page_bytes;
    const long long v_bytes = near.params().v_strides.batch * 2;
    upload(static_cast<char*>(pools[0]) + place, k, static_cast<std::size_t>(page_bytes));
    upload(static_cast<char*>(pools[1]) + ids[static_cast<std::size_t>(page)] * v_bytes, v,
           static_cast<std::size_t>(v_bytes));
  });
  std::vector<int> table = memory.page_table();
  for (int& id : table) {
    id = 0 <= id && id < own ? ids[static_cast<std::size_t>(id)] : id;
  }
  upload(const_cast<int*>(near.params().pages.table), table.data(), table.size() * sizeof(int));
  near.params().k = pools[0];
  near.params().v = pools[1];
  launch_serving(I, near.launch(), near.params());
  near.fetch();
  report(std::string(kCheckedKernels[I].name) + ", pages up to byte " +
             std::to_string(ids.back() * page_bytes),
         1, memory.wrong_values() + memory.disturbed());
  release(pools[0]);
  release(pools[1]);
}

/// A table with one wrong id must show.
void check_planted_fault() {
  constexpr ServingAttentionConfig C = kCheckedKernels[0].config;
  ServingMemory<C> memory(unequal_sequences(), 4);
  OnDevice<C> device(memory);
  std::vector<int> table = memory.page_table();
  table[5] = table[6];
  upload(const_cast<int*>(device.params().pages.table), table.data(), table.size() * sizeof(int));
  launch_serving(0, device.launch(), device.params());
  device.fetch();
  report("one wrong page id shows (the check can fail)", 1, memory.wrong_values() > 0 ? 0 : 1);
}

template <DType Type>
void check_append(const char* name, int rounds) {
  report(name, rounds, sum_over(rounds, [](int round) -> long long {
           serving_test::Appending<Type> problem(static_cast<unsigned>(round));
           KvAppendParams params = problem.params();
           DeviceArrays arrays;
           problem.for_each_array([&](auto& array) { arrays.add(array); });
           ServingAttentionParams& attention = params.attention;
           arrays.translate(attention.q, attention.k, attention.v, attention.pages.table,
                            attention.lengths.seqused_k, attention.lengths.cu_seqlens_q,
                            attention.lengths.cu_seqlens_k_new);
           arrays.translate(params.k_new, params.v_new, params.rotary.cos, params.rotary.sin,
                            params.rotary.first_position, params.q_rotated);
           launch_append(Type, params);
           wait();
           arrays.fetch_all();
           return problem.wrong_elements();
         }));
}

template <std::size_t... I>
void add_all_random(int rounds, std::index_sequence<I...> /*kernels*/) {
  (sections->add(kCheckedKernels[I].name, [rounds] { check_random<I>(rounds); }), ...);
}

template <std::size_t I>
void add_replay() {
  sections->add(std::string(kCheckedKernels[I].name) + ", replay", check_replay<I>);
}
template <std::size_t I>
void add_far_pages() {
  sections->add(std::string(kCheckedKernels[I].name) + ", far pages", check_far_pages<I>);
}

void add_everything(int rounds) {
  sections->add("a planted fault", check_planted_fault);
  sections->add("the reference", check_reference);
  sections->add("equal bits", check_bits);
  sections->add("equal bits, hopper", check_hopper_bits);
  add_replay<0>();
  add_replay<kernel_named("decode 64")>();
  add_replay<kernel_named("chunks in ranges 128")>();
  add_replay<kernel_named("hopper 128 rows")>();
  add_replay<kernel_named("hopper 128 pages of 16")>();
  add_replay<kernel_named("hopper 128 window pages of 16")>();
  add_all_random(rounds, std::make_index_sequence<kCheckedCount>());
  sections->add("long batches", check_long_batches);
  sections->add("append, bf16", [rounds] { check_append<DType::bf16>("append, bf16", rounds); });
  sections->add("append, fp16", [rounds] { check_append<DType::fp16>("append, fp16", rounds); });
  add_far_pages<0>();
  add_far_pages<1>();
  add_far_pages<kernel_named("prefill 128")>();
  add_far_pages<kernel_named("hopper 128 pages of 16")>();
}

}  // namespace
}  // namespace swr::gpu

int main(int argc, char** argv) {
  using namespace swr::gpu;
  const auto number = [&](int index, int usual) {
    return argc > index ? std::atoi(argv[index]) : usual;
  };
  host_threads = number(2, 16);
  Sections all(number(3, 55), number(5, 25));
  sections = &all;
  add_everything(number(1, 24));
  std::printf("| property | problems | wrong |\n|---|---|---|\n");
  if (argc > 4) {
    all.keep(argv[4]);  // Those whose names contain it.
  }
  const int lost = all.run();
  std::printf("%d properties failed, %d sections had a fault or were not reached\n", all.failures(),
              lost);
  return lost == 0 && all.failures() == 0 ? 0 : 1;
}
