// SPDX-License-Identifier: Apache-2.0
//
// The queues of an AF_XDP wire on rings whose other end is in this program: the datagram contract,
// and workers that take in, finish and send each other's datagrams.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "datapath/testing/datagram_contract.h"
#include "datapath/testing/datagram_crowd.h"
#include "datapath/time_source.h"
#include "xdp/queue.h"
#include "xdp/testing/memory_link.h"

namespace rubato::testing {
namespace {

// What XdpWire is without its program and interface.
class RingsWire final : public DatagramWire {
 public:
  RingsWire(MemoryLink& link, uint32_t hardware_queues, uint32_t workers, uint32_t frames)
      : link_(link) {
    parts_.frames = std::make_unique<xdp::Frames>(frames);
    parts_.port = MemoryLink::kServerPort;
    parts_.reserved.resize(1);
    parts_.set_mtu(1500);
    for (uint32_t i = 0; i < hardware_queues; ++i) {
      parts_.hardware.push_back(std::make_unique<xdp::HardwareQueue>(*parts_.frames));
      RUBATO_CHECK(parts_.hardware.back()->start() == 0);
    }
    for (uint32_t i = 0; i < workers; ++i) {
      queues_.push_back(std::make_unique<xdp::XdpQueue>(parts_, i));
      RUBATO_CHECK(queues_.back()->start().ok());
    }
    for (uint32_t i = 0; i < hardware_queues; ++i) {
      parts_.hardware[i]->refill(queues_[0]->socket(i), true);
    }
  }

  uint32_t queues() const override { return static_cast<uint32_t>(queues_.size()); }
  WireQueue& queue(WorkerId worker) override { return *queues_[worker.value]; }
  uint16_t port() const override { return parts_.port; }
  DatagramDrops drops() const override {
    DatagramDrops drops;
    for (const auto& queue : queues_) queue->add_to(drops);
    drops.no_frame = queues_[0]->empty_fills();
    return drops;
  }
  std::string describe() const override { return "AF_XDP in memory, steered by a table"; }
  bool steer_group(uint32_t group, WorkerId to) override { return link_.move(group, to.value); }
  WorkerId queue_of_group(uint32_t group) const override {
    return WorkerId{link_.worker_of(group)};
  }

  // Frames that are free, in the rings or on their way, of all that there are; once the workers
  // have stopped.
  uint32_t frames_at_rest() {
    auto sum = static_cast<uint32_t>(parts_.frames->free()) + link_.underway();
    for (const auto& hardware : parts_.hardware) {
      const xsk_ring_cons& completed = hardware->completed();
      sum += hardware->filled() + __atomic_load_n(completed.producer, __ATOMIC_ACQUIRE) -
             __atomic_load_n(completed.consumer, __ATOMIC_ACQUIRE);
    }
    return sum;
  }

 private:
  MemoryLink& link_;
  xdp::WireParts parts_;
  std::vector<std::unique_ptr<xdp::XdpQueue>> queues_;
};

class RingsClient final : public DatagramClient {
 public:
  RingsClient(MemoryLink& link, uint16_t port) : link_(link), port_(port) {}
  void send(std::string_view bytes) override { link_.send(port_, bytes); }
  std::string receive() override { return link_.receive(port_); }

 private:
  MemoryLink& link_;
  const uint16_t port_;
};

// The wire, which its datapath owns, ends before the link.
class RingsBed final : public DatagramBed {
 public:
  explicit RingsBed(uint32_t hardware_queues) : hardware_queues_(hardware_queues) {}
  std::unique_ptr<DatagramWire> open(uint32_t queues, std::string&) override {
    link_ = std::make_unique<MemoryLink>(hardware_queues_, queues);
    return std::make_unique<RingsWire>(*link_, hardware_queues_, queues, xdp::kFramesPerQueue);
  }
  // Ports of other groups and, in the course of time, other hardware queues.
  std::unique_ptr<DatagramClient> connect() override {
    const auto port = static_cast<uint16_t>(next_port_ += kSteeringGroups + 1);
    return std::make_unique<RingsClient>(*link_, port);
  }

 private:
  const uint32_t hardware_queues_;
  std::unique_ptr<MemoryLink> link_;
  uint32_t next_port_ = 1000;
};

INSTANTIATE_TEST_SUITE_P(
    Rings, DatagramContract,
    ::testing::Values(NamedBed{"af_xdp_rings", [] { return std::make_unique<RingsBed>(1); }},
                      NamedBed{"af_xdp_rings_of_two",
                               [] { return std::make_unique<RingsBed>(2); }}),
    [](const auto& bed) { return bed.param.name; });

uint16_t port_of_client(uint32_t number) {
  return static_cast<uint16_t>(1000 + number * (kSteeringGroups + 1));
}

// A client, from the server's side.
DatagramPeer peer_at(uint16_t port) {
  DatagramPeer peer;
  peer.address = {10, 77, 0, 2};
  peer.local = {10, 77, 0, 1};
  peer.port = port;
  peer.local_port = MemoryLink::kServerPort;
  peer.mac = {2, 0, 0, 0, 0, 2};
  return peer;
}

// Hardly more frames than the fill rings take, and a thread that is no worker sends by the workers'
// queues: what finds no frame or no room is dropped and counted, and nothing else is.
TEST(XdpRings, frames_go_round_between_workers_that_serve_each_others_requests) {
  constexpr uint32_t kHardwareQueues = 2;
  constexpr uint32_t kFrames = kHardwareQueues * xdp::kFillFrames + 64;
  constexpr uint32_t kClients = 4;
  constexpr uint32_t kRequests = 1500;  // of each client
  constexpr uint32_t kNotices = 500;   // to a client that asks for nothing
  constexpr uint32_t kBurst = 24;
  MemoryLink link(kHardwareQueues, Crowd::kWorkers);
  auto owned = std::make_unique<RingsWire>(link, kHardwareQueues, Crowd::kWorkers, kFrames);
  RingsWire& wire = *owned;
  Crowd crowd(std::move(owned));
  std::atomic<uint64_t> heard{0};
  const auto hear = [&](uint32_t client) {
    while (!link.receive(port_of_client(client)).empty()) heard.fetch_add(1);
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      for (uint32_t k = 0; k < kRequests; ++k) {
        link.send(port_of_client(i), std::to_string(k));
        if (k % kBurst != 0) continue;
        std::this_thread::yield();
        hear(i);
      }
    });
  }
  threads.emplace_back([&] {
    for (uint32_t k = 0; k < kNotices; ++k) {
      WireQueue& queue = wire.queue(WorkerId{k % Crowd::kWorkers});
      queue.send(peer_at(port_of_client(kClients)), "notice");
      queue.push();
      hear(kClients);
    }
  });
  for (std::thread& thread : threads) thread.join();
  const auto missing = [&] {
    for (uint32_t i = 0; i <= kClients; ++i) hear(i);
    const DatagramDrops drops = wire.drops();
    const uint64_t dropped = drops.no_frame + drops.ring_full + drops.unsent;
    return kClients * kRequests + kNotices - heard - dropped;
  };
  const Instant deadline = datapath_now() + Nanos::seconds(60);
  while (missing() > 0 && datapath_now() < deadline) std::this_thread::yield();
  crowd.end();
  EXPECT_EQ(missing(), 0u);
  EXPECT_EQ(crowd.datapath().in_flight(), 0u);
  EXPECT_EQ(wire.drops().malformed, 0u);
  EXPECT_EQ(wire.frames_at_rest(), kFrames);
}

// Its replies fill the completion ring first and then the worker's.
TEST(XdpRings, replies_to_a_client_that_takes_none_are_lost_when_the_rings_are_full) {
  constexpr uint32_t kSent = 6000;
  MemoryLink link(1, 1);
  RingsWire wire(link, 1, 1, xdp::kFramesPerQueue);
  WireQueue& queue = wire.queue(WorkerId{0});
  for (uint32_t i = 0; i < kSent; ++i) queue.send(peer_at(1000), std::to_string(i));
  const uint64_t lost = wire.drops().unsent;
  EXPECT_GT(lost, 0u);
  EXPECT_GT(queue.unsent(), 0u);
  uint32_t heard = 0;
  const auto hear_all = [&] {
    for (std::string text; !(text = link.receive(1000)).empty(); ++heard) {
      ASSERT_EQ(text, std::to_string(heard));
    }
  };
  hear_all();
  std::array<Datagram, 1> none;
  EXPECT_EQ(queue.receive(none, datapath_now(), false), 0u);
  for (int tries = 0; tries < 100 && queue.unsent() > 0; ++tries) {
    queue.push();
    hear_all();
  }
  EXPECT_EQ(queue.unsent(), 0u);
  EXPECT_EQ(heard, kSent - lost);
  EXPECT_EQ(wire.drops().unsent, lost);
  EXPECT_EQ(wire.frames_at_rest(), xdp::kFramesPerQueue);
}

}  // namespace
}  // namespace rubato::testing
