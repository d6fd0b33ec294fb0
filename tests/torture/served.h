// SPDX-License-Identifier: Apache-2.0
//
// The workloads of the torture test as requests of the live runtime, under policy `ps`. A request
// "Tn" is a row of workloads and seeds that begins at number n, a few milliseconds in all; what
// gives another result than without preemption is counted.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/testing/letter_app.h"
#include "tests/torture/expected.h"

namespace torture {

class Served {
 public:
  Served(rubato::PreemptMechanism mechanism, std::string quantum, std::span<const Workload> all)
      : expected_(all) {
    own_thread_locals_ = rubato::is_asynchronous(mechanism);
    server_.options.preempt = mechanism;
    server_.options.policy_settings = {{"quantum", std::move(quantum)}};
    server_.app.on('T') = [this](rubato::Request& request) { run(request); };
  }

  // From here on there are always requests that wait, for else nobody would be preempted.
  void start() {
    server_.start();
    for (uint32_t i = 0; i < kFlows; ++i) flows_.push_back({server_.connect(i % kWorkers), {}, {}});
    for (Flow& flow : flows_) {
      for (uint32_t i = 0; i < kAhead; ++i) submit_to(flow);
    }
  }

  // One request more on each connection.
  void serve_a_round() {
    for (Flow& flow : flows_) {
      submit_to(flow);
      ASSERT_NO_FATAL_FAILURE(receive_from(flow));
    }
  }

  // Answers what it has, and ends.
  bool stop() {
    for (Flow& flow : flows_) {
      while (!flow.lines.empty() && !::testing::Test::HasFatalFailure()) receive_from(flow);
    }
    return server_.stop();
  }

  rubato::RuntimeStats stats() const { return server_.runtime->stats(); }
  uint64_t requests() const { return requests_; }
  uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }  // of workloads

  // Of these, how many gave another result.
  uint64_t differing() const {
    uint64_t sum = 0;
    for (const auto& count : wrong_) sum += count.load(std::memory_order_relaxed);
    return sum;
  }

  void expect_results_as_without() const {
    for (size_t i = 0; i < wrong_.size(); ++i) EXPECT_EQ(wrong_[i], 0u) << expected_.all()[i].name;
  }

 private:
  static constexpr uint32_t kWorkers = 2;
  static constexpr uint32_t kFlows = 16;
  static constexpr uint32_t kAhead = 3;
  static constexpr uint64_t kRow = 36;
  // For as long as somebody has kept a busy machine.
  static constexpr rubato::Nanos kPatience = rubato::Nanos::seconds(3600);
  static constexpr uint64_t kStride = 13;  // no factor of the numbers of seeds and of workloads

  struct Flow {
    uint64_t id = 0;
    std::deque<std::string> lines;  // that are not answered yet
    std::string received;           // beyond the last line
  };

  void submit_to(Flow& flow) {
    flow.lines.push_back("T" + std::to_string(requests_++ % expected_.count()) + "\n");
    server_.submit(flow.id, flow.lines.back());
  }

  void receive_from(Flow& flow) {
    const std::string line = std::move(flow.lines.front());
    flow.lines.pop_front();
    if (flow.received.size() < line.size()) {
      const size_t missing = line.size() - flow.received.size();
      flow.received += server_.datapath->receive(flow.id, missing, kPatience);
    }
    ASSERT_EQ(flow.received.substr(0, line.size()), line);
    flow.received.erase(0, line.size());
  }

  void run(rubato::Request& request) {
    uint64_t first = 0;
    const std::string_view text = request.payload;
    std::from_chars(text.data() + 1, text.data() + text.size(), first);
    for (uint64_t i = 0; i < kRow; ++i) {
      const uint64_t number = (first + i * kStride) % expected_.count();
      if (!own_thread_locals_ && expected_.workload(number).own_thread_locals) continue;
      if (!expected_.holds(number)) ++wrong_[number / Expected::kSeeds];
      runs_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  Expected expected_;
  bool own_thread_locals_ = false;
  std::vector<std::atomic<uint64_t>> wrong_ =
      std::vector<std::atomic<uint64_t>>(expected_.all().size());
  std::atomic<uint64_t> runs_{0};
  std::vector<Flow> flows_;
  uint64_t requests_ = 0;
  rubato::testing::LetterServer server_{"ps", kWorkers};
};

}  // namespace torture
