// SPDX-License-Identifier: Apache-2.0
//
// The datagram contract on AF_XDP over a virtual link, and what is AF_XDP's own. Skipped where
// namespaces or programs are not permitted.
#include "xdp/wire.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "datapath/queue_sleep.h"
#include "datapath/testing/datagram_contract.h"
#include "datapath/testing/udp_client.h"
#include "datapath/tcp_socket.h"
#include "xdp/frame_headers.h"
#include "xdp/testing/namespaces.h"

namespace rubato::testing {
namespace {

class XdpBed final : public DatagramBed {
 public:
  XdpBed(const char* host, uint32_t hardware_queues)
      : host_(host), namespaces_(hardware_queues) {}

  std::unique_ptr<DatagramWire> open(uint32_t queues, std::string& reason) override {
    if (!has_xdp()) {
      reason = "a build without AF_XDP";
      return nullptr;
    }
    if (!namespaces_.works() || !namespaces_.enter_server()) {
      reason = "network namespaces are not permitted here";
      return nullptr;
    }
    auto wire = open_xdp_wire({.interface = "vs",
                               .bind = host_,
                               .port = 7777,
                               .queues = queues,
                               .busy_poll = busy_poll});
    namespaces_.leave();
    if (wire.ok()) return std::move(*wire);
    reason = wire.error();
    return nullptr;
  }
  std::unique_ptr<DatagramClient> connect() override {
    namespaces_.enter_client();
    auto client = std::make_unique<UdpClient>(host_, 7777);
    namespaces_.leave();
    return client;
  }
  // One packet of 1500 bytes.
  size_t longest() const override { return std::strchr(host_, ':') != nullptr ? 1452 : 1472; }
  Namespaces& namespaces() { return namespaces_; }

  Nanos busy_poll;

 private:
  const char* const host_;
  Namespaces namespaces_;
};

INSTANTIATE_TEST_SUITE_P(
    Wires, DatagramContract,
    ::testing::Values(
        NamedBed{"af_xdp", [] { return std::make_unique<XdpBed>("10.77.0.1", 1); }},
        NamedBed{"af_xdp6_queues", [] { return std::make_unique<XdpBed>("fd77::1", 2); }}),
    [](const auto& bed) { return bed.param.name; });

class XdpWireTest : public ::testing::Test {
 protected:
  // False: not permitted here.
  bool open() {
    wire_ = bed_.open(1, reason_);
    return wire_ != nullptr;
  }
  Namespaces& namespaces() { return bed_.namespaces(); }
  // The caller releases it.
  static Datagram next(WireQueue& queue) {
    std::array<Datagram, 1> out;
    uint32_t n = 0;
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (n == 0 && datapath_now() < deadline) n = queue.receive(out, datapath_now(), false);
    EXPECT_EQ(n, 1u);
    return out[0];
  }

  XdpBed bed_{"10.77.0.1", 1};
  std::unique_ptr<DatagramWire> wire_;
  std::string reason_;
};

TEST_F(XdpWireTest, the_kernel_keeps_what_is_not_the_servers) {
  if (!open()) GTEST_SKIP() << reason_;
  EXPECT_TRUE(namespaces().run_in_client("ping -c 1 -W 5 10.77.0.1") ||
              !namespaces().run_in_client("ping -V"));
  namespaces().enter_server();
  Fd other(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress address = resolve("10.77.0.1", 7778).value();
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                   address.length),
            0);
  namespaces().enter_client();
  UdpClient client("10.77.0.1", 7778);
  namespaces().leave();
  client.send("to another port");
  const timeval limit{10, 0};
  ::setsockopt(other.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char bytes[32];
  EXPECT_EQ(::recv(other.get(), bytes, sizeof bytes, 0), 15);
}

TEST_F(XdpWireTest, fragments_go_to_the_kernel_and_are_counted) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_.connect();
  client->send(std::string(4000, 'x'));
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (wire_->drops().passed == 0 && datapath_now() < deadline) continue;
  EXPECT_EQ(wire_->drops().passed, 1u);
  EXPECT_FALSE(wire_->queue(WorkerId{0}).pending());
}

// Frames that a switch floods, or that somebody forges, are not answered.
TEST_F(XdpWireTest, only_frames_between_this_host_and_another_are_taken) {
  if (!open()) GTEST_SKIP() << reason_;
  WireQueue& queue = wire_->queue(WorkerId{0});
  const auto next_text = [&] {
    const Datagram datagram = next(queue);
    queue.release(datagram);
    return std::pair(std::string(datagram.bytes), datagram.peer);
  };
  bed_.connect()->send("first");
  const DatagramPeer client = next_text().second;
  namespaces().enter_client();
  const Fd raw(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  sockaddr_ll by{};
  by.sll_family = AF_PACKET;
  by.sll_ifindex = static_cast<int>(::if_nametoindex("vc"));
  namespaces().leave();
  std::array<uint8_t, 6> sender = client.mac;
  const auto send = [&](std::array<uint8_t, 6> mac, std::array<uint8_t, 4> from, const char* text) {
    DatagramPeer server = client;
    std::swap(server.address, server.local);
    std::copy(from.begin(), from.end(), server.local.begin());
    server.mac = mac;
    server.local_mac = sender;
    server.port = 7777;
    server.local_port = 5000;
    std::array<char, 256> bytes;
    char* const payload = bytes.data() + xdp::kMostHeaderBytes;
    std::strcpy(payload, text);
    const char* const frame = xdp::write_headers(payload, std::strlen(text), server);
    const auto size = static_cast<size_t>(payload + std::strlen(text) - frame);
    EXPECT_EQ(::sendto(raw.get(), frame, size, 0, reinterpret_cast<const sockaddr*>(&by),
                       sizeof by),
              static_cast<ssize_t>(size));
  };
  const std::array<uint8_t, 6> mine = client.local_mac;
  send({2, 1, 1, 1, 1, 1}, {10, 77, 0, 2}, "another host's");
  send({255, 255, 255, 255, 255, 255}, {10, 77, 0, 2}, "to all");
  for (const std::array<uint8_t, 4>& from : {std::array<uint8_t, 4>{0, 0, 0, 0},
                                             {127, 0, 0, 1}, {224, 0, 0, 1}, {255, 255, 255, 255},
                                             {10, 77, 0, 1}}) {
    send(mine, from, "from nobody");
  }
  sender.fill(255);
  send(mine, {10, 77, 0, 2}, "from all");
  sender = client.mac;
  send(mine, {10, 77, 0, 2}, "last");
  EXPECT_EQ(next_text().first, "last");
}

// Fewer than asked for means that the ring is empty; what came after the last look counts, too.
TEST_F(XdpWireTest, a_burst_goes_to_the_end_of_the_ring) {
  if (!open()) GTEST_SKIP() << reason_;
  WireQueue& queue = wire_->queue(WorkerId{0});
  auto client = bed_.connect();
  std::array<Datagram, 8> out;
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  const auto take = [&](size_t most) {
    const uint32_t n = queue.receive(std::span(out).first(most), datapath_now(), false);
    for (uint32_t i = 0; i < n; ++i) queue.release(out[i]);
    return n;
  };
  bool whole = false;
  while (!whole && datapath_now() < deadline) {
    for (int i = 0; i < 3; ++i) client->send("before");
    uint32_t taken = take(2);
    for (int i = 0; i < 2; ++i) client->send("after");
    const uint32_t rest = take(8);
    whole = taken == 2 && rest == 3;  // unless the network was slow
    taken += rest;
    while (taken < 5 && datapath_now() < deadline) taken += take(8);
  }
  EXPECT_TRUE(whole);
}

TEST_F(XdpWireTest, an_arrival_that_finds_no_frame_is_counted_once) {
  constexpr uint32_t kSent = 9000;  // of 8192 frames
  if (!open()) GTEST_SKIP() << reason_;
  WireQueue& queue = wire_->queue(WorkerId{0});
  auto client = bed_.connect();
  std::vector<Datagram> held;
  const auto dropped = [&] {
    const DatagramDrops drops = wire_->drops();
    return drops.no_frame + drops.ring_full + drops.malformed;
  };
  const Instant deadline = datapath_now() + Nanos::seconds(30);
  for (uint32_t sent = 1; sent <= kSent; ++sent) {
    client->send("request");
    if (sent % 32 != 0 && sent != kSent) continue;
    do {
      std::array<Datagram, 32> burst;
      const uint32_t n = queue.receive(burst, datapath_now(), false);
      held.insert(held.end(), burst.begin(), burst.begin() + n);
    } while (held.size() + dropped() < sent && datapath_now() < deadline);
  }
  EXPECT_EQ(held.size() + wire_->drops().no_frame, kSent);
  EXPECT_GT(wire_->drops().no_frame, 0u);
  EXPECT_EQ(wire_->drops().ring_full, 0u);
  for (const Datagram& datagram : held) queue.release(datagram);
}

// Nothing wakes it when frames are free again.
TEST_F(XdpWireTest, a_worker_that_has_no_frame_for_arrivals_sleeps_for_a_moment_only) {
  constexpr size_t kFrames = 8192;
  if (!open()) GTEST_SKIP() << reason_;
  WireQueue& queue = wire_->queue(WorkerId{0});
  QueueSleep sleep;
  ASSERT_TRUE(sleep.start(queue).ok());
  EXPECT_EQ(sleep.longest(Nanos::seconds(1)), Nanos::seconds(1));
  auto client = bed_.connect();
  std::vector<Datagram> held;
  std::array<Datagram, 32> burst;
  const Instant deadline = datapath_now() + Nanos::seconds(30);
  while (held.size() < kFrames && datapath_now() < deadline) {
    client->send("request");
    const uint32_t n = queue.receive(burst, datapath_now(), false);
    held.insert(held.end(), burst.begin(), burst.begin() + n);
  }
  ASSERT_EQ(held.size(), kFrames);
  ASSERT_TRUE(sleep.may_sleep());
  EXPECT_LT(sleep.longest(Nanos::seconds(1)), Nanos::seconds(1));
  EXPECT_GT(sleep.longest(Nanos::seconds(1)), Nanos());
  for (const Datagram& datagram : held) queue.release(datagram);
  EXPECT_EQ(queue.receive(burst, datapath_now(), false), 0u);
  EXPECT_EQ(sleep.longest(Nanos::seconds(1)), Nanos::seconds(1));
}

// As a client has it: a port for each flow, and at first without the Ethernet address of its peer.
TEST_F(XdpWireTest, a_wire_of_several_ports_finds_its_peer_by_the_kernel) {
  if (!open()) GTEST_SKIP() << reason_;
  namespaces().enter_client();
  auto client = open_xdp_wire({"vc", "10.77.0.2", 0, 1, 4});
  EXPECT_EQ(open_xdp_wire({"vc", "10.77.0.2", 65535, 1, 2}).error(),
            "af_xdp: too few ports above the first");
  namespaces().leave();
  ASSERT_TRUE(client.ok()) << client.error();
  WireQueue& there = wire_->queue(WorkerId{0});
  WireQueue& here = client.value()->queue(WorkerId{0});
  DatagramPeer server;
  server.address = {10, 77, 0, 1};
  server.port = 7777;
  for (const int which : {2, 3, 0}) {
    server.local_port = static_cast<uint16_t>(client.value()->port() + which);
    here.send(server, "ping");
    here.push();
    const Datagram asked = next(there);
    EXPECT_EQ(asked.peer.port, server.local_port);
    std::memcpy(asked.room.data(), "pong", 4);
    there.reply(asked, 4);
    there.push();
    const Datagram answer = next(here);
    EXPECT_EQ(answer.bytes, "pong");
    EXPECT_EQ(answer.peer.local_port, server.local_port);
    EXPECT_EQ(answer.peer.mac, asked.peer.local_mac);
    server = answer.peer;  // from now on without the kernel
    here.release(answer);
  }
  EXPECT_EQ(client.value()->drops().unsent, 0u);
}

TEST_F(XdpWireTest, a_second_server_is_told_why_it_cannot_be_there) {
  if (!open()) GTEST_SKIP() << reason_;
  namespaces().enter_server();
  EXPECT_NE(open_xdp_wire({"vs", "10.77.0.1", 7777, 1}).error().find("Address already in use"),
            std::string::npos);
  EXPECT_NE(open_xdp_wire({"vs", "10.77.0.1", 7779, 1}).error().find("af_xdp: "),
            std::string::npos);
  EXPECT_EQ(open_xdp_wire({"nowhere", "10.77.0.1", 1, 1}).error(),
            "af_xdp: there is no interface 'nowhere'");
  for (const std::string no : {"127.0.0.1", "*", "239.1.1.1", "255.255.255.255", "10.77.0.255",
                               "::ffff:10.77.0.1"}) {
    EXPECT_EQ(open_xdp_wire({"vs", no, 1, 1}).error(),
              "af_xdp: takes --bind with an address of vs, not " + no);
  }
  namespaces().leave();
}

TEST_F(XdpWireTest, nothing_is_left_on_the_interface) {
  if (!open()) GTEST_SKIP() << reason_;
  EXPECT_TRUE(namespaces().run_in_server("sh -c 'ip link show vs | grep -q xdp'"));
  wire_.reset();
  EXPECT_FALSE(namespaces().run_in_server("sh -c 'ip link show vs | grep -q xdp'"));
}

// Of this thread's namespace.
bool is_port_taken() {
  std::ifstream sockets("/proc/thread-self/net/udp");
  const std::string all{std::istreambuf_iterator<char>(sockets), {}};
  return all.find(":1E61 ") != std::string::npos;  // 7777
}

// The kernel gives back a queue some time after its socket was closed. Another descriptor of the
// socket makes that time long enough to be seen: until the next server has taken its port.
TEST_F(XdpWireTest, the_next_server_waits_until_the_kernel_has_given_back_the_queue) {
  if (!open()) GTEST_SKIP() << reason_;
  Fd held(::dup(wire_->queue(WorkerId{0}).files()[0]));
  ASSERT_TRUE(held.valid());
  wire_.reset();
  std::jthread closer([this, &held](const std::stop_token& end) {
    namespaces().enter_server();
    while (!is_port_taken() && !end.stop_requested()) std::this_thread::yield();
    held.reset();
  });
  EXPECT_TRUE(open()) << reason_;
}

TEST_F(XdpWireTest, it_goes_on_when_the_link_was_down) {
  if (!open()) GTEST_SKIP() << reason_;
  ASSERT_TRUE(namespaces().run_in_server("ip link set vs down"));
  ASSERT_TRUE(namespaces().run_in_server("ip link set vs up"));
  EchoDatagrams protocol;
  auto datapath = DatagramDatapath::open(std::move(wire_), protocol).value();
  auto client = bed_.connect();
  std::string heard;
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (heard.empty() && datapath_now() < deadline) {
    client->send("still there?");
    std::array<Request*, 8> burst{};
    const uint32_t n = datapath->queue(WorkerId{0}).poll(burst);
    for (uint32_t i = 0; i < n; ++i) {
      burst[i]->reply->append("yes");
      burst[i]->datapath->finish(*burst[i]);
    }
    heard = client->receive();
  }
  EXPECT_EQ(heard, "yes");
}

// A drain waits for no reply that the link does not take; the client may get it later.
TEST_F(XdpWireTest, replies_that_meet_a_link_that_is_down_are_counted_and_not_waited_for) {
  if (!open()) GTEST_SKIP() << reason_;
  EchoDatagrams protocol;
  auto datapath = DatagramDatapath::open(std::move(wire_), protocol).value();
  DatapathQueue& queue = datapath->queue(WorkerId{0});
  auto client = bed_.connect();
  std::vector<Request*> taken;
  const auto take = [&](const char* text) {
    client->send(text);
    std::array<Request*, 1> one{};
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (queue.poll(one) == 0 && datapath_now() < deadline) continue;
    ASSERT_NE(one[0], nullptr);
    taken.push_back(one[0]);
  };
  take("first");
  take("second");
  ASSERT_TRUE(namespaces().run_in_server("ip link set vs down"));
  for (Request* request : taken) {
    request->reply->append(request->payload);
    request->datapath->finish(*request);
    queue.push();
  }
  EXPECT_EQ(datapath->in_flight(), 0u);
  EXPECT_EQ(datapath->wire().drops().unsent, 2u);
  queue.push();
  EXPECT_EQ(datapath->wire().drops().unsent, 2u);
  ASSERT_TRUE(namespaces().run_in_server("ip link set vs up"));
  client->send("third");
  std::array<Request*, 1> one{};
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (queue.poll(one) == 0 && datapath_now() < deadline) client->send("third");
  ASSERT_NE(one[0], nullptr);
  one[0]->datapath->finish(*one[0]);  // without a reply
  queue.push();
  EXPECT_EQ(datapath->in_flight(), 0u);
  EXPECT_EQ(datapath->wire().drops().unsent, 2u);
}

// A longer packet would be dropped behind the server, and counted by nobody.
TEST_F(XdpWireTest, replies_fit_the_interface_as_it_is_now) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_.connect();
  const auto room = [&] {
    client->send("how much?");
    const Datagram datagram = next(wire_->queue(WorkerId{0}));
    wire_->queue(WorkerId{0}).release(datagram);
    return datagram.room.size();
  };
  EXPECT_EQ(room(), 1472u);
  ASSERT_TRUE(namespaces().run_in_server("ip link set vs mtu 1000"));
  wire_->look_at_link();
  EXPECT_EQ(room(), 972u);
  ASSERT_TRUE(namespaces().run_in_server("ip link set vs mtu 1500"));
  wire_->look_at_link();
  EXPECT_EQ(room(), 1472u);
}

int option_of(int socket, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket, SOL_SOCKET, name, &value, &size), 0);
  return value;
}

TEST_F(XdpWireTest, a_worker_looks_at_the_card_before_it_sleeps) {
  bed_.busy_poll = Nanos::millis(1);
  if (!open()) GTEST_SKIP() << reason_;
  EXPECT_NE(wire_->describe().find(", busy poll"), std::string::npos);
  WireQueue& queue = wire_->queue(WorkerId{0});
  for (const int file : queue.files()) {
    EXPECT_EQ(option_of(file, SO_BUSY_POLL), 1000);
    EXPECT_EQ(option_of(file, SO_PREFER_BUSY_POLL), 1);
  }
  QueueSleep sleep;
  ASSERT_TRUE(sleep.start(queue).ok());
  auto client = bed_.connect();
  std::array<Datagram, 4> out;
  for (int i = 0; i < 100; ++i) {
    client->send("abc");
    uint32_t n = 0;
    while ((n = queue.receive(out, datapath_now(), false)) == 0) sleep.wait(Nanos::seconds(1));
    ASSERT_EQ(n, 1u);
    EXPECT_EQ(out[0].bytes, "abc");
    queue.release(out[0]);
  }
  std::jthread waker([&] { sleep.wake(); });
  sleep.wait(Nanos::seconds(60));
}

// A virtual link's driver runs none for packets over a page.
TEST_F(XdpWireTest, an_interface_whose_driver_runs_no_program_has_nothing_to_look_at) {
  const bool long_packets = namespaces().run_in_client("ip link set vc mtu 9000") &&
                            namespaces().run_in_server("ip link set vs mtu 9000");
  if (!long_packets || !open()) GTEST_SKIP() << "not permitted here: " << reason_;
  EXPECT_NE(wire_->describe().find("(generic)"), std::string::npos);
  wire_.reset();
  bed_.busy_poll = Nanos::micros(50);
  EXPECT_FALSE(open());
  EXPECT_TRUE(reason_.starts_with("busy_poll: the driver of vs")) << reason_;
}

}  // namespace
}  // namespace rubato::testing
