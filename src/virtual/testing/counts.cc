// SPDX-License-Identifier: Apache-2.0
//
// virtual_counts: what a request costs in events and not in time, by policy and number of workers:
// memory accesses, cache lines that go from thread to thread, wake-ups and system calls of the live
// runtime. Prints a line of JSON for each row. The load is the same for all: requests come at
// random to random connections, 16 for each worker, and ask for 60 % of the workers. Each row is
// counted twice: idle workers sleep at once, so that nothing is counted which they do while they
// spin; or they spin and never sleep, so that no line is written for sleeps and wake-ups.
//
//   virtual_counts [--workers-max N] [--policy NAME]
//
// With --requests it serves so many with one number of workers, which sleep, and counts nothing: a
// tool outside counts the instructions.
//
//   virtual_counts --requests N --workers N --policy NAME
//
// tools/scaling.py runs it, both ways.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/prng.h"
#include "runtime/testing/letter_app.h"
#include "runtime/testing/live_policies.h"
#include "virtual/testing/compute.h"
#include "virtual/world.h"

namespace rubato {
namespace {

constexpr uint64_t kSeed = 1;
constexpr uint32_t kWorkersMost = 64;
constexpr uint32_t kFlowsPerWorker = 16;
constexpr double kLoad = 0.6;
constexpr Nanos kSpinSkip = Nanos::micros(5);

// One request in 20 is long; the mean is 20 us.
constexpr uint32_t kLongOneIn = 20;
constexpr Nanos kShort = Nanos::micros(10);
constexpr Nanos kLong = Nanos::micros(210);
constexpr double kMeanNs = 20'000;

// The first requests are not counted: threads and fibers are made, tables grow.
constexpr uint32_t kWarmUp = 500;
constexpr uint32_t kCounted = 2'000;
// More with many workers, so that each serves some.
constexpr uint32_t kPerWorker = 50;

void compute(Nanos time) { virt::testing::compute(time, Nanos::micros(1)); }

void handle(Request& request) {
  if (request.type == 'L') {
    long_begin();
    compute(kLong);
    long_end();
  } else {
    compute(kShort);
  }
  request.reply->append(request.payload);
}

struct Mark {
  uint64_t requests;
  virt::WorldCounts counts;
};

class Row {
 public:
  Row(const char* policy, uint32_t workers, Idle idle)
      : idle_(idle), workers_(workers), prng_(kSeed), server_(policy, workers) {
    server_.options.preemption_clock = PreemptionClock::kSelf;
    server_.options.idle = idle;
    server_.options.idle_spin = Nanos();
    server_.loop = [] {
      while (Request* request = recv()) {
        handle(*request);
        send(*request);
      }
    };
  }

  void serve(uint32_t requests) {
    start();
    offer(requests);
    static_cast<void>(server_.stop());
  }

  void print() {
    start();
    offer(kWarmUp + kPerWorker * workers_ / 4);
    const Mark begin = mark();
    const uint32_t counted = kCounted + kPerWorker * workers_;
    offer(counted);
    const Mark end = mark();
    print(begin, end, counted);
    static_cast<void>(server_.stop());
  }

 private:
  void start() {
    server_.start();
    for (uint32_t f = 0; f < workers_ * kFlowsPerWorker; ++f) {
      flows_.push_back(server_.connect(f % workers_));
    }
    due_ = virt::clock() + Nanos::millis(1);
  }

  void offer(uint32_t requests) {
    for (uint32_t i = 0; i < requests; ++i) {
      due_ = due_ + gap();
      virt::spend(std::max(due_ - virt::clock(), Nanos()));
      const bool is_long = prng_.below(kLongOneIn) == 0;
      server_.submit(flows_[prng_.below(static_cast<uint32_t>(flows_.size()))],
                     is_long ? "L\n" : "S\n");
    }
  }

  Nanos gap() {
    const double mean = kMeanNs / (kLoad * workers_);
    return Nanos(static_cast<int64_t>(-std::log(1 - prng_.uniform()) * mean));
  }

  Mark mark() const { return {server_.runtime->stats().requests, virt::counts_so_far()}; }

  void print(const Mark& begin, const Mark& end, uint32_t offered) const {
    const auto requests = static_cast<double>(end.requests - begin.requests);
    const auto each = [requests](uint64_t from, uint64_t to) {
      return static_cast<double>(to - from) / requests;
    };
    const virt::WorldCounts& a = begin.counts;
    const virt::WorldCounts& b = end.counts;
    // Of the whole run: the line that is taken most is not known before its end.
    const double one_line =
        static_cast<double>(b.line_taken_most) / static_cast<double>(end.requests);
    if (idle_ == Idle::kSpin) {
      std::printf(", \"spinning_lines_written\": %.2f, \"spinning_one_line\": %.3f",
                  each(a.lines_taken, b.lines_taken), one_line);
      return;
    }
    std::printf("\"answered\": %.3f, \"accesses\": %.1f, \"lines_written\": %.2f, "
                "\"lines_read\": %.2f, \"one_line\": %.3f, \"wakes\": %.3f, \"calls\": %.3f",
                requests / offered,
                each(a.accesses + a.plain_accesses, b.accesses + b.plain_accesses),
                each(a.lines_taken, b.lines_taken), each(a.lines_fetched, b.lines_fetched),
                one_line, each(a.wake_ups, b.wake_ups), each(a.calls, b.calls));
  }

  const Idle idle_;
  const uint32_t workers_;
  Prng prng_;
  testing::LetterServer server_;
  std::vector<uint64_t> flows_;
  Instant due_;
};

virt::WorldOptions world() {
  virt::WorldOptions options;
  options.seed = kSeed;
  options.first_is_free = true;
  options.spin_skip = kSpinSkip;
  return options;
}

bool print_counts(const char* policy, uint32_t workers, Idle idle) {
  return virt::apart([=] {
    virt::WorldOptions options = world();
    options.count_lines = true;
    virt::run(options, [=] { Row(policy, workers, idle).print(); });
    return true;
  });
}

bool print_row(const char* policy, uint32_t workers) {
  std::printf("{\"policy\": \"%s\", \"workers\": %u, ", policy, workers);
  const bool good = print_counts(policy, workers, Idle::kAdaptive) &&
                    print_counts(policy, workers, Idle::kSpin);
  std::printf("}\n");
  return good;
}

}  // namespace
}  // namespace rubato

int main(int argc, char** argv) {
  uint32_t most = rubato::kWorkersMost;
  uint32_t workers_asked = 1;
  uint32_t requests = 0;
  const char* only = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto number = static_cast<uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    if (std::strcmp(argv[i], "--workers-max") == 0) most = number;
    if (std::strcmp(argv[i], "--workers") == 0) workers_asked = number;
    if (std::strcmp(argv[i], "--requests") == 0) requests = number;
    if (std::strcmp(argv[i], "--policy") == 0) only = argv[i + 1];
  }
  if (requests > 0 && only != nullptr) {
    rubato::virt::run(rubato::world(), [&] {
      rubato::Row(only, workers_asked, rubato::Idle::kAdaptive).serve(requests);
    });
    return EXIT_SUCCESS;
  }
  bool good = true;
  for (const auto& policy : rubato::testing::all_live()) {
    if (only != nullptr && std::strcmp(only, policy.name) != 0) continue;
    for (uint32_t workers = 1; workers <= most; workers *= 2) {
      good &= rubato::print_row(policy.name, workers);
    }
  }
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
