// SPDX-License-Identifier: Apache-2.0
#include "sim/hosted_server.h"

#include <gtest/gtest.h>

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
