// SPDX-License-Identifier: Apache-2.0
//
// System calls of requests that the runtime's signal ends although it is to be restarted: they take
// their time and succeed, and other signals end them as ever.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mechanism/clock/clock.h"
#include "mechanism/preempt/interposed.h"
#include "mechanism/preempt/mechanism.h"
#include "runtime/testing/foreign.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::LetterServer;

constexpr Nanos kTime = Nanos::millis(4);  // many slices
constexpr int kMillis = 4;
constexpr timespec kSpan{0, 4'000'000};

struct Call {
  const char* name;
  std::function<int()> make;
  int result = 0;
  int error = 0;  // where the result is -1
};

int pipe_end() {
  static const std::array<int, 2> ends = [] {
    std::array<int, 2> made{};
    EXPECT_EQ(pipe(made.data()), 0);
    return made;
  }();
  return ends[0];
}

int epoll() {
  static const int made = epoll_create1(EPOLL_CLOEXEC);
  return made;
}

int semaphores() {
  static const int made = semget(IPC_PRIVATE, 1, 0600);
  return made;
}

int messages() {
  static const int made = msgget(IPC_PRIVATE, 0600);
  return made;
}

sigset_t only(int signal) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, signal);
  return signals;
}

int poll_pipe(int millis) {
  pollfd end{pipe_end(), POLLIN, 0};
  return poll(&end, 1, millis);
}

int ppoll_pipe() {
  pollfd end{pipe_end(), POLLIN, 0};
  return ppoll(&end, 1, &kSpan, nullptr);
}

int select_pipe() {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(pipe_end(), &set);
  timeval time{0, 4000};
  return select(pipe_end() + 1, &set, nullptr, nullptr, &time);
}

int pselect_pipe() {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(pipe_end(), &set);
  return pselect(pipe_end() + 1, &set, nullptr, nullptr, &kSpan, nullptr);
}

int wait_at_epoll() {
  epoll_event event{};
  return epoll_wait(epoll(), &event, 1, kMillis);
}

int pwait_at_epoll() {
  epoll_event event{};
  return epoll_pwait(epoll(), &event, 1, kMillis, nullptr);
}

int pwait2_at_epoll() {
  epoll_event event{};
  return epoll_pwait2(epoll(), &event, 1, &kSpan, nullptr);
}

int wait_for_signal() {
  const sigset_t none = only(SIGRTMAX);
  return sigtimedwait(&none, nullptr, &kSpan);
}

int wait_for_semaphore() {
  sembuf take{0, -1, 0};
  return semtimedop(semaphores(), &take, 1, &kSpan);
}

std::vector<Call> calls() {
  return {{"poll", [] { return poll_pipe(kMillis); }},
          {"ppoll", ppoll_pipe},
          {"select", select_pipe},
          {"pselect", pselect_pipe},
          {"epoll_wait", wait_at_epoll},
          {"epoll_pwait", pwait_at_epoll},
          {"epoll_pwait2", pwait2_at_epoll},
          {"nanosleep", std::bind_front(nanosleep, &kSpan, nullptr)},
          {"clock_nanosleep", [] { return clock_nanosleep(CLOCK_REALTIME, 0, &kSpan, nullptr); }},
          {"usleep", std::bind_front(usleep, 4000)},
          {"thrd_sleep", [] { return thrd_sleep(&kSpan, nullptr); }},
          {"sigtimedwait", wait_for_signal, -1, EAGAIN},
          {"semtimedop", wait_for_semaphore, -1, EAGAIN}};
}

class InterruptedCalls : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  void SetUp() override {
    if (const Status has = available(GetParam()); !has.ok()) GTEST_SKIP() << has.error();
    server.options.preempt = GetParam();
    server.options.policy_settings = {{"quantum", "200us"}};
  }

  LetterServer server{"ps", 1};
};

INSTANTIATE_TEST_SUITE_P(By, InterruptedCalls,
                         ::testing::Values(PreemptMechanism::kSignal, PreemptMechanism::kTimer),
                         [](const auto& with) { return to_string(with.param); });

TEST_P(InterruptedCalls, take_their_time_and_end_well) {
  server.app.on('C') = [](Request&) {
    for (const Call& call : calls()) {
      const Instant began = now();
      const int result = call.make();
      EXPECT_EQ(result, call.result) << call.name << ", errno " << errno;
      if (result == -1) {
        EXPECT_EQ(errno, call.error) << call.name;
      }
      EXPECT_GE(now() - began, kTime - Nanos::micros(100)) << call.name;
    }
  };
  server.app.on('L') = [](Request&) { foreign_checksum(3'000'000, 1.0); };
  server.start();
  std::vector<uint64_t> flows;
  const std::string letters = "CLCL";
  for (const char letter : letters) {
    flows.push_back(server.connect());
    server.submit(flows.back(), std::string(1, letter) + "\n");
  }
  for (size_t i = 0; i < letters.size(); ++i) {
    EXPECT_EQ(server.receive(flows[i], 2), std::string(1, letters[i]) + "\n");
  }
}

// The message comes, and the semaphore, after many interrupts.
TEST_P(InterruptedCalls, without_an_end_wait_for_what_they_are_for) {
  struct Message {
    long type = 1;
    char text[1]{};
  };
  server.app.on('M') = [](Request&) {
    Message got;
    EXPECT_EQ(msgrcv(messages(), &got, 1, 0, 0), 1);
    sembuf take{0, -1, 0};
    EXPECT_EQ(semop(semaphores(), &take, 1), 0);
  };
  server.app.on('L') = [](Request&) { foreign_checksum(3'000'000, 1.0); };
  server.app.on('S') = [](Request&) {
    const Message message;
    EXPECT_EQ(msgsnd(messages(), &message, 1, 0), 0);
    sembuf give{0, 1, 0};
    EXPECT_EQ(semop(semaphores(), &give, 1), 0);
  };
  server.start();
  const uint64_t waits = server.connect();
  server.submit(waits, "M\n");
  const uint64_t works = server.connect();
  server.submit(works, "L\n");
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
  EXPECT_EQ(server.receive(waits, 2), "M\n");
  EXPECT_EQ(server.receive(works, 2), "L\n");
}

std::atomic<int> g_handled{0};

TEST_P(InterruptedCalls, end_by_other_signals) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { ++g_handled; };
  sigaction(SIGUSR1, &action, &before);
  g_handled = 0;
  std::atomic<pid_t> thread{0};
  std::atomic<int> error{0};
  server.app.on('P') = [&](Request&) {
    thread = static_cast<pid_t>(syscall(SYS_gettid));
    while (poll_pipe(10'000) == -1 && errno == EINTR && g_handled == 0) {
    }
    error = errno;
  };
  server.start();
  const uint64_t waits = server.connect();
  server.submit(waits, "P\n");
  while (thread == 0) sched_yield();
  // Until one comes while the call waits.
  while (error == 0) {
    syscall(SYS_tgkill, getpid(), thread.load(), SIGUSR1);
    usleep(1000);
  }
  EXPECT_EQ(server.receive(waits, 2), "P\n");
  EXPECT_EQ(error, EINTR);
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace rubato
