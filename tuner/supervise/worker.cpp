// SPDX-License-Identifier: MIT
#include "tuner/supervise/protocol.h"
#include "tuner/supervise/supervised_compiler.h"
#include <swr/error.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>

namespace swr {
namespace {

void require_socket(int socket) {
  struct stat status {};
  if (fstat(socket, &status) != 0 || !S_ISSOCK(status.st_mode)) {
    throw Error(ErrorCode::invalid_argument,
                "this process is started by swr-tune, not by hand: run swr-tune tune");
  }
}

/// The tuner's end of the connection. When the tuner is gone nobody needs an answer.
class Tuner {
 public:
  explicit Tuner(int socket) : socket_(socket) {}

  /// False when the tuner is gone.
  bool tell(const Json& document) const {
    const std::string frame = encode_frame(document);
    std::string_view unsent = frame;
    while (!unsent.empty()) {
      const ssize_t count = send(socket_, unsent.data(), unsent.size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR) {
        return false;
      }
      unsent.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
    }
    return true;
  }

  /// Empty when the tuner is gone.
  std::optional<Json> next_request() {
    std::array<char, 65536> buffer{};
    for (;;) {
      if (auto request = frames_.next()) {
        return request;
      }
      const ssize_t count = recv(socket_, buffer.data(), buffer.size(), 0);
      if (count == 0 || (count < 0 && errno != EINTR)) {
        return std::nullopt;
      }
      frames_.add({buffer.data(), count < 0 ? 0 : static_cast<std::size_t>(count)});
    }
  }

 private:
  int socket_;
  FrameReader frames_;
};

}  // namespace

void serve_evaluator(int socket,
                     const std::function<std::unique_ptr<Evaluator>()>& make_evaluator) {
  require_socket(socket);
  Tuner tuner(socket);
  try {
    const std::unique_ptr<Evaluator> evaluator = make_evaluator();
    if (ReferenceTrials* const trials = evaluator->reference_trials(); trials != nullptr) {
      trials->announce = [&](const Variant* variant) { tuner.tell(trial_note(variant)); };
    }
    bool listening = tuner.tell(greeting(evaluator->device()));
    while (listening) {
      const auto request = tuner.next_request();
      listening = request && tuner.tell(answer(*request, *evaluator));
    }
  } catch (const Error& error) {
    tuner.tell(error_answer(error));
  }
}

void serve_requests(int socket, const std::function<Json(const Json&)>& answer) {
  require_socket(socket);
  Tuner tuner(socket);
  for (bool listening = true; listening;) {
    const auto request = tuner.next_request();
    listening = request && tuner.tell(answer(*request));
  }
}

}  // namespace swr
