// SPDX-License-Identifier: Apache-2.0
//
// The first and only program of the emulated machine in which run.sh tests the kernel module: loads
// it, uses it well and badly, also through the library's own sender, and prints a line for each
// behaviour. Linked statically.
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

#include "mechanism/preempt/entry.h"
#include "mechanism/preempt/kmod.h"
#include "mechanism/preempt/kmod_abi.h"
#include "mechanism/preempt/testing/state_probe.h"
#include "native/test/guest.h"

namespace rubato {
namespace {

using guest::flush;
using guest::g_failures;
using guest::pin;
using guest::report;
using guest::seconds_now;
using guest::wait_for;

constexpr const char* kModule = "/rubato_ipi.ko";
constexpr const char* kModuleName = "rubato_ipi";

struct Counter final : InterruptTarget {
  void interrupted(uintptr_t) override {
    thread = static_cast<pid_t>(::syscall(SYS_gettid));
    count.fetch_add(1, std::memory_order_release);
  }
  std::atomic<uint64_t> count{0};
  std::atomic<pid_t> thread{0};
};

int open_device() { return ::open(RUBATO_IPI_DEVICE, O_RDWR | O_CLOEXEC); }

int register_here(int device, InterruptTarget& target) {
  rubato_ipi_target asked{interrupt_entry(), interrupt_cookie(target)};
  return ::ioctl(device, RUBATO_IPI_REGISTER, &asked);
}

bool fails_with(int expected, long result) { return result < 0 && errno == expected; }

bool load() {
  const int file = ::open(kModule, O_RDONLY | O_CLOEXEC);
  const bool good = ::syscall(SYS_finit_module, file, "", 0) == 0;
  ::close(file);
  return good;
}

bool unload() { return ::syscall(SYS_delete_module, kModuleName, O_NONBLOCK) == 0; }

// Each interrupt is waited for, so that none merge. The target stays on the last processor, or
// moves between processors, also to the sender's.
void spinning_thread_is_interrupted_once_each(uint64_t rounds, unsigned cpus, bool moving) {
  Counter counter;
  std::atomic<InterruptLine*> line{nullptr};
  std::atomic<bool> done{false};
  std::atomic<pid_t> thread{0};
  std::atomic<unsigned> moves{0};
  std::string changed;
  std::thread victim([&] {
    auto opened = open_kmod_line(counter);
    if (!opened.ok()) {
      changed = opened.error();
      return;
    }
    thread = static_cast<pid_t>(::syscall(SYS_gettid));
    pin(cpus - 1);
    line = opened->get();
    for (uint64_t seed = 1; !done && changed.empty(); ++seed) {
      changed = probe_state(5'000, seed);
      if (moving && pin(static_cast<unsigned>(seed) % cpus)) ++moves;
    }
  });
  if (!wait_for([&] { return line != nullptr; })) {
    report(false, "a line opens: " + changed);
    victim.join();
    return;
  }
  uint64_t delivered = 0;
  const double start = seconds_now();
  while (delivered < rounds) {
    line.load()->send();
    if (!wait_for([&] { return counter.count.load(std::memory_order_acquire) > delivered; })) break;
    ++delivered;
  }
  const double each = (seconds_now() - start) / static_cast<double>(rounds) * 1e6;
  for (int i = 0; i < 100; ++i) sched_yield();
  done = true;
  victim.join();
  char text[160];
  std::snprintf(text, sizeof text, "%llu of %llu interrupts arrive once, over %u moves (%.0f us)",
                static_cast<unsigned long long>(counter.count.load()),
                static_cast<unsigned long long>(rounds), moves.load(), each);
  report(counter.count == rounds && counter.thread == thread && (moves > 0) == moving, text);
  report(changed.empty(), "registers, flags, vectors and red zone survive " + changed);
}

// Interrupts in the middle of system calls, short ones and one that sleeps.
void system_calls_survive(uint64_t rounds) {
  Counter counter;
  std::atomic<InterruptLine*> line{nullptr};
  std::atomic<bool> done{false};
  bool wrong = false;
  std::thread victim([&] {
    auto opened = open_kmod_line(counter);
    line = opened->get();
    int pipes[2];
    char byte = 1;
    wrong = ::pipe(pipes) != 0;
    while (!done && !wrong) {
      wrong = ::write(pipes[1], &byte, 1) != 1 || ::read(pipes[0], &byte, 1) != 1 ||
              ::syscall(SYS_getpid) != ::getpid();
    }
    const timespec nap{0, 300'000'000};
    wrong = wrong || ::nanosleep(&nap, nullptr) != 0;
    ::close(pipes[0]);
    ::close(pipes[1]);
  });
  wait_for([&] { return line != nullptr; });
  uint64_t delivered = 0;
  for (; delivered < rounds; ++delivered) {
    line.load()->send();
    if (!wait_for([&] { return counter.count.load(std::memory_order_acquire) > delivered; })) break;
  }
  done = true;
  const timespec into_the_nap{0, 100'000'000};
  ::nanosleep(&into_the_nap, nullptr);
  line.load()->send();
  line.load()->send();
  victim.join();
  report(!wrong && delivered == rounds, "system calls give what they would without interrupts");
  report(counter.count == rounds + 1, "a sleeping thread is interrupted once, when it is back");
}

void a_thread_may_interrupt_itself() {
  Counter counter;
  const int device = open_device();
  const int handle = register_here(device, counter);
  report(::ioctl(device, RUBATO_IPI_SEND, handle) == 0 && counter.count == 1,
         "a thread may interrupt itself");
  ::ioctl(device, RUBATO_IPI_UNREGISTER, handle);
  report(fails_with(ESRCH, ::ioctl(device, RUBATO_IPI_SEND, handle)) && counter.count == 1,
         "who has unregistered is interrupted no more");
  ::close(device);
}

// Status of a child that runs `body`.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void other_processes_are_refused() {
  Counter counter;
  const int device = open_device();
  const int handle = register_here(device, counter);
  const int inherited = in_child([&] {
    Counter own;
    const bool refused = fails_with(EPERM, ::ioctl(device, RUBATO_IPI_SEND, handle)) &&
                         fails_with(EPERM, register_here(device, own)) &&
                         fails_with(EPERM, ::ioctl(device, RUBATO_IPI_UNREGISTER, handle));
    return refused ? 0 : 1;
  });
  report(inherited == 0 && counter.count == 0, "a child with our file is refused (EPERM)");
  const int opened = in_child([&] {
    const int own = open_device();
    return own >= 0 && fails_with(ESRCH, ::ioctl(own, RUBATO_IPI_SEND, handle)) ? 0 : 1;
  });
  report(opened == 0 && counter.count == 0, "a file of its own leads to nobody else's threads");
  ::close(device);
}

void bad_requests_are_refused() {
  Counter counter;
  const int device = open_device();
  rubato_ipi_target kernel{0xffff'ffff'8100'0000u, 0};
  rubato_ipi_target null{0, 0};
  report(fails_with(EINVAL, ::ioctl(device, RUBATO_IPI_REGISTER, &kernel)) &&
             fails_with(EINVAL, ::ioctl(device, RUBATO_IPI_REGISTER, &null)) &&
             fails_with(EFAULT, ::ioctl(device, RUBATO_IPI_REGISTER, 16)) &&
             fails_with(ESRCH, ::ioctl(device, RUBATO_IPI_SEND, 12345)) &&
             fails_with(ENOTTY, ::ioctl(device, _IO('R', 0x7f), 0)),
         "bad handlers, handles and requests are refused");
  int made = 0;
  while (register_here(device, counter) > 0) ++made;
  report(made == RUBATO_IPI_TARGETS_MAX && errno == ENOSPC, "targets of a file are bounded");
  ::close(device);
}

void dead_threads_are_gone() {
  Counter counter;
  const int device = open_device();
  int handle = 0;
  std::thread([&] { handle = register_here(device, counter); }).join();
  report(handle > 0 && wait_for([&] {
           return fails_with(ESRCH, ::ioctl(device, RUBATO_IPI_SEND, handle));
         }),
         "a thread that has ended is gone (ESRCH)");
  ::close(device);
}

// Sends without waiting, to threads that come and go: nothing to assert but that all end well.
void threads_come_and_go_under_fire(uint64_t threads) {
  Counter counter;
  const int device = open_device();
  std::atomic<int> handle{0};
  std::atomic<bool> done{false};
  std::thread sender([&] {
    while (!done) ::ioctl(device, RUBATO_IPI_SEND, handle.load());
  });
  for (uint64_t i = 0; i < threads; ++i) {
    std::thread([&] {
      handle = register_here(device, counter);
      const uint64_t before = counter.count;
      wait_for([&] { return counter.count > before; });
      if (i % 2 == 0) ::ioctl(device, RUBATO_IPI_UNREGISTER, handle.load());
    }).join();
  }
  done = true;
  sender.join();
  ::close(device);
  report(counter.count >= threads, std::to_string(threads) + " threads come and go under fire");
}

void module_stays_while_it_is_used() {
  const int device = open_device();
  const bool refused = !unload() && (errno == EAGAIN || errno == EBUSY);
  report(refused, std::string("unloading is refused while open: ") + std::strerror(errno));
  ::close(device);
  // A target that sleeps with an interrupt on its way keeps it, too, after the file is closed.
  std::atomic<int> own{-1};
  std::atomic<bool> closed{false};
  std::thread sleeper([&] {
    Counter counter;
    const int file = open_device();
    const int handle = register_here(file, counter);
    std::thread([&] { ::ioctl(file, RUBATO_IPI_SEND, handle); }).join();
    own = file;
    wait_for([&] { return closed.load(); });
  });
  wait_for([&] { return own >= 0; });
  ::close(own);
  closed = true;
  sleeper.join();
  report(wait_for([] { return unload(); }) && open_device() < 0, "then it unloads");
  report(load() && open_device() >= 0, "and loads again");
}

// PASS and FAIL for everything; true = all passed.
bool run(uint64_t rounds) {
  utsname system{};
  ::uname(&system);
  const auto cpus = static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN));
  std::printf("INFO kernel %s, %u cpus\n", system.release, cpus);
  flush();
  report(!kmod_available().ok(), "without the module: " + kmod_available().error());
  if (!load()) {
    report(false, std::string("the module loads: ") + std::strerror(errno));
    return false;
  }
  report(kmod_available().ok(), "the module loads and the library finds it");
  pin(0);
  spinning_thread_is_interrupted_once_each(rounds, cpus, false);
  spinning_thread_is_interrupted_once_each(rounds / 5, cpus, true);
  system_calls_survive(rounds / 5);
  a_thread_may_interrupt_itself();
  other_processes_are_refused();
  bad_requests_are_refused();
  dead_threads_are_gone();
  threads_come_and_go_under_fire(rounds / 25);
  module_stays_while_it_is_used();
  std::printf("INFO %.1f s after boot\n", seconds_now());
  return g_failures == 0;
}

}  // namespace
}  // namespace rubato

// init [ROUNDS]
int main(int count, char** arguments) {
  const uint64_t rounds = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 500;
  rubato::guest::mount_all();
  std::printf(rubato::run(rounds) ? "RESULT PASS\n" : "RESULT FAIL\n");
  rubato::guest::flush();
  ::sync();
  ::reboot(RB_POWER_OFF);
  return 0;
}
