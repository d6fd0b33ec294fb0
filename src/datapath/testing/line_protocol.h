// SPDX-License-Identifier: Apache-2.0
//
// A protocol for tests: a request is a line that ends in '\n', or "#LENGTH\n" followed by LENGTH
// bytes. Thread safe as Protocol asks. Counts the sessions that live.
#pragma once

#include <atomic>
#include <charconv>
#include <memory>

#include "datapath/request.h"

namespace rubato::testing {

class LineSession final : public Session {
 public:
  explicit LineSession(std::atomic<int>& live, uint32_t concurrency = 1)
      : live_(live), concurrency_(concurrency) {
    ++live_;
  }
  ~LineSession() override { --live_; }

  uint32_t concurrency() const override { return concurrency_; }
  Frame frame(std::string_view unread, Request& request) override {
    ++frames;
    const size_t end = unread.find('\n');
    if (end == std::string_view::npos) return {};
    size_t length = end + 1;
    if (unread.front() == '#') {
      size_t body = 0;
      std::from_chars(unread.data() + 1, unread.data() + end, body);
      length += body;
    }
    request.type = 7;
    if (unread.size() < length) return {FrameState::kIncomplete, length};
    return {FrameState::kComplete, length};
  }

  void refuse(Request& request) override { request.reply->append("refused\n"); }

  int frames = 0;  // calls, to see that slow senders cost little

 private:
  std::atomic<int>& live_;
  const uint32_t concurrency_;
};

class LineProtocol final : public Protocol {
 public:
  std::unique_ptr<Session> open(const Peer& peer) override {
    last_flow.store(peer.flow);
    last_port.store(peer.port);
    return std::make_unique<LineSession>(live, concurrency);
  }

  std::string refusal_for(const Peer&) override { return answer_to_all; }

  uint32_t concurrency = 1;   // of the flows that come
  std::string answer_to_all;  // who is refused by it; empty = nobody
  std::atomic<int> live{0};
  std::atomic<uint64_t> last_flow{0};
  std::atomic<uint32_t> last_port{0};
};

}  // namespace rubato::testing
