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

// The pages outlive the socket, which has their last reports.
TcpFlow::~TcpFlow() {
  if (pages_ != nullptr) pages_->give_back(true);
}

void TcpFlow::send_in_place(size_t least_bytes) {
  FlowHost& host = owner_queue();
  auto pages =
      std::make_unique<SentPages>(fd(), least_bytes, host.sent_pages, host.limits.memory);
  pages_ = pages.get();
  use(std::move(pages));
}

// A connection that is gone is hung up, too. The caller need not own the flow: pages_ is set before
// any queue knows of it. Other events are not to read what only the kernel has ordered before them.
uint32_t TcpFlow::without_reports(uint32_t events) {
  if ((events & (EPOLLERR | EPOLLHUP)) != EPOLLERR || pages_ == nullptr) return events;
  pages_->note_reports();
  return events & ~uint32_t{EPOLLERR};
}

Transfer TcpFlow::receive(char* to, size_t room, bool exact, Instant& when) {
  if (tls_ != nullptr) return receive_tls(to, room, exact, when);
  const ssize_t n = exact && timestamps_ ? receive_dated(fd(), to, room, when)
                                         : receive_bytes(fd(), to, room);
  return outcome(n, true);
}

Transfer TcpFlow::receive_tls(char* to, size_t room, bool exact, Instant& when) {
  const Transfer got = tls_->receive(to, room, exact && timestamps_, when);
  note_handshake();
  // Has the flow receive once more, although these bytes were all that had come.
  if (got.state == Transfer::State::kMoved && tls_->over()) note_client(ClientState::kHalfClosed);
  return got;
}

Transfer TcpFlow::transmit(std::string_view bytes) {
  if (pages_ != nullptr) return outcome(pages_->send(bytes), false);
  if (tls_ == nullptr) return outcome(send_bytes(fd(), bytes), false);
  const Transfer sent = tls_->transmit(bytes);
  note_handshake();
  return sent;
}

void TcpFlow::note_handshake() {
  if (opening() && tls_->established()) note_opened();
}

void TcpFlow::hang_up() {
  if (tls_ != nullptr) tls_->say_goodbye();
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
