// SPDX-License-Identifier: MIT
#include "tuner/live/live_server.h"

#include <swr/error.h>

#include <httplib.h>
#include <mutex>
#include <thread>
#include <utility>

namespace swr {
namespace {

constexpr const char* kHost = "127.0.0.1";
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'";

void close_to_others(httplib::Response& response) {
  response.set_header("Content-Security-Policy", kPolicy);
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Cache-Control", "no-store");
}

}  // namespace

struct LiveServer::Impl {
  void answer(std::string page, State state) {
    server.new_task_queue = [] { return new httplib::ThreadPool(2); };
    // As usual it would share its port with whoever asks for it too.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          const std::string host = request.get_header_value("Host");
          const std::string number = ":" + std::to_string(port);
          const bool is_ours = host == kHost + number || host == "localhost" + number;
          response.status = is_ours ? response.status : 403;
          return is_ours ? httplib::Server::HandlerResponse::Unhandled
                         : httplib::Server::HandlerResponse::Handled;
        });
    server.Get("/", [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
      close_to_others(response);
      response.set_content(page, "text/html; charset=utf-8");
    });
    server.Get("/state", [this, state = std::move(state)](const httplib::Request&,
                                                          httplib::Response& response) {
      const std::lock_guard lock(mutex);
      close_to_others(response);
      response.set_content(state(), "application/json");
    });
  }

  httplib::Server server;
  int port = 0;
  std::mutex mutex;  ///< One state at a time.
  std::thread thread;
};

LiveServer::LiveServer(std::string page, State state, int port) : impl_(std::make_unique<Impl>()) {
  impl_->answer(std::move(page), std::move(state));
  const bool is_bound = port > 0 && impl_->server.bind_to_port(kHost, port);
  impl_->port = port > 0 ? (is_bound ? port : -1) : impl_->server.bind_to_any_port(kHost);
  if (impl_->port < 0) {
    throw Error(ErrorCode::invalid_argument,
                "port " + std::to_string(port) +
                    " of 127.0.0.1 cannot be listened on; name another with --port, or none");
  }
  impl_->thread = std::thread([this] { impl_->server.listen_after_bind(); });
  while (!impl_->server.is_running()) {
    std::this_thread::yield();  // stop() before that would be forgotten.
  }
}

LiveServer::~LiveServer() {
  impl_->server.stop();
  impl_->thread.join();
}

std::string LiveServer::url() const {
  return std::string("http://") + kHost + ":" + std::to_string(impl_->port) + "/";
}

}  // namespace swr
