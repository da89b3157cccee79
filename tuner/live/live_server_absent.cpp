// SPDX-License-Identifier: MIT
// In place of live_server.cpp where cpp-httplib is not linked.
#include "tuner/live/live_server.h"
#include <swr/error.h>

namespace swr {

struct LiveServer::Impl {};

LiveServer::LiveServer(std::string /*page*/, State /*state*/, int /*port*/) {
  throw Error(ErrorCode::invalid_argument,
              "this swr-tune was built without the live view; build it with -DSWR_LIVE_VIEW=ON, or "
              "read the file of --events");
}

LiveServer::~LiveServer() = default;

std::string LiveServer::url() const { return ""; }

}  // namespace swr
