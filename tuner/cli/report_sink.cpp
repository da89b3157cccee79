// SPDX-License-Identifier: MIT
#include "tuner/cli/report_sink.h"

#include "report/report.h"
#include "tuner/cli/terminal_text.h"
#include "tuner/run/progress.h"
#include <swr/error.h>
#include <swr/version.h>

#include <chrono>
#include <condition_variable>
#include <ostream>
#include <sstream>
#include <utility>

namespace swr::cli {
namespace {

std::unique_ptr<Progress> make_display(const TuneSession& session) {
  if (session.common.quiet) {
    return std::make_unique<QuietProgress>();
  }
  return std::make_unique<StreamProgress>(session.err, session.environment.stderr_is_terminal,
                                          std::chrono::steady_clock::now,
                                          session.environment.stderr_width);
}

}  // namespace

Json document(const Session& session, Provenance provenance, const DeviceInfo& device) {
  Json json = Json::object();
  json["swr_version"] = SWR_VERSION;
  json["command"] = session.command_line;
  json["provenance"] = std::string(to_string(provenance));
  json["device"] = device;
  return json;
}

ReportSink::ReportSink(const TuneSession& session, Json document)
    : session_(session), json_(std::move(document)) {
  json_["reports"] = Json::array();
  if (session.options.csv) {
    csv_.emplace(session, *session.options.csv);
    write_csv_header(csv_->text());
  }
}

void ReportSink::add(const TuneReport& report, std::string_view note, const Json& more) {
  if (session_.common.json) {
    Json record = report_record(report);
    record.update(more);
    json_["reports"].push_back(std::move(record));
  } else {
    const Environment& environment = session_.environment;
    std::ostringstream text;
    print_report(text, report,
                 {.top = session_.options.top,
                  .verbose = session_.options.verbose,
                  .bold = environment.stdout_is_terminal && !environment.no_color,
                  .width = environment.stdout_width});
    session_.out << painted_for(environment, text.str()) << note << "\n";
  }
  session_.out.flush();
  if (csv_) {
    write_csv_rows(csv_->text(), report);
  }
}

void ReportSink::add(const std::vector<Agreement>& agreements) {
  if (session_.common.json) {
    json_["repeatability"] = agreements_record(agreements, FinalsOptions{}.tie_threshold);
  } else {
    print_agreements(session_.out, agreements, FinalsOptions{}.tie_threshold);
  }
}

void ReportSink::add(const RangeSearch& range) {
  if (session_.common.json) {
    json_["range"] = range_record(range.parts(), range.tuned());
  } else {
    print_range(session_.out, range.parts(), range.tuned(), session_.environment.stdout_width);
  }
}

void ReportSink::add(const std::vector<GpuHistory>& histories) {
  if (session_.common.json) {
    json_["gpus"] = gpu_histories_record(histories);
  } else {
    print_gpu_histories(session_.out, histories, session_.environment.stdout_width);
  }
}

void ReportSink::finish() {
  if (session_.common.json) {
    session_.out << json_document(json_);
  }
  if (csv_) {
    csv_->finish();
  }
}

ProgressSinks::ProgressSinks(const TuneSession& session, std::span<const int> gpus,
                             std::size_t runs)
    : session_(session), display_(make_display(session)) {
  if (session.options.events) {
    file_.open(session, *session.options.events);
  }
  if (gpus.size() > 1 && !session.common.quiet) {
    team_ = std::make_unique<TeamProgress>(session.err, session.environment.stderr_is_terminal,
                                           gpus, runs, std::chrono::steady_clock::now,
                                           session.environment.stderr_width);
  }
  if (gpus.empty()) {
    members_.push_back(std::make_unique<Member>(*display_, events_, Json::object()));
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    members_.push_back(std::make_unique<Member>(team_ ? team_->member(i) : *display_, events_,
                                                Json{{"gpu", gpus[i]}}));
  }
  ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
}

void ProgressSinks::tick(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kTick{200};
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!never.wait_for(lock, stop, kTick, [] { return false; }) && !stop.stop_requested()) {
    if (team_) {
      team_->tick();
    } else {
      display_->tick();
    }
  }
}

Progress& ProgressSinks::progress(std::size_t member) {
  Member& one = *members_[member];
  return session_.options.events ? static_cast<Progress&>(one.both) : one.display;
}

void ProgressSinks::quietly(const std::function<void()>& write) {
  if (team_) {
    team_->quietly(write);
  } else {
    write();
  }
}

void ProgressSinks::finish() {
  if (session_.options.events && !file_.stream().flush()) {
    throw Error(ErrorCode::not_writable, "cannot write all of " +
                                             session_.options.events->string() +
                                             "; standard output has all reports");
  }
}

ReportOrder::ReportOrder(ReportSink& sink, ProgressSinks& progress, Note note,
                         std::vector<std::size_t> order)
    : sink_(sink),
      progress_(progress),
      note_(std::move(note)),
      is_ordered_(!order.empty()),
      order_(order.begin(), order.end()) {}

void ReportOrder::add(std::size_t place, const TuneReport& report) {
  const std::lock_guard lock(mutex_);
  held_[place].reports.push_back(report);
  if (!is_ordered_) {
    pass_on(held_[place].reports);
  }
}

void ReportOrder::done(std::size_t place, std::optional<Agreement> agreement) {
  const std::lock_guard lock(mutex_);
  held_[place].is_done = true;
  if (agreement) {
    agreements_.insert_or_assign(place, *std::move(agreement));
  }
  while (!order_.empty() && held_[order_.front()].is_done) {
    pass_on(held_[order_.front()].reports);
    order_.pop_front();
  }
}

void ReportOrder::restart(std::size_t place) {
  const std::lock_guard lock(mutex_);
  held_.erase(place);
}

void ReportOrder::finish() {
  const std::lock_guard lock(mutex_);
  for (const std::size_t place : order_) {
    pass_on(held_[place].reports);
  }
  std::vector<Agreement> agreements;
  for (auto& [place, agreement] : agreements_) {
    agreements.push_back(std::move(agreement));
  }
  if (!agreements.empty()) {
    sink_.add(agreements);
  }
}

void ReportOrder::pass_on(std::vector<TuneReport>& reports) {
  for (const TuneReport& report : std::exchange(reports, {})) {
    progress_.quietly([&] { sink_.add(report, note_(report)); });
  }
}

}  // namespace swr::cli
