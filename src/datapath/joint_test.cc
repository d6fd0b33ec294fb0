// SPDX-License-Identifier: Apache-2.0
#include "datapath/joint.h"

#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "datapath/datagram_datapath.h"
#include "datapath/tcp_socket.h"
#include "datapath/testing/line_protocol.h"
#include "datapath/time_source.h"
#include "datapath/udp_wire.h"

namespace rubato::testing {
namespace {

constexpr Nanos kLong = Nanos::seconds(60);  // no test waits for its end

Fd connect_to(int type, uint16_t port) {
  const SocketAddress to = resolve("127.0.0.1", port).value();
  Fd fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length), 0);
  return fd;
}

// Lines over TCP and over UDP, of which a test is the worker.
class Joint : public ::testing::Test {
 protected:
  void SetUp() override {
    open(1);
    datagrams_ = connect_to(SOCK_DGRAM, udp_->wire().port());
  }

  void open(uint32_t queues) {
    joint_.reset();
    TcpOptions tcp;
    tcp.queues = queues;
    tcp_ = TcpDatapath::open(tcp, lines_).value();
    UdpWireOptions udp;
    udp.queues = queues;
    udp_ = DatagramDatapath::open(UdpWire::open(udp).value(), lines_).value();
    joint_ = JointDatapath::open(*tcp_, {udp_.get()}).value();
  }

  DatapathQueue& queue(uint32_t worker = 0) { return joint_->queue(WorkerId{worker}); }
  static void say(const Fd& to, std::string_view line) {
    ASSERT_EQ(::send(to.get(), line.data(), line.size(), 0), static_cast<ssize_t>(line.size()));
  }
  // The next line of a stream, or the next datagram.
  static std::string hear(const Fd& from) {
    std::string text;
    do {
      std::array<char, 64> bytes;
      const ssize_t n = ::recv(from.get(), bytes.data(), bytes.size(), 0);
      if (n <= 0) break;
      text.append(bytes.data(), static_cast<size_t>(n));
    } while (!text.ends_with('\n'));
    return text;
  }
  void connect() { stream_ = connect_to(SOCK_STREAM, tcp_->port()); }
  // Takes the events that have come, as each would end a wait.
  void settle() {
    std::array<Request*, 1> one{};
    while (queue().pending()) EXPECT_EQ(queue().poll(one), 0u);
    EXPECT_EQ(queue().poll(one), 0u);
  }
  // False: nothing but its limit ended the wait. Without connections no sweep ends it either.
  bool wait_ends() {
    EXPECT_EQ(tcp_->stats().flows_open, 0u);
    const Instant begun = datapath_now();
    queue().wait(kLong);
    return datapath_now() - begun < kLong;
  }
  // Sleeps and polls until a request comes.
  Request* next() {
    std::array<Request*, 1> one{};
    while (queue().poll(one) == 0) queue().wait(kLong);
    return one[0];
  }
  static void answer(Request* request) {
    request->reply->append(request->payload);
    EXPECT_EQ(request->datapath->finish(*request), nullptr);
  }

  LineProtocol lines_;
  std::unique_ptr<TcpDatapath> tcp_;
  std::unique_ptr<DatagramDatapath> udp_;
  std::unique_ptr<JointDatapath> joint_;
  Fd stream_;
  Fd datagrams_;
};

TEST_F(Joint, a_wait_ends_by_a_request_of_either_and_each_is_answered_where_it_came) {
  connect();
  for (int round = 0; round < 3; ++round) {
    say(stream_, "line\n");
    answer(next());
    EXPECT_EQ(hear(stream_), "line\n");
    say(datagrams_, "datagram\n");
    Request* const request = next();
    EXPECT_EQ(request->payload, "datagram\n");
    answer(request);
    queue().push();
    EXPECT_EQ(hear(datagrams_), "datagram\n");
  }
  EXPECT_EQ(joint_->stats().requests, 6u);
  EXPECT_EQ(joint_->stats().flows_open, 1u);
  EXPECT_EQ(joint_->in_flight(), 0u);
}

// Each poll has room for one request, and both sides have more.
TEST_F(Joint, neither_starves_the_other) {
  constexpr int kEach = 20;
  std::vector<Fd> streams;
  for (int i = 0; i < kEach; ++i) {
    streams.push_back(connect_to(SOCK_STREAM, tcp_->port()));
    say(streams.back(), "line\n");
    say(datagrams_, "datagram\n");
  }
  int lines = 0;
  for (int i = 0; i < 2 * kEach; ++i) {
    Request* const request = next();
    if (i < kEach && request->payload == "line\n") ++lines;
    answer(request);
  }
  EXPECT_GE(lines, kEach / 4);
  EXPECT_LE(lines, kEach * 3 / 4);
  queue().push();
}

TEST_F(Joint, a_wake_of_any_queue_ends_the_wait) {
  for (DatapathQueue* queue : {&this->queue(), &tcp_->queue(WorkerId{0}),
                               &udp_->queue(WorkerId{0})}) {
    settle();
    std::atomic<bool> waits{false};  // or is about to
    std::atomic<bool> woken{false};
    std::thread waker([&] {
      while (!waits) std::this_thread::yield();
      woken = true;
      queue->wake();
    });
    EXPECT_FALSE(this->queue().pending());
    waits = true;
    EXPECT_TRUE(wait_ends());
    EXPECT_TRUE(woken);
    waker.join();
    settle();
    queue->wake();  // and one that came before
    EXPECT_TRUE(wait_ends());
  }
}

// No event reports them any more.
TEST_F(Joint, no_wait_begins_while_a_guest_has_datagrams_left_over) {
  settle();
  // One send of two datagrams, which the queue receives as one (UDP GSO and GRO).
  const int size = 4;
  if (::setsockopt(datagrams_.get(), SOL_UDP, UDP_SEGMENT, &size, sizeof size) != 0) {
    GTEST_SKIP() << "no UDP GSO here";
  }
  say(datagrams_, "one\ntwo\n");
  Request* const first = next();
  ASSERT_TRUE(udp_->wire().queue(WorkerId{0}).has_left_over());
  EXPECT_TRUE(wait_ends());
  Request* const second = next();
  EXPECT_EQ(second->payload, "two\n");
  answer(first);
  answer(second);
}

// Whichever queue a client's bytes or datagrams come to: over the rounds to both.
TEST_F(Joint, what_comes_to_a_queue_whose_owner_is_away_ends_the_proxys_wait) {
  open(2);
  std::array<DatapathQueue*, 1> away{&queue(1)};
  ASSERT_TRUE(queue(1).delegate_to(&queue(0)));
  const auto next_of_both = [&] {
    std::array<Request*, 1> one{};
    while (queue(0).poll(one) == 0 && queue(1).poll(one) == 0) queue(0).wait(kLong, away);
    return one[0];
  };
  std::array<uint64_t, 2> came{};
  for (int round = 0; round < 16; ++round) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      const Fd client =
          connect_to(type, type == SOCK_STREAM ? tcp_->port() : udp_->wire().port());
      say(client, "line\n");
      Request* const request = next_of_both();
      came[request->datapath == &udp_->queue(WorkerId{1}) ? 1 : 0] += 1;
      answer(request);
      queue(0).push();
      queue(1).push();
      EXPECT_EQ(hear(client), "line\n");
    }
  }
  EXPECT_GT(came[1], 0u);
  udp_->queue(WorkerId{1}).wake();
  queue(0).wait(kLong, away);
  ASSERT_TRUE(queue(1).delegate_to(nullptr));
}

TEST_F(Joint, a_flow_is_closed_by_the_datapath_that_has_it) {
  connect();
  say(stream_, "line\n");
  Request* const request = next();
  EXPECT_TRUE(joint_->close_flow(request->flow));
  EXPECT_FALSE(joint_->close_flow(request->flow + 1));
  EXPECT_FALSE(joint_->steer(request->flow, WorkerId{0}));
  answer(request);
}

TEST_F(Joint, a_drain_is_one_of_all) {
  say(datagrams_, "last\n");
  Request* const request = next();
  joint_->drain();
  EXPECT_EQ(joint_->in_flight(), 1u);
  queue().wait(kLong);
  answer(request);
  queue().push();
  EXPECT_EQ(joint_->in_flight(), 0u);
  say(datagrams_, "too late\n");
  std::array<Request*, 1> one{};
  while (udp_->stats().requests < 2) EXPECT_EQ(queue().poll(one), 0u);
  queue().push();
  EXPECT_EQ(hear(datagrams_), "last\n");
  EXPECT_EQ(hear(datagrams_), "refused\n");
}

}  // namespace
}  // namespace rubato::testing
