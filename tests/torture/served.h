// SPDX-License-Identifier: Apache-2.0
//
// The workloads of the torture test as requests of the live runtime, under policy `ps`. A request
// "Tn" is a row of workloads and seeds that begins at number n, a few milliseconds in all; what
// gives another result than without preemption is counted.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <string>
#include <vector>

#include "runtime/testing/letter_app.h"
#include "tests/torture/expected.h"

namespace torture {

class Served {
 public:
  Served(rubato::PreemptMechanism mechanism, std::string quantum) {
    server_.options.preempt = mechanism;
    server_.options.policy_settings = {{"quantum", std::move(quantum)}};
    server_.options.stack_bytes = size_t{256} * 1024;
    server_.app.on('T') = [this](rubato::Request& request) { run(request); };
  }

  const std::string& trouble() const { return expected_.trouble(); }

  void start() {
    server_.start();
    for (uint32_t i = 0; i < kFlows; ++i) flows_.push_back(server_.connect(i % kWorkers));
  }

  // One request on each connection, until all are answered.
  void serve_a_round() {
    std::vector<std::string> lines;
    for (const uint64_t flow : flows_) {
      lines.push_back("T" + std::to_string(requests_++ % expected_.count()) + "\n");
      server_.submit(flow, lines.back());
    }
    for (size_t i = 0; i < flows_.size(); ++i) {
      ASSERT_EQ(server_.datapath->receive(flows_[i], lines[i].size(), kPatience), lines[i]);
    }
  }

  bool stop() { return server_.stop(); }

  rubato::RuntimeStats stats() const { return server_.runtime->stats(); }
  uint64_t requests() const { return requests_; }
  uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }  // of workloads

  void expect_results_as_without() const {
    for (size_t i = 0; i < wrong_.size(); ++i) EXPECT_EQ(wrong_[i], 0u) << workloads()[i].name;
  }

 private:
  static constexpr uint32_t kWorkers = 2;
  static constexpr uint32_t kFlows = 16;
  static constexpr uint64_t kRow = 36;
  // For as long as somebody has kept a busy machine.
  static constexpr rubato::Nanos kPatience = rubato::Nanos::seconds(3600);
  static constexpr uint64_t kStride = 13;  // no factor of the numbers of seeds and of workloads

  void run(rubato::Request& request) {
    uint64_t first = 0;
    const std::string_view text = request.payload;
    std::from_chars(text.data() + 1, text.data() + text.size(), first);
    for (uint64_t i = 0; i < kRow; ++i) {
      const uint64_t number = (first + i * kStride) % expected_.count();
      if (!expected_.holds(number)) ++wrong_[number / Expected::kSeeds];
      runs_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  Expected expected_;
  std::vector<std::atomic<uint64_t>> wrong_ =
      std::vector<std::atomic<uint64_t>>(workloads().size());
  std::atomic<uint64_t> runs_{0};
  std::vector<uint64_t> flows_;
  uint64_t requests_ = 0;
  rubato::testing::LetterServer server_{"ps", kWorkers};
};

}  // namespace torture
