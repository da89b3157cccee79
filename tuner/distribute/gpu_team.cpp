// SPDX-License-Identifier: MIT
#include "tuner/distribute/gpu_team.h"

#include "core/json.h"

#include <algorithm>
#include <exception>
#include <future>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

namespace swr {

std::optional<std::size_t> HandOut::take() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (is_closed_) {
      return std::nullopt;
    }
    if (const auto piece = next_piece()) {
      ++in_hand_;
      return piece;
    }
    if (in_hand_ == 0) {
      return std::nullopt;
    }
    changed_.wait(lock);
  }
}

void HandOut::done() {
  const std::lock_guard lock(mutex_);
  --in_hand_;
  changed_.notify_all();
}

bool HandOut::give_back(std::size_t piece) {
  const std::lock_guard lock(mutex_);
  --in_hand_;
  const bool is_first_time = ever_returned_.insert(piece).second;
  if (is_first_time) {
    returned_.push_back(piece);
  } else {
    is_closed_ = true;  // At once, before a third thread takes it.
  }
  changed_.notify_all();
  return is_first_time;
}

void HandOut::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

std::optional<std::size_t> HandOut::next_piece() {
  if (returned_.empty()) {
    return source_();
  }
  const std::size_t piece = returned_.front();
  returned_.pop_front();
  return piece;
}

namespace {

/// An Error of an evaluator, told apart by its type from those of the store or the compiler.
class GpuLost : public Error {
 public:
  explicit GpuLost(const Error& error) : Error(error) {}
};

template <typename Ask>
auto marked(Ask&& ask) {
  try {
    return ask();
  } catch (const Error& error) {
    throw GpuLost(error);
  }
}

/// Marks what the evaluator throws.
class MarkingEvaluator final : public Evaluator {
 public:
  explicit MarkingEvaluator(std::unique_ptr<Evaluator> evaluator)
      : evaluator_(std::move(evaluator)) {}

  const DeviceInfo& device() const override { return evaluator_->device(); }

  void prepare(const Problem& problem) override { evaluator_->prepare(problem); }
  VariantResult evaluate(const Problem& problem, const Variant& variant,
                         const CompiledKernel& kernel) override {
    return marked([&] { return evaluator_->evaluate(problem, variant, kernel); });
  }
  void expect(const Problem& problem, std::span<const Contender> contenders) override {
    evaluator_->expect(problem, contenders);
  }
  std::size_t kernels_ahead() const override { return evaluator_->kernels_ahead(); }
  std::vector<CounterReading> count(const Problem& problem,
                                    std::span<const Contender> contenders) override {
    return marked([&] { return evaluator_->count(problem, contenders); });
  }
  std::vector<PowerReading> measure_power(const Problem& problem,
                                          std::span<const Contender> contenders) override {
    return marked([&] { return evaluator_->measure_power(problem, contenders); });
  }
  std::vector<AccessReading> count_accesses(const Problem& problem,
                                            std::span<const Contender> contenders) override {
    return marked([&] { return evaluator_->count_accesses(problem, contenders); });
  }
  RaceResult race(const Problem& problem, std::span<const Contender> contenders,
                  const RaceOptions& options) override {
    return marked([&] { return evaluator_->race(problem, contenders, options); });
  }

 private:
  std::unique_ptr<Evaluator> evaluator_;
};

class Team {
 public:
  Team(std::span<const int> gpus, const HandOut::Source& next, TeamWork& work)
      : gpus_(gpus), hand_out_(next), work_(work), devices_(gpus.size()), started_(size()) {}

  void run() {
    {
      std::vector<std::jthread> threads;
      // Breaks before the threads are waited for, when one of them cannot be started.
      std::promise<bool> may_work;
      const std::shared_future<bool> answer = may_work.get_future().share();
      for (std::size_t member = 0; member < gpus_.size(); ++member) {
        threads.emplace_back([this, member, answer] { be_member(member, answer); });
      }
      started_.wait();
      refuse_unequal();
      may_work.set_value(!failure_);
    }
    if (!failure_ && lost_ && hand_out_.take()) {
      failure_ = lost_;  // Work is left, and nobody to do it.
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  std::ptrdiff_t size() const { return static_cast<std::ptrdiff_t>(gpus_.size()); }

  /// The life of a member's thread.
  void be_member(std::size_t member, const std::shared_future<bool>& may_work) {
    const std::unique_ptr<Evaluator> evaluator = start(member);
    started_.count_down();
    try {
      if (may_work.get()) {
        take_pieces(member, *evaluator);
      }
    } catch (const GpuLost& lost) {
      note_loss(member, lost);
    } catch (...) {
      fail();
    }
  }

  std::unique_ptr<Evaluator> start(std::size_t member) {
    try {
      auto evaluator = std::make_unique<MarkingEvaluator>(work_.start(member));
      devices_[member] = evaluator->device();
      return evaluator;
    } catch (...) {
      fail();
      return nullptr;
    }
  }

  void take_pieces(std::size_t member, Evaluator& evaluator) {
    work_.check(member, evaluator, std::nullopt);
    while (const auto piece = hand_out_.take()) {
      tune(member, evaluator, *piece);
      work_.check(member, evaluator, piece);
    }
  }

  void tune(std::size_t member, Evaluator& evaluator, std::size_t piece) {
    try {
      work_.tune(member, evaluator, piece);
      hand_out_.done();
    } catch (const GpuLost&) {
      if (!hand_out_.give_back(piece)) {
        fail();
      }
      throw;
    }
  }

  void note_loss(std::size_t member, const GpuLost& lost) {
    const std::lock_guard lock(mutex_);
    work_.lost(member, lost);
    lost_ = std::current_exception();
  }

  /// Remembers the first exception; the others finish what they have.
  void fail() {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_ = std::current_exception();
    }
    hand_out_.close();
  }

  /// Requires: all members have started or failed to.
  void refuse_unequal() {
    const std::lock_guard lock(mutex_);
    for (std::size_t member = 1; member < devices_.size() && !failure_; ++member) {
      const std::string what = difference(devices_[0], devices_[member]);
      if (!what.empty()) {
        failure_ = std::make_exception_ptr(unequal_gpus(gpus_[0], gpus_[member], what));
      }
    }
  }

  std::span<const int> gpus_;
  HandOut hand_out_;
  TeamWork& work_;
  std::vector<DeviceInfo> devices_;
  std::latch started_;
  std::mutex mutex_;
  // Guarded by mutex_ while threads run.
  std::exception_ptr failure_;
  std::exception_ptr lost_;
};

}  // namespace

std::string difference(const DeviceInfo& a, const DeviceInfo& b) {
  const Json left = a;
  const Json right = b;
  for (const auto& [name, value] : left.items()) {
    if (value != right.at(name)) {
      return name + " is " + value.dump() + " and " + right.at(name).dump();
    }
  }
  return "";
}

Error unequal_gpus(int gpu, int other, const std::string& difference) {
  return {ErrorCode::invalid_argument,
          "GPUs " + std::to_string(gpu) + " and " + std::to_string(other) + " are not equal (" +
              difference +
              "), and results of unequal ones are never mixed; name equal ones with "
              "--gpus, and tune the others by a run of their own"};
}

void run_team(std::span<const int> gpus, const HandOut::Source& next, TeamWork& work) {
  Team(gpus, next, work).run();
}

}  // namespace swr
