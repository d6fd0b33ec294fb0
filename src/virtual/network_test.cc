// SPDX-License-Identifier: Apache-2.0
//
// The sockets of a world: what programs rely on in those of Linux holds, with faults too.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <set>
#include <string>
#include <thread>

#include "mechanism/clock/clock.h"
#include "virtual/testing/connection.h"
#include "virtual/world.h"

namespace rubato::virt {
namespace {

using testing::Connection;
using testing::loopback;

constexpr uint16_t kPort = 7000;

const sockaddr* raw(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// A listening socket.
int listen_here(int flags = 0) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | flags, 0);
  const sockaddr_in address = loopback(kPort);
  EXPECT_EQ(::bind(fd, raw(address), sizeof address), 0);
  EXPECT_EQ(::listen(fd, 8), 0);
  return fd;
}
int accept_here(int listener) { return ::accept4(listener, nullptr, nullptr, 0); }

std::string read_all(int fd) {
  std::string all;
  for (;;) {
    char chunk[512];
    const ssize_t got = ::recv(fd, chunk, sizeof chunk, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return all;
    all.append(chunk, static_cast<size_t>(got));
  }
}

WorldOptions faulty(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.window = 512;
  options.cut_one_in = 2;
  options.late_wake_up_one_in = 4;
  options.spurious_wake_up_one_in = 4;
  return options;
}

TEST(Network, bytes_arrive_whole_and_in_order_whatever_happens_to_them) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i) + ",";
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    run(faulty(seed), [&] {
      const int listener = listen_here();
      std::thread client([&] {
        Connection connection(kPort);
        EXPECT_TRUE(connection.send(text));
      });
      const int fd = accept_here(listener);
      EXPECT_EQ(read_all(fd), text);
      client.join();
      ::close(fd);
      ::close(listener);
    });
  }
}

TEST(Network, a_sender_finds_no_room_until_its_bytes_are_read) {
  WorldOptions options;
  options.window = 1000;
  run(options, [] {
    const int listener = listen_here();
    Connection client(kPort);
    const int fd = accept_here(listener);
    const std::string much(3000, 'x');
    EXPECT_EQ(::send(client.fd(), much.data(), much.size(), MSG_DONTWAIT), 1000);
    EXPECT_EQ(::send(client.fd(), much.data(), much.size(), MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, EAGAIN);
    char chunk[400];
    EXPECT_EQ(::recv(fd, chunk, sizeof chunk, 0), 400);
    EXPECT_EQ(::send(client.fd(), much.data(), much.size(), MSG_DONTWAIT), 400);
    ::close(fd);
    ::close(listener);
  });
}

TEST(Network, a_stream_does_not_send_in_place) {
  run({}, [] {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const int yes = 1;
    EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &yes, sizeof yes), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
    ::close(fd);
  });
}

TEST(Network, an_edge_triggered_epoll_reports_each_arrival_once) {
  run({}, [] {
    const int listener = listen_here();
    Connection client(kPort);
    const int fd = accept_here(listener);
    const int epoll = ::epoll_create1(0);
    epoll_event event{EPOLLIN | EPOLLRDHUP | EPOLLET, {.fd = fd}};
    EXPECT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    epoll_event found{};
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(client.send("x"));
      EXPECT_EQ(::epoll_wait(epoll, &found, 1, 1000), 1);
      EXPECT_EQ(found.events, uint32_t{EPOLLIN});
      EXPECT_EQ(::epoll_wait(epoll, &found, 1, 1), 0);
    }
    ::shutdown(client.fd(), SHUT_WR);
    EXPECT_EQ(::epoll_wait(epoll, &found, 1, 1000), 1);
    EXPECT_EQ(found.events, uint32_t{EPOLLIN | EPOLLRDHUP});
    ::close(epoll);
    ::close(fd);
    ::close(listener);
  });
}

TEST(Network, a_reset_drops_what_was_not_read) {
  run({}, [] {
    const int listener = listen_here();
    int fd = -1;
    {
      Connection client(kPort);
      fd = accept_here(listener);
      EXPECT_TRUE(client.send("never read"));
      client.reset_at_close();
    }
    spend(Nanos::millis(1));
    char chunk[16];
    EXPECT_EQ(::recv(fd, chunk, sizeof chunk, 0), -1);
    EXPECT_EQ(errno, ECONNRESET);
    EXPECT_EQ(::send(fd, "x", 1, MSG_NOSIGNAL), -1);
    ::close(fd);
    ::close(listener);
  });
}

TEST(Network, a_wait_ends_at_its_limit_or_by_an_event) {
  run({}, [] {
    const int event = ::eventfd(0, EFD_NONBLOCK);
    const int epoll = ::epoll_create1(0);
    epoll_event watched{EPOLLIN | EPOLLET, {.fd = event}};
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, event, &watched);
    epoll_event found{};
    const Instant begin = now();
    EXPECT_EQ(::epoll_wait(epoll, &found, 1, 20), 0);
    EXPECT_GE(now() - begin, Nanos::millis(20));
    EXPECT_LT(now() - begin, Nanos::millis(21));
    std::thread other([event] {
      spend(Nanos::millis(5));
      const uint64_t one = 1;
      EXPECT_EQ(::write(event, &one, sizeof one), 8);
    });
    EXPECT_EQ(::epoll_wait(epoll, &found, 1, -1), 1);
    other.join();
    ::close(epoll);
    ::close(event);
  });
}

TEST(Network, datagrams_get_lost_come_twice_and_overtake_each_other) {
  WorldOptions options;
  options.lose_one_in = 4;
  run(options, [] {
    const int to = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const int from = ::socket(AF_INET, SOCK_DGRAM, 0);
    const sockaddr_in address = loopback(kPort);
    ::bind(to, raw(address), sizeof address);
    constexpr int kSent = 1000;
    for (int i = 0; i < kSent; ++i) ::sendto(from, &i, sizeof i, 0, raw(address), sizeof address);
    spend(Nanos::millis(1));
    std::set<int> seen;
    int twice = 0;
    int behind = 0;
    int last = -1;
    for (int i = 0; ::recv(to, &i, sizeof i, 0) == sizeof i;) {
      twice += seen.insert(i).second ? 0 : 1;
      behind += i < last ? 1 : 0;
      last = i;
    }
    EXPECT_GT(kSent - static_cast<int>(seen.size()), 100);
    EXPECT_GT(twice, 100);
    EXPECT_GT(behind, 100);
    ::close(to);
    ::close(from);
  });
}

TEST(Network, a_message_of_several_parts_is_one_datagram) {
  run({}, [] {
    const int to = ::socket(AF_INET, SOCK_DGRAM, 0);
    const int from = ::socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in address = loopback(kPort);
    ::bind(to, raw(address), sizeof address);
    std::string parts[] = {"one ", "and ", "another"};
    iovec pieces[] = {{parts[0].data(), parts[0].size()},
                      {parts[1].data(), parts[1].size()},
                      {parts[2].data(), parts[2].size()}};
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = sizeof address;
    message.msg_iov = pieces;
    message.msg_iovlen = 3;
    EXPECT_EQ(::sendmsg(from, &message, 0), 15);
    char bytes[32];
    EXPECT_EQ(std::string(bytes, static_cast<size_t>(::recv(to, bytes, sizeof bytes, 0))),
              "one and another");
    ::close(to);
    ::close(from);
  });
}

}  // namespace
}  // namespace rubato::virt
