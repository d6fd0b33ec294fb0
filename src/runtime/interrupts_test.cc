// SPDX-License-Identifier: Apache-2.0
//
// Requests that are interrupted at any instruction, by signal and by timer: the state that they
// keep, the regions that hold an interrupt off, and that no request waits for code that knows
// nothing of the runtime. Quanta are long, because a signal costs tens of microseconds in a virtual
// machine.
#include <gtest/gtest.h>
#include <link.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mechanism/clock/clock.h"
#include "mechanism/cpu/bare_syscall.h"
#include "mechanism/preempt/code_map.h"
#include "mechanism/preempt/never_left.h"
#include "mechanism/preempt/tls_block.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/fiber_local.h"
#include "runtime/testing/foreign.h"
#include "runtime/testing/letter_app.h"
#include "runtime/waiting.h"

namespace rubato {
namespace {

using testing::LetterServer;

// Only this program's own code may be left half-way: no library is safe, nor the runtime's handler.
struct ProgramText {
  uintptr_t low = UINTPTR_MAX;
  uintptr_t high = 0;
};
ProgramText g_program;

int read_program(dl_phdr_info* object, size_t, void*) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    g_program = {object->dlpi_addr + segment.p_vaddr,
                 object->dlpi_addr + segment.p_vaddr + segment.p_memsz};
  }
  return 1;  // the program comes first
}

bool is_no_code_of_the_program(uintptr_t pc) {
  const CodeSpan never_left = never_left_code();
  return pc < g_program.low || pc >= g_program.high ||
         (pc >= never_left.low && pc < never_left.high);
}

// The kernel's thread, without the C library.
pid_t worker_thread() {
  return static_cast<pid_t>(bare_syscall(SYS_gettid));
}

thread_local int t_number = 0;

class Interrupts : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  void SetUp() override {
    if (const Status has = available(GetParam()); !has.ok()) GTEST_SKIP() << has.error();
    dl_iterate_phdr(read_program, nullptr);
  }
  void TearDown() override { set_async_signal_unsafe_predicate(nullptr); }

  // Starts the server; making a runtime may set a predicate of its own.
  static void start(LetterServer& server,
                    AsyncSignalUnsafe predicate = &is_no_code_of_the_program) {
    server.start();
    set_async_signal_unsafe_predicate(predicate);
  }

  LetterServer& make(const std::string& policy, uint32_t workers = 1) {
    server_ = std::make_unique<LetterServer>(policy, workers);
    server_->options.preempt = GetParam();
    if (policy == "synergy") {
      server_->options.policy_settings = {{"fixed_quantum", "300us"}};
    } else if (policy == "ps") {
      server_->options.policy_settings = {{"quantum", "300us"}};
    }
    return *server_;
  }

  // Sends one request of each letter on a connection of its own, and waits for all of them.
  static void call_all(LetterServer& server, const std::string& letters) {
    std::vector<uint64_t> flows;
    for (const char letter : letters) {
      flows.push_back(server.connect(static_cast<uint32_t>(flows.size()) % server.options.workers));
      server.submit(flows.back(), std::string(1, letter) + "\n");
    }
    for (size_t i = 0; i < flows.size(); ++i) {
      EXPECT_EQ(server.receive(flows[i], 2), std::string(1, letters[i]) + "\n");
    }
  }

 private:
  std::unique_ptr<LetterServer> server_;
};

std::string name_of(const ::testing::TestParamInfo<PreemptMechanism>& info) {
  return to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(By, Interrupts,
                         ::testing::Values(PreemptMechanism::kSignal, PreemptMechanism::kTimer),
                         name_of);

// Hangs unless the foreign code is left half-way.
TEST_P(Interrupts, foreign_code_that_loops_does_not_hold_up_others) {
  LetterServer& server = make("synergy");
  std::atomic<bool> runs{false};
  volatile int stop = 0;
  server.app.on('L') = [&](Request&) {
    runs = true;
    foreign_wait(&stop);
  };
  server.app.on('S') = [&](Request&) { stop = 1; };
  start(server);
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  EXPECT_EQ(server.call(fast, "S\n"), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_TRUE(server.stop());
  EXPECT_GE(server.runtime->stats().preemptions, 1u);
  const RuntimeStats stats = server.runtime->stats();
  EXPECT_EQ(stats.preemptions + stats.lock_yields, stats.resumed);
}

TEST_P(Interrupts, many_loops_at_once_all_wait_for_the_one_behind_them) {
  LetterServer& server = make("ps", 2);
  volatile int stop = 0;
  std::atomic<int> running{0};
  server.app.on('L') = [&](Request&) {
    ++running;
    foreign_wait(&stop);
  };
  server.app.on('S') = [&](Request&) { stop = 1; };
  start(server);
  std::vector<uint64_t> flows;
  for (uint32_t i = 0; i < 20; ++i) {
    flows.push_back(server.connect(i % 2));
    server.submit(flows.back(), "L\n");
  }
  while (running < 20) std::this_thread::yield();
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
  for (const uint64_t flow : flows) EXPECT_EQ(server.receive(flow, 2), "L\n");
  EXPECT_TRUE(server.stop());
  const RuntimeStats stats = server.runtime->stats();
  EXPECT_EQ(stats.preemptions + stats.lock_yields, stats.resumed);
}

TEST_P(Interrupts, registers_survive) {
  constexpr unsigned long kRounds = 150'000;
  LetterServer& server = make("ps", 2);
  std::atomic<int> wrong{0};
  std::atomic<uint32_t> preemptions{0};
  server.app.on('A') = [&](Request& request) {
    static std::atomic<int> seeds{0};
    const double seed = 0.5 + ++seeds;
    const double first = foreign_checksum(kRounds, seed);
    const double second = foreign_checksum(kRounds, seed);
    if (std::memcmp(&first, &second, sizeof first) != 0) ++wrong;
    preemptions += request.preemptions;
  };
  start(server);
  do {
    call_all(server, "AAAAAA");
  } while (preemptions < 100);
  EXPECT_EQ(wrong, 0);
}

// Three requests that loop until told otherwise keep two workers and a queue busy, so that every
// request beside them changes workers again and again.
struct BusyRequests {
  explicit BusyRequests(LetterServer& at) : server(at) {
    server.app.on('B') = [this](Request&) { foreign_wait(&stop); };
  }
  void arrive() {
    for (uint32_t i = 0; i < 3; ++i) {
      flows.push_back(server.connect(i % 2));
      server.submit(flows.back(), "B\n");
    }
  }
  void leave() {
    stop = 1;
    for (const uint64_t flow : flows) EXPECT_EQ(server.receive(flow, 2), "B\n");
  }
  LetterServer& server;
  volatile int stop = 0;
  std::vector<uint64_t> flows;
};

// Waits until the request has changed workers a few times.
void wander(int moves) {
  pid_t at = worker_thread();
  while (moves > 0) {
    const pid_t now_at = worker_thread();
    if (now_at != at) --moves;
    at = now_at;
  }
}

TEST_P(Interrupts, what_belongs_to_a_thread_moves_with_the_request) {
  constexpr int kModes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  LetterServer& server = make("ps", 2);
  std::atomic<int> numbers{0};
  server.app.on('T') = [&](Request&) {
    const int mine = ++numbers;
    t_number = mine;
    errno = mine;
    std::fesetround(kModes[mine % 4]);
    int* const address = &t_number;
    for (int round = 0; round < 3; ++round) {
      wander(2);
      EXPECT_EQ(errno, mine);
      EXPECT_EQ(t_number, mine);
      EXPECT_EQ(&t_number, address);
      EXPECT_EQ(std::fegetround(), kModes[mine % 4]);
      errno = mine;
    }
    std::fesetround(FE_TONEAREST);
  };
  BusyRequests busy_requests(server);
  start(server);
  busy_requests.arrive();
  call_all(server, "TTTT");
  busy_requests.leave();
}

void throw_and_wander(int number, int depth) {
  try {
    if (depth > 0) throw_and_wander(number, depth - 1);
    wander(1);
    throw std::runtime_error(std::to_string(number * 10 + depth));
  } catch (const std::runtime_error& error) {
    wander(1);
    EXPECT_EQ(error.what(), std::to_string(number * 10 + depth));
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    try {
      wander(1);
      throw;
    } catch (const std::exception& again) {
      EXPECT_EQ(again.what(), std::to_string(number * 10 + depth));
    }
  }
}

TEST_P(Interrupts, exceptions_in_flight_move_with_the_request) {
  LetterServer& server = make("ps", 2);
  std::atomic<int> numbers{0};
  server.app.on('E') = [&](Request&) { throw_and_wander(++numbers, 1); };
  BusyRequests busy_requests(server);
  start(server);
  busy_requests.arrive();
  call_all(server, "EEE");
  busy_requests.leave();
}

TEST_P(Interrupts, section_holds_an_interrupt_off_and_its_end_makes_up_for_it) {
  LetterServer& server = make("synergy");
  std::atomic<bool> waiting{false};
  std::atomic<bool> inside{false};
  volatile int stop = 0;
  std::atomic<uint32_t> before{0};
  std::atomic<uint32_t> after{0};
  server.app.on('L') = [&](Request& request) {
    {
      const NoPreempt whole;
      inside = true;
      while (!waiting) asm volatile("");
      const Instant end = now() + Nanos::seconds(10);
      while (server.runtime->stats().preemptions_deferred == 0 && now() < end) asm volatile("");
      before = request.preemptions;
    }
    after = request.preemptions;
    foreign_wait(&stop);
  };
  server.app.on('S') = [&](Request&) { stop = 1; };
  start(server);
  const uint64_t slow = server.occupy("L\n", inside);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  waiting = true;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_EQ(before, 0u);
  EXPECT_EQ(after, 1u);
  EXPECT_GE(server.runtime->stats().preemptions_deferred, 1u);
}

// No event marks the end of unsafe code: the next try finds it.
TEST_P(Interrupts, unsafe_code_is_left_when_it_has_ended) {
  LetterServer& server = make("synergy");
  std::atomic<bool> waiting{false};
  std::atomic<bool> inside{false};
  volatile int stop = 0;
  std::atomic<uint32_t> before{0};
  server.app.on('L') = [&](Request& request) {
    inside = true;
    while (!waiting) asm volatile("");
    const Instant end = now() + Nanos::seconds(10);
    while (server.runtime->stats().preemptions_deferred == 0 && now() < end) asm volatile("");
    before = request.preemptions;
    set_async_signal_unsafe_predicate(&is_no_code_of_the_program);
    foreign_wait(&stop);
  };
  server.app.on('S') = [&](Request&) { stop = 1; };
  start(server, [](uintptr_t) { return true; });
  const uint64_t slow = server.occupy("L\n", inside);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  waiting = true;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_EQ(before, 0u);
  EXPECT_GE(server.runtime->stats().preemptions_deferred, 1u);
}

bool blocks_usr1() {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, SIGUSR1) == 1;
}

// Left by an interrupt, and at a checkpoint.
TEST_P(Interrupts, signals_are_blocked_by_the_request_that_blocks_them) {
  LetterServer& server = make("synergy");
  volatile int stop = 0;
  std::atomic<bool> runs{false};
  std::atomic<bool> checkpoints{false};
  std::atomic<int> blocks_still{0};
  std::atomic<int> others_block{0};
  server.app.on('L') = [&](Request&) {
    sigset_t blocked;
    sigset_t before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    runs = true;
    if (checkpoints) {
      testing::checkpoints_until([&] { return stop != 0; });
    } else {
      foreign_wait(&stop);
    }
    blocks_still += blocks_usr1() ? 1 : 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  };
  server.app.on('S') = [&](Request&) {
    others_block += blocks_usr1() ? 1 : 0;
    stop = 1;
  };
  start(server);
  for (int round = 1; round <= 2; ++round) {
    checkpoints = round == 2;
    if (checkpoints) set_async_signal_unsafe_predicate([](uintptr_t) { return true; });
    stop = 0;
    runs = false;
    const uint64_t slow = server.occupy("L\n", runs);
    EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
    EXPECT_EQ(server.receive(slow, 2), "L\n");
    EXPECT_EQ(blocks_still, round);
    EXPECT_EQ(others_block, 0);
  }
}

// Of a thread, by its folder in /proc.
gid_t effective_group(const std::filesystem::path& thread) {
  std::ifstream status(thread / "status");
  for (std::string word; status >> word;) {
    gid_t real = 0;
    gid_t effective = 0;
    if (word == "Gid:" && status >> real >> effective) return effective;
  }
  return static_cast<gid_t>(-1);
}

const void* signal_stack() {
  stack_t stack{};
  sigaltstack(nullptr, &stack);
  return stack.ss_sp;
}

TEST_P(Interrupts, threads_keep_their_signal_stacks) {
  LetterServer& server = make("ps", 2);
  std::mutex mutex;
  std::map<pid_t, const void*> stacks;  // by thread
  std::atomic<uint32_t> preemptions{0};
  std::atomic<int> wrong{0};
  const auto look = [&] {
    const PreemptDisableGuard no_preemption;
    const std::scoped_lock lock(mutex);
    const void* present = signal_stack();
    if (stacks.try_emplace(worker_thread(), present).first->second != present) ++wrong;
  };
  server.app.on('A') = [&](Request& request) {
    look();
    foreign_checksum(150'000, 1.0);
    preemptions += request.preemptions;
    look();
  };
  start(server);
  while (preemptions < 100) call_all(server, "AAAAAA");
  EXPECT_EQ(wrong, 0);
}

TEST_P(Interrupts, signal_stack_that_a_request_sets_moves_with_it) {
  LetterServer& server = make("ps", 2);
  std::atomic<uint32_t> preemptions{0};
  std::atomic<int> wrong{0};
  server.app.on('A') = [&](Request& request) {
    std::vector<char> memory(size_t{64} * 1024);
    stack_t own{};
    own.ss_sp = memory.data();
    own.ss_size = memory.size();
    stack_t before{};
    sigaltstack(&own, &before);
    foreign_checksum(150'000, 1.0);
    preemptions += request.preemptions;
    if (signal_stack() != memory.data()) ++wrong;
    sigaltstack(&before, nullptr);
  };
  server.app.on('B') = [&](Request&) {
    const void* const first = signal_stack();
    foreign_checksum(20'000, 1.0);
    if (first == nullptr) ++wrong;
  };
  start(server);
  while (preemptions < 100) call_all(server, "ABABABAB");
  EXPECT_EQ(wrong, 0);
}

// POSIX has all threads change. Hangs where one does not answer.
TEST_P(Interrupts, user_and_groups_can_be_changed_by_requests_and_by_others) {
  LetterServer& server = make("ps", 2);
  std::atomic<uint32_t> preemptions{0};
  std::atomic<int> failures{0};
  const auto change = [&failures] {
    if (setuid(getuid()) != 0 || setresgid(getgid(), getegid(), getegid()) != 0) ++failures;
  };
  server.app.on('A') = [&](Request& request) {
    foreign_checksum(150'000, 1.0);
    change();
    errno = 0;
    if (geteuid() != 0 && (setuid(0) != -1 || errno != EPERM)) ++failures;
    foreign_checksum(150'000, 1.0);
    preemptions += request.preemptions;
  };
  start(server);
  while (preemptions < 100) {
    call_all(server, "AAAAAA");
    change();
  }
  EXPECT_EQ(failures, 0);
}

TEST_P(Interrupts, all_threads_have_the_group_that_a_request_changes_to) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may change groups";
  LetterServer& server = make("ps", 2);
  constexpr gid_t kOther = 1;
  server.app.on('O') = [&](Request&) { EXPECT_EQ(setegid(kOther), 0); };
  server.app.on('R') = [&](Request&) { EXPECT_EQ(setegid(0), 0); };
  server.app.on('A') = [&](Request&) { foreign_checksum(150'000, 1.0); };
  start(server);
  call_all(server, "AAAAAA");
  for (const auto& [letter, group] : {std::pair{"O", kOther}, std::pair{"R", gid_t{0}}}) {
    call_all(server, letter);
    EXPECT_EQ(getegid(), group);
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      EXPECT_EQ(effective_group(thread.path()), group) << thread.path();
    }
  }
}

volatile int g_stop = 0;
std::atomic<bool> g_handles{false};

void on_usr2(int) {
  g_handles = true;
  foreign_wait(&g_stop);
}

// Another handler of the same thread would begin where that one is left.
TEST_P(Interrupts, handlers_on_the_signal_stack_are_not_left) {
  LetterServer& server = make("synergy");
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = &on_usr2;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, &before);
  g_stop = 0;
  g_handles = false;
  std::atomic<bool> handled{false};
  std::atomic<bool> left{false};
  server.app.on('L') = [&](Request&) {
    raise(SIGUSR2);
    handled = true;
  };
  server.app.on('S') = [&](Request&) {
    left = !handled;
    g_stop = 1;
  };
  start(server);
  const uint64_t slow = server.occupy("L\n", g_handles);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  while (server.runtime->stats().preemptions_deferred == 0 && !left) std::this_thread::yield();
  g_stop = 1;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_FALSE(left);
  sigaction(SIGUSR2, &before, nullptr);
}

// A second interrupt that comes before the first has opened its region.
void on_usr1(int) {
  g_handles = true;
  for (int i = 0; i < 200; ++i) {
    const PreemptDisableGuard region;
    foreign_checksum(10'000, 1.0);
  }
}

TEST_P(Interrupts, handlers_on_the_signal_stack_are_not_left_where_a_region_ends) {
  LetterServer& server = make("synergy");
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = &on_usr1;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, &before);
  g_handles = false;
  std::atomic<bool> handled{false};
  std::atomic<bool> left{false};
  server.app.on('L') = [&](Request&) {
    raise(SIGUSR1);
    handled = true;
  };
  server.app.on('S') = [&](Request&) { left = !handled; };
  start(server);
  const uint64_t slow = server.occupy("L\n", g_handles);
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_FALSE(left);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(Interrupts, interrupted_handlers_are_not_left) {
  LetterServer& server = make("synergy");
  start(server);
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
  ASSERT_TRUE(code_map_build().ok());
  struct sigaction handler {};
  sigaction(SIGURG, nullptr, &handler);
  EXPECT_EQ(code_kind(reinterpret_cast<uintptr_t>(handler.sa_sigaction)), CodeKind::kUnsafe);
}

// The kernel would write into memory of the worker's thread, which the child's C library frees.
TEST_P(Interrupts, child_of_a_fork_has_no_restartable_sequences_of_the_worker) {
  LetterServer& server = make("synergy");
  std::atomic<int> status{-1};
  server.app.on('F') = [&](Request&) {
    const pid_t child = fork();
    if (child == 0) {
      alignas(32) static std::array<char, 32> area{};
      const long rc = syscall(SYS_rseq, area.data(), area.size(), 0, 0x53053053);
      _exit(rc == 0 || errno == ENOSYS ? 0 : 1);
    }
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) {
    }
    status = ended;
  };
  start(server);
  EXPECT_EQ(server.call(server.connect(), "F\n"), "F\n");
  EXPECT_EQ(status, 0);
}

TEST_P(Interrupts, checkpoint_takes_what_was_put_off) {
  LetterServer& server = make("synergy");
  volatile int stop = 0;
  std::atomic<bool> inside{false};
  server.app.on('L') = [&](Request&) {
    inside = true;
    testing::checkpoints_until([&] { return stop != 0; });
  };
  server.app.on('S') = [&](Request&) { stop = 1; };
  start(server, [](uintptr_t) { return true; });
  const uint64_t slow = server.occupy("L\n", inside);
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
}

TEST_P(Interrupts, stop_answers_what_loops_and_a_drain_limit_ends_it) {
  LetterServer& server = make("synergy");
  server.options.drain_limit = Nanos::millis(50);
  std::atomic<bool> runs{false};
  volatile int never = 0;
  server.app.on('L') = [&](Request&) {
    runs = true;
    foreign_wait(&never);
  };
  start(server);
  server.submit(server.connect(), "L\n");
  while (!runs) std::this_thread::yield();
  EXPECT_FALSE(server.stop());
}

TEST_P(Interrupts, short_requests_run_to_their_end_between) {
  LetterServer& server = make("synergy", 2);
  volatile int stop = 0;
  server.app.on('L') = [&](Request&) { foreign_wait(&stop); };
  start(server);
  const uint64_t slow = server.connect();
  server.submit(slow, "L\n");
  const uint64_t fast = server.connect(1);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(server.call(fast, "abcdefgh\n"), "abcdefgh\n");
  stop = 1;
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server.runtime->stats().requests, 2001u);
}

// Slices that are shorter than what it takes to begin and to end one.
class OwnTimer : public Interrupts {
 protected:
  LetterServer& make_with_short_slices(const char* policy) {
    LetterServer& server = make(policy);
    server.options.policy_settings = {{server.options.policy == "ps" ? "quantum" : "fixed_quantum",
                                       "1us"}};
    return server;
  }
};
INSTANTIATE_TEST_SUITE_P(By, OwnTimer, ::testing::Values(PreemptMechanism::kTimer), name_of);

TEST_P(OwnTimer, requests_that_have_just_begun_are_not_cut) {
  constexpr uint64_t kRequests = 1000;
  LetterServer& server = make_with_short_slices("ps");
  start(server, [](uintptr_t) { return false; });
  call_all(server, std::string(kRequests, 'S'));
  EXPECT_TRUE(server.stop());
  EXPECT_LT(server.runtime->stats().preemptions, kRequests / 4);
}

TEST_P(OwnTimer, interrupts_leave_time_to_requests_that_wait_for_each_other) {
  constexpr int kEach = 200;
  const std::string requests(50, 'M');
  LetterServer& server = make_with_short_slices("synergy");
  waiting::Mutex mutex;
  uint64_t locked = 0;
  server.app.on('M') = [&](Request&) {
    for (int i = 0; i < kEach; ++i) {
      EXPECT_EQ(mutex.lock({}), Wake::kWoken);
      ++locked;
      mutex.unlock();
    }
  };
  start(server);
  call_all(server, requests);
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(locked, requests.size() * kEach);
  const RuntimeStats stats = server.runtime->stats();
  EXPECT_LT(stats.preemptions + stats.preemptions_avoided + stats.preemptions_deferred, locked);
}

}  // namespace
}  // namespace rubato
