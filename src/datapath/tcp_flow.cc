// SPDX-License-Identifier: Apache-2.0
#include "datapath/tcp_flow.h"

#include <sys/socket.h>

#include <cerrno>

#include "datapath/tcp_queue.h"

namespace rubato {
namespace {

// At most so much unread input is discarded before a close, so that the kernel does not answer it
// with a reset that overtakes the last reply.
constexpr size_t kDiscardBytes = 256 * 1024;
constexpr size_t kDiscardStep = 4096;  // fits on a fiber's stack

TcpQueue& queue_of(FlowHost& host) { return static_cast<TcpQueue&>(*host.queue); }

Transfer outcome(ssize_t n, bool receiving) {
  if (n > 0) return {Transfer::State::kMoved, static_cast<size_t>(n)};
  if (n == 0) return {receiving ? Transfer::State::kEnd : Transfer::State::kBroken, 0};
  const bool later = errno == EAGAIN || errno == EWOULDBLOCK;
  return {later ? Transfer::State::kWait : Transfer::State::kBroken, 0};
}

}  // namespace

Transfer TcpFlow::receive(char* to, size_t room, bool exact, Instant& when) {
  if (exact && timestamps_) return receive_dated(to, room, when);
  for (;;) {
    const ssize_t n = ::recv(fd(), to, room, 0);
    if (n >= 0 || errno != EINTR) return outcome(n, true);
  }
}

Transfer TcpFlow::receive_dated(char* to, size_t room, Instant& when) {
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(timespec))];
  iovec part{to, room};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t n = 0;
  do {
    message.msg_control = ancillary;
    message.msg_controllen = sizeof ancillary;
    n = ::recvmsg(fd(), &message, 0);
  } while (n < 0 && errno == EINTR);
  if (n > 0) when = received_at(message, when);
  return outcome(n, true);
}

Transfer TcpFlow::transmit(std::string_view bytes) {
  for (;;) {
    const ssize_t n = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0 || errno != EINTR) return outcome(n, false);
  }
}

void TcpFlow::hang_up() {
  // With MSG_TRUNC a TCP receive drops the bytes in the kernel instead of copying them here.
  char unused[kDiscardStep];
  size_t discarded = 0;
  while (discarded < kDiscardBytes) {
    const ssize_t n = ::recv(fd(), unused, sizeof unused, MSG_TRUNC | MSG_DONTWAIT);
    if (n <= 0) break;
    discarded += static_cast<size_t>(n);
  }
  abort();
}

void TcpFlow::abort() { ::shutdown(fd(), SHUT_RDWR); }

bool TcpFlow::rewire(FlowHost& from, FlowHost& to) {
  if (!queue_of(to).watch(*this)) return false;
  queue_of(from).unwatch(*this);
  return true;
}

void TcpFlow::unwire(FlowHost& queue) { queue_of(queue).unwatch(*this); }

}  // namespace rubato
