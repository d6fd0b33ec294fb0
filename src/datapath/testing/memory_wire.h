// SPDX-License-Identifier: Apache-2.0
//
// MemoryWire: a datagram wire inside the test, which loses, doubles and reorders what clients send
// as a seed says, and counts each. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "datapath/datagram.h"

namespace rubato::testing {

struct WireFaults {
  double lost = 0;  // shares of the datagrams
  double doubled = 0;
  double reordered = 0;  // put before the one that came before
};

class MemoryWire final : public DatagramWire {
 public:
  struct Message {
    DatagramPeer peer;
    std::string bytes;
  };

  MemoryWire(uint32_t queues, const WireFaults& faults, uint64_t seed)
      : faults_(faults), dice_(seed) {
    for (uint32_t i = 0; i < queues; ++i) queues_.push_back(std::make_unique<Queue>(*this));
    for (uint32_t group = 0; group < kSteeringGroups; ++group) table_[group] = group % queues;
  }

  uint32_t queues() const override { return static_cast<uint32_t>(queues_.size()); }
  WireQueue& queue(WorkerId worker) override { return *queues_[worker.value]; }
  uint16_t port() const override { return 1; }
  DatagramDrops drops() const override { return {}; }
  std::string describe() const override { return "memory"; }
  bool steer_group(uint32_t group, WorkerId to) override {
    return std::exchange(table_[group], to.value) != to.value;
  }
  WorkerId queue_of_group(uint32_t group) const override { return WorkerId{table_[group]}; }

  // A client's datagram. Its replies come to take().
  void put(const Message& message) {
    std::deque<Message>& queue = queues_[table_[group_of(message.peer)]]->arrived;
    if (dice_.uniform() < faults_.lost) {
      ++lost;
      return;
    }
    const bool earlier = !queue.empty() && dice_.uniform() < faults_.reordered;
    queue.insert(earlier ? queue.end() - 1 : queue.end(), message);
    if (dice_.uniform() >= faults_.doubled) return;
    ++doubled;
    queue.push_back(message);
  }
  // The next reply to that client; false = there is none.
  bool take(uint16_t port, std::string& bytes) {
    const auto at = std::find_if(sent_.begin(), sent_.end(),
                                 [&](const Message& sent) { return sent.peer.port == port; });
    if (at == sent_.end()) return false;
    bytes = at->bytes;
    taken_from = at->peer;
    sent_.erase(at);
    return true;
  }

  DatagramPeer taken_from;  // the client as the last reply that was taken names it
  uint64_t lost = 0;
  uint64_t doubled = 0;
  int64_t lent = 0;  // frames

 private:
  struct Frame {
    std::string bytes;
    std::array<char, kMaxDatagramPayload> room;
  };

  struct Queue final : WireQueue {
    explicit Queue(MemoryWire& of) : wire(of) {}

    uint32_t receive(std::span<Datagram> out, Instant now, bool) override {
      uint32_t n = 0;
      for (; n < out.size() && !arrived.empty(); ++n) {
        auto* const frame = new Frame{arrived.front().bytes, {}};
        out[n] = {frame->bytes, false, now, arrived.front().peer, frame->room, frame};
        arrived.pop_front();
        ++wire.lent;
      }
      return n;
    }
    bool pending() const override { return !arrived.empty(); }
    void release(const Datagram& datagram) override {
      delete static_cast<Frame*>(datagram.frame);
      --wire.lent;
    }
    void reply(const Datagram& datagram, size_t size) override {
      send(datagram.peer, {datagram.room.data(), size});
      release(datagram);
    }
    void send(const DatagramPeer& to, std::string_view bytes) override {
      unsent_.push_back({to, std::string(bytes)});
    }
    void push() override {
      for (Message& message : unsent_) wire.sent_.push_back(std::move(message));
      unsent_.clear();
    }
    uint64_t unsent() const override { return unsent_.size(); }
    std::span<const int> files() const override { return {}; }

    MemoryWire& wire;
    std::deque<Message> arrived;
    std::vector<Message> unsent_;
  };

  const WireFaults faults_;
  Prng dice_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::array<uint32_t, kSteeringGroups> table_;
  std::deque<Message> sent_;
};

}  // namespace rubato::testing
