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
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
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

// The options above.
struct Asked {
  uint32_t workers_max = kWorkersMost;
  uint32_t workers = 1;
  uint32_t requests = 0;  // 0 = count
  std::string policy;     // empty = all
};

[[noreturn]] void refuse(const char* option, const char* takes) {
  std::fprintf(stderr, "virtual_counts: %s takes %s\n", option, takes);
  std::exit(2);
}

bool is_live(std::string_view name) {
  return std::ranges::any_of(testing::all_live(),
                             [name](const auto& policy) { return name == policy.name; });
}

void read_number(const char* option, std::string_view text, uint32_t most, uint32_t& number) {
  const char* const end = text.data() + text.size();
  const auto [read_to, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error == std::errc() && read_to == end;
  if (!is_number || number < 1 || number > most) {
    refuse(option, ("1 to " + std::to_string(most)).c_str());
  }
}

Asked asked_for(std::span<char*> words) {
  Asked asked;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string_view name = words[i];
    const std::string_view value = i + 1 < words.size() ? words[i + 1] : "";
    if (name == "--workers-max") {
      read_number(words[i], value, kWorkersMost, asked.workers_max);
    } else if (name == "--workers") {
      read_number(words[i], value, kWorkersMost, asked.workers);
    } else if (name == "--requests") {
      read_number(words[i], value, UINT32_MAX, asked.requests);
    } else if (name == "--policy" && is_live(value)) {
      asked.policy = value;
    } else if (name == "--policy") {
      refuse("--policy", "the name of a live policy");
    } else {
      refuse("it", "--workers-max, --workers, --requests and --policy, each with a value");
    }
  }
  if (asked.requests > 0 && asked.policy.empty()) refuse("--requests", "--policy beside it");
  return asked;
}

}  // namespace
}  // namespace rubato

int main(int argc, char** argv) {
  const rubato::Asked asked = rubato::asked_for({argv + 1, static_cast<size_t>(argc - 1)});
  if (asked.requests > 0) {
    rubato::virt::run(rubato::world(), [&] {
      rubato::Row row(asked.policy.c_str(), asked.workers, rubato::Idle::kAdaptive);
      row.serve(asked.requests);
    });
    return EXIT_SUCCESS;
  }
  bool good = true;
  for (const auto& policy : rubato::testing::all_live()) {
    if (!asked.policy.empty() && asked.policy != policy.name) continue;
    for (uint32_t workers = 1; workers <= asked.workers_max; workers *= 2) {
      good &= rubato::print_row(policy.name, workers);
    }
  }
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
