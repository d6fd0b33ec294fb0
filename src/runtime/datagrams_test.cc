// SPDX-License-Identifier: Apache-2.0
//
// The live runtime on datagrams: replies leave before a request that may keep the worker for long.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <thread>

#include "datapath/datagram_datapath.h"
#include "datapath/udp_wire.h"
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

}  // namespace
}  // namespace rubato
