// SPDX-License-Identifier: MIT
// A queue folder in any state: the input puts files into it, then a worker takes what it can.
#include "fuzz/harness.h"
#include "tuner/distribute/work_queue.h"
#include <swr/error.h>

#include <array>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <sys/stat.h>

namespace swr::fuzz {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string>& pieces() {
  static const std::vector<std::string> pieces{"first", "second", "third"};
  return pieces;
}

/// Names that are nearly those of pieces, and whatever else the input says.
std::string name_of(Bytes& input) {
  static constexpr std::array kNames{"000000",     "000001",      "000002",     "000003",
                                     "999999",     "0",           "-00001",     "000000~dead",
                                     "000001~a~b", ".DS_Store",   ".nfs0001",   "000001~me",
                                     "~",          "000002~dead", "4294967296", "000000 "};
  const unsigned choice = input.byte();
  if (choice < kNames.size()) {
    return kNames[choice];
  }
  std::string name(input.text(choice % 12));
  std::erase_if(name, [](char c) { return c == '/' || c == '\0'; });
  return name.empty() || name == "." || name == ".." ? "x" : name;
}

void age(const fs::path& file, unsigned kind) {
  constexpr time_t kDay = 86400;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const time_t moved = kind == 0 ? now.tv_sec : kind == 1 ? now.tv_sec - kDay : now.tv_sec + kDay;
  const std::array<timespec, 2> times{{{moved, 0}, {moved, 0}}};
  utimensat(AT_FDCWD, file.c_str(), times.data(), 0);
}

void put(const fs::path& root, Bytes& input) {
  static constexpr std::array kFolders{"open", "leased", "done", "."};
  const unsigned what = input.byte();
  const fs::path file = root / kFolders[what % 4] / name_of(input);
  std::error_code ignored;
  switch (what / 4 % 4) {
    case 0:
      fs::remove(file, ignored);
      break;
    case 1:
      fs::create_directories(file, ignored);
      break;
    default:
      std::ofstream(file).put('x');
      age(file, what / 16 % 3);
  }
}

/// A queue of the pieces, changed by the input.
void prepare(const fs::path& place, Bytes& input) {
  fs::remove_all(place);
  { const WorkQueue queue({.directory = place, .worker = "maker"}, pieces()); }
  for (unsigned left = input.byte() % 8; left > 0; --left) {
    put(place / "queue", input);
  }
}

/// Takes pieces until there is none, or others seem to have the rest.
void work(const fs::path& place) {
  constexpr std::chrono::milliseconds kLease{6};
  WorkQueue queue({.directory = place, .worker = "me", .lease = kLease}, pieces());
  std::set<std::size_t> claimed;
  int asked = 0;
  const auto enough = [&] { return ++asked > 4; };
  while (const auto piece = queue.claim(enough)) {
    require(*piece < pieces().size(), "a piece is one of the list");
    require(claimed.insert(*piece).second || claimed.size() <= pieces().size(),
            "work comes to an end");
    queue.finish();
    require(asked < 100, "a queue comes to an end");
  }
}

}  // namespace

void run_one(std::string_view input) {
  Bytes changes(input);
  const fs::path place = directory() / "work";
  prepare(place, changes);
  work(place);
}

}  // namespace swr::fuzz
