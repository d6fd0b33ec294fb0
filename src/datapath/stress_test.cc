// SPDX-License-Identifier: Apache-2.0
//
// Several threads poll every queue, hand requests around and finish each other's, while clients
// pipeline, vanish, half-close and stop reading, and others steer flows from queue to queue.
// Replies must come in order and nothing may leak.
// RUBATO_SEED replays a run's choices (not its thread timing).
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/prng.h"
#include "datapath/testing/datapath_fixture.h"

namespace rubato::testing {
namespace {

uint64_t seed_of_run() {
  const char* given = std::getenv("RUBATO_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0)
                                         : static_cast<uint64_t>(datapath_now().ns());
  std::printf("RUBATO_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// The requests that no thread runs now.
class Pool {
 public:
  void put(Request* request) {
    std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  Request* take(Prng& dice) {
    std::lock_guard lock(mutex_);
    if (requests_.empty()) return nullptr;
    const uint32_t at = dice.below(static_cast<uint32_t>(requests_.size()));
    std::swap(requests_[at], requests_.back());
    Request* request = requests_.back();
    requests_.pop_back();
    return request;
  }

 private:
  std::mutex mutex_;
  std::vector<Request*> requests_;
};

class Workers {
 public:
  // `steer`: the threads that run requests also steer their flows.
  Workers(DatapathFixture& fixture, uint32_t count, uint64_t seed, bool steer = false)
      : fixture_(fixture), steer_(steer) {
    for (uint32_t i = 0; i < count; ++i) threads_.emplace_back([this, i, seed] { run(i, seed); });
  }
  ~Workers() {
    stop_ = true;
    for (uint32_t q = 0; q < fixture_.datapath().queues(); ++q) {
      fixture_.datapath().queue(WorkerId{q}).wake();
    }
    for (std::thread& thread : threads_) thread.join();
    // Clients that vanished have left requests behind.
    Prng dice(1);
    while (Request* request = pool_.take(dice)) serve(*request, dice);
  }

 private:
  void run(uint32_t index, uint64_t seed) {
    Prng dice(seed + index);
    const uint32_t queues = fixture_.datapath().queues();
    while (!stop_) {
      std::array<Request*, 8> burst{};
      DatapathQueue& queue = fixture_.datapath().queue(WorkerId{dice.below(queues)});
      const uint32_t n = queue.poll(std::span(burst).first(1 + dice.below(8)));
      for (uint32_t i = 0; i < n; ++i) pool_.put(burst[i]);
      Request* request = pool_.take(dice);
      if (request != nullptr) {
        serve(*request, dice);
      } else if (index < queues && n == 0) {
        fixture_.datapath().queue(WorkerId{index}).wait(Nanos::millis(1));
      } else {
        std::this_thread::yield();
      }
      if (dice.below(64) == 0) fixture_.datapath().queue(WorkerId{dice.below(queues)}).wake();
    }
  }

  void serve(Request& request, Prng& dice) {
    if (request.payload == "quit\n") request.close_after = true;
    request.reply->append(request.payload);
    if (dice.below(16) == 0) request.datapath->flush(request);
    if (steer_ && dice.below(4) == 0) {
      fixture_.datapath().steer(request.flow, WorkerId{dice.below(fixture_.datapath().queues())});
    }
    if (Request* next = request.datapath->finish(request)) pool_.put(next);
  }

  DatapathFixture& fixture_;
  const bool steer_;
  Pool pool_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// Threads that send whatever flow they find to any queue.
class Steerers {
 public:
  Steerers(DatapathFixture& fixture, uint32_t count, uint64_t seed) : fixture_(fixture) {
    for (uint32_t i = 0; i < count; ++i) threads_.emplace_back([this, i, seed] { run(i, seed); });
  }
  ~Steerers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void run(uint32_t index, uint64_t seed) {
    Prng dice(seed * 7 + index);
    Datapath& datapath = fixture_.datapath();
    while (!stop_) {
      std::vector<uint64_t> flows;
      datapath.for_each_flow([&](const FlowInfo& info) { flows.push_back(info.flow); });
      for (int i = 0; i < 50 && !flows.empty(); ++i) {
        const uint64_t flow = flows[dice.below(static_cast<uint32_t>(flows.size()))];
        if (dice.below(4) == 0) {
          datapath.unsteer(flow);
        } else {
          datapath.steer(flow, WorkerId{dice.below(datapath.queues())});
        }
        if (dice.below(4) == 0) std::this_thread::yield();
      }
      std::this_thread::yield();
    }
  }

  DatapathFixture& fixture_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// One client's life; false if a reply was wrong.
bool live(TestClient& client, Prng& dice) {
  std::string sent;
  std::string got;
  const uint32_t rounds = 1 + dice.below(6);
  int number = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::string text;
    const uint32_t lines = 1 + dice.below(40);
    for (uint32_t i = 0; i < lines; ++i) text += std::to_string(number++) + "\n";
    // Cut anywhere, so that requests arrive in pieces.
    const size_t cut = dice.below(static_cast<uint32_t>(text.size()));
    if (!client.send(text.substr(0, cut)) || !client.send(text.substr(cut))) return false;
    sent += text;
    if (dice.below(2) == 0) got += client.receive(sent.size() - got.size());
  }
  switch (dice.below(4)) {
    case 0: client.reset(); return true;
    case 1: client.half_close(); break;
    case 2:
      if (!client.send("quit\n")) return false;
      sent += "quit\n";
      break;
    default: break;
  }
  got += client.receive(sent.size() - got.size());
  EXPECT_EQ(got, sent);
  return got == sent;
}

class DatapathStress : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Kinds, DatapathStress, ::testing::Values("tcp", "loopback"),
                         [](const auto& kind) { return kind.param; });

TEST_P(DatapathStress, flows_survive_many_threads) {
  const uint64_t seed = seed_of_run();
  FixtureOptions options;
  options.queues = 2;
  auto fixture = make_fixture(GetParam(), options);
  {
    Workers workers(*fixture, 4, seed);
    std::vector<std::thread> clients;
    for (uint64_t c = 0; c < 6; ++c) {
      clients.emplace_back([&fixture, c, seed] {
        Prng dice(seed * 31 + c);
        for (int life = 0; life < 40; ++life) {
          auto client = fixture->connect();
          ASSERT_TRUE(client->connected());
          if (!live(*client, dice)) return;
          client->reset();
        }
      });
    }
    std::thread inspector([&] {
      Prng dice(seed ^ 0xabcdef);
      for (int i = 0; i < 200; ++i) {
        fixture->datapath().for_each_flow([](const FlowInfo& info) { EXPECT_GT(info.flow, 0u); });
        fixture->datapath().stats();
        fixture->datapath().in_flight();
        std::this_thread::yield();
      }
    });
    for (std::thread& client : clients) client.join();
    inspector.join();
  }
  EXPECT_TRUE(fixture->all_closed());
  EXPECT_EQ(fixture->datapath().stats().flows_open, 0u);
}

TEST_P(DatapathStress, flows_survive_being_steered_by_many_threads) {
  const uint64_t seed = seed_of_run();
  FixtureOptions options;
  options.queues = 3;
  auto fixture = make_fixture(GetParam(), options);
  {
    Workers workers(*fixture, 4, seed, true);
    Steerers steerers(*fixture, 2, seed);
    std::vector<std::thread> clients;
    for (uint64_t c = 0; c < 6; ++c) {
      clients.emplace_back([&fixture, c, seed] {
        Prng dice(seed * 31 + c);
        for (int life = 0; life < 40; ++life) {
          auto client = fixture->connect();
          ASSERT_TRUE(client->connected());
          if (!live(*client, dice)) return;
          client->reset();
        }
      });
    }
    for (std::thread& client : clients) client.join();
  }
  EXPECT_TRUE(fixture->all_closed());
  const DatapathStats stats = fixture->datapath().stats();
  EXPECT_EQ(stats.flows_open, 0u);
  EXPECT_EQ(stats.flows_migrated, 0u);
  EXPECT_GT(stats.flows_steered, 100u);
}

TEST_P(DatapathStress, steered_flows_are_closed_and_drained_under_load) {
  const uint64_t seed = seed_of_run();
  FixtureOptions options;
  options.queues = 2;
  auto fixture = make_fixture(GetParam(), options);
  {
    Workers workers(*fixture, 3, seed, true);
    Steerers steerers(*fixture, 1, seed);
    std::vector<std::thread> clients;
    for (uint64_t c = 0; c < 4; ++c) {
      clients.emplace_back([&fixture, c] {
        for (int life = 0; life < 200; ++life) {
          auto client = fixture->connect();
          if (!client->connected()) break;
          // Replies may be cut off anywhere, but what comes is a prefix of the truth.
          const std::string text = "a\nb\nc\nd\ne\nf\n";
          if (!client->send(text)) continue;
          const std::string got = client->receive(text.size());
          EXPECT_EQ(got, text.substr(0, got.size())) << c;
        }
      });
    }
    Prng dice(seed);
    for (int i = 0; i < 300; ++i) {
      std::vector<uint64_t> flows;
      fixture->datapath().for_each_flow([&](const FlowInfo& info) { flows.push_back(info.flow); });
      if (!flows.empty()) {
        fixture->datapath().close_flow(flows[dice.below(static_cast<uint32_t>(flows.size()))]);
      }
      std::this_thread::yield();
    }
    fixture->datapath().drain();
    for (std::thread& client : clients) client.join();
  }
  EXPECT_TRUE(fixture->all_closed());
  EXPECT_EQ(fixture->datapath().in_flight(), 0u);
}

}  // namespace
}  // namespace rubato::testing
