// SPDX-License-Identifier: Apache-2.0
//
// Runs the loop suite; bench/pass_loops.py builds it and makes tables of what it prints, a line of
// JSON per kernel:
//   check                     {"kernel", "same": checksums with and without the pass agree}
//   time SAMPLES              {"kernel", "ns": a round without the pass, "ratios": with / without}
//   gaps MILLISECONDS         {"kernel", "count", "stolen", "p50", ...}: nanoseconds, see gaps.h
//   run VARIANT KERNEL ROUNDS nothing; for valgrind
#include <time.h>
#include <x86intrin.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gaps.h"
#include "loops.h"

namespace rubato::loops {

namespace plain {
std::span<const Kernel> numeric_kernels();
std::span<const Kernel> memory_kernels();
std::span<const Kernel> text_kernels();
std::span<const Kernel> control_kernels();
std::span<const Kernel> library_kernels();
}  // namespace plain
namespace instrumented {
std::span<const Kernel> numeric_kernels();
std::span<const Kernel> memory_kernels();
std::span<const Kernel> text_kernels();
std::span<const Kernel> control_kernels();
std::span<const Kernel> library_kernels();
}  // namespace instrumented

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSampleNs = 2e6;      // of one variant, before the other one's turn
constexpr uint32_t kCheckedRounds = 7;

struct Pair {
  Kernel plain;
  Kernel instrumented;
};

std::vector<Pair> all_kernels() {
  std::vector<Pair> pairs;
  const auto add = [&](std::span<const Kernel> without, std::span<const Kernel> with) {
    for (size_t i = 0; i < without.size(); ++i) pairs.push_back({without[i], with[i]});
  };
  add(plain::numeric_kernels(), instrumented::numeric_kernels());
  add(plain::memory_kernels(), instrumented::memory_kernels());
  add(plain::text_kernels(), instrumented::text_kernels());
  add(plain::control_kernels(), instrumented::control_kernels());
  add(plain::library_kernels(), instrumented::library_kernels());
  return pairs;
}

volatile uint64_t g_sink;

// Time of the processor, so that what other programs take away does not count.
double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double time_of(const Kernel& kernel, uint32_t rounds) {
  const double start = cpu_ns();
  g_sink = kernel.run(rounds);
  return cpu_ns() - start;
}

uint32_t rounds_for(const Kernel& kernel, double wanted_ns) {
  time_of(kernel, 1);  // makes the data
  uint32_t rounds = 1;
  double took = time_of(kernel, rounds);
  while (took < wanted_ns / 4 && rounds < (1u << 24)) took = time_of(kernel, rounds *= 2);
  return std::max(1u, static_cast<uint32_t>(rounds * wanted_ns / took));
}

int check() {
  int wrong = 0;
  for (const Pair& pair : all_kernels()) {
    const bool same = pair.plain.run(kCheckedRounds) == pair.instrumented.run(kCheckedRounds);
    Gaps gaps;
    gaps.start();
    const uint64_t again = pair.instrumented.run(kCheckedRounds);
    gaps.stop();
    const bool same_again = again == pair.plain.run(kCheckedRounds);
    wrong += same && same_again ? 0 : 1;
    std::printf("{\"kernel\": \"%s\", \"same\": %s, \"checkpoints\": %" PRIu64 "}\n",
                pair.plain.name, same && same_again ? "true" : "false", gaps.count());
  }
  return wrong == 0 ? 0 : 1;
}

void time_all(int samples, const char* only) {
  for (const Pair& pair : all_kernels()) {
    if (only != nullptr && std::strcmp(only, pair.plain.name) != 0) continue;
    const uint32_t rounds = rounds_for(pair.plain, kSampleNs);
    time_of(pair.instrumented, rounds);
    std::vector<double> plain_ns;
    std::string ratios;
    for (int i = 0; i < samples; ++i) {
      const double before = time_of(pair.plain, rounds);
      const double with = time_of(pair.instrumented, rounds);
      const double after = time_of(pair.plain, rounds);
      plain_ns.push_back(std::min(before, after) / rounds);
      char text[32];
      std::snprintf(text, sizeof text, "%s%.4f", i == 0 ? "" : ", ", 2 * with / (before + after));
      ratios += text;
    }
    std::sort(plain_ns.begin(), plain_ns.end());
    std::printf("{\"kernel\": \"%s\", \"ns\": %.1f, \"ratios\": [%s]}\n", pair.plain.name,
                plain_ns[plain_ns.size() / 2], ratios.c_str());
    std::fflush(stdout);
  }
}

double cycles_per_ns() {
  const Clock::time_point start = Clock::now();
  const uint64_t first = __rdtsc();
  while (Clock::now() - start < std::chrono::milliseconds(50)) continue;
  return static_cast<double>(__rdtsc() - first) / 50e6;
}

void measure_gaps(int milliseconds, const char* only) {
  const double per_ns = cycles_per_ns();
  for (const Pair& pair : all_kernels()) {
    if (only != nullptr && std::strcmp(only, pair.plain.name) != 0) continue;
    const uint32_t rounds = rounds_for(pair.plain, milliseconds * 1e6);
    Gaps gaps;
    g_sink = pair.instrumented.run(1);
    gaps.start();
    g_sink = pair.instrumented.run(rounds);
    gaps.stop();
    const auto ns = [&](uint64_t cycles) { return static_cast<double>(cycles) / per_ns; };
    std::printf("{\"kernel\": \"%s\", \"count\": %" PRIu64 ", \"p50\": %.0f, \"p99\": %.0f, "
                "\"max\": %.0f, \"time_p99\": %.0f, \"stolen\": %" PRIu64 "}\n",
                pair.plain.name, gaps.count(), ns(gaps.quantile(0.5, false)),
                ns(gaps.quantile(0.99, false)), ns(gaps.longest()),
                ns(gaps.quantile(0.99, true)), gaps.stolen());
    std::fflush(stdout);
  }
}

int run_one(const std::string& variant, const std::string& name, uint32_t rounds) {
  for (const Pair& pair : all_kernels()) {
    if (name != pair.plain.name) continue;
    g_sink = (variant == "plain" ? pair.plain : pair.instrumented).run(rounds);
    return 0;
  }
  std::fprintf(stderr, "pass_loops: no kernel '%s'\n", name.c_str());
  return 2;
}

int run(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "check" && argc == 2) return check();
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  const char* only = argc > 3 ? argv[3] : nullptr;
  if (verb == "time" && number > 0) {
    time_all(number, only);
    return 0;
  }
  if (verb == "gaps" && number > 0) {
    measure_gaps(number, only);
    return 0;
  }
  if (verb == "run" && argc == 5) {
    return run_one(argv[2], argv[3], static_cast<uint32_t>(std::atoi(argv[4])));
  }
  std::fprintf(stderr, "pass_loops: takes check, time SAMPLES [KERNEL], gaps MILLISECONDS [KERNEL] "
                       "or run plain|instrumented KERNEL ROUNDS\n");
  return 2;
}

}  // namespace
}  // namespace rubato::loops

int main(int argc, char** argv) { return rubato::loops::run(argc, argv); }
