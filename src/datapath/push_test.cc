// SPDX-License-Identifier: Apache-2.0
//
// Bytes that no request asked for: they leave at once on an idle flow, after the reply on a busy
// one, and none is lost or doubled however requests a push, requests and moves fall together.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "datapath/testing/datapath_fixture.h"

namespace rubato::testing {
namespace {

// Sends one '!' for each time that it was told something.
class TellingSession final : public Session {
 public:
  explicit TellingSession(std::atomic<uint32_t>& told) : offered_(told) {}

  Frame frame(std::string_view unread, Request&) override {
    const size_t end = unread.find('\n');
    if (end == std::string_view::npos) return {};
    return {FrameState::kComplete, end + 1};
  }
  void refuse(Request&) override {}
  void on_push(ReplyBuffer& reply) override {
    reply.append(std::string(offered_.exchange(0), '!'));
  }

 private:
  std::atomic<uint32_t>& offered_;
};

class TellingProtocol final : public Protocol {
 public:
  std::unique_ptr<Session> open(const Peer& peer) override {
    flow = peer.flow;
    return std::make_unique<TellingSession>(told);
  }

  std::atomic<uint32_t> told{0};
  std::atomic<uint64_t> flow{0};
};

class Push : public ::testing::Test {
 protected:
  void SetUp() override {
    TcpOptions options;
    options.queues = 2;
    auto opened = TcpDatapath::open(options, protocol_);
    ASSERT_TRUE(opened.ok());
    datapath_ = std::move(*opened);
    client_ = std::make_unique<TcpClient>(datapath_->port());
    poll_until([&] { return protocol_.flow > 0; });
  }

  std::vector<Request*> poll() {
    std::array<Request*, 8> burst{};
    std::vector<Request*> all;
    for (uint32_t q = 0; q < datapath_->queues(); ++q) {
      const uint32_t n = datapath_->queue(WorkerId{q}).poll(burst);
      all.insert(all.end(), burst.begin(), burst.begin() + n);
    }
    return all;
  }
  template <class Done>
  Request* poll_until(Done&& done) {
    const Instant deadline = datapath_now() + Nanos::seconds(30);
    while (!done() && datapath_now() < deadline) {
      for (Request* request : poll()) return request;
    }
    return nullptr;
  }
  void tell() {
    ++protocol_.told;
    EXPECT_TRUE(datapath_->request_push(protocol_.flow));
  }

  TellingProtocol protocol_;
  std::unique_ptr<TcpDatapath> datapath_;
  std::unique_ptr<TcpClient> client_;
};

TEST_F(Push, an_idle_flow_is_told_at_once) {
  tell();
  poll();
  EXPECT_EQ(client_->receive(1), "!");
}

TEST_F(Push, a_busy_flow_is_told_after_its_reply) {
  ASSERT_TRUE(client_->send("a\n"));
  Request* request = poll_until([] { return false; });
  ASSERT_NE(request, nullptr);
  tell();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(poll().empty());
  EXPECT_EQ(protocol_.told, 1u);
  request->reply->append("A");
  EXPECT_EQ(request->datapath->finish(*request), nullptr);
  poll();
  EXPECT_EQ(client_->receive(2), "A!");
}

TEST_F(Push, a_flow_that_is_gone_cannot_be_told) {
  client_->reset();
  poll_until([&] { return datapath_->stats().flows_open == 0; });
  EXPECT_FALSE(datapath_->request_push(protocol_.flow));
  EXPECT_FALSE(datapath_->request_push(12345));
}

// A peer that does not read is told once it does: what waits for it does not grow.
TEST_F(Push, a_peer_that_does_not_read_makes_nothing_grow) {
  ASSERT_TRUE(client_->send("a\n"));
  Request* request = poll_until([] { return false; });
  ASSERT_NE(request, nullptr);
  const std::string large(size_t{32} << 20, 'x');
  request->reply->append(large);
  EXPECT_EQ(request->datapath->finish(*request), nullptr);
  for (int i = 0; i < 100; ++i) {
    tell();
    poll();
  }
  EXPECT_EQ(protocol_.told, 100u);
  std::atomic<bool> has_all{false};
  std::thread reader([&] {
    EXPECT_TRUE(client_->receive(large.size() + 100) == large + std::string(100, '!'));
    has_all = true;
  });
  while (!has_all) poll();
  reader.join();
  EXPECT_EQ(protocol_.told, 0u);
}

// Two threads serve and steer, one tells: what comes back is all that was told, and every reply.
// Where other programs keep the CPUs busy each step, and each move above all, may take a slice of
// theirs: there are fewer then.
TEST_F(Push, nothing_told_is_lost_among_requests_and_moves) {
  constexpr uint32_t kMost = 20'000;
  const Instant enough = datapath_now() + Nanos::seconds(5);
  const auto as_often = [&](auto&& step) {
    uint32_t done = 0;
    while (done < kMost && datapath_now() < enough) {
      step();
      ++done;
    }
    return done;
  };
  std::atomic<bool> stop{false};
  const auto serve = [&](uint32_t queue) {
    std::array<Request*, 8> burst{};
    uint32_t served = 0;
    while (!stop) {
      const uint32_t n = datapath_->queue(WorkerId{queue}).poll(burst);
      for (uint32_t i = 0; i < n; ++i) {
        for (Request* r = burst[i]; r != nullptr;) {
          if (datapath_now() < enough) datapath_->steer(r->flow, WorkerId{++served % 2});
          r->reply->append("A");
          r = r->datapath->finish(*r);
        }
      }
      if (n == 0) std::this_thread::yield();
    }
  };
  std::thread first(serve, 0);
  std::thread second(serve, 1);
  uint32_t told = 0;
  uint32_t sent = 0;
  std::thread teller([&] { told = as_often([&] { tell(); }); });
  std::thread sender([&] { sent = as_often([&] { EXPECT_TRUE(client_->send("a\n")); }); });
  teller.join();
  sender.join();
  const std::string got = client_->receive(told + sent);  // no more than its socket holds
  stop = true;
  first.join();
  second.join();
  EXPECT_EQ(std::count(got.begin(), got.end(), '!'), told);
  EXPECT_EQ(std::count(got.begin(), got.end(), 'A'), sent);
}

}  // namespace
}  // namespace rubato::testing
