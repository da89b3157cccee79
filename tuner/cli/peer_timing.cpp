// SPDX-License-Identifier: MIT
#include "tuner/cli/peer_timing.h"

#include "core/bounded_json.h"
#include "core/embedded_file.h"
#include "core/json.h"
#include <swr/error.h>

#include <array>
#include <cstdio>
#include <memory>
#include <utility>

namespace swr {

std::span<const EmbeddedFile> peer_files();

}  // namespace swr

namespace swr::cli {
namespace {

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted + "'";
}

struct ClosePipe {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

/// What a command prints, errors included.
std::string output_of(const std::string& command) {
  constexpr std::size_t kMost = 1 << 16;
  const std::unique_ptr<FILE, ClosePipe> pipe(popen((command + " 2>&1").c_str(), "r"));
  std::string output;
  std::array<char, 4096> part{};
  while (pipe != nullptr && output.size() < kMost) {
    const std::size_t count = fread(part.data(), 1, part.size(), pipe.get());
    if (count == 0) {
      break;
    }
    output.append(part.data(), count);
  }
  return output;
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is the beginning.
}

[[noreturn]] void fail(const PeerChoice& choice, const std::string& why) {
  throw Error(ErrorCode::not_found, "--against " + choice.peer + ": " + why);
}

/// Null for what is no answer, such as the shell's word that there is no such program.
Json read_answer(const std::string& line) {
  try {
    return parse_json(line, "the helper's answer");
  } catch (const Error&) {
    return {};
  }
}

Json ask(const PeerChoice& choice, std::span<const Problem> problems, Json more) {
  more["peer"] = choice.peer;
  more["problems"] = Json::array();
  for (const Problem& problem : problems) {
    more["problems"].push_back(problem);
  }
  const std::string line = last_line(output_of(shell_quoted(choice.python) + " -c " +
                                               shell_quoted(peer_files().front().text) + " " +
                                               shell_quoted(more.dump())));
  const Json answer = read_answer(line);
  if (!answer.is_object()) {
    fail(choice, line.empty() ? choice.python + " said nothing" : line);
  }
  if (answer.contains("error")) {
    fail(choice, answer["error"].get<std::string>());
  }
  return answer;
}

}  // namespace

PeerChoice peer_choice(const TuneSession& session, const GpuChoice& gpu) {
  return {.peer = session.options.against,
          .python = session.environment.python.value_or("python3"),
          .ordinal = gpu.ordinal,
          .l2_state = session.common.l2_state};
}

void require_peer(const PeerChoice& choice, std::span<const Problem> problems) {
  ask(choice, problems, {{"probe", true}});
}

PeerTime time_peer(const PeerChoice& choice, const Problem& problem, const DeviceInfo& device) {
  const Json answer = ask(choice, {&problem, 1},
                          {{"probe", false},
                           {"gpu", choice.ordinal},
                           {"l2", std::string(to_string(choice.l2_state))},
                           {"l2_bytes", device.l2_bytes}});
  const Json time = answer.value("median_us", Json());
  if (!time.is_number() || !(time.get<double>() > 0.0)) {
    fail(choice, "the helper gave no time");
  }
  return {.call = choice.peer + " " + answer.value("version", "") + " " + answer.value("call", ""),
          .median_us = time.get<double>()};
}

}  // namespace swr::cli
