// SPDX-License-Identifier: MIT
#include "tuner/distribute/team_progress.h"

#include "core/number_text.h"

#include <algorithm>
#include <utility>

namespace swr {

/// One GPU's part; the team's mutex guards it.
class TeamProgress::Member final : public Progress {
 public:
  Member(TeamProgress& team, int gpu) : team_(team), name_("GPU " + std::to_string(gpu)) {}

  void begin(const std::string& title, std::size_t total) override {
    const std::lock_guard lock(team_.mutex_);
    total_ = total;
    done_ = 0;
    works_ = true;
    phase_.clear();
    team_.line_.print(name_ + ": " + title);
  }
  void advance(const VariantResult& result) override {
    team_.update([&] {
      ++team_.tried_;
      count(result);
    });
  }
  void known(const VariantResult& result) override {
    team_.update([&] { count(result); });
  }
  void end() override {
    team_.update([&] {
      works_ = false;
      phase_.clear();
      ++team_.runs_done_;
    });
  }

  void phase(const std::string& doing) override {
    team_.update([&] { phase_ = doing; });
  }
  void tick() override { team_.tick(); }

  /// Requires: the team's mutex is held.
  bool works() const { return works_; }

  /// "GPU 1 40/96", and what it does where that is not evaluating.
  std::string status() const {
    return name_ + " " +
           (works_ ? std::to_string(done_) + "/" + std::to_string(std::max(total_, done_)) : "-") +
           (phase_.empty() ? "" : " " + phase_);
  }

 private:
  void count(const VariantResult& result) {
    ++done_;
    if (result.state != ResultState::ok) {
      ++team_.failures_[result.state];
    }
  }

  TeamProgress& team_;
  std::string name_;
  std::size_t total_ = 0;
  std::size_t done_ = 0;
  bool works_ = false;
  std::string phase_;
};

TeamProgress::TeamProgress(std::ostream& out, bool redraw, std::span<const int> gpus,
                           std::size_t runs, StatusLine::Clock clock, std::size_t width)
    : line_(out, redraw, std::move(clock), width), runs_(runs), started_(line_.now()) {
  for (const int gpu : gpus) {
    members_.push_back(std::make_unique<Member>(*this, gpu));
  }
}

TeamProgress::~TeamProgress() { line_.end(); }

Progress& TeamProgress::member(std::size_t number) { return *members_[number]; }

void TeamProgress::quietly(const std::function<void()>& write) {
  const std::lock_guard lock(mutex_);
  line_.end();
  write();
}

void TeamProgress::tick() {
  const std::lock_guard lock(mutex_);
  const bool works = std::ranges::any_of(members_, [](const auto& one) { return one->works(); });
  if (works && line_.is_due()) {
    line_.write(status());
  }
}

template <typename Change>
void TeamProgress::update(Change&& change) {
  const std::lock_guard lock(mutex_);
  change();
  if (line_.is_due()) {
    line_.write(status());
  }
}

std::string TeamProgress::status() const {
  const std::chrono::duration<double> elapsed = line_.now() - started_;
  std::string text =
      "[" + std::to_string(runs_done_) + "/" + std::to_string(std::max(runs_, runs_done_)) + "]";
  if (tried_ > 0 && elapsed.count() > 0.0) {
    text +=
        "  " + significant_text(static_cast<double>(tried_) / elapsed.count(), 3) + " variants/s";
  }
  for (const auto& member : members_) {
    text += "  " + member->status();
  }
  return text + failures_text(failures_);
}

}  // namespace swr
