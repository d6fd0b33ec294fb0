// SPDX-License-Identifier: Apache-2.0
//
// The live runtime on datagrams: replies leave before a request that may keep the worker for long.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "datapath/datagram_datapath.h"
#include "datapath/testing/datagram_bed.h"
#include "datapath/udp_wire.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/this_worker.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::checkpoints_until;
using testing::LetterApp;

// Serves `count` requests that arrived in one burst; `each` runs with the replies that the worker
// has not sent.
void serve_burst(RuntimeOptions options, int count,
                 const std::function<void(const std::function<uint64_t()>&)>& each) {
  options.workers = 1;
  LetterApp app;
  auto datapath = DatagramDatapath::open(UdpWire::open({}).value(), app).value();
  app.on('S') = [&](Request&) { each([&] { return datapath->wire().unsent(); }); };
  const SocketAddress to = resolve("127.0.0.1", datapath->wire().port()).value();
  const Fd client(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
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

// Sockets whose groups are dealt to the first half of so many workers, and the requests of each
// that are underway.
class SkewedClients {
 public:
  static constexpr uint32_t kSockets = 8;
  static constexpr uint32_t kWindow = 4;

  SkewedClients(uint16_t port, uint32_t workers) {
    const SocketAddress to = resolve("127.0.0.1", port).value();
    while (fds_.size() < kSockets) {
      Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
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

}  // namespace
}  // namespace rubato
