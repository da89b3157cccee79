// SPDX-License-Identifier: MIT
// A page and its data need little of HTTP. Whoever connects is a stranger, and the run must go on
// whatever he sends: one thread waits for all, and each connection has bounds of its own.
#include "tuner/live/live_server.h"

#include "core/ascii.h"
#include "core/files.h"
#include "core/reject.h"
#include "core/trimmed.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <list>
#include <netinet/in.h>
#include <poll.h>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace swr {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHost = "127.0.0.1";
constexpr std::size_t kMostConnections = 16;
constexpr std::size_t kMostRequestBytes = 8192;
/// For the whole request, and again for the whole answer.
constexpr std::chrono::seconds kDeadline{5};

constexpr std::string_view kHeaders =
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data:; connect-src 'self'\r\n"
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n";

std::string answer_of(std::string_view status, std::string_view type = "text/plain",
                      std::string_view body = "") {
  std::string text = "HTTP/1.1 " + std::string(status) + "\r\n" + std::string(kHeaders);
  text += "Content-Type: " + std::string(type) + "\r\n";
  text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  return text += body;
}

/// Takes the text up to the next `end`, which is taken too; all where there is none.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const std::string_view taken = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), taken.size() + end.size()));
  return taken;
}

/// The one value of the header "Host"; empty where there are several.
std::string_view host_of(std::string_view headers) {
  std::string_view host;
  int hosts = 0;
  while (!headers.empty()) {
    std::string_view value = take_until(headers, "\r\n");
    const std::string_view name = take_until(value, ":");
    if (std::ranges::equal(name, std::string_view("host"), {}, ascii::lower)) {
      host = trimmed(value);
      ++hosts;
    }
  }
  return hosts == 1 ? host : "";
}

struct Connection {
  FileDescriptor socket;
  Clock::time_point deadline = Clock::now() + kDeadline;
  std::string request;
  std::string answer;  ///< What is left of it; empty while the request is read.
};

FileDescriptor listen_on(int port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.get(), kMostConnections) != 0) {
    reject("port " + std::to_string(port) +
           " of 127.0.0.1 cannot be listened on; name another with --port, or none");
  }
  return socket;
}

FileDescriptor made_event() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC));
  if (event.get() < 0) {
    reject("the live view cannot be made (" + std::generic_category().message(errno) + ")");
  }
  return event;
}

int port_of(const FileDescriptor& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

struct LiveServer::Impl {
  Impl(std::string page_text, State state_source, int asked_port)
      : page(std::move(page_text)),
        state(std::move(state_source)),
        listener(listen_on(asked_port)),
        port(port_of(listener)),
        thread([this] { serve(); }) {}
  ~Impl() {
    eventfd_write(stop.get(), 1);
    thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void serve() {
    while (true) {
      try {
        if (!serve_once()) {
          return;
        }
      } catch (const std::exception&) {
        connections.clear();  // Of no memory left, say; the run goes on.
      }
    }
  }

  /// Waits until something happens. False when the server is to end.
  bool serve_once() {
    std::vector<pollfd> waited{{stop.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    for (const Connection& one : connections) {
      const short event = one.answer.empty() ? POLLIN : POLLOUT;
      waited.push_back({one.socket.get(), event, 0});
    }
    poll(waited.data(), waited.size(), wait_ms());
    if (waited[0].revents != 0) {
      return false;
    }
    auto news = waited.begin() + 2;
    std::erase_if(connections, [&](Connection& one) {
      const bool has_news = (news++)->revents != 0;
      return (has_news && !goes_on(one)) || Clock::now() >= one.deadline;
    });
    if (waited[1].revents != 0) {
      accept_one();
    }
    return true;
  }

  /// The oldest goes where there are too many, so that a browser comes in all the same.
  void accept_one() {
    constexpr std::chrono::milliseconds kPause{50};
    FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) {
      std::this_thread::sleep_for(
          kPause);  // Of no descriptor left, say, which would go on at once.
      return;
    }
    if (connections.size() == kMostConnections) {
      connections.pop_front();
    }
    connections.push_back({.socket = std::move(socket), .request = {}, .answer = {}});
  }

  /// Until the first deadline; without end where nobody is connected.
  int wait_ms() const {
    if (connections.empty()) {
      return -1;
    }
    const auto first = std::ranges::min_element(connections, {}, &Connection::deadline)->deadline;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now());
    return static_cast<int>(std::max<long long>(0, left.count()));
  }

  /// Reads or writes what can be at once. False when the connection is at its end.
  bool goes_on(Connection& one) const {
    if (!one.answer.empty()) {
      const ssize_t sent =
          send(one.socket.get(), one.answer.data(), one.answer.size(), MSG_NOSIGNAL);
      one.answer.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
      return sent < 0 ? errno == EAGAIN || errno == EINTR : !one.answer.empty();
    }
    std::array<char, kMostRequestBytes> bytes{};
    const ssize_t count = recv(one.socket.get(), bytes.data(), bytes.size(), 0);
    if (count <= 0) {
      return count < 0 && (errno == EAGAIN || errno == EINTR);
    }
    one.request.append(bytes.data(), static_cast<std::size_t>(count));
    if (const auto end = one.request.find("\r\n\r\n"); end != std::string::npos) {
      reply(one, answer(std::string_view(one.request).substr(0, end + 2)));
    } else if (one.request.size() > kMostRequestBytes) {
      reply(one, answer_of("431 Request Header Fields Too Large"));
    }
    return true;
  }

  static void reply(Connection& one, std::string answer) {
    one.answer = std::move(answer);
    one.deadline = Clock::now() + kDeadline;
  }

  /// Of the request's line and headers. Bodies are not read.
  std::string answer(std::string_view request) const {
    std::string_view line = take_until(request, "\r\n");
    const std::string_view method = take_until(line, " ");
    const std::string_view target = take_until(line, " ");
    const std::string_view path = target.substr(0, target.find('?'));
    const std::string_view host = host_of(request);
    const std::string number = ":" + std::to_string(port);
    if (host != kHost + number && host != "localhost" + number) {
      return answer_of("403 Forbidden");
    }
    if (method != "GET") {
      return answer_of("405 Method Not Allowed");
    }
    try {
      return path == "/"        ? answer_of("200 OK", "text/html; charset=utf-8", page)
             : path == "/state" ? answer_of("200 OK", "application/json", state())
                                : answer_of("404 Not Found");
    } catch (const std::exception&) {
      return answer_of("500 Internal Server Error");
    }
  }

  std::string page;
  State state;
  FileDescriptor stop = made_event();
  FileDescriptor listener;
  int port;
  std::list<Connection> connections;  ///< The oldest first.
  std::thread thread;
};

LiveServer::LiveServer(std::string page, State state, int port)
    : impl_(std::make_unique<Impl>(std::move(page), std::move(state), port)) {}

LiveServer::~LiveServer() = default;

std::string LiveServer::url() const {
  return std::string("http://") + kHost + ":" + std::to_string(impl_->port) + "/";
}

}  // namespace swr
