// SPDX-License-Identifier: Apache-2.0
#include "datapath/tcp_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <memory>

#include "datapath/time_source.h"

namespace rubato {
namespace {

constexpr int kKeepAliveSeconds = 300;

Error system_error(const std::string& what, int error) {
  return Error{what + ": " + std::strerror(error)};
}

bool set_flag(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

const sockaddr* raw(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}
sockaddr* raw(SocketAddress& address) { return reinterpret_cast<sockaddr*>(&address.storage); }

// A bound, not yet listening socket. `::` takes IPv4 as well.
Result<Fd> bind_socket(const SocketAddress& address, bool share_port) {
  const std::string name = "cannot listen on " + to_text(address);
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return system_error(name, errno);
  bool ok = set_flag(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) set_flag(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (share_port) ok = ok && set_flag(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (!ok || ::bind(fd.get(), raw(address), address.length) != 0) return system_error(name, errno);
  return fd;
}

// Connections inherit these.
void set_up_listener(int fd, bool timestamps) {
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_flag(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveSeconds);
  if (timestamps) set_flag(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
}

uint32_t whole_micros(Nanos length) { return static_cast<uint32_t>(length.count() / 1000); }

// EPIOCSPARAMS of linux/eventpoll.h, which Debian 12 does not have.
struct EpollParameters {
  uint32_t busy_poll_us;
  uint16_t budget;  // packets per look; 0 = as it is
  uint8_t prefers_busy_poll;
  uint8_t reserved;
};
constexpr unsigned long kSetEpollParameters = _IOW(0x8A, 1, EpollParameters);
constexpr uint16_t kPacketsPerLook = 8;  // BUSY_POLL_BUDGET of the kernel

// A receive time that lies further back than this comes from a wall clock that was set.
constexpr Nanos kOldest = Nanos::seconds(60);

int64_t to_ns(const timespec& t) { return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; }

// The kernel stamps with the wall clock; the distance to now is the same on every clock.
Instant on_process_clock(const timespec& stamp) {
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  const Instant present = datapath_now();
  const Nanos ago(to_ns(wall) - to_ns(stamp));
  return ago < Nanos(0) || ago > kOldest ? present : present - ago;
}

// A time stamp may come first.
constexpr size_t kReportBytes =
    CMSG_SPACE(sizeof(timespec)) + CMSG_SPACE(sizeof(sock_extended_err) + sizeof(sockaddr_in6));

bool is_report(const cmsghdr& part, SendReport& report) {
  const bool is_error = (part.cmsg_level == SOL_IP && part.cmsg_type == IP_RECVERR) ||
                        (part.cmsg_level == SOL_IPV6 && part.cmsg_type == IPV6_RECVERR);
  if (!is_error) return false;
  sock_extended_err found{};
  std::memcpy(&found, CMSG_DATA(&part), sizeof found);
  report = {found.ee_info, found.ee_data, (found.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0};
  return found.ee_origin == SO_EE_ORIGIN_ZEROCOPY;
}

ssize_t send_with(int fd, std::string_view bytes, int flags) {
  for (;;) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | flags);
    if (n >= 0 || errno != EINTR) return n;
  }
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

uint16_t SocketAddress::port() const {
  // Both families keep the port at the same place.
  sockaddr_in in{};
  std::memcpy(&in, &storage, sizeof in);
  return ntohs(in.sin_port);
}

void SocketAddress::set_port(uint16_t port) {
  sockaddr_in in{};
  std::memcpy(&in, &storage, sizeof in);
  in.sin_port = htons(port);
  std::memcpy(&storage, &in, sizeof in);
}

std::string to_text(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  const std::string port = ":" + std::to_string(address.port());
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address.storage, sizeof in);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    return text + port;
  }
  if (address.storage.ss_family != AF_INET6) return "?:0";
  sockaddr_in6 in{};
  std::memcpy(&in, &address.storage, sizeof in);
  if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
    ::inet_ntop(AF_INET, &in.sin6_addr.s6_addr[12], text, sizeof text);
    return text + port;
  }
  ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
  return "[" + std::string(text) + "]" + port;
}

Result<SocketAddress> resolve(const std::string& host, uint16_t port) {
  if (host == "*" || host.empty()) {
    // Without IPv6 in the kernel, `::` resolves but cannot be bound.
    Result<SocketAddress> any = resolve("::", 0);
    const bool has_ipv6 = any.ok() && bind_socket(any.value(), true).ok();
    return resolve(has_ipv6 ? "::" : "0.0.0.0", port);
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (rc != 0) return Error{"cannot resolve address '" + host + "': " + ::gai_strerror(rc)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  SocketAddress address;
  address.length = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  return address;
}

Result<SocketAddress> claim_address(SocketAddress address) {
  Result<Fd> probe = bind_socket(address, false);
  if (!probe.ok()) return Error{probe.error()};
  address.length = sizeof address.storage;
  if (::getsockname(probe->get(), raw(address), &address.length) != 0) {
    return system_error("getsockname", errno);
  }
  return address;
}

Result<Fd> listen_on(const SocketAddress& address, const ListenOptions& options) {
  Result<Fd> fd = bind_socket(address, true);
  if (!fd.ok()) return fd;
  set_up_listener(fd->get(), options.timestamps);
  if (::listen(fd->get(), options.backlog) != 0) {
    return system_error("cannot listen on " + to_text(address), errno);
  }
  return fd;
}

Result<Fd> share_listener(int listener, bool timestamps) {
  Fd fd(::fcntl(listener, F_DUPFD_CLOEXEC, 0));
  if (!fd.valid() || ::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    return system_error("cannot take the listener on " + local_text(listener), errno);
  }
  set_up_listener(fd.get(), timestamps);
  return fd;
}

Status set_incoming_cpu(int listener, uint32_t cpu) {
  if (set_flag(listener, SOL_SOCKET, SO_INCOMING_CPU, static_cast<int>(cpu))) return Done{};
  return system_error("incoming_cpu: cannot listen for CPU " + std::to_string(cpu), errno);
}

Status set_busy_poll(int socket, Nanos length) {
  const auto micros = static_cast<int>(whole_micros(length));
  if (set_flag(socket, SOL_SOCKET, SO_BUSY_POLL, micros)) return Done{};
  return system_error("busy_poll: takes CAP_NET_ADMIN", errno);
}

Status set_busy_wait(int epoll, Nanos length) {
  const EpollParameters parameters{whole_micros(length), kPacketsPerLook, 0, 0};
  if (::ioctl(epoll, kSetEpollParameters, &parameters) == 0) return Done{};
  return system_error("busy_poll: takes Linux 6.9", errno);
}

bool allow_sends_in_place(int listener) {
  return set_flag(listener, SOL_SOCKET, SO_ZEROCOPY, 1);
}

Instant received_at(const msghdr& message, Instant otherwise) {
  msghdr& m = const_cast<msghdr&>(message);  // the macros of some C libraries need it
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp{};
    std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
    return on_process_clock(stamp);
  }
  return otherwise;
}

ssize_t receive_bytes(int fd, char* to, size_t room) {
  for (;;) {
    const ssize_t n = ::recv(fd, to, room, 0);
    if (n >= 0 || errno != EINTR) return n;
  }
}

ssize_t receive_dated(int fd, char* to, size_t room, Instant& when) {
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(timespec))];
  iovec part{to, room};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t n = 0;
  do {
    message.msg_control = ancillary;
    message.msg_controllen = sizeof ancillary;
    n = ::recvmsg(fd, &message, 0);
  } while (n < 0 && errno == EINTR);
  if (n > 0) when = received_at(message, when);
  return n;
}

ssize_t send_bytes(int fd, std::string_view bytes) { return send_with(fd, bytes, 0); }

ssize_t send_in_place(int fd, std::string_view bytes) { return send_with(fd, bytes, MSG_ZEROCOPY); }

bool next_send_report(int fd, SendReport& report) {
  alignas(cmsghdr) char ancillary[kReportBytes];
  for (;;) {
    msghdr message{};
    message.msg_control = ancillary;
    message.msg_controllen = sizeof ancillary;
    if (::recvmsg(fd, &message, MSG_ERRQUEUE) < 0) return false;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (is_report(*c, report)) return true;
    }
  }
}

Fd accept_from(int listener, SocketAddress& peer) {
  for (;;) {
    peer.length = sizeof peer.storage;
    const int fd = ::accept4(listener, raw(peer), &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    // A connection that was reset while it waited is no failure of the listener.
    if (fd >= 0 || (errno != EINTR && errno != ECONNABORTED)) return Fd(fd);
  }
}

void make_room_for_descriptors(uint64_t more) {
  rlimit most{};
  const Fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!next.valid() || ::getrlimit(RLIMIT_NOFILE, &most) != 0) return;
  const uint64_t wanted = static_cast<uint64_t>(next.get()) + more;
  const uint64_t last = std::min({wanted, most.rlim_cur - 1, uint64_t{INT_MAX}});
  const Fd grown(::fcntl(next.get(), F_DUPFD_CLOEXEC, static_cast<int>(last)));
}

Result<Fd> listen_alone(const std::string& host, uint16_t port, int backlog,
                        SocketAddress& address) {
  const Result<SocketAddress> wanted = resolve(host, port);
  if (!wanted.ok()) return Error{wanted.error()};
  const Result<SocketAddress> claimed = claim_address(wanted.value());
  if (!claimed.ok()) return Error{claimed.error()};
  address = claimed.value();
  return listen_on(address, {.backlog = backlog});
}

SocketAddress local_address(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getsockname(fd, raw(address), &address.length) != 0) return {};
  return address;
}

std::string local_text(int fd) { return to_text(local_address(fd)); }

}  // namespace rubato
