// SPDX-License-Identifier: Apache-2.0
#include "overload/admission.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>

#include "base/prng.h"
#include "overload/testing/counting_platform.h"

namespace rubato::overload {
namespace {

using testing::CountingPlatform;
using testing::Writes;
using Session = AdmissionSession<CountingPlatform>;

constexpr size_t kOverloaded = 1;

// Sessions lie on lines of their own, apart from those of the admission: they go from worker to
// worker with their requests.
struct alignas(limits::kCacheLineBytes) Client {
  explicit Client(uint64_t flow) : session(flow) {}
  Session session;
  QueuedRequest request;
};

// A server of many workers, played by one thread.
class Server {
 public:
  Server(uint32_t workers, uint32_t sessions) : admission(settings_of(workers)) {
    Writes::all().reset();
    for (uint32_t i = 0; i < sessions; ++i) {
      clients.push_back(std::make_unique<Client>(i));
      admission.open(i % workers, clients.back()->session, 3, now);
    }
  }
  ~Server() {
    Writes::all().play(Writes::kNobody);
    for (auto& client : clients) admission.close(0, client->session);
    EXPECT_EQ(admission.pool().issued(), 0);
    EXPECT_EQ(admission.pool().pending(), 0);
    EXPECT_EQ(admission.pool().drained(), 0);
    Writes::all().reset();
  }

  static AdmissionSettings settings_of(uint32_t workers) {
    AdmissionSettings settings;
    settings.workers = workers;
    return settings;
  }

  // A request comes to one worker and is served by another, or refused.
  void request(Client& client, uint32_t arrives_at, uint32_t runs_on, bool late) {
    Writes::all().play(arrives_at);
    const Arrival arrival = admission.arrived(arrives_at, client.session, client.request, 5, now,
                                              now);
    Writes::all().play(runs_on);
    admission.classify(runs_on, client.request, true);
    const Instant then = now + (late ? Nanos::millis(1) : Nanos::micros(1));
    if (arrival == Arrival::kServe && admission.started(runs_on, client.request, then)) {
      admission.replied(runs_on, client.session, client.request, Nanos::micros(10), then);
    } else {
      admission.refused(runs_on, client.session, client.request, kOverloaded, then);
    }
    Writes::all().play(Writes::kNobody);
  }

  bool is_of_a_client(uintptr_t address) const {
    return std::any_of(clients.begin(), clients.end(), [&](const auto& client) {
      const auto begin = reinterpret_cast<uintptr_t>(client.get());
      return address >= begin && address < begin + sizeof(Client);
    });
  }

  Instant now{1'000'000};
  Admission<CountingPlatform> admission;
  std::vector<std::unique_ptr<Client>> clients;
};

class AdmissionWorkers : public ::testing::TestWithParam<uint32_t> {};

// Whatever worker runs a request: neither where it came from nor anybody else writes those lines.
TEST_P(AdmissionWorkers, a_request_takes_no_lock_and_writes_no_line_that_another_worker_writes) {
  const uint32_t workers = GetParam();
  Server server(workers, workers * 4);
  Prng dice(workers);
  for (int i = 0; i < 4000; ++i) {
    // A session's lines go with its requests, so each worker has its own clients here.
    const uint32_t worker = dice.below(workers);
    Client& client = *server.clients[worker + workers * dice.below(4)];
    server.request(client, worker, worker, dice.below(4) == 0);
    if (dice.below(8) == 0) {
      std::array<uint64_t, 4> offered;
      server.now = server.now + Nanos::micros(10);
      server.admission.update(server.now, offered);
    }
  }
  EXPECT_EQ(Writes::all().locks(), 0u);
  EXPECT_TRUE(Writes::all().shared_lines().empty());
  EXPECT_GT(Writes::all().writes(), 4000u);
}

// The lines of its session go along with it; those of the worker where it came in are let alone.
TEST_P(AdmissionWorkers, a_stolen_request_is_counted_where_it_runs) {
  const uint32_t workers = GetParam();
  Server server(workers, workers);
  Prng dice(workers);
  for (int i = 0; i < 1000; ++i) {
    const uint32_t victim = dice.below(workers);
    Client& client = *server.clients[victim];
    server.request(client, victim, dice.below(workers), false);
    ASSERT_EQ(server.admission.delay(server.now), Nanos()) << "request " << i;
  }
  EXPECT_EQ(Writes::all().locks(), 0u);
  for (const uintptr_t line : Writes::all().shared_lines()) {
    EXPECT_TRUE(server.is_of_a_client(line)) << "line " << line;
  }
}

TEST_P(AdmissionWorkers, together_do_not_issue_more_than_the_pool_has) {
  const uint32_t workers = GetParam();
  Server server(workers, workers * 8);
  Prng dice(workers);
  std::array<uint64_t, 4> offered;
  for (int round = 0; round < 500; ++round) {
    for (uint32_t i = 0; i < workers; ++i) {
      const uint32_t worker = dice.below(workers);
      Client& client = *server.clients[dice.below(workers * 8)];
      server.request(client, worker, worker, dice.below(50) == 0);
    }
    server.now = server.now + Nanos::micros(100);
    server.admission.update(server.now, offered);
    const auto& pool = server.admission.pool();
    // A session that is served keeps one, and one that is woken gets one; and the pool may shrink.
    ASSERT_LE(pool.issued(), std::max<int64_t>(pool.total(), workers * 8) + workers)
        << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(From1To64, AdmissionWorkers, ::testing::Values(1, 2, 3, 8, 16, 32, 64),
                         [](const auto& of) { return "w" + std::to_string(of.param); });

TEST(Admission, all_credits_that_are_left_go_to_the_worker_that_requests_come_to) {
  Server server(4, 8);
  std::array<uint64_t, 4> offered;
  for (int i = 0; i < 3000; ++i) {
    server.request(*server.clients[0], 2, 2, false);
    server.now = server.now + Nanos::micros(100);
    server.admission.update(server.now, offered);
  }
  const auto& pool = server.admission.pool();
  EXPECT_GT(pool.total(), 20);
  EXPECT_GE(server.clients[0]->session.credit, 5);
}

TEST(Admission, a_drained_session_is_offered_credits_once_and_takes_them_up) {
  Server server(2, 2);
  Client& client = *server.clients[0];
  server.request(client, 0, 1, true);
  ASSERT_EQ(client.session.advertised, 0);
  std::array<uint64_t, 4> offered;
  EXPECT_EQ(server.admission.take_offer(0, client.session, server.now), kNoAdvertisement);
  server.now = server.now + Nanos::millis(1);
  ASSERT_EQ(server.admission.update(server.now, offered), 1u);
  EXPECT_EQ(offered[0], client.session.flow);
  EXPECT_GE(server.admission.take_offer(1, client.session, server.now), 1);
  EXPECT_EQ(server.admission.take_offer(1, client.session, server.now), kNoAdvertisement);
}

TEST(Admission, a_request_that_comes_before_the_offer_is_no_longer_offered_any) {
  Server server(2, 2);
  Client& client = *server.clients[0];
  server.request(client, 0, 0, true);
  std::array<uint64_t, 4> offered;
  ASSERT_EQ(server.admission.arrived(1, client.session, client.request, 0, server.now, server.now),
            Arrival::kServe);
  server.now = server.now + Nanos::micros(20);
  const uint32_t offers = server.admission.update(server.now, offered);
  for (uint32_t i = 0; i < offers; ++i) EXPECT_NE(offered[i], client.session.flow);
  EXPECT_EQ(client.session.offer.load(), 0);
  EXPECT_GE(server.admission.replied(0, client.session, client.request, Nanos(), server.now), 1);
}

TEST(Admission, a_session_that_ends_gives_back_what_it_was_offered) {
  Server server(1, 1);
  Client late(7);
  server.admission.open(0, late.session, 0, server.now);
  ASSERT_EQ(late.session.advertised, 0);
  std::array<uint64_t, 4> offered;
  for (int i = 0; i < 2000 && late.session.offer.load() == 0; ++i) {
    server.now = server.now + Nanos::micros(100);
    server.admission.update(server.now, offered);
  }
  ASSERT_GE(late.session.offer.load(), 1);
  server.admission.close(0, late.session);
  EXPECT_EQ(server.admission.pool().sessions(), 1);
}

TEST(Admission, a_request_that_outlives_its_session_is_told_nothing) {
  Server server(1, 1);
  Client gone(7);
  server.admission.open(0, gone.session, 0, server.now);
  server.admission.arrived(0, gone.session, gone.request, 0, server.now, server.now);
  ASSERT_TRUE(server.admission.started(0, gone.request, server.now));
  server.admission.close(0, gone.session);
  EXPECT_EQ(server.admission.replied(0, gone.session, gone.request, Nanos(), server.now), 0);
  EXPECT_EQ(server.admission.delay(server.now), Nanos());
}

}  // namespace
}  // namespace rubato::overload
