// SPDX-License-Identifier: Apache-2.0
//
// Descriptors and sockets by the public headers: tasks that wait for them hold no worker, with
// workers and in a loop of the caller's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <rubato/rubato.hpp>

namespace {

using namespace std::chrono_literals;
using rubato::Cancellation;
using rubato::Executor;
using rubato::ExecutorOptions;
using rubato::Outcome;
using rubato::Semaphore;
using rubato::Socket;

// Of this name the look-up takes until the count of its look-ups is 0 again.
constexpr const char* kSlowName = "slow.invalid";
std::atomic<int> g_slow_look_ups{0};

// Executors with workers, and one in a loop, which run_until runs.
class Sockets : public ::testing::TestWithParam<bool> {
 protected:
  Sockets() : executor_(make(GetParam())) {}

  template <class F>
  auto result_of(F&& function, const rubato::TaskAttributes& attributes = {}) {
    auto future = executor_.submit(std::forward<F>(function), attributes);
    run_until([&] { return future.wait_for(0s) == std::future_status::ready; });
    return future.get();
  }

  void run_until(const std::function<bool()>& holds) {
    while (!holds()) {
      if (!GetParam()) {
        std::this_thread::yield();
        continue;
      }
      // Were the descriptor not readable when it should be, this would wait for ever.
      if (executor_.run(1ms) == rubato::LoopState::kIdle && !holds()) {
        pollfd p{executor_.fd(), POLLIN, 0};
        ::poll(&p, 1, -1);
      }
    }
  }

  Executor& executor() { return executor_; }

 private:
  static Executor make(bool in_loop) {
    ExecutorOptions options;
    options.scheduler.workers = 1;
    options.in_loop = in_loop;
    auto executor = Executor::create(options);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error());
    return std::move(*executor);
  }

  Executor executor_;
};

INSTANTIATE_TEST_SUITE_P(Of, Sockets, ::testing::Bool(), [](const auto& in_loop) {
  return std::string(in_loop.param ? "a_loop" : "workers");
});

// A listener on a port of its own.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 64), 0);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { ::close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  uint16_t port() const { return port_; }
  Socket accept() const {
    EXPECT_NE(rubato::wait_fd(fd_, POLLIN), 0);
    return Socket(::accept(fd_, nullptr, nullptr));
  }

 private:
  int fd_;
  uint16_t port_ = 0;
};

TEST_P(Sockets, talk_on_one_worker) {
  constexpr int kPairs = 20;
  const Listener listener;
  std::atomic<int> ended{0};
  for (int i = 0; i < kPairs; ++i) {
    executor().execute([&] {
      Socket socket = listener.accept();
      for (;;) {
        auto line = socket.read_until('\n');
        if (!line) break;
        EXPECT_TRUE(socket.write("you said " + *line));
      }
      ++ended;
    });
    executor().execute([&, i] {
      auto socket = Socket::connect("127.0.0.1", listener.port(), 10s);
      ASSERT_TRUE(socket) << socket.error();
      for (int round = 0; round < 10; ++round) {
        const std::string line = std::to_string(i) + " " + std::to_string(round) + "\n";
        EXPECT_TRUE(socket->write(line.substr(0, 1)));
        rubato::yield();
        EXPECT_TRUE(socket->write(line.substr(1)));
        EXPECT_EQ(*socket->read_exactly(9), "you said ");
        EXPECT_EQ(*socket->read_until('\n'), line);
      }
      ++ended;
    });
  }
  run_until([&] { return ended == 2 * kPairs; });
}

TEST_P(Sockets, more_than_fits_waits_for_the_reader) {
  const Listener listener;
  constexpr size_t kBytes = size_t{16} << 20;
  std::atomic<size_t> read{0};
  std::atomic<bool> written{false};
  executor().execute([&] {
    Socket socket = listener.accept();
    std::array<char, 65536> bytes;
    while (const size_t n = *socket.read(bytes.data(), bytes.size())) read += n;
  });
  executor().execute([&] {
    auto socket = Socket::connect("localhost", listener.port());
    ASSERT_TRUE(socket) << socket.error();
    EXPECT_TRUE(socket->write(std::string(kBytes, 'x')));
    socket->end_writing();
    written = true;
  });
  run_until([&] { return read == kBytes && written; });
}

TEST_P(Sockets, a_deadline_ends_a_read_and_the_next_one_goes_on) {
  const Listener listener;
  const std::string text = result_of([&] {
    auto socket = Socket::connect("127.0.0.1", listener.port());
    Socket other = listener.accept();
    EXPECT_TRUE(other.write("half "));
    const auto late = socket->read_until('\n', 2ms);
    EXPECT_EQ(late.error(), "read: the deadline has passed");
    EXPECT_TRUE(other.write("whole\n"));
    return *socket->read_until('\n');
  });
  EXPECT_EQ(text, "half whole\n");
}

TEST_P(Sockets, a_line_that_is_too_long_is_an_error_and_stays) {
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  result_of([&] {
    Socket socket(ends[0]);
    Socket other(ends[1]);
    EXPECT_TRUE(other.write("12345\n"));
    EXPECT_EQ(socket.read_until('\n', 10s, 5).error(), "read: 5 bytes without an end");
    EXPECT_EQ(*socket.read_until('\n', 10s, 6), "12345\n");
  });
}

TEST_P(Sockets, errors_are_told) {
  result_of([&] {
    uint16_t free_port = 0;
    { free_port = Listener().port(); }
    auto refused = Socket::connect("127.0.0.1", free_port, 1s);
    EXPECT_EQ(refused.error(), "connect: Connection refused");
    EXPECT_FALSE(Socket::connect("name.invalid", 1, 10s));
    EXPECT_EQ(Socket::connect(std::string("127.0.0.1\0.a", 12), free_port, 1s).error(),
              "connect: a null character in the host");
    const Listener listener;
    auto socket = Socket::connect("127.0.0.1", listener.port());
    listener.accept().close();
    EXPECT_EQ(socket->read_until('\n').error(), "read: the other end has closed");
    EXPECT_THROW(rubato::wait_fd(-1, POLLIN), std::system_error);
  });
}

// The look-up goes on, and keeps what it needs.
TEST_P(Sockets, a_deadline_and_a_cancellation_end_the_look_up_of_a_name) {
  const std::string error = result_of([] {
    auto socket = Socket::connect(kSlowName, 1, 2ms);
    return socket ? std::string() : socket.error();
  });
  EXPECT_EQ(error, "connect: the deadline has passed");
  const Cancellation cancellation;
  std::atomic<int> outcome{-1};
  executor().execute([&] { static_cast<void>(Socket::connect(kSlowName, 1)); },
                     {.cancellation = cancellation},
                     [&](Outcome told) { outcome = static_cast<int>(told); });
  executor().execute([&] {
    while (g_slow_look_ups < 2) rubato::yield();
    cancellation.cancel();
  });
  run_until([&] { return outcome >= 0; });
  EXPECT_EQ(outcome, static_cast<int>(Outcome::kCancelled));
  g_slow_look_ups = 0;
  g_slow_look_ups.notify_all();
}

TEST_P(Sockets, several_tasks_wait_for_one_descriptor) {
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  std::atomic<int> readers{0};
  std::atomic<int> begun{0};
  for (int i = 0; i < 3; ++i) {
    executor().execute([&] {
      ++begun;
      EXPECT_EQ(rubato::wait_fd(ends[0], POLLIN), POLLIN);
      ++readers;
    });
  }
  EXPECT_EQ(result_of([&] { return rubato::wait_fd(ends[0], POLLIN, 1ms); }), 0);
  EXPECT_EQ(result_of([&] { return rubato::wait_fd(ends[0], POLLOUT); }), POLLOUT);
  EXPECT_EQ(begun, 3);
  EXPECT_EQ(readers, 0);
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  run_until([&] { return readers == 3; });
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(Sockets, a_cancellation_ends_a_read) {
  const Listener listener;
  const Cancellation cancellation;
  std::atomic<bool> reads{false};
  std::atomic<int> outcome{-1};
  executor().execute(
      [&] {
        auto socket = Socket::connect("127.0.0.1", listener.port());
        reads = true;
        static_cast<void>(socket->read_until('\n'));
      },
      {.cancellation = cancellation}, [&](Outcome told) { outcome = static_cast<int>(told); });
  run_until([&] { return reads.load(); });
  cancellation.cancel();
  run_until([&] { return outcome >= 0; });
  EXPECT_EQ(outcome, static_cast<int>(Outcome::kCancelled));
}

// Neither end ever has to wait.
TEST_P(Sockets, calls_that_need_not_wait_are_checkpoints) {
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const Cancellation cancellation;
  std::atomic<int> outcome{-1};
  std::atomic<bool> other_ran{false};
  executor().execute(
      [&] {
        Socket here(ends[0]);
        Socket there(ends[1]);
        const auto give_up = std::chrono::steady_clock::now() + 10s;
        while (std::chrono::steady_clock::now() < give_up) {
          EXPECT_TRUE(here.write("ping"));
          EXPECT_EQ(*there.read_exactly(4), "ping");
        }
      },
      {.is_long = true, .cancellation = cancellation},
      [&](Outcome told) { outcome = static_cast<int>(told); });
  executor().execute([&] {
    other_ran = outcome < 0;
    cancellation.cancel();
  });
  run_until([&] { return outcome >= 0; });
  EXPECT_TRUE(other_ran);
  EXPECT_EQ(outcome, static_cast<int>(Outcome::kCancelled));
}

TEST_P(Sockets, timers_and_other_threads_end_waits) {
  Semaphore go;
  std::atomic<int> woken{0};
  for (int i = 0; i < 50; ++i) {
    executor().execute([&, i] {
      rubato::sleep_for(std::chrono::microseconds(50 * (i % 9)));
      go.acquire();
      ++woken;
    });
  }
  std::thread thread([&] {
    for (int i = 0; i < 50; ++i) go.release();
  });
  run_until([&] { return woken == 50; });
  thread.join();
  EXPECT_EQ(result_of([] { return rubato::offload([] { return 5; }); }), 5);
}

TEST_P(Sockets, a_thread_that_runs_no_task_uses_them_as_well) {
  const Listener listener;
  std::thread client([&] {
    auto socket = Socket::connect("127.0.0.1", listener.port());
    EXPECT_TRUE(socket->write("hello\n"));
    EXPECT_EQ(*socket->read_exactly(1, 10s), "!");
  });
  Socket socket = listener.accept();
  EXPECT_EQ(*socket.read_until('\n'), "hello\n");
  EXPECT_TRUE(socket.write("!"));
  client.join();
}

}  // namespace

// In front of libc's.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto libc = reinterpret_cast<decltype(&getaddrinfo)>(
      ::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool by_name = (hints->ai_flags & AI_NUMERICHOST) == 0;
  if (by_name && std::string_view(host) == kSlowName) {
    int others = ++g_slow_look_ups;
    for (; others != 0; others = g_slow_look_ups) g_slow_look_ups.wait(others);
    return EAI_FAIL;
  }
  return libc(host, service, hints, found);
}
