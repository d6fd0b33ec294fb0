// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing of requests that the runtime's signal ends: on sockets with a timeout of
// their own calls take that time, and what a thread would transfer whole is transferred whole.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mechanism/clock/clock.h"
#include "mechanism/preempt/mechanism.h"
#include "runtime/testing/foreign.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::LetterServer;

constexpr Nanos kTime = Nanos::millis(30);  // many slices
constexpr timeval kTimeout{0, 30'000};
// The kernel counts timeouts of sockets in ticks, of which a signal may cost one.
constexpr Nanos kTick = Nanos::millis(10);

class Pair {
 public:
  explicit Pair(int type = SOCK_STREAM) {
    EXPECT_EQ(socketpair(AF_UNIX, type, 0, ends_.data()), 0);
    setsockopt(here(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
    setsockopt(here(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
  }
  ~Pair() {
    for (const int end : ends_) close(end);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  int here() const { return ends_[0]; }
  int there() const { return ends_[1]; }
  void without_timeout() const {
    const timeval none{};
    setsockopt(here(), SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
    setsockopt(here(), SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
  }

 private:
  std::array<int, 2> ends_{};
};

// A listener of TCP with a timeout, which accepts nothing by itself.
class Listener {
 public:
  Listener() {
    const auto* any = reinterpret_cast<const sockaddr*>(&address_);
    EXPECT_EQ(bind(fd_, any, sizeof(address_)), 0);
    EXPECT_EQ(listen(fd_, 0), 0);
    socklen_t bytes = sizeof(address_);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &bytes), 0);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  }
  ~Listener() { close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd() const { return fd_; }
  int connect_from(int socket) const {
    return connect(socket, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_));
  }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address_{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
};

struct Call {
  const char* name;
  int error;  // its time is over
  std::function<ssize_t(const Pair&)> make;
};

ssize_t receive_message(const Pair& pair) {
  char byte = 0;
  iovec piece{&byte, 1};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  return recvmsg(pair.here(), &message, 0);
}

ssize_t receive_messages(const Pair& pair) {
  char byte = 0;
  iovec piece{&byte, 1};
  mmsghdr message{};
  message.msg_hdr.msg_iov = &piece;
  message.msg_hdr.msg_iovlen = 1;
  return recvmmsg(pair.here(), &message, 1, 0, nullptr);
}

ssize_t read_pieces(const Pair& pair) {
  char byte = 0;
  const iovec piece{&byte, 1};
  return readv(pair.here(), &piece, 1);
}

// The second one finds the buffer full.
ssize_t send_too_much(const Pair& pair) {
  const std::string much(1 << 20, 'x');
  EXPECT_GT(::send(pair.here(), much.data(), much.size(), MSG_DONTWAIT), 0);
  return ::send(pair.here(), much.data(), much.size(), 0);
}

ssize_t accept_nobody(const Pair&) {
  const Listener listener;
  return accept(listener.fd(), nullptr, nullptr);
}

// The queue of a listener that accepts nobody is full after one connection.
ssize_t connect_in_vain(const Pair&) {
  const Listener listener;
  std::array<int, 3> sockets{};
  ssize_t last = 0;
  for (int& one : sockets) {
    one = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(one, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
    last = listener.connect_from(one);
    if (last != 0) break;
  }
  const int error = errno;
  for (const int one : sockets) {
    if (one > 0) close(one);
  }
  errno = error;
  return last;
}

const std::vector<Call>& calls() {
  static char byte = 0;
  static const std::vector<Call> kCalls{
      {"read", EAGAIN, [](const Pair& pair) { return read(pair.here(), &byte, 1); }},
      {"readv", EAGAIN, read_pieces},
      {"recv", EAGAIN, [](const Pair& pair) { return ::recv(pair.here(), &byte, 1, 0); }},
      {"recv, all", EAGAIN,
       [](const Pair& pair) { return ::recv(pair.here(), &byte, 1, MSG_WAITALL); }},
      {"recvfrom", EAGAIN,
       [](const Pair& pair) { return recvfrom(pair.here(), &byte, 1, 0, nullptr, nullptr); }},
      {"recvmsg", EAGAIN, receive_message},
      {"recvmmsg", EAGAIN, receive_messages},
      {"send", EAGAIN, send_too_much},
      {"accept", EAGAIN, accept_nobody},
      {"connect", EINPROGRESS, connect_in_vain},
  };
  return kCalls;
}

std::string pattern(size_t bytes) {
  std::string made(bytes, 0);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<char>(i * 131 >> 3);
  return made;
}

class InterruptedTransfers : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  void SetUp() override {
    if (const Status has = available(GetParam()); !has.ok()) GTEST_SKIP() << has.error();
    server.options.preempt = GetParam();
    server.options.policy_settings = {{"quantum", "200us"}};
    server.app.on('L') = [this](Request&) {
      while (!transferred_) foreign_checksum(100'000, 1.0);
    };
  }

  // Until the two have been left so often: preempted, or stuck in the kernel.
  void wait_for_interrupts(uint64_t count) {
    const auto left = [this] {
      const RuntimeStats stats = server.runtime->stats();
      return stats.preemptions + stats.lock_yields;
    };
    const uint64_t until = left() + count;
    while (left() < until) usleep(200);
  }

  // Runs `request` beside a long one, which ends after it.
  void run(std::function<void()> request) {
    server.app.on('T') = [this, request](Request&) {
      request();
      transferred_ = true;
    };
    server.start();
    const uint64_t transfers = server.connect();
    server.submit(transfers, "T\n");
    const uint64_t works = server.connect();
    server.submit(works, "L\n");
    EXPECT_EQ(server.receive(transfers, 2), "T\n");
    EXPECT_EQ(server.receive(works, 2), "L\n");
  }

  LetterServer server{"ps", 1};

 private:
  std::atomic<bool> transferred_{false};
};

INSTANTIATE_TEST_SUITE_P(By, InterruptedTransfers,
                         ::testing::Values(PreemptMechanism::kSignal, PreemptMechanism::kTimer),
                         [](const auto& with) { return to_string(with.param); });

TEST_P(InterruptedTransfers, end_after_the_time_of_the_socket) {
  run([] {
    for (const Call& call : calls()) {
      const Pair pair;
      const Instant began = now();
      EXPECT_EQ(call.make(pair), -1) << call.name;
      EXPECT_EQ(errno, call.error) << call.name;
      EXPECT_GE(now() - began, kTime - kTick) << call.name;
    }
  });
}

TEST_P(InterruptedTransfers, get_what_comes_within_the_time_of_the_socket) {
  run([this] {
    const Pair pair;
    constexpr timeval kLong{60, 0};
    setsockopt(pair.here(), SOL_SOCKET, SO_RCVTIMEO, &kLong, sizeof(kLong));
    std::thread sender([&] {
      wait_for_interrupts(10);
      EXPECT_EQ(::send(pair.there(), "x", 1, 0), 1);
    });
    char byte = 0;
    EXPECT_EQ(::recv(pair.here(), &byte, 1, 0), 1) << errno;
    EXPECT_EQ(byte, 'x');
    sender.join();
  });
}

// What a transfer sends is what its slow reader gets.
TEST_P(InterruptedTransfers, send_all_of_it) {
  static constexpr size_t kBytes = 2'000'003;
  const std::string all = pattern(kBytes);
  std::vector<iovec> pieces;
  for (size_t at = 0, size = 1; at < kBytes; at += size, size = size * 3 % 50'021) {
    pieces.push_back({const_cast<char*>(all.data()) + at, std::min(size, kBytes - at)});
  }
  const std::array<std::function<ssize_t(int)>, 4> transfers{
      [&](int fd) { return write(fd, all.data(), kBytes); },
      [&](int fd) { return ::send(fd, all.data(), kBytes, MSG_NOSIGNAL); },
      [&](int fd) { return writev(fd, pieces.data(), static_cast<int>(pieces.size())); },
      [&](int fd) {
        msghdr message{};
        message.msg_iov = pieces.data();
        message.msg_iovlen = pieces.size();
        return sendmsg(fd, &message, MSG_NOSIGNAL);
      }};
  run([&] {
    for (const auto& transfer : transfers) {
      const Pair pair;
      pair.without_timeout();
      std::string got(kBytes, 0);
      size_t filled = 0;
      std::thread reader([&] {
        for (ssize_t rc = 1; rc > 0; filled += static_cast<size_t>(rc)) {
          rc = read(pair.there(), got.data() + filled, std::min<size_t>(kBytes - filled, 20'000));
          usleep(100);
        }
      });
      EXPECT_EQ(transfer(pair.here()), static_cast<ssize_t>(kBytes));
      shutdown(pair.here(), SHUT_WR);
      reader.join();
      EXPECT_EQ(filled, kBytes);
      EXPECT_EQ(got, all);
    }
  });
}

TEST_P(InterruptedTransfers, receive_all_that_they_ask_for) {
  static constexpr size_t kBytes = 100'003;
  const std::string all = pattern(kBytes);
  run([&] {
    const Pair pair;
    pair.without_timeout();
    std::thread writer([&] {
      for (size_t at = 0; at < kBytes; at += 1000) {
        const size_t here = std::min<size_t>(1000, kBytes - at);
        EXPECT_EQ(write(pair.there(), all.data() + at, here), static_cast<ssize_t>(here));
        usleep(100);
      }
    });
    std::string got(kBytes, 0);
    EXPECT_EQ(::recv(pair.here(), got.data(), kBytes, MSG_WAITALL), static_cast<ssize_t>(kBytes));
    EXPECT_EQ(got, all);
    writer.join();
  });
}

// As their datagrams are, whatever the flags say.
TEST_P(InterruptedTransfers, of_datagrams_are_not_joined) {
  run([this] {
    const Pair pair(SOCK_DGRAM);
    pair.without_timeout();
    std::thread writer([&] {
      for (int i = 0; i < 2; ++i) {
        wait_for_interrupts(10);
        EXPECT_EQ(::send(pair.there(), "one", 3, 0), 3);
      }
    });
    std::array<char, 100> got{};
    EXPECT_EQ(::recv(pair.here(), got.data(), got.size(), MSG_WAITALL), 3);
    EXPECT_EQ(::recv(pair.here(), got.data(), got.size(), MSG_WAITALL), 3);
    writer.join();
  });
}

}  // namespace
}  // namespace rubato
