// SPDX-License-Identifier: Apache-2.0
//
// A server whose handler takes plain locks of pthreads and computes under them, with checkpoints
// compiled in there, to be linked with librubato-interpose.so. Prints the fate of the preemptions
// that fell due under an uncontended lock: how often one happened under the lock, and how often not
// exactly one at its release. Then, unless called with an argument, two workers' requests compete
// for locks in nested order, and wait for each other at a condition; says what they have counted
// without atomics.
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <rubato/rubato.hpp>

#include "reply_line.h"

namespace {

constexpr int kClients = 8;
constexpr int kOthers = 3;  // with one more two workers always leave one waiting
constexpr int kRounds = 20;           // of all clients, at least
constexpr int kMostRounds = 2000;     // on a machine that preempts no request
constexpr unsigned long kEnough = 100;  // preemptions
constexpr int kHeldRounds = 25;
constexpr int kTurns = 10;  // of a request at the locks
constexpr int kShort = 30'000;    // steps of the computation
constexpr int kLong = 2'000'000;  // dozens of quanta

pthread_mutex_t g_outer = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t g_inner = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t g_changed = PTHREAD_COND_INITIALIZER;
unsigned long g_outer_count = 0;
unsigned long g_inner_count = 0;
unsigned long g_left = 0;  // items that one request has put down for another
unsigned long g_taken = 0;
std::atomic<bool> g_done{false};
volatile unsigned g_sink;

// Not inlined: inlined into a caller without checkpoints, the loop would lose its own.
__attribute__((noinline)) unsigned compute(unsigned value, int rounds) {
  for (int i = 0; i < rounds; ++i) value = value * 1664525 + 1013904223;
  return value;
}

// Counts how often the request was preempted under the lock, and how often not exactly once at its
// release. The function has no checkpoint of its own, which might stand between the release and the
// look at the count.
RUBATO_NO_PREEMPT std::array<int, 2> hold_a_lock(const rubato::Request& request) {
  pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
  std::array<int, 2> wrong{};
  for (int i = 0; i < kHeldRounds; ++i) {
    pthread_mutex_lock(&mine);
    const uint32_t before = request.preemptions();
    g_sink = compute(g_sink, kLong);
    const uint32_t under = request.preemptions();
    pthread_mutex_unlock(&mine);
    const uint32_t after = request.preemptions();
    wrong[0] += under != before ? 1 : 0;
    wrong[1] += after != under + 1 ? 1 : 0;
  }
  return wrong;
}

// Every second request gives an item and the others take one, so that each taker waits for a giver.
void meet_at_the_condition(bool gives) {
  pthread_mutex_lock(&g_inner);
  if (gives) {
    ++g_left;
    pthread_cond_broadcast(&g_changed);
  } else {
    while (g_left == 0) pthread_cond_wait(&g_changed, &g_inner);
    --g_left;
    ++g_taken;
  }
  pthread_mutex_unlock(&g_inner);
}

void compete(bool gives) {
  for (int turn = 0; turn < kTurns; ++turn) {
    pthread_mutex_lock(&g_outer);
    const unsigned long outer = g_outer_count;
    g_sink = compute(g_sink, kShort);
    pthread_mutex_lock(&g_inner);
    const unsigned long inner = g_inner_count;
    g_sink = compute(g_sink, kShort);
    g_inner_count = inner + 1;
    pthread_mutex_unlock(&g_inner);
    g_outer_count = outer + 1;
    pthread_mutex_unlock(&g_outer);
    g_sink = compute(g_sink, kShort);
    meet_at_the_condition(gives);
  }
}

void handle(rubato::Request& request) {
  const std::string_view what = request.payload();
  if (what == "held") {
    const auto [under, at_release] = hold_a_lock(request);
    request.reply(std::to_string(under) + " " + std::to_string(at_release));
    return;
  }
  if (what == "go on") {
    while (!g_done) g_sink = compute(g_sink, kShort);
    request.reply("");
    return;
  }
  compete(what == "give");
  request.reply(std::to_string(request.preemptions()));
}

using Clients = std::vector<std::unique_ptr<rubato::LoopbackClient>>;

Clients clients_of(rubato::Server& server, int number) {
  Clients clients;
  for (int i = 0; i < number; ++i) {
    clients.push_back(std::make_unique<rubato::LoopbackClient>(server));
  }
  return clients;
}

// A request always waits for the worker, otherwise none would be preempted.
void hold(rubato::Server& server) {
  Clients others = clients_of(server, kOthers);
  Clients clients = clients_of(server, kClients);
  for (auto& client : others) client->send("go on\n");
  for (auto& client : clients) client->send("held\n");
  int under = 0;
  int at_release = 0;
  for (auto& client : clients) {
    int first = 0;
    int second = 0;
    if (std::sscanf(reply_line(*client).c_str(), "%d %d", &first, &second) != 2) std::abort();
    under += first;
    at_release += second;
  }
  g_done = true;
  for (auto& client : others) reply_line(*client);
  std::printf("held %d times: %d under the lock, %d not once at its release\n",
              kClients * kHeldRounds, under, at_release);
}

void share(rubato::Server& server) {
  Clients clients = clients_of(server, kClients);
  unsigned long preemptions = 0;
  int rounds = 0;
  for (; rounds < kRounds || (preemptions < kEnough && rounds < kMostRounds); ++rounds) {
    for (int i = 0; i < kClients; ++i) clients[i]->send(i % 2 == 0 ? "give\n" : "take\n");
    for (auto& client : clients) preemptions += std::stoul(reply_line(*client));
  }
  const int turns = kClients * rounds * kTurns;
  std::printf("shared: %lu %lu %lu of %d %d %d; %lu preemptions\n", g_outer_count, g_inner_count,
              g_taken, turns, turns, turns / 2, preemptions);
}

}  // namespace

int main(int argc, char**) {
  rubato::Application application;
  application.framing = rubato::Framing::kLines;
  application.handle = [](rubato::Request& request) { handle(request); };
  rubato::Options options;
  options.policy = "ps";
  options.workers = 2;
  options.preempt = rubato::Preempt::kCheckpoint;
  options.transport = rubato::Transport::kLoopback;
  auto server = rubato::Server::create(options, std::move(application));
  if (!server) {
    std::fprintf(stderr, "locks: %s\n", server.error().c_str());
    return 1;
  }
  std::thread runner([&] { static_cast<void>(server->run()); });
  hold(*server);
  if (argc == 1) share(*server);
  server->stop();
  runner.join();
  return 0;
}
