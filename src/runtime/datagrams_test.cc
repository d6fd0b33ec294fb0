// SPDX-License-Identifier: Apache-2.0
//
// The live runtime on datagrams: replies leave before a request that may keep the worker for long.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "datapath/datagram_datapath.h"
#include "datapath/net_worker.h"
#include "datapath/testing/datagram_bed.h"
#include "datapath/testing/one_cpu.h"
#include "datapath/udp_wire.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/this_worker.h"
#include "mechanism/fiber/sanitizer.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::checkpoints_until;
using testing::LetterApp;

// A reply that is lost fails the test instead of hanging it.
Fd client_socket() {
  Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  return fd;
}

// Serves `count` requests that arrived in one burst; `each` runs with the replies that the worker
// has not sent.
void serve_burst(RuntimeOptions options, int count,
                 const std::function<void(const std::function<uint64_t()>&)>& each) {
  options.workers = 1;
  LetterApp app;
  auto datapath = DatagramDatapath::open(UdpWire::open({}).value(), app).value();
  app.on('S') = [&](Request&) { each([&] { return datapath->wire().unsent(); }); };
  const SocketAddress to = resolve("127.0.0.1", datapath->wire().port()).value();
  const Fd client = client_socket();
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length), 0);
  for (int i = 0; i < count; ++i) ASSERT_EQ(::send(client.get(), "S\n", 2, 0), 2);
  auto runtime = Runtime::create(options, *datapath, app).value();
  std::thread server([&] { runtime->run(); });
  char bytes[8];
  for (int i = 0; i < count; ++i) EXPECT_EQ(::recv(client.get(), bytes, sizeof bytes, 0), 2);
  runtime->stop();
  server.join();
}

TEST(RuntimeDatagrams, no_reply_waits_for_a_request_whose_slice_has_no_end) {
  for (const char* policy : {"fcfs", "synergy"}) {
    RuntimeOptions options;
    options.policy = policy;
    if (options.policy == "synergy") options.preempt = PreemptMechanism::kNone;
    uint64_t most = 0;
    serve_burst(options, 8, [&](const auto& unsent) { most = std::max(most, unsent()); });
    EXPECT_EQ(most, 0u) << policy;
  }
}

// A timer core renews the slice of a request that nobody waits for.
TEST(RuntimeDatagrams, checkpoints_of_a_request_send_the_replies_of_those_before) {
  RuntimeOptions options;
  options.policy = "synergy";
  options.preemption_clock = PreemptionClock::kTimerCore;
  serve_burst(options, 2, [](const auto& unsent) {
    checkpoints_until([&] { return unsent() == 0; });
  });
}

// Such a look at the clock, which each request has, is no reason to send. A worker that the system
// keeps from its CPU meanwhile is late, and sends, so one of many bursts must do.
TEST(RuntimeDatagrams, replies_of_a_burst_leave_together_though_its_requests_have_checkpoints) {
  if (sanitizer::kPresent) GTEST_SKIP() << "too slow to be in time";
  RuntimeOptions options;
  options.policy = "synergy";
  options.preemption_clock = PreemptionClock::kSelf;
  uint64_t most = 0;
  for (int burst = 0; burst < 300 && most == 0; ++burst) {
    serve_burst(options, 2, [&](const auto& unsent) {
      checkpoint();
      most = std::max(most, unsent());
    });
  }
  EXPECT_EQ(most, 1u);
}

// Sockets whose groups are dealt to the first half of so many workers, and the requests of each
// that are underway.
class SkewedClients {
 public:
  static constexpr uint32_t kSockets = 8;
  static constexpr uint32_t kWindow = 4;

  SkewedClients(uint16_t port, uint32_t workers) {
    const SocketAddress to = resolve("127.0.0.1", port).value();
    while (fds_.size() < kSockets) {
      Fd fd = client_socket();
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length);
      sockaddr_in mine{};
      socklen_t length = sizeof mine;
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&mine), &length);
      const bool first_half = ntohs(mine.sin_port) % kSteeringGroups % workers < workers / 2;
      (first_half ? fds_ : others_).push_back(std::move(fd));
    }
  }
  // Sends the next requests, "S" and a number, and waits for all replies.
  void round() {
    for (const Fd& fd : fds_) {
      for (uint32_t i = 0; i < kWindow; ++i) {
        const std::string text = "S" + std::to_string(sent_ + i) + "\n";
        ASSERT_GT(::send(fd.get(), text.data(), text.size(), 0), 0);
      }
    }
    sent_ += kWindow;
    char bytes[32];
    for (const Fd& fd : fds_) {
      for (uint32_t i = 0; i < kWindow; ++i) ASSERT_GT(::recv(fd.get(), bytes, sizeof bytes, 0), 0);
    }
  }

 private:
  const testing::OneCpu sends_in_order_;
  std::vector<Fd> fds_;
  std::vector<Fd> others_;  // keep their ports
  uint32_t sent_ = 0;
};

// SBB 4.5.1, by the steering table of a datagram datapath.
TEST(RuntimeDatagrams, sbb_moves_flows_of_an_overloaded_worker_and_they_keep_their_order) {
  LetterApp app;
  const testing::FlowsInOrder rules;
  auto datapath =
      DatagramDatapath::open(UdpWire::open({.queues = 2}).value(), app, rules).value();
  if (datapath->wire().describe().find("steered by") == std::string::npos) GTEST_SKIP();
  std::mutex mutex;
  std::map<uint64_t, uint32_t> due;  // by the flow
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> elsewhere{false};
  app.on('S') = [&](Request& request) {
    const PreemptDisableGuard whole;
    const std::lock_guard guard(mutex);
    const auto number = static_cast<uint32_t>(std::stoul(std::string(request.payload.substr(1))));
    if (due[request.flow]++ != number) ++wrong;
    if (request.datapath == &datapath->queue(WorkerId{1})) elsewhere = true;
  };
  RuntimeOptions options;
  options.policy = "sbb";
  options.workers = 2;
  options.policy_settings = {{"light_to_busy", "1"}, {"busy_to_overloaded", "2"},
                             {"overloaded_to_busy", "1"}, {"rounds", "1"}};
  auto runtime = Runtime::create(options, *datapath, app).value();
  std::thread server([&] { runtime->run(); });
  SkewedClients clients(datapath->wire().port(), 2);
  const Instant deadline = now() + Nanos::seconds(30);
  while (!elsewhere && now() < deadline && !HasFatalFailure()) clients.round();
  runtime->stop();
  server.join();
  EXPECT_TRUE(elsewhere);
  EXPECT_GT(datapath->stats().flows_steered, 0u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(datapath->in_flight(), 0u);
}

// Altocumulus, sections IV and V, with two groups and all load at the first: its manager, a step of
// the workers or of a thread of its own, sends requests to the other, whose workers run them.
TEST(RuntimeDatagrams, altocumulus_sends_requests_of_a_busy_group_to_the_other) {
  for (const PreemptionClock clock : {PreemptionClock::kSelf, PreemptionClock::kTimerCore}) {
    LetterApp app;
    auto datapath = DatagramDatapath::open(UdpWire::open({.queues = 4}).value(), app).value();
    if (datapath->wire().describe().find("steered by") == std::string::npos) GTEST_SKIP();
    std::atomic<uint64_t> elsewhere{0};  // were sent, and ran in the other group
    std::atomic<uint64_t> moves{0};
    app.on('S') = [&](Request& request) {
      moves += request.moves;
      elsewhere += request.moves > 0 && this_worker() >= 2 ? 1 : 0;
      const Instant end = now() + Nanos::micros(50);
      while (now() < end) checkpoint();
    };
    RuntimeOptions options;
    options.policy = "altocumulus";
    options.workers = 4;
    options.preemption_clock = clock;
    options.policy_settings = {{"group", "2"}, {"k", "1"}, {"upper_bound", "1"}, {"bulk", "4"}};
    auto runtime = Runtime::create(options, *datapath, app).value();
    std::thread server([&] { runtime->run(); });
    SkewedClients clients(datapath->wire().port(), 4);
    const Instant deadline = now() + Nanos::seconds(30);
    while (elsewhere < 20 && now() < deadline && !HasFatalFailure()) clients.round();
    runtime->stop();
    server.join();
    EXPECT_GE(elsewhere, 20u);
    EXPECT_EQ(runtime->stats().moved, moves);
    EXPECT_EQ(datapath->in_flight(), 0u);
  }
}

// A runtime behind a net worker, with handlers that a test sets before start().
class NetWorkerServer {
 public:
  NetWorkerServer(const char* policy, uint32_t workers, uint32_t typed_capacity)
      : wire(DatagramDatapath::open(UdpWire::open({.queues = workers}).value(), app).value()),
        net(NetWorkerDatapath::open(*wire, typed_capacity).value()) {
    options_.policy = policy;
    options_.workers = workers;
  }
  ~NetWorkerServer() { stop(); }

  void start() {
    runtime_ = Runtime::create(options_, *net, app).value();
    thread_ = std::thread([this] { runtime_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    runtime_->stop();
    thread_.join();
  }

  LetterApp app;
  const std::unique_ptr<DatagramDatapath> wire;
  const std::unique_ptr<NetWorkerDatapath> net;

 private:
  RuntimeOptions options_;
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
};

// All requests come by the queue of one worker, or as the kernel spreads them; both run them.
TEST(NetWorker, requests_reach_every_worker_once_whatever_queue_they_came_by) {
  for (const char* policy : {"cfcfs", "darc", "shinjuku", "jbsq"}) {
    NetWorkerServer server(policy, 2, NetWorkerDatapath::kTypedCapacity);
    std::array<std::atomic<uint64_t>, 2> ran{};
    server.app.on('S') = [&](Request&) {
      const PreemptDisableGuard here;
      ++ran[this_worker()];
    };
    server.start();
    SkewedClients clients(server.wire->wire().port(), 2);
    uint64_t sent = 0;
    const Instant deadline = now() + Nanos::seconds(30);
    while ((ran[0] == 0 || ran[1] == 0 || sent < 500) && now() < deadline) {
      clients.round();
      ASSERT_FALSE(HasFatalFailure());
      sent += SkewedClients::kSockets * SkewedClients::kWindow;
    }
    server.stop();
    EXPECT_GT(ran[0], 0u) << policy;
    EXPECT_GT(ran[1], 0u) << policy;
    EXPECT_EQ(ran[0] + ran[1], sent) << policy;
    EXPECT_EQ(server.net->handed_out(), sent) << policy;
    EXPECT_EQ(server.net->refused(), 0u) << policy;
    EXPECT_EQ(server.wire->in_flight(), 0u) << policy;
  }
}

// Persephone, section 4.3.1. The worker of `cfcfs` is in a request and looks at nothing else, that
// of `ps` takes in what comes.
void flood_a_type(const char* policy) {
  constexpr uint32_t kCapacity = 8;
  constexpr uint32_t kSent = 200;
  constexpr uint32_t kRefused = kSent - (kCapacity - 1);  // one runs already
  NetWorkerServer server(policy, 1, kCapacity);
  std::atomic<bool> runs{false};
  std::atomic<bool> over{false};
  server.app.on('1') = [&](Request&) {
    runs = true;
    checkpoints_until([&] { return over.load(); });
  };
  server.start();
  const SocketAddress to = resolve("127.0.0.1", server.wire->wire().port()).value();
  const auto connect = [&] {
    Fd fd = client_socket();
    ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length);
    return fd;
  };
  const auto wait_until = [](const auto& holds) {
    const Instant deadline = now() + Nanos::seconds(30);
    while (!holds() && now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(holds());
  };
  const Fd flood = connect();
  ASSERT_EQ(::send(flood.get(), "1\n", 2, 0), 2);
  wait_until([&] { return runs.load(); });
  for (uint32_t i = 0; i < kSent; ++i) ASSERT_EQ(::send(flood.get(), "1\n", 2, 0), 2);
  wait_until([&] { return server.net->refused_of('1') >= kRefused; });
  const Fd other = connect();
  for (uint32_t i = 0; i < kCapacity; ++i) ASSERT_EQ(::send(other.get(), "2\n", 2, 0), 2);
  wait_until([&] {
    return server.wire->in_flight() + server.wire->stats().requests >= 1 + kSent + kCapacity;
  });
  over = true;
  char bytes[16];
  for (uint32_t i = 0; i < kCapacity; ++i) {
    ASSERT_EQ(::recv(other.get(), bytes, sizeof bytes, 0), 2);
    EXPECT_EQ(std::string_view(bytes, 2), "2\n");
  }
  server.stop();
  EXPECT_EQ(server.net->refused_of('1'), kRefused);
  EXPECT_EQ(server.net->refused(), kRefused);
  EXPECT_EQ(server.wire->in_flight(), 0u);
}

TEST(NetWorker, a_full_type_is_refused_and_the_others_are_not) {
  for (const char* policy : {"cfcfs", "ps"}) flood_a_type(policy);
}

TEST(NetWorker, pipelines_of_connections_keep_their_order_and_a_stop_answers_them) {
  for (const char* policy : {"cfcfs", "shinjuku"}) {
    testing::LetterServer server(policy, 2);
    server.by_net_worker = true;
    server.start();
    std::vector<uint64_t> flows;
    for (uint32_t i = 0; i < 4; ++i) flows.push_back(server.connect(i % 2));
    std::string expected;
    for (uint32_t i = 0; i < 300; ++i) expected += "1" + std::to_string(i) + "\n";
    for (const uint64_t flow : flows) server.submit(flow, expected);
    for (const uint64_t flow : flows) {
      EXPECT_EQ(server.receive(flow, expected.size()), expected) << policy;
    }
    EXPECT_TRUE(server.stop());
    EXPECT_EQ(server.net_worker->in_flight(), 0u);
  }
}

}  // namespace
}  // namespace rubato
