// SPDX-License-Identifier: Apache-2.0
//
// How a TcpQueue accepts connections, within the limit on flows and the limit on descriptors.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "datapath/tcp_queue.h"

namespace rubato {
namespace {

// When even refusing is impossible for want of descriptors, the listener rests for this long.
constexpr Nanos kAcceptPause = Nanos::millis(100);

}  // namespace

void TcpQueue::accept_burst(uint32_t port, Instant now) {
  // A listener that drain() has shut is reported for ever.
  if (leaving()) return leave_listeners();
  for (uint32_t i = 0; i < kAcceptBurst; ++i) {
    if (!accept_one(port, now)) return;
  }
}

// False: no other connection to accept now.
bool TcpQueue::accept_one(uint32_t port, Instant now) {
  SocketAddress from;
  Fd socket = accept_from(listeners_[port].get(), from);
  if (!socket.valid()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      out_of_descriptors(port, now);
    }
    return false;
  }
  const uint32_t open = shared_.open_flows.fetch_add(1, std::memory_order_relaxed);
  if (open >= shared_.max_flows.load(std::memory_order_relaxed)) {
    shared_.open_flows.fetch_sub(1, std::memory_order_relaxed);
    refuse(std::move(socket), over_limit_reply(port));
  } else {
    try {
      admit(std::move(socket), from, port, now);
    } catch (const std::bad_alloc&) {
      shared_.open_flows.fetch_sub(1, std::memory_order_relaxed);
      refused_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return true;
}

void TcpQueue::admit(Fd socket, const SocketAddress& from, uint32_t port, Instant now) {
  const Peer peer{shared_.next_flow.fetch_add(1, std::memory_order_relaxed), to_text(from), port};
  if (const std::string answer = shared_.protocol.refusal_for(peer); !answer.empty()) {
    shared_.open_flows.fetch_sub(1, std::memory_order_relaxed);
    return refuse(std::move(socket), has_tls(port) ? std::string() : answer);
  }
  const TcpOptions& options = shared_.options;
  std::unique_ptr<TlsSession> tls;
  if (has_tls(port)) tls = options.tls_context->accept(socket.get(), options.limits.memory);
  const bool is_safe = tls != nullptr || !has_tls(port);
  std::unique_ptr<Session> session = is_safe ? shared_.protocol.open(peer) : nullptr;
  auto flow = std::make_unique<TcpFlow>(owner_queue_.host(), peer.flow, peer.address, now,
                                        std::move(socket), options.kernel_timestamps,
                                        std::move(tls));
  if (sends_in_place_ && !has_tls(port)) flow->send_in_place(options.zerocopy_above);
  if (session != nullptr) flow->attach(std::move(session));
  if (flow->session_ptr() == nullptr || !watch(*flow)) {
    shared_.open_flows.fetch_sub(1, std::memory_order_relaxed);
    refused_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  owner_queue_.add(std::move(flow));
}

bool TcpQueue::has_tls(uint32_t port) const {
  const TcpOptions& options = shared_.options;
  return port == 0 ? options.tls : options.more_ports[port - 1].tls;
}

std::string TcpQueue::over_limit_reply(uint32_t port) const {
  const TcpOptions& options = shared_.options;
  if (has_tls(port)) return {};
  return port == 0 ? options.over_limit_reply : options.more_ports[port - 1].over_limit_reply;
}

void TcpQueue::refuse(Fd socket, const std::string& reply) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  if (reply.empty()) return;
  ::send(socket.get(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket.get(), SHUT_WR);
  // Unread input would turn the close into a reset, which may overtake the reply.
  char unused[1024];
  ::recv(socket.get(), unused, sizeof unused, MSG_DONTWAIT);
}

// The waiting connection cannot be accepted, and epoll would report it again at once, so that the
// server spins. The reserve descriptor is given up to accept the connection and refuse it.
void TcpQueue::out_of_descriptors(uint32_t port, Instant now) {
  const int listener = listeners_[port].get();
  if (reserve_.valid()) {
    reserve_.reset();
    SocketAddress from;
    if (Fd socket = accept_from(listener, from); socket.valid()) {
      refuse(std::move(socket), over_limit_reply(port));
    }
    reserve_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener, nullptr);
  accept_again_ = now + kAcceptPause;
}

// Draining: drain() shuts the listeners and may not be done yet, so the descriptors stay open.
void TcpQueue::leave_listeners() {
  if (!accepts_) return;
  accepts_ = false;
  for (const Fd& listener : listeners_) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener.get(), nullptr);
  }
}

}  // namespace rubato
