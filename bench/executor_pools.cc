// SPDX-License-Identifier: Apache-2.0
//
// The executor beside other pools of threads, with the same tasks and as many threads, in turns:
//
//   alone    short tasks only, as fast as one thread submits them, 512 underway: tasks per second
//   handoff  one task at a time, the next one 5 us after the last: the time from its submission to
//            its start, with the submitting thread awake and the pool's as it likes
//   beside   an open loop at half load, 1 % of the tasks run for 5 ms and the others for 1 us: the
//            time of a short task from its submission to its start
//
//   executor_pools [--rounds N] [--seconds S] [--workers N] [--policy NAME]
//
// Prints for each pool the median of the rounds and their range. Boost.Asio and oneTBB take part if
// they were found when this was built. `loops`: loops of the caller's share an executor; `apart`:
// each has its own. The long tasks have checkpoints, which only Rubato heeds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <rubato/rubato.hpp>

#include "base/prng.h"
#include "executor_pools.h"
#include "loops_pool.h"
#include "plain_pools.h"
#include "pool_figures.h"

namespace {

using namespace rubato::bench;
using std::chrono::nanoseconds;

double tasks_per_second(Pool& pool, const Settings& settings) {
  constexpr int64_t kUnderway = 512;
  std::atomic<int64_t> underway{0};
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(settings.seconds / 3);
  uint64_t submitted = 0;
  while (Clock::now() < end) {
    wait_until_below(underway, kUnderway);
    underway.fetch_add(1, std::memory_order_relaxed);
    pool.submit({{}, {}, nullptr, &underway});
    ++submitted;
  }
  wait_until_below(underway, 1);
  const std::chrono::duration<double> took = Clock::now() - begin;
  return static_cast<double>(submitted) / took.count();
}

// Sorted. Ends by the clock: where others hold the CPUs, a handoff takes a turn of the kernel.
std::vector<nanoseconds> handoffs(Pool& pool, const Settings& settings) {
  constexpr nanoseconds kPause{5000};
  std::atomic<int64_t> underway{0};
  std::vector<nanoseconds> waits;
  const auto end = Clock::now() + std::chrono::duration<double>(settings.seconds / 3);
  while (Clock::now() < end) {
    const Clock::time_point due = Clock::now() + kPause;
    while (Clock::now() < due) continue;
    nanoseconds& wait = waits.emplace_back();
    underway.fetch_add(1, std::memory_order_relaxed);
    pool.submit({Clock::now(), {}, &wait, &underway});
    while (underway.load(std::memory_order_acquire) > 0) continue;
  }
  std::sort(waits.begin(), waits.end());
  return waits;
}

// The waits of the short tasks, sorted.
std::vector<nanoseconds> waits_beside_long(Pool& pool, const Settings& settings, uint64_t seed) {
  constexpr nanoseconds kShort{1000};
  constexpr nanoseconds kLong{5'000'000};
  constexpr double kLongShare = 0.01;
  constexpr double kLoad = 0.5;
  const double mean_ns = kLongShare * static_cast<double>(kLong.count()) +
                         (1 - kLongShare) * static_cast<double>(kShort.count());
  const double gap_ns = mean_ns / (kLoad * settings.workers);
  const auto count = static_cast<size_t>(settings.seconds * 1e9 / gap_ns);
  rubato::Prng dice(seed);
  std::vector<nanoseconds> waits(count, nanoseconds(-1));
  std::atomic<int64_t> underway{0};
  Clock::time_point due = Clock::now();
  for (size_t i = 0; i < count; ++i) {
    due += nanoseconds(static_cast<int64_t>(-std::log(1 - dice.uniform()) * gap_ns));
    while (Clock::now() < due) continue;
    const bool is_long = dice.uniform() < kLongShare;
    underway.fetch_add(1, std::memory_order_relaxed);
    pool.submit({due, is_long ? kLong : kShort, is_long ? nullptr : &waits[i], &underway});
  }
  wait_until_below(underway, 1);
  std::erase(waits, nanoseconds(-1));
  std::sort(waits.begin(), waits.end());
  return waits;
}

struct Figures {
  std::vector<double> tasks_per_second, handoff_us, p50_us, p99_us, p999_us;
};

const Registered kRubato(contender<RubatoPool<Job>>("rubato"));
const Registered kLoops(contender<LoopsPool<Job, Loops::kShareOne>>("loops"));
const Registered kApart(contender<LoopsPool<Job, Loops::kHaveOneEach>>("apart"));
const Registered kMutex(contender<MutexPool<Job>>("mutex"));

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!read(argc, argv, settings)) return 2;
  const std::vector<Contender>& all = contenders();
  std::vector<Figures> figures(all.size());
  for (int round = 0; round < settings.rounds; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      const auto pool = all[i].make(settings);
      figures[i].tasks_per_second.push_back(tasks_per_second(*pool, settings));
      figures[i].handoff_us.push_back(percentile_us(handoffs(*pool, settings), 0.5));
      const auto waits = waits_beside_long(*pool, settings, static_cast<uint64_t>(round) + 1);
      figures[i].p50_us.push_back(percentile_us(waits, 0.5));
      figures[i].p99_us.push_back(percentile_us(waits, 0.99));
      figures[i].p999_us.push_back(percentile_us(waits, 0.999));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    std::printf("%-7s", all[i].name);
    print("alone/s", figures[i].tasks_per_second);
    print("handoff p50/us", figures[i].handoff_us);
    print("beside p50/us", figures[i].p50_us);
    print("p99", figures[i].p99_us);
    print("p99.9", figures[i].p999_us);
    std::printf("\n");
  }
  return 0;
}
