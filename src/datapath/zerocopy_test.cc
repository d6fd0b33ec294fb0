// SPDX-License-Identifier: Apache-2.0
//
// Large replies that TCP connections send in place (sent_pages.h), over loopback, where the kernel
// copies what it sends no sooner than the client has room for it: until then it reads our pages.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "datapath/tcp.h"
#include "datapath/tcp_socket.h"
#include "datapath/testing/line_protocol.h"
#include "datapath/time_source.h"

namespace rubato {
namespace {

using testing::LineProtocol;

constexpr size_t kLeast = 16 * 1024;
constexpr size_t kLarge = 1 << 20;

class Zerocopy : public ::testing::Test {
 protected:
  void SetUp() override {
    TcpOptions options;
    options.zerocopy_above = kLeast;
    options.limits.memory = &memory_;
    tcp_ = TcpDatapath::open(options, protocol_).value();
    if (!tcp_->sends_in_place()) GTEST_SKIP() << "the kernel has no MSG_ZEROCOPY";
  }

  // With a receive buffer of so many bytes, so that the others stay with the server; 0 = as it is.
  Fd connect(int receive_buffer = 0) {
    const SocketAddress address = resolve("127.0.0.1", tcp_->port()).value();
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer > 0) {
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                        address.length),
              0);
    return fd;
  }

  // Polls until the client's request is answered with `size` times `letter`.
  void answer(const Fd& client, char letter, size_t size) {
    ASSERT_EQ(::send(client.get(), "one\n", 4, 0), 4);
    std::array<Request*, 1> burst{};
    while (queue().poll(burst) == 0) queue().wait(Nanos::seconds(1));
    burst[0]->reply->append(std::string(size, letter));
    EXPECT_EQ(queue().finish(*burst[0]), nullptr);
  }

  // Polls while the client reads so many bytes, or until the connection ends.
  std::string receive(const Fd& client, size_t size) {
    std::string text(size, '\0');
    size_t got = 0;
    std::array<Request*, 1> none{};
    while (got < size) {
      EXPECT_EQ(queue().poll(none), 0u);
      const ssize_t n = ::recv(client.get(), text.data() + got, size - got, MSG_DONTWAIT);
      if (n == 0) break;
      if (n > 0) got += static_cast<size_t>(n);
    }
    text.resize(got);
    return text;
  }

  // Polls until the kernel has reported so many sends, all copied, as on every path within the
  // machine.
  void await_reports(uint64_t count) {
    std::array<Request*, 1> none{};
    while (true) {
      EXPECT_EQ(queue().poll(none), 0u);
      if (stats().zerocopy_copied >= count) return;
      queue().wait(Nanos::seconds(1));
    }
  }

  DatapathQueue& queue() { return tcp_->queue(WorkerId{0}); }
  DatapathStats stats() const { return tcp_->stats(); }

  LineProtocol protocol_;
  MemoryAccount memory_;
  std::unique_ptr<TcpDatapath> tcp_;
};

TEST_F(Zerocopy, large_replies_are_sent_in_place_and_small_ones_are_not) {
  const Fd client = connect();
  answer(client, 'a', kLeast - 1);
  EXPECT_EQ(receive(client, kLeast - 1), std::string(kLeast - 1, 'a'));
  EXPECT_EQ(stats().zerocopy_sends, 0u);
  answer(client, 'b', kLarge);
  EXPECT_EQ(receive(client, kLarge), std::string(kLarge, 'b'));
  EXPECT_GE(stats().zerocopy_sends, 1u);
  EXPECT_EQ(stats().output_bytes, kLarge + kLeast - 1);
}

TEST_F(Zerocopy, a_report_neither_ends_the_connection_nor_wakes_again_and_again) {
  const Fd client = connect();
  answer(client, 'a', kLarge);
  receive(client, kLarge);
  await_reports(stats().zerocopy_sends);
  std::array<Request*, 1> none{};
  EXPECT_EQ(queue().poll(none), 0u);
  EXPECT_FALSE(queue().pending());
  EXPECT_EQ(stats().flows_open, 1u);
  answer(client, 'b', 3);
  EXPECT_EQ(receive(client, 3), "bbb");
}

TEST_F(Zerocopy, a_report_does_not_look_like_a_client_that_is_gone) {
  const Fd client = connect();
  answer(client, 'a', kLarge);
  receive(client, kLarge);
  ASSERT_EQ(::send(client.get(), "two\n", 4, 0), 4);
  std::array<Request*, 1> burst{};
  while (queue().poll(burst) == 0) queue().wait(Nanos::seconds(1));
  burst[0]->reply->append(std::string(kLarge, 'b'));
  while (queue().flush_some(*burst[0], kLarge)) continue;  // its reports are not read yet
  queue().look_at_client(*burst[0]);
  EXPECT_EQ(burst[0]->client->load(), ClientState::kOpen);
  EXPECT_EQ(queue().finish(*burst[0]), nullptr);
  EXPECT_EQ(receive(client, kLarge), std::string(kLarge, 'b'));
}

// What the slow client's socket holds is still in our pages while others are served.
TEST_F(Zerocopy, what_a_slow_client_has_not_read_is_not_overwritten) {
  const Fd slow = connect(4096);
  answer(slow, 's', kLarge);
  answer(slow, 't', 3 * kLeast);  // while the kernel reads the first
  const uint64_t to_slow = stats().zerocopy_sends;
  for (const char letter : {'a', 'b', 'c', 'd', 'e'}) {
    const Fd other = connect();
    answer(other, letter, kLarge);
    EXPECT_EQ(receive(other, kLarge), std::string(kLarge, letter));
    await_reports(stats().zerocopy_sends - to_slow);
  }
  EXPECT_LT(stats().zerocopy_copied, stats().zerocopy_sends);
  EXPECT_EQ(receive(slow, kLarge), std::string(kLarge, 's'));
  EXPECT_EQ(receive(slow, 3 * kLeast), std::string(3 * kLeast, 't'));
}

TEST_F(Zerocopy, a_reply_that_grows_while_a_part_of_it_is_read_stays_whole) {
  const Fd client = connect(4096);
  ASSERT_EQ(::send(client.get(), "one\n", 4, 0), 4);
  std::array<Request*, 1> burst{};
  while (queue().poll(burst) == 0) queue().wait(Nanos::seconds(1));
  std::string whole;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    const std::string part(kLarge / 4 + 1, letter);
    whole += part;
    burst[0]->reply->append(part);
    queue().flush_some(*burst[0], kLarge / 8);
  }
  EXPECT_EQ(queue().finish(*burst[0]), nullptr);
  EXPECT_EQ(receive(client, whole.size()), whole);
}

TEST_F(Zerocopy, a_closed_connection_sends_what_it_had_and_gives_its_memory_back) {
  const Fd slow = connect(4096);
  answer(slow, 's', kLarge);
  EXPECT_GE(memory_.buffers(), kLarge);
  EXPECT_TRUE(tcp_->close_flow(protocol_.last_flow));
  std::array<Request*, 1> none{};
  while (protocol_.live > 0) queue().poll(none);
  EXPECT_EQ(memory_.buffers(), 0u);
  const Fd other = connect();
  answer(other, 'x', kLarge);
  EXPECT_EQ(receive(other, kLarge), std::string(kLarge, 'x'));
  EXPECT_EQ(receive(slow, kLarge), std::string(kLarge, 's'));
}

TEST_F(Zerocopy, a_client_that_resets_leaves_nothing_behind) {
  Fd client = connect(4096);
  answer(client, 'a', kLarge);
  memory_.set_limit(1);  // so that nothing is kept for others
  const linger reset{1, 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  client.reset();
  std::array<Request*, 1> none{};
  while (protocol_.live > 0) queue().poll(none);
  EXPECT_EQ(stats().flows_open, 0u);
  EXPECT_EQ(memory_.buffers(), 0u);
}

TEST_F(Zerocopy, a_datapath_ends_while_the_kernel_reads_its_replies) {
  const Fd slow = connect(4096);
  answer(slow, 's', kLarge);
  tcp_.reset();
  EXPECT_EQ(memory_.buffers(), 0u);
  std::string text(kLarge, '\0');
  EXPECT_EQ(::recv(slow.get(), text.data(), kLarge, MSG_WAITALL), ssize_t{kLarge});
  EXPECT_EQ(text, std::string(kLarge, 's'));
}

TEST_F(Zerocopy, pages_that_are_read_are_counted_and_given_back_when_memory_is_short) {
  const Fd slow = connect(4096);
  answer(slow, 's', kLarge);
  EXPECT_GE(memory_.buffers(), kLarge);
  memory_.set_limit(kLarge + kLarge / 4);  // less than a quarter is free
  answer(slow, 't', 1);
  EXPECT_LT(memory_.buffers(), kLarge / 2);
  EXPECT_EQ(receive(slow, kLarge), std::string(kLarge, 's'));
  EXPECT_EQ(receive(slow, 1), "t");
}

TEST_F(Zerocopy, a_connection_whose_bytes_are_copied_after_all_sends_no_more_in_place) {
  const Fd client = connect();
  for (uint32_t i = 0; i < 3 * SentPages::kCopiedInARow; ++i) {
    answer(client, 'a', kLeast);
    EXPECT_EQ(receive(client, kLeast), std::string(kLeast, 'a'));
    await_reports(stats().zerocopy_sends);
  }
  EXPECT_EQ(stats().zerocopy_sends, SentPages::kCopiedInARow);
  EXPECT_EQ(stats().zerocopy_copied, SentPages::kCopiedInARow);
}

// The thread may lock no memory as long as this lives.
class NoLockedMemory {
 public:
  NoLockedMemory() {
    ::syscall(SYS_capget, &header_, before_.data());
    auto without = before_;
    without[0].effective &= ~(1U << CAP_IPC_LOCK);
    ::syscall(SYS_capset, &header_, without.data());
    ::getrlimit(RLIMIT_MEMLOCK, &limit_);
    const rlimit none{0, limit_.rlim_max};
    ::setrlimit(RLIMIT_MEMLOCK, &none);
  }
  ~NoLockedMemory() {
    ::setrlimit(RLIMIT_MEMLOCK, &limit_);
    ::syscall(SYS_capset, &header_, before_.data());
  }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> before_{};
  rlimit limit_{};
};

TEST_F(Zerocopy, what_the_kernel_refuses_to_send_in_place_is_copied_and_counted) {
  const Fd client = connect();
  const NoLockedMemory refuses;
  answer(client, 'a', kLarge);
  EXPECT_EQ(receive(client, kLarge), std::string(kLarge, 'a'));
  EXPECT_EQ(stats().zerocopy_sends, 0u);
  EXPECT_GE(stats().zerocopy_refused, 1u);
}

TEST_F(Zerocopy, pages_that_nobody_reads_are_kept_for_the_next_reply_and_then_unmapped) {
  PagePool pool;
  Pages pages = pool.take(kLarge, &memory_);
  const char* const at = pages.data();
  pool.give(std::move(pages), &memory_);
  EXPECT_EQ(memory_.buffers(), kLarge);
  pages = pool.take(kLarge - 100, &memory_);
  EXPECT_EQ(pages.data(), at);
  pool.give(std::move(pages), &memory_);
  pool.trim();
  EXPECT_EQ(memory_.buffers(), kLarge);  // was used since the last look
  pool.trim();
  EXPECT_EQ(memory_.buffers(), 0u);
}

}  // namespace
}  // namespace rubato
