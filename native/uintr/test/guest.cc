// SPDX-License-Identifier: Apache-2.0
//
// The first and only program of the emulated machine in which run.sh tests user interrupts: loads
// the kernel module, sends and receives in all the ways that a scheduler of threads can get between
// the two, and prints a line for each behaviour. Linked statically, built with -muintr.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <x86gprintrin.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

#include "mechanism/preempt/testing/state_probe.h"
#include "mechanism/preempt/uintr.h"
#include "mechanism/preempt/uintr_abi.h"
#include "native/test/guest.h"

namespace {

using rubato::guest::flush;
using rubato::guest::g_failures;
using rubato::guest::pin;
using rubato::guest::report;
using rubato::guest::seconds_now;
using rubato::guest::wait_for;

constexpr const char* kModule = "/rubato_uintr.ko";
constexpr const char* kModuleName = "rubato_uintr";

uint64_t g_count[64];  // by vector; atomic, but a handler may not inline std::atomic

// The function that the compiler makes of the attribute ends in UIRET.
__attribute__((interrupt, target("general-regs-only"))) void handler(__uintr_frame*,
                                                                     unsigned long long vector) {
  __atomic_fetch_add(&g_count[vector], 1, __ATOMIC_RELEASE);
}

uint64_t count(long receiver) { return __atomic_load_n(&g_count[receiver % 64], __ATOMIC_ACQUIRE); }

void sleep_millis(long millis) {
  const timespec nap{0, millis * 1'000'000};
  ::nanosleep(&nap, nullptr);
}

int open_device() { return ::open(RUBATO_UINTR_DEVICE, O_RDWR | O_CLOEXEC); }

long receive_here(int device) {
  return ::ioctl(device, RUBATO_UINTR_RECEIVE, reinterpret_cast<unsigned long>(&handler));
}

bool fails_with(int expected, long result) { return result < 0 && errno == expected; }

bool load() {
  const int file = ::open(kModule, O_RDONLY | O_CLOEXEC);
  const bool good = ::syscall(SYS_finit_module, file, "", 0) == 0;
  const int because = errno;
  ::close(file);
  errno = because;
  return good;
}

bool unload() { return ::syscall(SYS_delete_module, kModuleName, O_NONBLOCK) == 0; }

// A receiver that computes until told to stop; moves between two processors if `moving`.
class Spinner {
 public:
  Spinner(int device, unsigned cpu, bool moving)
      : thread_([this, device, cpu, moving] { run(device, cpu, moving); }) {
    wait_for([this] { return receiver_ != -1; });
  }
  ~Spinner() { stop(); }
  long receiver() const { return receiver_; }
  const std::string& changed() const { return changed_; }
  unsigned moves() const { return moves_; }
  void stop() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run(int device, unsigned cpu, bool moving) {
    pin(cpu);
    const long got = receive_here(device);
    if (got < 0) changed_ = std::strerror(errno);
    _stui();
    receiver_ = got < 0 ? -2 : got;
    for (uint64_t seed = 1; !done_ && changed_.empty(); ++seed) {
      changed_ = rubato::probe_state(5'000, seed);
      if (moving && pin(static_cast<unsigned>(seed / 4) % 2)) ++moves_;
    }
    ::ioctl(device, RUBATO_UINTR_LEAVE);
  }

  std::atomic<long> receiver_{-1};
  std::atomic<bool> done_{false};
  std::atomic<unsigned> moves_{0};
  std::string changed_;
  std::thread thread_;  // last: it uses the others
};

// Waits for each interrupt, so that none merge. Returns how many arrived.
uint64_t send_and_wait(long receiver, uint64_t rounds) {
  uint64_t delivered = 0;
  for (; delivered < rounds; ++delivered) {
    const uint64_t before = count(receiver);
    _senduipi(static_cast<unsigned long long>(receiver));
    if (!wait_for([&] { return count(receiver) > before; })) break;
  }
  return delivered;
}

void spinning_receivers(int device, uint64_t rounds) {
  for (const bool moving : {false, true}) {
    Spinner spinner(device, 1, moving);
    const uint64_t asked = moving ? rounds / 10 : rounds;
    const uint64_t before = count(spinner.receiver());
    send_and_wait(spinner.receiver(), asked);
    sleep_millis(5);
    spinner.stop();
    const uint64_t arrived = count(spinner.receiver()) - before;
    report(arrived == asked, std::to_string(arrived) + " of " + std::to_string(asked) +
                                 " arrive once, over " + std::to_string(spinner.moves()) +
                                 " moves");
    report(spinner.changed().empty(), "registers and flags survive " + spinner.changed());
  }
}

void receivers_share_a_processor(int device) {
  constexpr uint64_t kRounds = 20;
  Spinner one(device, 1, false);
  Spinner two(device, 1, false);
  const uint64_t before_one = count(one.receiver());
  const uint64_t before_two = count(two.receiver());
  for (uint64_t i = 0; i < kRounds; ++i) {
    send_and_wait(one.receiver(), 1);
    send_and_wait(two.receiver(), 1);
  }
  one.stop();
  two.stop();
  report(one.receiver() != two.receiver() && count(one.receiver()) - before_one == kRounds &&
             count(two.receiver()) - before_two == kRounds,
         "two receivers on one processor get their own");
}

void what_comes_meanwhile_waits(int device) {
  std::atomic<long> receiver{-1};
  std::atomic<int> step{0};
  bool early = false;
  std::thread sleeper([&] {
    const long got = receive_here(device);
    _stui();
    receiver = got;
    while (step == 0) sleep_millis(20);
    step = 2;
    _clui();
    const uint64_t before = count(got);
    while (step != 3) sleep_millis(20);
    rubato::probe_state(100'000, 1);
    early = count(got) != before;
    _stui();
    rubato::probe_state(1000, 1);
    ::ioctl(device, RUBATO_UINTR_LEAVE);
  });
  wait_for([&] { return receiver != -1; });
  const uint64_t before = count(receiver);
  _senduipi(static_cast<unsigned long long>(receiver.load()));
  report(wait_for([&] { return count(receiver) == before + 1; }),
         "a sleeping receiver gets it when it wakes");
  step = 1;
  wait_for([&] { return step == 2; });
  _senduipi(static_cast<unsigned long long>(receiver.load()));
  _senduipi(static_cast<unsigned long long>(receiver.load()));
  step = 3;
  sleeper.join();
  report(!early && count(receiver) == before + 2,
         "who has cleared the flag gets it after setting it, also over sleeps, and once");
}

// The signal that ends a child that runs `body`; 0 = it ended with status 0.
template <class Body>
int signal_of_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

void other_processes_are_refused(int device) {
  const int refused = signal_of_child([&] {
    return fails_with(EPERM, receive_here(device)) &&
                   fails_with(EPERM, ::ioctl(device, RUBATO_UINTR_SEND))
               ? 0
               : 1;
  });
  report(refused == 0, "a child with our file is refused (EPERM)");
  const int killed = signal_of_child([] {
    _senduipi(0);
    return 0;
  });
  report(killed == SIGILL, "and cannot send: an illegal instruction");
  const int outside = signal_of_child([] {
    const int own = open_device();
    ::ioctl(own, RUBATO_UINTR_SEND);
    _senduipi(0);
    return 0;
  });
  report(outside == SIGSEGV, "a file of its own leads to nobody else's threads");
}

void ended_receivers_are_harmless(int device) {
  long receiver = -1;
  std::thread([&] {
    receiver = receive_here(device);
    _stui();
  }).join();
  const uint64_t before = count(receiver);
  _senduipi(static_cast<unsigned long long>(receiver));
  sleep_millis(5);
  report(receiver >= 0 && count(receiver) == before, "sending to an ended receiver does nothing");
}

struct Counter final : rubato::InterruptTarget {
  void interrupted(uintptr_t pc) override {
    if (pc == 0) wrong = true;
    arrived.fetch_add(1, std::memory_order_release);
  }
  std::atomic<uint64_t> arrived{0};
  std::atomic<bool> wrong{false};
};

// The library's sender and entry, in a process of its own, for its device stays open as long.
int use_library(uint64_t rounds) {
  Counter counter;
  std::atomic<rubato::InterruptLine*> line{nullptr};
  std::atomic<bool> done{false};
  std::string changed;
  std::thread victim([&] {
    pin(1);
    auto opened = rubato::open_uintr_line(counter);
    if (!opened.ok()) {
      changed = opened.error();
      return;
    }
    line = opened->get();
    for (uint64_t seed = 1; !done && changed.empty(); ++seed) {
      changed = rubato::probe_state(5'000, seed);
    }
  });
  wait_for([&] { return line != nullptr || !changed.empty(); });
  for (uint64_t i = 0; i < rounds && line != nullptr; ++i) {
    line.load()->send();
    if (!wait_for([&] { return counter.arrived > i; })) break;
  }
  done = true;
  victim.join();
  if (!changed.empty()) std::printf("INFO library: %s\n", changed.c_str());
  std::fflush(stdout);
  return changed.empty() && counter.arrived == rounds && !counter.wrong ? 0 : 1;
}

void library_sends_and_receives(uint64_t rounds) {
  report(signal_of_child([&] { return use_library(rounds); }) == 0,
         "the library sends " + std::to_string(rounds) +
             ", all arrive, and vectors and red zone survive as well");
}

void module_stays_while_it_is_used(int device) {
  const bool refused = !unload() && (errno == EAGAIN || errno == EBUSY);
  report(refused, std::string("unloading is refused while open: ") + std::strerror(errno));
  ::ioctl(device, RUBATO_UINTR_LEAVE);
  ::close(device);
  report(wait_for([] { return unload(); }) && open_device() < 0, "then it unloads");
  report(load() && open_device() >= 0, "and loads again");
}

bool run() {
  utsname system{};
  ::uname(&system);
  std::printf("INFO kernel %s, %ld cpus\n", system.release, ::sysconf(_SC_NPROCESSORS_ONLN));
  flush();
  const bool loaded = load();
  report(loaded, std::string("the module loads") + (loaded ? "" : ": ") +
                     (loaded ? "" : std::strerror(errno)));
  const int device = open_device();
  pin(0);
  if (device < 0 || ::ioctl(device, RUBATO_UINTR_SEND) != 0) {
    report(false, std::string("this thread may send: ") + std::strerror(errno));
    return false;
  }
  spinning_receivers(device, 1000);
  receivers_share_a_processor(device);
  what_comes_meanwhile_waits(device);
  other_processes_are_refused(device);
  ended_receivers_are_harmless(device);
  library_sends_and_receives(500);
  module_stays_while_it_is_used(device);
  std::printf("INFO %.1f s after boot\n", seconds_now());
  return g_failures == 0;
}

}  // namespace

int main() {
  rubato::guest::mount_all();
  std::printf(run() ? "RESULT PASS\n" : "RESULT FAIL\n");
  flush();
  ::sync();
  sleep_millis(500);
  ::reboot(RB_POWER_OFF);
  return 0;
}
