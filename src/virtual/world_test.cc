// SPDX-License-Identifier: Apache-2.0
#include "virtual/world.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "mechanism/cpu/pause.h"
#include "mechanism/fiber/fiber.h"
#include "mechanism/fiber/stack.h"
#include "mechanism/preempt/checkpoint.h"
#include "mechanism/queue/spin_lock.h"

namespace rubato::virt {
namespace {

using std::chrono::steady_clock;

Nanos since(steady_clock::time_point begin) {
  return Nanos((steady_clock::now() - begin).count());
}

TEST(World, time_passes_by_what_threads_do) {
  const auto real_begin = steady_clock::now();
  Nanos waited;
  Nanos computed;
  const WorldReport report = run({}, [&] {
    EXPECT_TRUE(within());
    auto begin = steady_clock::now();
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable never;
    never.wait_for(lock, std::chrono::minutes(5));
    waited = since(begin);
    begin = steady_clock::now();
    spend(Nanos::micros(70));
    computed = since(begin);
  });
  EXPECT_FALSE(within());
  EXPECT_GE(waited, Nanos::seconds(300));
  EXPECT_LT(waited, Nanos::seconds(300) + Nanos::micros(2));
  EXPECT_GE(computed, Nanos::micros(70));
  EXPECT_LT(computed, Nanos::micros(71));
  EXPECT_EQ(report.threads, 1u);
  EXPECT_LT(since(real_begin), Nanos::seconds(300));
}

TEST(World, threads_compute_at_the_same_time) {
  Nanos took;
  run({}, [&] {
    const auto begin = steady_clock::now();
    std::vector<std::thread> threads;
    for (int i = 0; i < 64; ++i) threads.emplace_back([] { spend(Nanos::millis(10)); });
    for (std::thread& thread : threads) thread.join();
    took = since(begin);
  });
  EXPECT_GE(took, Nanos::millis(10));
  EXPECT_LT(took, Nanos::millis(11));
}

// Two threads that each read, then write one more: updates are lost, with each seed others.
TEST(World, seeds_give_different_interleavings_and_the_same_seed_the_same) {
  constexpr int kUpdates = 500;
  const auto sum_of = [](uint64_t seed, uint64_t* digest) {
    std::atomic<int> sum{0};
    WorldOptions options;
    options.seed = seed;
    const WorldReport report = run(options, [&] {
      const auto add = [&] {
        for (int i = 0; i < kUpdates; ++i) {
          sum.store(sum.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
      };
      std::thread one(add);
      std::thread other(add);
      one.join();
      other.join();
    });
    *digest = report.digest;
    return sum.load();
  };
  std::set<int> sums;
  std::set<uint64_t> digests;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    uint64_t digest = 0;
    uint64_t again = 0;
    const int sum = sum_of(seed, &digest);
    EXPECT_EQ(sum_of(seed, &again), sum);
    EXPECT_EQ(again, digest);
    sums.insert(sum);
    digests.insert(digest);
  }
  EXPECT_LT(*sums.rbegin(), 2 * kUpdates);
  EXPECT_GT(sums.size(), 20u);
  EXPECT_EQ(digests.size(), 100u);
}

TEST(World, locks_exclude_and_conditions_wake) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    WorldOptions options;
    options.seed = seed;
    options.spurious_wake_up_one_in = 4;
    options.late_wake_up_one_in = 4;
    options.stall_one_in = 100;
    options.stall_most = Nanos::micros(100);
    int inside = 0;
    int turns = 0;
    run(options, [&] {
      std::mutex mutex;
      std::shared_mutex shared;
      std::condition_variable turned;
      std::atomic<uint32_t> word{0};
      std::vector<std::thread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
          for (int k = 0; k < 5; ++k) {
            std::unique_lock lock(mutex);
            turned.wait(lock, [&] { return turns % 4 == i; });
            EXPECT_EQ(++inside, 1);
            spend(Nanos::micros(1));
            --inside;
            ++turns;
            turned.notify_all();
          }
          std::unique_lock lock(shared);
          word.fetch_add(1);
          word.notify_all();
        });
      }
      for (uint32_t seen = word.load(); seen < 4; seen = word.load()) word.wait(seen);
      EXPECT_EQ(inside, 0);
      for (std::thread& thread : threads) thread.join();
    });
    EXPECT_EQ(turns, 20);
  }
}

TEST(World, a_wait_ends_at_its_deadline) {
  run({}, [] {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    const auto begin = steady_clock::now();
    EXPECT_EQ(never.wait_for(lock, std::chrono::milliseconds(30)), std::cv_status::timeout);
    EXPECT_GE(since(begin), Nanos::millis(30));
    EXPECT_LT(since(begin), Nanos::millis(31));
  });
}

TEST(World, a_stall_takes_time_and_no_cpu_time) {
  WorldOptions options;
  options.stall_one_in = 50;
  Nanos cpu;
  Nanos all;
  const WorldReport report = run(options, [&] {
    timespec before{};
    timespec after{};
    const auto begin = steady_clock::now();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    std::atomic<int> steps{0};
    while (steps.fetch_add(1) < 1000) {
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    cpu = Nanos((after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec);
    all = since(begin);
  });
  EXPECT_GT(report.stalls, 5u);
  EXPECT_LT(cpu, Nanos::micros(20));
  EXPECT_GT(all, Nanos::micros(100));
}

TEST(World, threads_that_are_made_at_the_same_time_are_different_ones) {
  WorldOptions options;
  options.plain_stall_one_in = 2;
  std::mutex mutex;
  std::multiset<uint32_t> numbers;
  const WorldReport report = run(options, [&] {
    const auto note = [&] {
      const std::scoped_lock lock(mutex);
      numbers.insert(this_thread());
    };
    const auto make = [&] {
      note();
      for (int i = 0; i < 10; ++i) std::thread(note).join();
    };
    std::thread one(make);
    std::thread other(make);
    one.join();
    other.join();
  });
  EXPECT_EQ(report.threads, 23u);
  for (uint32_t number = 1; number < 23; ++number) EXPECT_EQ(numbers.count(number), 1u);
}

TEST(World, the_clock_jumps_for_all_threads_at_once) {
  WorldOptions options;
  options.clock_jump_one_in = 50;
  run(options, [] {
    std::atomic<int64_t> last_ns{0};
    std::atomic<int> jumps{0};
    const auto read = [&] {
      for (int i = 0; i < 200; ++i) {
        const int64_t before = last_ns;
        const int64_t at = steady_clock::now().time_since_epoch().count();
        EXPECT_GT(at, before);
        if (before != 0 && at - before > 5'000) ++jumps;
        if (at > last_ns) last_ns = at;
      }
    };
    const auto begin = steady_clock::now();
    std::thread one(read);
    std::thread other(read);
    one.join();
    other.join();
    EXPECT_GT(jumps, 2);
    EXPECT_GT(since(begin), Nanos::micros(50));
    EXPECT_LE(since(begin), faults_so_far() + Nanos::micros(100));
  });
}

// A stalled thread goes on as much later, and is known to be stalled until then. Beside it a thread
// looks after each jump, which are its own, and makes no access that it could be stalled at.
TEST(World, a_jump_of_the_clock_lengthens_the_stalls_that_it_meets) {
  WorldOptions options;
  options.stall_one_in = 20;
  options.stall_most = Nanos::micros(500);
  options.clock_jump_one_in = 20;
  run(options, [] {
    bool done = false;
    Instant stalled_until;
    Instant over;
    int jumps = 0;
    std::thread looks([&] {
      while (!done) {
        const Instant before = clock();
        static_cast<void>(steady_clock::now());
        if (clock() - before > Nanos::micros(5)) ++jumps;
        stalled_until = others_stalled_until();
        over = faults_over();
        spend(Nanos::micros(1));
      }
    });
    std::atomic<int> word{0};
    int lengthened = 0;
    for (int i = 0; i < 2'000; ++i) {
      const Instant before = clock();
      const int jumps_before = jumps;
      word = i;
      const Instant end = clock();
      if (end - before < Nanos::micros(5)) continue;
      if (jumps > jumps_before) ++lengthened;
      spend(Nanos::micros(2));  // one more look
      const Instant known = end - Nanos::micros(1);
      EXPECT_GE(stalled_until, known);
      EXPECT_GE(over, known);
    }
    EXPECT_GT(lengthened, 10);
    done = true;
    looks.join();
  });
}

TEST(World, memory_fails_where_programs_can_do_without) {
  run({}, [] {
    constexpr size_t kBytes = 4096;
    fail_memory(1);
    void* const none = std::malloc(kBytes);
    void* const nowhere =
        mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto made = std::make_unique<char[]>(kBytes);
    fail_memory(0);
    void* const some = std::malloc(kBytes);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(nowhere, MAP_FAILED);
    EXPECT_NE(made, nullptr);
    EXPECT_NE(some, nullptr);
    std::free(some);
  });
}

TEST(World, tells_since_when_a_thread_waits) {
  run({}, [] {
    std::atomic<uint32_t> word{0};
    std::thread waiter([&] { word.wait(0); });
    spend(Nanos::micros(100));
    const Instant since = waits_since(1);
    spend(Nanos::micros(100));
    EXPECT_LT(since, Instant::never());
    EXPECT_EQ(waits_since(1), since);
    word = 1;
    word.notify_one();
    EXPECT_EQ(waits_since(1), Instant::never());
    waiter.join();
  });
}

// Two threads write one line in turn, and a line each that nobody else touches.
TEST(World, counts_the_lines_that_go_from_thread_to_thread) {
  constexpr int kTurns = 20;
  struct alignas(limits::kCacheLineBytes) Word {
    std::atomic<int> value{0};
  };
  std::array<Word, 3> words;
  WorldOptions options;
  options.count_lines = true;
  options.first_is_free = true;
  const WorldReport report = run(options, [&] {
    const auto write = [&](int me) {
      for (int turn = me; turn < kTurns; turn += 2) {
        while (words[2].value.load() != turn) cpu_pause();
        ++words[static_cast<size_t>(me)].value;
        words[2].value.store(turn + 1);
      }
    };
    std::thread even(write, 0);
    std::thread odd(write, 1);
    even.join();
    odd.join();
  });
  // All but the first one took the line from the other thread.
  EXPECT_GE(report.counts.line_taken_most, kTurns - 1u);
  EXPECT_LE(report.counts.line_taken_most, kTurns);
  EXPECT_GE(report.counts.lines_taken, report.counts.line_taken_most);
  EXPECT_LE(report.counts.lines_taken, report.counts.line_taken_most + 10);
}

TEST(World, a_late_wake_up_counts_as_a_stall_until_its_end) {
  constexpr Nanos kLate = Nanos::millis(1);
  for (const uint32_t one_in : {0u, 1u}) {
    WorldOptions options;
    options.late_wake_up_one_in = one_in;
    options.late_most = kLate;
    run(options, [&] {
      std::atomic<bool> flag{false};
      std::thread waits([&] { flag.wait(false); });
      while (waits_since(1) == Instant::never()) spend(Nanos::micros(1));
      EXPECT_EQ(others_stalled_until(), Instant());
      flag = true;
      flag.notify_all();
      const Instant until = others_stalled_until();
      if (one_in > 0) {
        EXPECT_GT(until - clock(), kLate / 3);
      } else {
        EXPECT_EQ(until, Instant());
      }
      waits.join();
    });
  }
}

WorldOptions free_of_charge(bool in_step) {
  WorldOptions options;
  options.plain_access = Nanos();
  options.access = options.clock_read = options.system_call = Nanos();
  options.wake_up = options.pause = Nanos();
  options.spin_skip = Nanos(100);
  options.in_step = in_step;
  return options;
}

// What the thread that spins sees of two writes at the same instant. It was made first.
uint32_t seen_of_the_second(bool in_step) {
  uint32_t seen = 2;
  run(free_of_charge(in_step), [&seen] {
    std::atomic<uint32_t> first{0}, second{0};
    std::thread spins([&] {
      while (first == 0) cpu_pause();
      seen = second;
    });
    std::thread writes([&] {
      spend(Nanos(1050));
      first = 1;
      second = 1;
    });
    spins.join();
    writes.join();
  });
  return seen;
}

TEST(World, in_step_what_takes_no_time_is_one_step) {
  EXPECT_EQ(seen_of_the_second(false), 0u);
  EXPECT_EQ(seen_of_the_second(true), 1u);
}

TEST(World, in_step_a_thread_that_has_looked_looks_again_at_the_same_instant) {
  Nanos after;
  run(free_of_charge(true), [&after] {
    std::atomic<uint32_t> first{0}, second{0};
    const Instant begin = clock();
    std::thread spins([&] {
      while (first + second < 2) cpu_pause();
      after = clock() - begin;
    });
    const auto write = [](std::atomic<uint32_t>& word) {
      spend(Nanos(1050));
      word = 1;
    };
    std::thread one([&] { write(first); });  // the other one writes when `spins` has seen this
    std::thread other([&] { write(second); });
    for (std::thread* thread : {&spins, &one, &other}) thread->join();
  });
  EXPECT_EQ(after, Nanos(1050));
}

TEST(World, in_step_the_first_thread_comes_last) {
  std::vector<uint32_t> order;
  run(free_of_charge(true), [&order] {
    const auto come = [&order] {
      spend(Nanos(1050));
      order.push_back(this_thread());
    };
    std::thread one(come), other(come);
    come();
    one.join();
    other.join();
  });
  EXPECT_EQ(order, (std::vector<uint32_t>{1, 2, 0}));
}

TEST(World, a_run_that_fails_leaves_a_trace) {
  const std::string path = std::filesystem::temp_directory_path() / "rubato_world_test.json";
  const auto body = [](bool good, bool aborts) {
    WorldOptions options;
    options.plain_stall_one_in = 10;
    run(options, [aborts] {
      std::atomic<uint32_t> word{0};
      std::thread waiter([&] { word.wait(0); });
      spend(Nanos::micros(100));
      static volatile uint32_t plain = 0;  // to be stalled at, however much is optimised away
      for (int i = 0; i < 100; ++i) plain = plain + 1;
      word = 1;
      word.notify_one();
      waiter.join();
      if (aborts) std::abort();
    });
    return good;
  };
  const auto text_of = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::filesystem::remove(path);
  EXPECT_TRUE(apart([&] { return body(true, false); }, path));
  EXPECT_FALSE(std::filesystem::exists(path));
  for (const bool aborts : {false, true}) {
    EXPECT_FALSE(apart([&] { return body(false, aborts); }, path));
    const std::string text = text_of();
    for (const char* part : {"traceEvents", "thread 1", "runs", "waits, woken", "is stalled"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part;
    }
    EXPECT_TRUE(text.ends_with("}\n")) << text.substr(text.size() - 10);
    std::filesystem::remove(path);
  }
}

// A thread that spins beside one that writes `noise` all the time, then `flag`: how often it
// looked, and how late it saw that.
struct Spun {
  uint64_t looks = 0;
  Nanos late;
};

Spun spin_beside_noise(Nanos skip, uint32_t threads_before = 0) {
  Spun spun;
  WorldOptions options;
  options.spin_skip = skip;
  run(options, [&] {
    struct alignas(limits::kCacheLineBytes) Word {
      std::atomic<int> value{0};
    };
    Word flag, noise;
    Instant written;
    std::vector<std::thread> before(threads_before);
    for (std::thread& thread : before) thread = std::thread([] {});
    std::thread spins([&] {
      for (; flag.value.load() == 0; cpu_pause()) ++spun.looks;
      spun.late = clock() - written;
    });
    for (int i = 0; i < 1000; ++i) {
      spend(Nanos(100));
      noise.value.store(i);
    }
    written = clock();
    flag.value.store(1);
    spins.join();
    for (std::thread& thread : before) thread.join();
  });
  return spun;
}

TEST(World, a_thread_that_spins_is_skipped_until_what_it_reads_is_written) {
  const Spun each_round = spin_beside_noise({});
  const Spun skipped = spin_beside_noise(Nanos::micros(20));
  EXPECT_GT(each_round.looks, 1000u);
  EXPECT_LT(skipped.looks, 30u);
  for (const Spun& spun : {each_round, skipped}) {
    EXPECT_GE(spun.late, Nanos());
    EXPECT_LT(spun.late, Nanos(200));
  }
}

TEST(World, any_number_of_threads_see_what_any_other_writes) {
  for (const uint32_t threads : {62u, 63u, 64u, 126u, 127u, 128u}) {
    const Spun spun = spin_beside_noise(Nanos::micros(20), threads);
    EXPECT_GE(spun.late, Nanos()) << threads;
    EXPECT_LT(spun.late, Nanos(200)) << threads;
  }
}

// A thread that spins, in rounds at whose begin it looks at one word, and at whose end at another;
// both are written in the midst of one. How often it saw both in one round, how late the second.
Spun spin_in_long_rounds(Nanos skip) {
  constexpr uint32_t kTurns = 100;
  constexpr int kLooksBetween = 100;
  Spun spun;
  WorldOptions options;
  options.spin_skip = skip;
  run(options, [&] {
    std::atomic<uint32_t> first{0}, between{0}, second{0}, done{0};
    Instant written;
    std::thread spins([&] {
      for (uint32_t turn = 1; turn <= kTurns;) {
        const bool at_begin = first.load() == turn;
        for (int i = 0; i < kLooksBetween; ++i) static_cast<void>(between.load());
        if (second.load() != turn) {
          cpu_pause();
          continue;
        }
        if (at_begin) ++spun.looks;
        spun.late = std::max(spun.late, clock() - written);
        done = turn++;
      }
    });
    for (uint32_t turn = 1; turn <= kTurns; ++turn) {
      spend(Nanos::micros(5) + Nanos(turn * 37));
      written = clock();
      first = turn;
      second = turn;
      while (done != turn) spend(Nanos(100));
    }
    spins.join();
  });
  return spun;
}

TEST(World, a_thread_that_is_skipped_sees_in_the_midst_of_a_round_what_is_written_then) {
  for (const Nanos skip : {Nanos(), Nanos::micros(20)}) {
    const Spun spun = spin_in_long_rounds(skip);
    EXPECT_LT(spun.looks, 10u) << skip.count();
    EXPECT_LT(spun.late, Nanos(1100)) << skip.count();  // a round takes about 850 ns
  }
}

TEST(World, a_lead_saves_changes_of_threads_and_loses_no_update) {
  constexpr int kUpdates = 1000;
  std::array<uint64_t, 2> switches{};
  for (const bool leads : {false, true}) {
    std::atomic<int> sum{0};
    std::atomic<int> other{0};
    WorldOptions options;
    if (leads) options.lead = Nanos::micros(1);
    const WorldReport report = run(options, [&] {
      const auto add = [&] {
        for (int i = 0; i < kUpdates; ++i) {
          for (int k = 0; k < 10; ++k) other.store(other.load(), std::memory_order_relaxed);
          ++sum;
        }
      };
      std::thread one(add);
      std::thread two(add);
      one.join();
      two.join();
    });
    EXPECT_EQ(sum, 2 * kUpdates);
    switches[leads] = report.switches;
  }
  EXPECT_LT(switches[1] * 3, switches[0]);
}

// One that another thread expires in the middle, and one that is used up.
TEST(World, steps_end_where_a_checkpoint_is_taken) {
  static std::atomic<int> taken;
  static std::atomic<int32_t*> budget;
  checkpoint_set_handler([] {
    ++taken;
    checkpoint_budget_set(kCheckpointNever);
    return false;
  });
  run({}, [&] {
    std::thread computes([] {
      checkpoint_budget_set(kCheckpointNever);
      budget = checkpoint_budget_address();
      EXPECT_EQ(spend_steps(Nanos::micros(1), 10), 10);
      checkpoint();
      EXPECT_EQ(taken, 0);
      const int64_t steps = spend_steps(Nanos::micros(1), 1000);
      EXPECT_GT(steps, 50);
      EXPECT_LT(steps, 150);
      checkpoint();
      EXPECT_EQ(taken, 1);
      checkpoint_budget_set(7);
      EXPECT_EQ(spend_steps(Nanos::micros(1), 1000), 8);
      checkpoint();
      EXPECT_EQ(taken, 2);
    });
    spend(Nanos::micros(110));
    checkpoint_expire(budget);
    computes.join();
  });
  checkpoint_set_handler(nullptr);
}

using WorldDeathTest = ::testing::Test;

TEST(WorldDeathTest, threads_that_all_wait_are_told_with_the_seed) {
  const auto deadlock = [] {
    WorldOptions options;
    options.seed = 4711;
    run(options, [] {
      std::atomic<int> word{0};
      word.wait(0);
    });
  };
  EXPECT_DEATH(deadlock(), "seed 4711: all threads wait for ever");
}

// Leaves the thread for another fiber in the middle of `locked`'s critical section, and then after.
template <class Lock>
void switch_with(Lock& lock, bool held) {
  run({}, [&] {
    StackPool stacks(size_t{64} * 1024, 1);
    static Fiber thread;
    static Fiber other;
    fiber_adopt_thread(thread);
    fiber_start(other, stacks.take(), [](void*) {
      fiber_entered(other);
      fiber_switch_final(other, thread);
    }, nullptr);
    lock.lock();
    if (!held) lock.unlock();
    fiber_switch(thread, other);
    if (held) lock.unlock();
    fiber_finish(other);
  });
}

TEST(WorldDeathTest, a_lock_that_is_kept_across_a_switch_is_told) {
  std::mutex mutex;
  SpinLock spin_lock;
  EXPECT_DEATH(switch_with(mutex, true), "leaves its thread with a lock held");
  EXPECT_DEATH(switch_with(spin_lock, true), "leaves its thread with a lock held");
  switch_with(mutex, false);
  switch_with(spin_lock, false);
}

TEST(WorldDeathTest, a_program_that_does_not_end_is_told) {
  const auto hang = [] {
    WorldOptions options;
    options.end = Nanos::millis(1);
    run(options, [] {
      std::atomic<bool> never{false};
      while (!never) std::this_thread::yield();
    });
  };
  EXPECT_DEATH(hang(), "the program does not end");
}

}  // namespace
}  // namespace rubato::virt
