// SPDX-License-Identifier: Apache-2.0
//
// Where the threads of another process may run. The processes are forked by one of one thread.
#include "process/core_placement.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "mechanism/cpu/pin.h"

namespace rubato {
namespace {

constexpr uid_t kNobody = 65534;

// A process with a thread that belongs to another user, and its first one that does not.
class TwoUsers {
 public:
  TwoUsers() {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    process_ = ::fork();
    if (process_ == 0) run(pipe[1]);
    EXPECT_EQ(::read(pipe[0], &thread_, sizeof thread_), static_cast<ssize_t>(sizeof thread_));
    for (const int end : pipe) ::close(end);
  }
  ~TwoUsers() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  pid_t process() const { return process_; }
  pid_t thread() const { return thread_; }

 private:
  // For the thread alone: the system call and not its wrapper, which tells all threads.
  [[noreturn]] static void run(int ready) {
    std::thread other([ready] {
      const auto id = static_cast<pid_t>(::syscall(SYS_gettid));
      const bool changed = ::syscall(SYS_setresuid, kNobody, kNobody, kNobody) == 0;
      if (!changed || ::write(ready, &id, sizeof id) != sizeof id) ::_exit(1);
      for (;;) ::pause();
    });
    for (;;) ::pause();
  }

  pid_t process_ = 0;
  pid_t thread_ = 0;
};

// What place() says to a user who owns one of the threads.
std::string place_as_nobody(pid_t process, const std::vector<uint32_t>& cpus) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  const pid_t placer = ::fork();
  if (placer == 0) {
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
    const Status placed = CorePlacement(process).place(cpus);
    const std::string said = placed.ok() ? "placed" : placed.error();
    ::_exit(::write(pipe[1], said.data(), said.size()) < 0 ? 1 : 0);
  }
  ::close(pipe[1]);
  std::string said(256, '\0');
  const ssize_t got = ::read(pipe[0], said.data(), said.size());
  said.resize(got > 0 ? static_cast<size_t>(got) : 0);
  ::close(pipe[0]);
  ::waitpid(placer, nullptr, 0);
  return said;
}

bool runs_on(pid_t thread, uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(thread, sizeof set, &set), 0);
  return CPU_ISSET(cpu, &set);
}

TEST(CorePlacement, a_thread_that_cannot_be_placed_leaves_no_other_where_it_was) {
  const std::vector<uint32_t> cpus = allowed_cpus();
  if (::geteuid() != 0) GTEST_SKIP() << "takes two users";
  if (cpus.size() < 2) GTEST_SKIP() << "takes two CPUs";
  const TwoUsers two;
  const std::string said = place_as_nobody(two.process(), {cpus[0]});
  EXPECT_EQ(said, "cannot set the affinity of thread " + std::to_string(two.process()) +
                      ": Operation not permitted");
  EXPECT_TRUE(runs_on(two.process(), cpus[1]));
  EXPECT_TRUE(runs_on(two.thread(), cpus[0]));
  EXPECT_FALSE(runs_on(two.thread(), cpus[1]));
}

}  // namespace
}  // namespace rubato
