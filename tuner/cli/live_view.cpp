// SPDX-License-Identifier: MIT
#include "tuner/cli/live_view.h"

#include "core/json.h"
#include "driver/devices.h"
#include "driver/nvml.h"
#include "report/page/page_data.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/options.h"
#include "tuner/live/live_state.h"
#include "tuner/measure/power_meter.h"
#include <swr/error.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <ostream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace swr::cli {
namespace {

namespace fs = std::filesystem;

double now() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

/// A file of events and what it comes to.
struct Followed {
  explicit Followed(const fs::path& file) : follower(file) {}

  void read_until(std::chrono::steady_clock::time_point end) {
    bool is_more = true;
    while (is_more && std::chrono::steady_clock::now() < end) {
      const EventFollower::News news = follower.read();
      if (news.is_new_file) {
        state = LiveState{};
      }
      for (const std::string& line : news.lines) {
        state.take(line);
      }
      is_more = news.is_more;
    }
  }

  EventFollower follower;
  LiveState state;
};

/// The GPUs of this machine, which need not be those that are tuned on.
class Gpus {
 public:
  Gpus() {
    try {
      const std::vector<DeviceInfo> devices = list_devices();
      for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
        names_.push_back(devices[static_cast<std::size_t>(i)].name);
        monitors_.push_back(std::make_unique<GpuMonitor>(i));
      }
    } catch (const Error& error) {
      unknown_because_ = error.what();
    }
  }

  Json read() const {
    Json json = Json::array();
    for (std::size_t i = 0; i < monitors_.size(); ++i) {
      constexpr double kMilliwatts = 1e3;
      const GpuCondition condition = monitors_[i]->read();
      const auto of = [](const std::optional<long long>& value) {
        return value ? Json(*value) : Json();
      };
      json.push_back({{"number", i},
                      {"name", names_[i]},
                      {"sm_clock_mhz", of(condition.sm_clock_mhz)},
                      {"memory_clock_mhz", of(condition.memory_clock_mhz)},
                      {"temperature_c", of(condition.temperature_c)},
                      {"power_w", condition.power_mw
                                      ? Json(static_cast<double>(*condition.power_mw) / kMilliwatts)
                                      : Json()},
                      {"slowed_by", degraded_because(condition, std::nullopt)}});
    }
    return json;
  }

  const std::string& unknown_because() const { return unknown_because_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<GpuMonitor>> monitors_;
  std::string unknown_because_;
};

/// A folder of this user alone: others may write to the one around it.
fs::path made_folder() {
  std::error_code failure;
  std::string name = (fs::temp_directory_path(failure) / "swr-events-XXXXXX").string();
  if (failure || mkdtemp(name.data()) == nullptr) {
    const std::string cause = failure ? failure.message() : std::generic_category().message(errno);
    throw Error(ErrorCode::not_writable,
                "there is no folder for the events of --watch (" + cause +
                    "); set TMPDIR to a folder that can be written, or name a file with --events");
  }
  return name;
}

}  // namespace

class LiveView::Watched {
 public:
  explicit Watched(fs::path path) : path_(std::move(path)) {}

  std::string state() {
    const bool is_folder = fs::is_directory(path_);
    const std::vector<fs::path> files =
        is_folder ? event_files(path_) : std::vector<fs::path>{path_};
    read_some_of(files);
    Json json = {{"source", path_.string()}, {"now", now()}, {"sources", Json::array()}};
    for (const fs::path& file : files) {
      Json source = of(file).state.snapshot();
      source["name"] = file.filename().string();
      json["sources"].push_back(std::move(source));
    }
    json["queue"] = is_folder ? queue_json(path_) : Json();
    json["gpus"] = gpus_.read();
    json["gpus_unknown"] = gpus_.unknown_because();
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  /// A browser asks again in a second: what is long comes in parts, of each file in its turn.
  void read_some_of(const std::vector<fs::path>& files) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    for (std::size_t i = 0; i < files.size() && std::chrono::steady_clock::now() < end; ++i) {
      of(files[turn_++ % files.size()]).read_until(end);
    }
  }

  Followed& of(const fs::path& file) {
    return followed_.try_emplace(file.string(), file).first->second;
  }

  fs::path path_;
  std::map<std::string, Followed> followed_;
  std::size_t turn_ = 0;
  Gpus gpus_;
};

LiveView::LiveView(const fs::path& watched, int port)
    : watched_(std::make_unique<Watched>(watched)),
      server_(std::make_unique<LiveServer>(
          render_live_page(), [this] { return watched_->state(); }, port)) {}

LiveView::~LiveView() = default;

WatchedRun::WatchedRun(const TuneSession& asked) : session_(asked) {
  if (!asked.options.watch) {
    return;
  }
  if (!session_.options.events) {
    own_folder_ = made_folder();
    session_.options.events = own_folder_ / "events.jsonl";
  }
  view_ = std::make_unique<LiveView>(*session_.options.events, asked.options.port);
  asked.err << "swr-tune: live view on " + view_->url() + " (this machine only)\n" << std::flush;
}

void WatchedRun::end() {
  view_.reset();
  std::error_code ignored;
  if (!own_folder_.empty()) {
    fs::remove_all(own_folder_, ignored);
  }
}

// swr-tune watch: a run as a page, while it goes on.

namespace {

struct WatchArguments {
  std::filesystem::path watched;  ///< File or folder.
  int port = 0;
};

int run_watch(const Session& session, const WatchArguments& asked) {
  constexpr std::chrono::milliseconds kAskEvery{100};
  const std::filesystem::path& watched = asked.watched;
  if (!std::filesystem::exists(watched)) {
    throw Error(ErrorCode::not_found, watched.string() +
                                          " does not exist; name the file of tune --events, or the "
                                          "folder of tune --queue");
  }
  const InterruptListener interrupt;
  const LiveView view(watched, asked.port);
  session.out << "watching " << watched.string() << " on " << view.url()
              << " (this machine only); Ctrl-C ends\n"
              << std::flush;
  while (!interrupt.interrupted()) {
    std::this_thread::sleep_for(kAskEvery);
  }
  return kExitSuccess;
}

}  // namespace

void add_watch(CommandLine& line) {
  auto [options, asked] = line.add<WatchArguments>(
      {.name = "watch",
       .meaning = "Show a run as a page on this machine while it goes on",
       .footer =
           "A file is one of tune --events. A folder is that of tune --queue, or any with files of "
           "events (.jsonl) of several workers. The page is served to this machine alone; from "
           "another one, ssh -L 8080:127.0.0.1:8080 HOST brings it over.\n\n"
           "Examples:\n"
           "  swr-tune watch events.jsonl\n"
           "  swr-tune watch results --port 8080",
       .group = "Tune"},
      run_watch);
  options.add("path PATH", asked.watched, "File of events, or folder", {.is_required = true});
  add_port_option(options, asked.port);
}

}  // namespace swr::cli
