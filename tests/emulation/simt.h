// SPDX-License-Identifier: MIT
// Runs a CTA of a kernel template on the CPU: one fiber per CUDA thread, so that who runs when is
// chosen, not left to chance. Instructions that a whole warp executes exchange their operands
// here; see common/ptx.cuh beside this file, which stands in for the template of the same name.
#pragma once

#include "tests/emulation/fiber.h"
#include "tests/emulation/shared_traffic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#define __device__
#define __forceinline__ inline

struct Dim3 {
  unsigned x = 1;
};
inline Dim3 threadIdx;
inline Dim3 blockIdx;
inline Dim3 gridDim;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace emulation {

/// When cp.async and the copy engine move their bytes. The hardware may do either: late finds reads
/// before the wait, early finds copies into what is still being read.
enum class CopyTime { early, late };

/// Which warp runs: each in turn from one exchange to the next, or one of them as far ahead of the
/// others as barriers let it.
enum class Pace { together, first_warp_ahead, last_warp_ahead };

/// Which CTA runs before the others, which decides who combines what several have computed.
enum class CtaOrder { ascending, descending };

/// Faults that a test plants to see that it would notice them.
enum class Fault {
  none,
  copies_not_awaited,
  barriers_ignored,
  slots_not_awaited,   ///< Waits for mbarriers that count no bytes.
  launch_not_awaited,  ///< Waits for the launch before.
  turns_not_awaited,   ///< Waits for words that other CTAs publish.
};

struct Launch {
  unsigned grid = 1;
  int threads = 32;
  int smem_bytes = 0;
  CopyTime copies = CopyTime::early;
  Pace pace = Pace::together;
  Fault fault = Fault::none;
  CtaOrder ctas = CtaOrder::ascending;
  /// Leaves what the launch before writes, and uses what it reads, as late as may be: when no
  /// thread can go on without it.
  std::function<void()> end_launch_before = [] {};
  /// Told the address of every line that L2 is to fetch, and whether the launch before still ran.
  std::function<void(const void*, bool)> prefetch = [](const void*, bool) {};
};

/// Memory that the launch before writes when it ends, at last: until then it holds something else.
class LaunchBefore {
 public:
  template <typename Value>
  void writes(std::vector<Value>& values, Value meanwhile) {
    endings_.push_back(
        [&values, kept = values] { std::copy(kept.begin(), kept.end(), values.begin()); });
    std::fill(values.begin(), values.end(), meanwhile);
  }
  /// For Launch::end_launch_before.
  void operator()() const {
    for (const auto& end : endings_) {
      end();
    }
  }

 private:
  std::vector<std::function<void()>> endings_;
};

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "emulated block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
  std::abort();
}

/// A point that a number of threads reach before any of them goes on.
class Meeting {
 public:
  explicit Meeting(int members) : members_(members) {}
  /// Returns the round to wait for.
  long long arrive() {
    const long long mine = round_;
    if (++arrived_ == members_) {
      arrived_ = 0;
      ++round_;
    }
    return mine;
  }
  bool is_over(long long mine) const { return round_ != mine; }
  long long round() const { return round_; }
  /// True when the next to arrive completes the round.
  bool is_last() const { return arrived_ + 1 == members_; }

 private:
  int members_;
  int arrived_ = 0;
  long long round_ = 0;
};

/// An mbarrier: a phase ends when all have arrived and the bytes that were announced have come.
class TransactionBarrier {
 public:
  TransactionBarrier() = default;
  explicit TransactionBarrier(int members) : members_(members), missing_(members) {}

  void arrive() {
    --missing_;
    end_phase();
  }
  void expect(int bytes) {
    counts_bytes_ = true;
    missing_bytes_ += bytes;
    arrive();
  }
  /// `move` brings so many bytes: now, or when somebody waits for them.
  void complete_later(int bytes, std::function<void()> move);
  /// True when the phase of this parity has ended. Copies that can wait no longer are made.
  bool has_passed(unsigned parity) {
    if (missing_ == 0) {
      deliver();
    }
    return phase_ % 2 != parity;
  }
  bool counts_bytes() const { return counts_bytes_; }

 private:
  struct Pending {
    int bytes;
    std::function<void()> move;
  };

  void deliver() {
    for (const Pending& copy : std::exchange(pending_, {})) {
      copy.move();
      missing_bytes_ -= copy.bytes;
    }
    end_phase();
  }
  void end_phase() {
    if (missing_ == 0 && missing_bytes_ == 0) {
      missing_ = members_;
      ++phase_;
    }
  }

  int members_ = 0;
  int missing_ = 0;
  int missing_bytes_ = 0;
  unsigned phase_ = 0;
  bool counts_bytes_ = false;
  std::vector<Pending> pending_;
};

/// What the 32 lanes of a warp exchange. Two sets of slots take turns, so that a lane may leave
/// before the others have read.
struct Warp {
  using Slot = std::array<std::byte, 32>;
  struct Exchange {
    std::array<Slot, 32> operands;
    std::array<Slot, 32> results;
  };
  Meeting meeting{32};
  std::array<Exchange, 2> exchanges;
};

struct Copy {
  unsigned shared;
  const void* global;
  int bytes;
  int source_bytes;
};

/// Bulk copies to global memory that a thread has had started and waits for in groups, the oldest
/// first. CopyTime says when they are made.
class AsyncGroups {
 public:
  void issue(std::function<void()> work);
  void commit() { groups_.emplace_back(); }
  /// Until no more than `pending` groups are under way.
  void wait(std::size_t pending) {
    while (groups_.size() > pending + 1) {
      for (const auto& work : groups_.front()) {
        work();
      }
      groups_.erase(groups_.begin());
    }
  }

 private:
  /// The last is open.
  std::vector<std::vector<std::function<void()>>> groups_{1};
};

/// Products of a warpgroup that are under way. A group of them ends when all four warps have issued
/// it, for all of them at once; CopyTime says when a warp's part of one is computed. Who waits for
/// a group speaks for the warpgroup.
class WarpgroupProducts {
 public:
  void issue(std::function<void()> product);
  void commit();
  /// Until no more than `pending` of the thread's groups are under way.
  void wait(long long pending);

 private:
  struct Group {
    Meeting committed{128};
    std::vector<std::pair<unsigned, std::function<void()>>> products;  ///< With their threads.
  };

  std::map<long long, Group> groups_;
};

/// A named barrier: those who wait for it and those who only arrive.
struct NamedBarrier {
  explicit NamedBarrier(int threads) : meeting(threads) {}

  Meeting meeting;
  std::vector<unsigned> arrived;  ///< Threads, in this round.
};

/// One CUDA thread.
struct Thread {
  std::unique_ptr<Fiber> fiber;
  const Meeting* waits_at = nullptr;
  long long round = 0;
  TransactionBarrier* waits_for = nullptr;
  unsigned parity = 0;
  bool waits_for_launch = false;
  /// A word of global memory that another CTA is to publish, and what it is to hold.
  const unsigned* waits_for_word = nullptr;
  unsigned awaited_word = 0;
  /// Copies that have not moved, by group; the last group is open.
  std::vector<std::vector<Copy>> pending_copies{1};
  AsyncGroups stores;
  // Groups of products that it has committed and waited for.
  long long committed_products = 0;
  long long ended_products = 0;

  bool can_run(bool launch_before_ended) const {
    return !fiber->is_finished() && (!waits_for_launch || launch_before_ended) &&
           (waits_at == nullptr || waits_at->is_over(round)) &&
           (waits_for_word == nullptr || *waits_for_word == awaited_word) &&
           (waits_for == nullptr || waits_for->has_passed(parity));
  }
};

struct Cta {
  explicit Cta(const Launch& how)
      : launch(how),
        warps(static_cast<std::size_t>(how.threads / 32)),
        products(static_cast<std::size_t>((how.threads + 127) / 128)),
        threads(static_cast<std::size_t>(how.threads)),
        smem(static_cast<std::size_t>(how.smem_bytes), std::byte{0xff}),
        barrier(how.threads),
        traffic(how.threads) {}

  Launch launch;
  bool launch_before_ended = false;
  std::vector<Warp> warps;
  std::vector<WarpgroupProducts> products;  ///< Of every warpgroup.
  std::vector<Thread> threads;
  std::vector<std::byte> smem;
  Meeting barrier;
  /// Where the first thread to come called the barrier of a round from, and those who called it.
  std::vector<const void*> barrier_path;
  long long barrier_path_round = -1;
  std::map<unsigned, TransactionBarrier> transaction_barriers;  ///< By shared address.
  std::map<int, NamedBarrier> named_barriers;
  TrafficLog traffic;
};

inline Cta* cta = nullptr;

inline Warp& warp() { return cta->warps[threadIdx.x / 32]; }
inline Thread& thread() { return cta->threads[threadIdx.x]; }

inline std::byte* shared(unsigned address, std::size_t bytes) {
  if (address % bytes != 0) {
    fail("misaligned shared address");
  }
  if (address + bytes > cta->smem.size()) {
    fail("shared address past the end");
  }
  return cta->smem.data() + address;
}

inline TransactionBarrier& transaction_barrier(unsigned address) {
  shared(address, 8);
  return cta->transaction_barriers[address];
}

inline void TransactionBarrier::complete_later(int bytes, std::function<void()> move) {
  pending_.push_back({bytes, std::move(move)});
  if (cta->launch.copies == CopyTime::early) {
    deliver();
  }
}

inline WarpgroupProducts& products() { return cta->products[threadIdx.x / 128]; }

inline void AsyncGroups::issue(std::function<void()> work) {
  if (cta->launch.copies == CopyTime::early) {
    work();
  } else {
    groups_.back().push_back(std::move(work));
  }
}

inline void wait(TransactionBarrier& barrier, unsigned parity) {
  const Fault fault = cta->launch.fault;
  if (fault == Fault::copies_not_awaited ||
      (fault == Fault::slots_not_awaited && !barrier.counts_bytes())) {
    return;
  }
  Thread& self = thread();
  cta->traffic.start_next_epoch(threadIdx.x);
  if (!barrier.has_passed(parity)) {
    self.waits_for = &barrier;
    self.parity = parity;
    self.fiber->pause();
    self.waits_for = nullptr;
  }
}

inline void griddepcontrol_wait() {
  if (cta->launch_before_ended || cta->launch.fault == Fault::launch_not_awaited) {
    return;
  }
  Thread& self = thread();
  self.waits_for_launch = true;
  self.fiber->pause();
  self.waits_for_launch = false;
}

inline void wait_for_word(const unsigned* word, unsigned value) {
  if (*word == value || cta->launch.fault == Fault::turns_not_awaited) {
    return;
  }
  Thread& self = thread();
  self.waits_for_word = word;
  self.awaited_word = value;
  self.fiber->pause();
  self.waits_for_word = nullptr;
}

/// Waits for the end of the round that the thread has arrived in.
inline void wait_at(const Meeting& meeting, long long round) {
  Thread& self = thread();
  self.round = round;
  self.waits_at = &meeting;
  if (!meeting.is_over(self.round)) {
    self.fiber->pause();
  }
  self.waits_at = nullptr;
}
inline void meet(Meeting& meeting) {
  cta->traffic.start_next_epoch(threadIdx.x);
  wait_at(meeting, meeting.arrive());
}

inline void WarpgroupProducts::issue(std::function<void()> product) {
  if (cta->launch.copies == CopyTime::early) {
    product();
  } else {
    groups_[thread().committed_products].products.emplace_back(threadIdx.x, std::move(product));
  }
}
inline void WarpgroupProducts::commit() {
  groups_[thread().committed_products++].committed.arrive();
}
inline void WarpgroupProducts::wait(long long pending) {
  const unsigned self = threadIdx.x;
  for (long long& ended = thread().ended_products; ended < thread().committed_products - pending;
       ++ended) {
    Group& group = groups_[ended];
    wait_at(group.committed, 0);
    for (const auto& [thread, product] : std::exchange(group.products, {})) {
      threadIdx.x = thread;
      product();
    }
    threadIdx.x = self;
  }
}

/// Arrives at a named barrier of so many threads. Hardware counts arrivals, whoever makes them: one
/// who comes for the next round before others have come for this one ends it too early.
inline long long arrive_at(int number, int threads) {
  if (cta->launch.fault == Fault::barriers_ignored) {
    return 0;
  }
  NamedBarrier& barrier = cta->named_barriers.try_emplace(number, threads).first->second;
  if (std::find(barrier.arrived.begin(), barrier.arrived.end(), threadIdx.x) !=
      barrier.arrived.end()) {
    fail("a thread that arrives twice before a named barrier's round ends");
  }
  barrier.arrived.push_back(threadIdx.x);
  if (barrier.meeting.is_last()) {
    barrier.arrived.clear();
  }
  return barrier.meeting.arrive();
}
inline void sync_at(int number, int threads) {
  if (cta->launch.fault == Fault::barriers_ignored) {
    return;
  }
  cta->traffic.start_next_epoch(threadIdx.x);
  const long long round = arrive_at(number, threads);
  wait_at(cta->named_barriers.at(number).meeting, round);
}

#ifdef SWR_COMPARE_CALL_PATHS
/// The calls that have led this thread here, innermost first. In code that is not optimised, where
/// no call is compiled twice, two threads have the same calls behind them when they are at one
/// place of the program.
__attribute__((noinline)) inline std::vector<const void*> call_path() {
  std::vector<const void*> calls;
  const Fiber& fiber = *thread().fiber;
  // A frame begins with the place of its caller's; the address that it returns to is next.
  auto* frame = static_cast<void* const*>(__builtin_frame_address(0));
  while (fiber.has_on_stack(frame)) {
    calls.push_back(frame[1]);
    auto* const caller = static_cast<void* const*>(frame[0]);
    if (caller <= frame) {
      break;
    }
    frame = caller;
  }
  return calls;
}

/// A barrier of the CTA is one instruction that all of its threads come to (bar.sync is "aligned":
/// PTX leaves undefined what happens at several). Hardware counts arrivals, so that results alone
/// do not tell.
inline void expect_one_barrier() {
  std::vector<const void*> path = call_path();
  if (cta->barrier_path_round != cta->barrier.round()) {
    cta->barrier_path_round = cta->barrier.round();
    cta->barrier_path = std::move(path);
  } else if (path != cta->barrier_path) {
    fail("a barrier that the CTA's threads come to at several places");
  }
}
#else
inline void expect_one_barrier() {}
#endif

/// A warp-wide instruction: the last lane to come turns the operands of all into the results of
/// all, `compute(operands, results)`.
template <typename Result, typename Operand, typename Compute>
Result collective(const Operand& own, const Compute& compute) {
  static_assert(sizeof(Operand) <= sizeof(Warp::Slot) && sizeof(Result) <= sizeof(Warp::Slot));
  Warp& mine = warp();
  const unsigned lane = threadIdx.x % 32;
  Warp::Exchange& exchange = mine.exchanges[static_cast<std::size_t>(mine.meeting.round() % 2)];
  std::memcpy(exchange.operands[lane].data(), &own, sizeof own);
  if (mine.meeting.is_last()) {
    std::array<Operand, 32> operands;
    std::array<Result, 32> results;
    for (std::size_t i = 0; i < 32; ++i) {
      std::memcpy(&operands[i], exchange.operands[i].data(), sizeof(Operand));
    }
    compute(operands, results);
    for (std::size_t i = 0; i < 32; ++i) {
      std::memcpy(exchange.results[i].data(), &results[i], sizeof(Result));
    }
  }
  meet(mine.meeting);
  Result result;
  std::memcpy(&result, exchange.results[lane].data(), sizeof result);
  return result;
}

/// Runs threads [first, last) until each waits or has finished. True when any of them ran.
inline bool run_threads(std::size_t first, std::size_t last) {
  bool any = false;
  for (std::size_t i = first; i < last; ++i) {
    if (cta->threads[i].can_run(cta->launch_before_ended)) {
      threadIdx.x = static_cast<unsigned>(i);
      cta->threads[i].fiber->resume();
      any = true;
    }
  }
  return any;
}

inline bool run_warps(Pace pace) {
  const std::size_t warps = cta->warps.size();
  bool any = false;
  for (std::size_t i = 0; i < warps; ++i) {
    const std::size_t warp = pace == Pace::last_warp_ahead ? warps - 1 - i : i;
    while (run_threads(32 * warp, 32 * warp + 32)) {
      any = true;
      if (pace == Pace::together) {
        break;
      }
    }
  }
  return any;
}

/// The launch before ends for this CTA; for the first one it does now. False when it had.
inline bool end_launch_before(bool is_first_cta) {
  if (cta->launch_before_ended) {
    return false;
  }
  if (is_first_cta) {
    cta->launch.end_launch_before();
  }
  cta->launch_before_ended = true;
  return true;
}

/// Runs `kernel` in every thread of every CTA of a grid, one CTA after the other. Returns what the
/// accesses to shared memory cost.
inline SharedTraffic run(const Launch& launch, const std::function<void()>& kernel) {
  SharedTraffic traffic;
  gridDim.x = launch.grid;
  for (unsigned i = 0; i < launch.grid; ++i) {
    blockIdx.x = launch.ctas == CtaOrder::ascending ? i : launch.grid - 1 - i;
    Cta state(launch);
    cta = &state;
    for (Thread& thread : state.threads) {
      thread.fiber = std::make_unique<Fiber>(kernel);
    }
    while (run_warps(launch.pace) || end_launch_before(i == 0)) {
    }
    for (const Thread& thread : state.threads) {
      // A planted fault may end in one: what is not written then is wrong.
      if (!thread.fiber->is_finished() && launch.fault == Fault::none) {
        fail("deadlock: a barrier or warp-wide instruction that not all threads reach");
      }
    }
    traffic += state.traffic.total();
    cta = nullptr;
  }
  return traffic;
}

}  // namespace emulation

inline void __syncthreads() {
  if (emulation::cta->launch.fault != emulation::Fault::barriers_ignored) {
    emulation::expect_one_barrier();
    emulation::meet(emulation::cta->barrier);
  }
}
inline void __syncwarp() { emulation::meet(emulation::warp().meeting); }
inline void __threadfence() {}
inline void __stcg(float4* target, float4 value) { *target = value; }
inline void __stcg(float2* target, float2 value) { *target = value; }
inline float4 __ldcg(const float4* source) { return *source; }
inline float2 __ldcg(const float2* source) { return *source; }
inline float __fdividef(float a, float b) { return a / b; }
template <typename Value>
Value __ldg(const Value* source) {
  return *source;
}
inline unsigned atomicAdd(unsigned* target, unsigned value) {
  const unsigned old = *target;
  *target += value;
  return old;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }
template <typename Value>
Value __shfl_xor_sync(unsigned /*mask*/, Value value, int distance) {
  return emulation::collective<Value>(value, [&](const auto& values, auto& results) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      results[lane] = values[lane ^ static_cast<std::size_t>(distance)];
    }
  });
}
template <typename Value>
Value __shfl_sync(unsigned /*mask*/, Value value, int from) {
  struct Operand {
    Value value;
    int from;
  };
  return emulation::collective<Value>(Operand{value, from}, [](const auto& lanes, auto& results) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      results[lane] = lanes[static_cast<std::size_t>(lanes[lane].from % 32)].value;
    }
  });
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline bool __any_sync(unsigned /*mask*/, bool value) {
  return emulation::collective<bool>(value, [](const auto& values, auto& results) {
    bool any = false;
    for (const bool one : values) {
      any = any || one;
    }
    results.fill(any);
  });
}
inline bool __all_sync(unsigned mask, bool value) { return !__any_sync(mask, !value); }
