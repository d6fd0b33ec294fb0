// SPDX-License-Identifier: Apache-2.0
//
// The datagram contract on a DPDK port made of rings (net_ring), and what is this wire's own.
// Skipped where DPDK's environment does not start.
#include "dpdk/wire.h"

#include <rte_eth_ring.h>
#include <rte_mempool.h>

#include <array>
#include <thread>
#include <utility>

#include "base/prng.h"
#include "datapath/testing/datagram_contract.h"
#include "datapath/testing/datagram_crowd.h"
#include "dpdk/testing/environment.h"
#include "dpdk/testing/frame_client.h"

namespace rubato::testing {
namespace {

constexpr unsigned kRingFrames = 1024;

struct RingBedOptions {
  bool ipv6 = false;
  uint16_t vlan = 0;
  bool own_pool = false;  // the clients' frames are not of the wire's pool
  uint32_t rings = 0;     // receive queues of the port; 0 = as many as workers
  Nanos nap = {};
};

class RingBed final : public DatagramBed {
 public:
  explicit RingBed(const RingBedOptions& options) : options_(options) {}
  ~RingBed() override { rte_mempool_free(own_pool_); }

  std::unique_ptr<DatagramWire> open(uint32_t queues, std::string& reason) override {
    if (!has_environment(reason)) return nullptr;
    const uint32_t rings = options_.rings > 0 ? options_.rings : queues;
    std::vector<rte_ring*> in = make_rings("in", rings);
    std::vector<rte_ring*> out = make_rings("out", rings);
    static int beds = 0;  // a device keeps its name when its port is closed
    const std::string name = "rings" + std::to_string(beds++);
    const int port = rte_eth_from_rings(name.c_str(), in.data(), rings, out.data(), rings, 0);
    RUBATO_CHECK(port >= 0);
    link_ = std::make_unique<RingLink>(in, out);
    DpdkWireOptions options;
    options.port = std::to_string(port);
    options.bind = options_.ipv6 ? "fd77::1" : "10.77.0.1";
    options.udp_port = 7777;
    options.queues = queues;
    options.nap = options_.nap;
    options.clock = &datapath_now;
    auto wire = dpdk::open_wire(options);
    if (!wire.ok()) {
      reason = wire.error();
      ADD_FAILURE() << reason;
      return nullptr;
    }
    frames_ = rte_mempool_lookup(("rubato_" + std::to_string(port)).c_str());
    if (options_.own_pool) {
      own_pool_ = rte_pktmbuf_pool_create("clients", 4095, 0, 0, 2048, 0);
      RUBATO_CHECK(own_pool_ != nullptr);
    }
    rte_ether_addr mac{};
    rte_eth_macaddr_get(static_cast<uint16_t>(port), &mac);
    std::copy_n(mac.addr_bytes, 6, mac_.begin());
    host_ = std::make_unique<ClientHost>(*link_, pool(),
                                         server_at(options_.ipv6, options_.vlan, mac_));
    return std::move(*wire);
  }
  std::unique_ptr<DatagramClient> connect() override {
    return std::make_unique<FrameClient>(*host_, next_port_++);
  }
  // Several rings take the frames in turn.
  bool keeps_order() const override { return options_.rings == 1; }
  size_t longest() const override { return options_.ipv6 ? 1452 : 1472; }

  FrameLink& link() { return *link_; }
  ClientHost& host() { return *host_; }
  rte_mempool* pool() { return own_pool_ != nullptr ? own_pool_ : frames_; }
  // Frames of the wire that are not in its pool.
  unsigned lent() const { return rte_mempool_in_use_count(frames_); }

 private:
  static std::vector<rte_ring*> make_rings(const std::string& name, uint32_t count) {
    std::vector<rte_ring*> rings;
    for (uint32_t i = 0; i < count; ++i) {
      rings.push_back(rte_ring_create((name + std::to_string(i)).c_str(), kRingFrames, 0, 0));
      RUBATO_CHECK(rings.back() != nullptr);
    }
    return rings;
  }

  const RingBedOptions options_;
  std::unique_ptr<RingLink> link_;
  std::unique_ptr<ClientHost> host_;
  rte_mempool* frames_ = nullptr;
  rte_mempool* own_pool_ = nullptr;
  std::array<uint8_t, 6> mac_{};
  uint16_t next_port_ = 40000;
};

INSTANTIATE_TEST_SUITE_P(
    Wires, DatagramContract,
    ::testing::Values(NamedBed{"dpdk", [] { return std::make_unique<RingBed>(RingBedOptions{}); }},
                      NamedBed{"dpdk6_tagged_copied",
                               [] {
                                 return std::make_unique<RingBed>(RingBedOptions{
                                     .ipv6 = true, .vlan = 5, .own_pool = true, .rings = 1});
                               }}),
    [](const auto& bed) { return bed.param.name; });

// Over IPv4; without a checksum, which would not fit any more.
std::string to_another_port(std::string frame) {
  frame[37] = 1;
  frame[40] = frame[41] = 0;
  return frame;
}

class DpdkWireTest : public ::testing::Test {
 protected:
  // False: not possible here.
  bool open(uint32_t queues, const RingBedOptions& options = {}) {
    bed_ = std::make_unique<RingBed>(options);
    wire_ = bed_->open(queues, reason_);
    return wire_ != nullptr;
  }
  void TearDown() override {
    if (wire_ == nullptr) return;
    while (!bed_->link().get_bytes().empty()) continue;
    EXPECT_EQ(bed_->lent(), 0u);
  }

  WireQueue& queue(uint32_t worker = 0) { return wire_->queue(WorkerId{worker}); }
  std::vector<Datagram> receive(uint32_t worker = 0) {
    std::vector<Datagram> all;
    std::array<Datagram, 32> burst;
    while (const uint32_t n = queue(worker).receive(burst, datapath_now(), false)) {
      all.insert(all.end(), burst.begin(), burst.begin() + n);
    }
    return all;
  }
  void release(const std::vector<Datagram>& datagrams) {
    for (const Datagram& datagram : datagrams) queue().release(datagram);
  }

  std::unique_ptr<RingBed> bed_;
  std::unique_ptr<DatagramWire> wire_;
  std::string reason_;
};

// The answers' bytes are checked in host_frames_test.cc.
TEST_F(DpdkWireTest, the_port_answers_for_its_host_and_passes_nothing_of_it_on) {
  if (!open(1)) GTEST_SKIP() << reason_;
  std::string ask(42, 0);
  ask.replace(0, 12, std::string("\xff\xff\xff\xff\xff\xff\2\0\0\0\0\2", 12));
  ask.replace(12, 10, std::string("\x08\6\0\1\x08\0\6\4\0\1", 10));
  ask.replace(22, 10, std::string("\2\0\0\0\0\2\x0a\x4d\0\2", 10));
  ask.replace(38, 4, std::string("\x0a\x4d\0\1", 4));
  ASSERT_TRUE(bed_->link().put_bytes(bed_->pool(), ask));
  EXPECT_FALSE(queue().pending());
  const std::string answer = bed_->link().get_bytes();
  ASSERT_EQ(answer.size(), 42u);
  EXPECT_EQ(answer.substr(0, 6), ask.substr(6, 6));
  EXPECT_EQ(answer[21], 2);
}

// As a client has it.
TEST_F(DpdkWireTest, a_peer_is_asked_for_before_something_is_sent_to_it) {
  if (!open(1)) GTEST_SKIP() << reason_;
  DatagramPeer to;
  to.address = {10, 77, 0, 2};
  to.port = 40000;
  to.local_port = 7777;
  queue().send(to, "lost");
  queue().push();
  std::string frame = bed_->link().get_bytes();
  ASSERT_EQ(frame.size(), 42u);
  dpdk::HostAddress client = dpdk::host_of(resolve("10.77.0.2", 40000).value());
  client.mac = {2, 0, 0, 0, 0, 2};
  dpdk::SortedFrame sorted;
  dpdk::sort_frame(frame.data(), frame.size(), client, sorted);
  ASSERT_EQ(sorted.kind, dpdk::FrameKind::kAnswer);
  ASSERT_TRUE(bed_->link().put_bytes(bed_->pool(), frame));
  EXPECT_FALSE(queue().pending());
  queue().send(to, "found");
  queue().push();
  EXPECT_EQ(bed_->host().receive(40000), "found");
  EXPECT_EQ(wire_->drops().unsent, 1u);
}

TEST_F(DpdkWireTest, what_is_not_served_is_counted) {
  if (!open(1)) GTEST_SKIP() << reason_;
  const std::string good = bed_->host().frame_of(40000, "x");
  const auto put = [&](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    ASSERT_TRUE(bed_->link().put_bytes(bed_->pool(), bytes));
  };
  put(20, 0x20);                   // more fragments
  put(24, 1);                      // the header's checksum
  put(38, 0x7f);                   // the length of UDP
  put(0, 6);                       // another host's
  put(23, 6);                      // TCP
  put(41, 0);                      // the checksum of UDP
  bed_->link().put_bytes(bed_->pool(), to_another_port(good));
  bed_->link().put_bytes(bed_->pool(), std::string(5, 'x'));
  bed_->link().put_bytes(bed_->pool(), good + std::string(2300, 'x'));  // over the reply's room
  EXPECT_FALSE(queue().pending());
  const DatagramDrops drops = wire_->drops();
  EXPECT_EQ(drops.fragments, 1u);
  EXPECT_EQ(drops.malformed, 4u);
  EXPECT_EQ(drops.passed, 4u);
  EXPECT_EQ(drops.no_frame + drops.ring_full + drops.unsent, 0u);
}

// Frames of which other frames hold the bytes, of another pool and of the wire's own.
TEST_F(DpdkWireTest, frames_that_only_refer_to_others_are_copied_and_freed_once) {
  for (const bool own_pool : {true, false}) {
    if (!open(1, {.own_pool = own_pool})) GTEST_SKIP() << reason_;
    const std::string good = bed_->host().frame_of(40000, "x");
    rte_mempool* const shells = rte_pktmbuf_pool_create("shells", 15, 0, 0, 0, 0);
    ASSERT_NE(shells, nullptr);
    const auto put_clone = [&](const std::string& bytes) {
      rte_mbuf* const whole = rte_pktmbuf_alloc(bed_->pool());
      std::memcpy(rte_pktmbuf_append(whole, static_cast<uint16_t>(bytes.size())), bytes.data(),
                  bytes.size());
      ASSERT_TRUE(bed_->link().put(rte_pktmbuf_clone(whole, shells)));
      rte_pktmbuf_free(whole);
    };
    put_clone(good);
    const std::vector<Datagram> lent = receive();
    ASSERT_EQ(lent.size(), 1u);
    EXPECT_EQ(lent[0].bytes, "x");
    for (int i = 0; i < 3; ++i) put_clone(to_another_port(good));
    EXPECT_FALSE(queue().pending());
    EXPECT_EQ(wire_->drops().passed, 3u);
    EXPECT_EQ(bed_->lent(), 1u);  // the clones' bytes, too, are back
    release(lent);
    EXPECT_EQ(rte_mempool_in_use_count(shells), 0u);
    rte_mempool_free(shells);
    EXPECT_EQ(bed_->lent(), 0u);
    wire_.reset();
  }
}

// What a card has found out is the server's concern only if the frame is.
TEST_F(DpdkWireTest, frames_in_pieces_and_wrong_checksums_are_malformed) {
  if (!open(1, {.own_pool = true})) GTEST_SKIP() << reason_;
  const auto frame_of = [&](const std::string& bytes) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(bed_->pool());
    std::memcpy(rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size())), bytes.data(),
                bytes.size());
    return frame;
  };
  const std::string good = bed_->host().frame_of(40000, "x");
  std::string other = good;
  other[0] = 6;
  rte_mbuf* const first = frame_of(good.substr(0, 20));
  ASSERT_EQ(rte_pktmbuf_chain(first, frame_of(good.substr(20))), 0);
  ASSERT_TRUE(bed_->link().put(first));
  for (const std::string& bytes : {good, other}) {
    rte_mbuf* const frame = frame_of(bytes);
    frame->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_BAD;
    ASSERT_TRUE(bed_->link().put(frame));
  }
  EXPECT_FALSE(queue().pending());
  EXPECT_EQ(wire_->drops().malformed, 2u);
  EXPECT_EQ(wire_->drops().passed, 1u);
  EXPECT_EQ(wire_->drops().no_frame, 0u);
}

TEST_F(DpdkWireTest, a_full_transmit_ring_loses_and_counts_replies_and_no_frames) {
  if (!open(1)) GTEST_SKIP() << reason_;
  constexpr uint32_t kSent = 3 * kRingFrames;
  uint32_t replied = 0;
  while (replied < kSent) {
    for (int i = 0; i < 32; ++i) bed_->host().send(40000, "x");
    for (const Datagram& datagram : receive()) {
      datagram.room[0] = 'y';
      queue().reply(datagram, 1);
      ++replied;
    }
  }
  queue().push();
  const uint64_t waits = queue().unsent();
  EXPECT_GT(wire_->drops().unsent, 0u);
  uint32_t heard = 0;
  while (!bed_->host().receive(40000).empty()) ++heard;
  EXPECT_EQ(heard + waits + wire_->drops().unsent, kSent);
  queue().push();
  EXPECT_EQ(queue().unsent(), 0u);
  while (!bed_->host().receive(40000).empty()) ++heard;
  EXPECT_EQ(heard + wire_->drops().unsent, kSent);
}

// As a link that is down takes nothing: a drain does not wait for it.
TEST_F(DpdkWireTest, replies_that_the_driver_never_takes_are_lost_and_counted) {
  if (!open(1)) GTEST_SKIP() << reason_;
  const auto answer_one = [&] {
    bed_->host().send(40000, "x");
    for (const Datagram& datagram : receive()) queue().reply(datagram, 1);
  };
  for (unsigned i = 0; i < kRingFrames - 1; ++i) answer_one();
  queue().push();
  ASSERT_EQ(queue().unsent(), 0u);
  for (int i = 0; i < 3; ++i) answer_one();
  queue().push();
  EXPECT_EQ(queue().unsent(), 3u);  // for a while
  for (int i = 0; i < 200 && queue().unsent() > 0; ++i) queue().push();
  EXPECT_EQ(queue().unsent(), 0u);
  EXPECT_EQ(wire_->drops().unsent, 3u);
}

TEST_F(DpdkWireTest, arrivals_that_find_no_frame_are_counted) {
  if (!open(1, {.own_pool = true})) GTEST_SKIP() << reason_;
  std::vector<Datagram> held;
  constexpr uint32_t kSent = dpdk::kFramesPerQueue + 64;
  for (uint32_t i = 0; i < kSent; ++i) {
    bed_->host().send(40000, "x");
    if (i % 64 != 63) continue;
    const std::vector<Datagram> some = receive();
    held.insert(held.end(), some.begin(), some.end());
  }
  for (int burst = 0; burst < 4; ++burst) receive();  // a burst without a frame ends one
  EXPECT_EQ(held.size(), dpdk::kFramesPerQueue - 1);
  EXPECT_EQ(wire_->drops().no_frame, kSent - held.size());
  release(held);
}

// The port has one queue, from which either worker takes what is for both.
TEST_F(DpdkWireTest, a_worker_that_does_not_look_has_its_datagrams_until_its_inbox_is_full) {
  if (!open(2, {.rings = 1})) GTEST_SKIP() << reason_;
  constexpr uint32_t kSent = 1500;
  for (uint32_t i = 0; i < kSent; ++i) {
    bed_->host().send(40001, "for worker 1");
    bed_->host().send(40000, "for worker 0");
    const std::vector<Datagram> mine = receive(0);
    ASSERT_EQ(mine.size(), 1u);
    EXPECT_EQ(mine[0].bytes, "for worker 0");
    release(mine);
  }
  EXPECT_TRUE(queue(1).pending());
  const std::vector<Datagram> theirs = receive(1);
  EXPECT_EQ(theirs.size() + wire_->drops().ring_full, kSent);
  EXPECT_EQ(theirs.size(), 1024u);
  release(theirs);
}

TEST_F(DpdkWireTest, a_worker_knows_of_what_may_lie_behind_a_full_burst_of_another_s) {
  if (!open(2, {.rings = 1})) GTEST_SKIP() << reason_;
  for (int i = 0; i < 32; ++i) bed_->host().send(40001, "for worker 1");
  bed_->host().send(40000, "for worker 0");
  std::array<Datagram, 32> burst;
  EXPECT_EQ(queue(0).receive(burst, datapath_now(), false), 0u);
  EXPECT_TRUE(queue(0).has_left_over());
  const std::vector<Datagram> mine = receive(0);
  EXPECT_EQ(mine.size(), 1u);
  EXPECT_FALSE(queue(0).has_left_over());
  release(mine);
  release(receive(1));
}

TEST_F(DpdkWireTest, an_idle_worker_dozes_only_where_it_may_and_a_wake_ends_that) {
  EchoDatagrams protocol;
  for (const Nanos nap : {Nanos(), Nanos::micros(1), Nanos::seconds(1000)}) {
    if (!open(1, {.nap = nap})) GTEST_SKIP() << reason_;
    EXPECT_FALSE(queue().can_sleep());
    auto datapath = DatagramDatapath::open(std::move(wire_), protocol).value();
    if (nap == Nanos::seconds(1000)) datapath->queue(WorkerId{0}).wake();
    datapath->queue(WorkerId{0}).wait(Nanos::seconds(2000));
  }
}

TEST_F(DpdkWireTest, workers_that_look_at_once_lose_nothing) {
  if (!open(Crowd::kWorkers, {.rings = 2, .nap = Nanos::micros(50)})) GTEST_SKIP() << reason_;
  constexpr uint16_t kClients = 32;
  constexpr uint32_t kRequests = 500;  // of each, one at a time
  std::array<uint32_t, kClients> sent{};
  uint32_t served = 0;
  Crowd crowd(std::move(wire_));
  const auto send = [&](uint16_t client) {
    if (sent[client] == kRequests) return;
    bed_->host().send(static_cast<uint16_t>(40000 + client), std::to_string(++sent[client]));
  };
  for (uint16_t client = 0; client < kClients; ++client) send(client);
  const Instant deadline = datapath_now() + Nanos::seconds(30);
  while (served < kClients * kRequests && datapath_now() < deadline) {
    for (uint16_t client = 0; client < kClients; ++client) {
      const std::string reply = bed_->host().receive(static_cast<uint16_t>(40000 + client));
      if (reply.empty()) continue;
      ASSERT_EQ(reply, std::to_string(sent[client]));
      ++served;
      send(client);
    }
    std::this_thread::yield();
  }
  crowd.end();
  EXPECT_EQ(served, kClients * kRequests);
  EXPECT_EQ(crowd.datapath().in_flight(), 0u);
  EXPECT_EQ(crowd.datapath().stats().requests, served);
  EXPECT_EQ(bed_->lent(), 0u);
}

TEST_F(DpdkWireTest, hostile_frames_harm_nobody) {
  for (const bool ipv6 : {false, true}) {
    if (!open(2, {.ipv6 = ipv6, .rings = 1})) GTEST_SKIP() << reason_;
    const std::string good = bed_->host().frame_of(40000, "request");
    Prng dice(3);
    for (int i = 0; i < 20'000; ++i) {
      std::string bytes = good;
      if (dice.next() % 4 == 0) bytes.resize(dice.next() % good.size());
      bytes += std::string(dice.next() % 8 == 0 ? dice.next() % 2000 : 0, 'x');
      for (uint64_t n = dice.next() % 6; n > 0 && !bytes.empty(); --n) {
        bytes[dice.next() % bytes.size()] = static_cast<char>(dice.next());
      }
      if (bytes.empty()) continue;
      ASSERT_TRUE(bed_->link().put_bytes(bed_->pool(), bytes));
      for (uint32_t worker = 0; worker < 2; ++worker) release(receive(worker));
      while (!bed_->link().get_bytes().empty()) continue;
    }
    bed_->host().send(40000, "good");
    const std::vector<Datagram> last = receive();
    ASSERT_EQ(last.size(), 1u);
    EXPECT_EQ(last[0].bytes, "good");
    release(last);
    EXPECT_EQ(bed_->lent(), 0u);
    wire_.reset();
  }
}

TEST_F(DpdkWireTest, what_cannot_be_opened_is_said_in_one_line) {
  if (!has_environment(reason_)) GTEST_SKIP() << reason_;
  DpdkWireOptions options;
  options.port = "no_such";
  options.bind = "10.77.0.1";
  options.udp_port = 7777;
  options.clock = &datapath_now;
  EXPECT_EQ(dpdk::open_wire(options).error(),
            "dpdk: there is no port 'no_such'; ports: 0 = net_null0");
  options.port = "77";
  EXPECT_EQ(dpdk::open_wire(options).error(),
            "dpdk: there is no port '77'; ports: 0 = net_null0");
  for (const char* bind : {"127.0.0.1", "*", "::1", "224.0.0.1"}) {
    options.bind = bind;
    EXPECT_EQ(dpdk::open_wire(options).error(),
              std::string("dpdk: takes --bind with the address that the port is to have, not ") +
                  bind);
  }
  options.bind = "10.77.0.1";
  options.udp_port = 0;
  EXPECT_EQ(dpdk::open_wire(options).error(),
            "dpdk: takes a port, as it has none to choose from");
}

}  // namespace
}  // namespace rubato::testing
