// SPDX-License-Identifier: MIT
#include "tuner/cli/work_source.h"

#include <chrono>
#include <numeric>
#include <ostream>
#include <utility>

namespace swr::cli {

std::vector<std::size_t> places_of(const TuneSession& session, const ShardChoice& worker,
                                   const std::vector<std::string>& identities) {
  if (!session.options.queue) {
    return share_of(identities, worker.shard);
  }
  std::vector<std::size_t> all(identities.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

WorkSource::WorkSource(const TuneSession& session, const ShardChoice& worker,
                       const std::vector<std::string>& identities, std::vector<std::size_t> places)
    : session_(session), places_(std::move(places)) {
  if (session.options.queue) {
    queue_.emplace(WorkQueue::Options{.directory = *session.options.queue,
                                      .worker = worker.name,
                                      .lease = std::chrono::seconds(session.options.lease_s)},
                   identities);
  }
}

std::optional<std::size_t> WorkSource::next(const std::function<bool()>& stop_requested) {
  if (queue_) {
    return queue_->claim(stop_requested);
  }
  const bool is_left = taken_ < places_.size() && !stop_requested();
  return is_left ? std::optional(places_[taken_++]) : std::nullopt;
}

void WorkSource::give_back() { queue_.reset(); }

void WorkSource::done() {
  if (queue_ && !queue_->finish()) {
    session_.err << "swr-tune: note: the lease of this problem expired and another worker took it; "
                    "both results are stored\n"
                 << std::flush;
  }
}

}  // namespace swr::cli
