// SPDX-License-Identifier: Apache-2.0
//
// A server with one worker and a handler that knows nothing of checkpoints. "wait" loops until a
// "short" request has been served, or for so many seconds (the argument); "work" loops for some 10
// ms. Says whether the short request overtook, and how often both were preempted.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <rubato/rubato.hpp>

#include "reply_line.h"

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> g_waiting{false};
std::atomic<bool> g_served{false};
volatile unsigned g_sink;

bool wait_for_the_other(Clock::duration limit) {
  const Clock::time_point end = Clock::now() + limit;
  g_waiting = true;
  unsigned value = 1;
  while (!g_served.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 10'000; ++i) value = value * 1664525 + 1013904223;
    g_sink = value;
    if (Clock::now() > end) return false;
  }
  return true;
}

void work_for(Clock::duration time) {
  const Clock::time_point end = Clock::now() + time;
  unsigned value = 1;
  while (Clock::now() < end) {
    for (int i = 0; i < 100'000; ++i) value = value * 1664525 + 1013904223;
    g_sink = value;
  }
}

void handle(rubato::Request& request, std::chrono::seconds limit) {
  const std::string_view what = request.payload();
  bool overtaken = false;
  if (what == "wait") overtaken = wait_for_the_other(limit);
  if (what == "work") work_for(std::chrono::milliseconds(10));
  if (what == "short") g_served = true;
  request.reply((overtaken ? "yes " : "no ") + std::to_string(request.preemptions()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::chrono::seconds limit(argc > 1 ? std::atoi(argv[1]) : 60);
  rubato::Application application;
  application.framing = rubato::Framing::kLines;
  application.handle = [limit](rubato::Request& request) { handle(request, limit); };
  rubato::Options options;
  options.workers = 1;
  options.policy = "ps";
  options.transport = rubato::Transport::kLoopback;
  auto server = rubato::Server::create(options, std::move(application));
  if (!server) {
    std::fprintf(stderr, "live: %s\n", server.error().c_str());
    return 1;
  }
  std::thread runner([&] { static_cast<void>(server->run()); });
  {
    rubato::LoopbackClient one(*server), other(*server);
    one.send("wait\n");
    while (!g_waiting) std::this_thread::yield();
    other.send("short\n");
    reply_line(other);
    const std::string first = reply_line(one);
    if (first.starts_with("yes ")) {
      std::printf("overtaken after %s preemptions; ", first.c_str() + 4);
    } else {
      std::printf("not overtaken; ");
    }
    one.send("work\n");
    other.send("work\n");
    reply_line(other);
    std::printf("10 ms of work: %s preemptions\n", reply_line(one).c_str() + 3);
  }
  server->stop();
  runner.join();
  return 0;
}
