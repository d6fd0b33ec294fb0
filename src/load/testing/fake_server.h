// SPDX-License-Identifier: Apache-2.0
//
// FakeServer: a RESP server on a free loopback port whose misbehaviour is scripted, on a thread of
// its own. For tests only. It answers commands in the order of their arrival, one at a time, so
// that a stall delays every client, as a single-threaded store does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "base/time.h"
#include "load/channel.h"
#include "load/options.h"
#include "load/reply_parser.h"
#include "load/socket.h"

namespace rubato::load {

inline constexpr uint64_t kNeverAt = UINT64_MAX;

struct FakeScript {
  // The reply to the index-th command (from 0); "" = none, ever.
  std::function<std::string(uint64_t index)> reply = [](uint64_t) { return "+OK\r\n"; };
  uint64_t stall_at = kNeverAt;  // before this command is answered, nothing happens for `stall`
  Nanos stall;
  uint64_t close_at = kNeverAt;  // this command's connection is closed instead of answered
};

class FakeServer {
 public:
  explicit FakeServer(FakeScript script = {});
  ~FakeServer();

  Target target() const { return {Protocol::kResp, "127.0.0.1", port_}; }
  uint64_t commands() const { return commands_.load(); }

 private:
  struct Connection {
    Channel channel;
    ReplyParser parser;
  };

  void serve();
  void accept_one();
  bool serve_connection(Connection& connection);
  bool answer(Connection& connection);

  FakeScript script_;
  Fd listener_, stop_event_;
  uint16_t port_ = 0;
  std::map<int, Connection> connections_;
  std::atomic<uint64_t> commands_{0};
  std::thread thread_;
};

}  // namespace rubato::load
