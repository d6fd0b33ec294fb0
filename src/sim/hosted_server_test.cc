// SPDX-License-Identifier: Apache-2.0
#include "sim/hosted_server.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "workload/source.h"

namespace rubato::sim {
namespace {

struct Answers final : ServerClient {
  void answered(uint64_t token, Fate fate, Instant at) override {
    ++(fate == Fate::kServed ? served : others);
    if (fate == Fate::kServed) latency_ns += static_cast<double>((at - sent[token]).count());
  }
  std::vector<Instant> sent;
  uint64_t served = 0, others = 0;
  double latency_ns = 0;
};

Setup setup_of() {
  Setup setup;
  setup.workers = 4;
  setup.requests = 20'000;
  setup.warmup = 0;
  setup.workload.mixes = {parse_mix("short:exp(2us):9,long:exp(50us):1").value()};
  setup.workload.rate = 4e5;
  setup.costs.network_rtt = Nanos::micros(3);
  return setup;
}

// Who sends a hosted server what a run would draw sees what the run does.
TEST(HostedServer, serves_as_a_run_of_the_same_requests_does) {
  for (const char* policy : {"cfcfs", "fcfs", "ps", "shinjuku", "synergy", "sbb", "darc",
                             "tinyquanta", "jbsq", "altocumulus"}) {
    const sim::Setup setup = setup_of();
    const Outcome run = simulate(policy, {}, setup).value();
    double run_ns = 0;
    for (const TypeOutcome& type : run.types) run_ns += type.latency.sum_ns();
    Answers answers;
    auto hosted = host_server(policy, {}, setup, answers);
    ASSERT_TRUE(hosted.ok()) << hosted.error();
    HostedServer& server = **hosted;
    RequestSource source(setup.workload, setup.seed);
    for (uint64_t i = 0; i < setup.requests; ++i) {
      SentRequest request;
      request.offer = source.next();
      request.token = i;
      answers.sent.push_back(request.offer.at);
      while (server.next() < request.offer.at) server.step();
      server.send(request);
    }
    while (answers.served + answers.others < setup.requests) server.step();
    EXPECT_EQ(answers.others, 0u) << policy;
    EXPECT_DOUBLE_EQ(answers.latency_ns, run_ns) << policy;
    EXPECT_EQ(server.totals().inside, 0u) << policy;
  }
}

TEST(HostedServer, does_not_begin_what_is_past_its_deadline) {
  Answers answers;
  sim::Setup setup = setup_of();
  setup.workers = 1;
  auto hosted = host_server("cfcfs", {}, setup, answers);
  HostedServer& server = *hosted.value();
  for (uint64_t i = 0; i < 3; ++i) {
    SentRequest request;
    request.offer = {Instant(static_cast<int64_t>(i)), Nanos::micros(10), 0, 0, 0};
    request.token = i;
    request.deadline = Instant(15'000);
    answers.sent.push_back(request.offer.at);
    server.send(request);
  }
  while (answers.served + answers.others < 3) server.step();
  EXPECT_EQ(answers.served, 2u);  // the third could begin after 21.5 us
  EXPECT_EQ(answers.others, 1u);
}

// Stalls come from a stream of their own, and go on while nobody sends anything.
TEST(HostedServer, has_the_stalls_of_its_machine) {
  sim::Setup setup = setup_of();
  setup.workers = 1;  // several would avoid the one that stalls
  sim::Setup without = setup;
  setup.costs.stalls.every = Nanos::millis(5);
  setup.costs.stalls.length = Nanos::micros(200);
  Answers plain_answers, answers;
  const auto mean_ns = [](HostedServer& server, Answers& got) {
    for (uint64_t i = 0; i < 2000; ++i) {
      SentRequest request;
      request.offer.at = Instant(static_cast<int64_t>(i) * 100'000);
      request.offer.service = Nanos::micros(40);
      request.token = i;
      got.sent.push_back(request.offer.at);
      while (server.next() < request.offer.at) server.step();
      server.send(request);
    }
    while (got.served < 2000) server.step();
    return got.latency_ns / 2000;
  };
  const double plain = mean_ns(*host_server("cfcfs", {}, without, plain_answers).value(),
                               plain_answers);
  const double stalled = mean_ns(*host_server("cfcfs", {}, setup, answers).value(), answers);
  // Stalled 4 % of the time, for another 100 us of who finds it so, and 200 us of who runs then.
  EXPECT_GT(stalled, plain + 2000);
  EXPECT_LT(stalled, plain + 30'000);
}

struct Fates final : ServerClient {
  void answered(uint64_t token, Fate fate, Instant at) override { all[token] = {fate, at}; }
  std::map<uint64_t, std::pair<Fate, Instant>> all;
};

// Of two requests of a millisecond, on one worker, the second waits. What runs ends with its slice.
TEST(HostedServer, leaves_what_is_abandoned) {
  for (const bool running : {false, true}) {
    Fates fates;
    sim::Setup setup = setup_of();
    setup.workers = 1;
    auto hosted = host_server("ps", {{"quantum", "100us"}}, setup, fates);
    ASSERT_TRUE(hosted.ok());
    HostedServer& server = **hosted;
    bool abandoned = false;
    for (uint64_t i = 0; i < 2; ++i) {
      SentRequest request;
      request.offer.service = Nanos::millis(1);
      request.token = i;
      if (running == (i == 0)) request.abandoned = &abandoned;
      server.send(request);
    }
    while (server.next() < Instant(50'000)) server.step();
    abandoned = true;
    while (fates.all.size() < 2) server.step();
    const auto& [fate, at] = fates.all[running ? 0 : 1];
    EXPECT_EQ(fate, Fate::kRefused) << running;
    EXPECT_LT(at, Instant(Nanos::micros(250).count())) << running;
    EXPECT_EQ(fates.all[running ? 1 : 0].first, Fate::kServed);
    EXPECT_LT(fates.all[running ? 1 : 0].second, Instant(Nanos::micros(1150).count()));
    EXPECT_EQ(server.totals().inside, 0u);
  }
}

TEST(HostedServer, what_does_not_fit_is_refused) {
  Answers answers;
  EXPECT_FALSE(host_server("none", {}, setup_of(), answers).ok());
  EXPECT_FALSE(host_server("ps", {{"frob", "1"}}, setup_of(), answers).ok());
  sim::Setup setup = setup_of();
  setup.workers = 0;
  EXPECT_FALSE(host_server("ps", {}, setup, answers).ok());
  setup = setup_of();
  setup.elastic.emplace();
  EXPECT_FALSE(host_server("synergy", {}, setup, answers).ok());
}

}  // namespace
}  // namespace rubato::sim
