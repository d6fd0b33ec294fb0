// SPDX-License-Identifier: Apache-2.0
//
// The functions of libc for sockets, epolls, eventfds and timers: in a world they act on its
// network, on descriptors of other kinds and outside of a world they are libc's own.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <span>
#include <string>
#include <string_view>

#include "virtual/network.h"
#include "virtual/real.h"
#include "virtual/scheduler.h"

namespace rubato::virt {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

// Null outside of a world.
Network* network() {
  Scheduler* scheduler = Scheduler::here();
  return scheduler != nullptr ? &scheduler->network() : nullptr;
}

// Null for a descriptor that is not the network's.
Network* network_of(int fd) {
  Network* found = network();
  return found != nullptr && found->has(fd) ? found : nullptr;
}

bool is_internet(int domain) { return domain == AF_INET || domain == AF_INET6; }

Nanos limit_of(int milliseconds) {
  return milliseconds < 0 ? Nanos(-1) : Nanos::millis(milliseconds);
}
Nanos limit_of(const timespec* time) {
  return time == nullptr ? Nanos(-1) : Nanos(time->tv_sec * kNanosPerSecond + time->tv_nsec);
}

bool all_virtual(const Network& network, std::span<const pollfd> files) {
  for (const pollfd& file : files) {
    if (file.fd >= 0 && !network.has(file.fd)) return false;
  }
  return true;
}

// One part of a message is enough for those who call it here.
ssize_t receive(Network& network, int fd, msghdr* message, int flags) {
  const iovec& part = message->msg_iov[0];
  message->msg_controllen = 0;
  message->msg_flags = 0;
  return network.receive(fd, static_cast<char*>(part.iov_base), part.iov_len, flags,
                         static_cast<sockaddr*>(message->msg_name), &message->msg_namelen);
}

std::string_view bytes(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

ssize_t transmit(Network& network, int fd, const msghdr& message, int flags) {
  const std::span parts(message.msg_iov, message.msg_iovlen);
  const auto* const to = static_cast<const sockaddr*>(message.msg_name);
  if (parts.size() == 1) {
    return network.send(fd, bytes(parts[0].iov_base, parts[0].iov_len), flags, to);
  }
  std::string whole;
  for (const iovec& part : parts) whole += bytes(part.iov_base, part.iov_len);
  return network.send(fd, whole, flags, to);
}

}  // namespace
}  // namespace rubato::virt

using namespace rubato::virt;

extern "C" {

// ---- Sockets --------------------------------------------------------------------------------

int socket(int domain, int type, int protocol) {
  RUBATO_REAL(socket);
  Network* world = network();
  return world != nullptr && is_internet(domain) ? world->socket(type)
                                                 : real(domain, type, protocol);
}

int bind(int fd, const sockaddr* address, socklen_t length) {
  RUBATO_REAL(bind);
  Network* world = network_of(fd);
  return world != nullptr ? world->bind(fd, address) : real(fd, address, length);
}

int listen(int fd, int backlog) {
  RUBATO_REAL(listen);
  Network* world = network_of(fd);
  return world != nullptr ? world->listen(fd) : real(fd, backlog);
}

int connect(int fd, const sockaddr* address, socklen_t length) {
  RUBATO_REAL(connect);
  Network* world = network_of(fd);
  return world != nullptr ? world->connect(fd, address) : real(fd, address, length);
}

int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  RUBATO_REAL(accept4);
  Network* world = network_of(fd);
  return world != nullptr ? world->accept(fd, address, length, flags)
                          : real(fd, address, length, flags);
}

int getsockname(int fd, sockaddr* address, socklen_t* length) {
  RUBATO_REAL(getsockname);
  Network* world = network_of(fd);
  return world != nullptr ? world->name(fd, false, address, length) : real(fd, address, length);
}

int getpeername(int fd, sockaddr* address, socklen_t* length) {
  RUBATO_REAL(getpeername);
  Network* world = network_of(fd);
  return world != nullptr ? world->name(fd, true, address, length) : real(fd, address, length);
}

int setsockopt(int fd, int level, int option, const void* value, socklen_t length) {
  RUBATO_REAL(setsockopt);
  Network* world = network_of(fd);
  return world != nullptr ? world->set_option(fd, level, option, value, length)
                          : real(fd, level, option, value, length);
}

int getsockopt(int fd, int level, int option, void* value, socklen_t* length) {
  RUBATO_REAL(getsockopt);
  Network* world = network_of(fd);
  return world != nullptr ? world->get_option(fd, level, option, value, length)
                          : real(fd, level, option, value, length);
}

int shutdown(int fd, int how) {
  RUBATO_REAL(shutdown);
  Network* world = network_of(fd);
  return world != nullptr ? world->shutdown(fd, how) : real(fd, how);
}

int close(int fd) {
  RUBATO_REAL(close);
  Network* world = network_of(fd);
  return world != nullptr ? world->close(fd) : real(fd);
}

// ---- Bytes ----------------------------------------------------------------------------------

ssize_t recv(int fd, void* to, size_t room, int flags) {
  RUBATO_REAL(recv);
  Network* world = network_of(fd);
  return world != nullptr
             ? world->receive(fd, static_cast<char*>(to), room, flags, nullptr, nullptr)
             : real(fd, to, room, flags);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  RUBATO_REAL(recvmsg);
  Network* world = network_of(fd);
  return world != nullptr ? receive(*world, fd, message, flags) : real(fd, message, flags);
}

int recvmmsg(int fd, mmsghdr* messages, unsigned most, int flags, timespec* limit) {
  RUBATO_REAL(recvmmsg);
  Network* world = network_of(fd);
  if (world == nullptr) return real(fd, messages, most, flags, limit);
  unsigned count = 0;
  for (; count < most; ++count) {
    const ssize_t size = receive(*world, fd, &messages[count].msg_hdr, flags | MSG_DONTWAIT);
    if (size < 0) break;
    messages[count].msg_len = static_cast<unsigned>(size);
  }
  return count > 0 ? static_cast<int>(count) : -1;
}

ssize_t send(int fd, const void* data, size_t size, int flags) {
  RUBATO_REAL(send);
  Network* world = network_of(fd);
  return world != nullptr ? world->send(fd, bytes(data, size), flags, nullptr)
                          : real(fd, data, size, flags);
}

ssize_t sendto(int fd, const void* data, size_t size, int flags, const sockaddr* to,
               socklen_t length) {
  RUBATO_REAL(sendto);
  Network* world = network_of(fd);
  return world != nullptr ? world->send(fd, bytes(data, size), flags, to)
                          : real(fd, data, size, flags, to, length);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  RUBATO_REAL(sendmsg);
  Network* world = network_of(fd);
  return world != nullptr ? transmit(*world, fd, *message, flags) : real(fd, message, flags);
}

int sendmmsg(int fd, mmsghdr* messages, unsigned most, int flags) {
  RUBATO_REAL(sendmmsg);
  Network* world = network_of(fd);
  if (world == nullptr) return real(fd, messages, most, flags);
  unsigned count = 0;
  for (; count < most; ++count) {
    const ssize_t size = transmit(*world, fd, messages[count].msg_hdr, flags);
    if (size < 0) break;
    messages[count].msg_len = static_cast<unsigned>(size);
  }
  return count > 0 || most == 0 ? static_cast<int>(count) : -1;
}

ssize_t read(int fd, void* to, size_t room) {
  RUBATO_REAL(read);
  Network* world = network_of(fd);
  if (world == nullptr) return real(fd, to, room);
  if (world->is_timer(fd)) return world->read_timer(fd, to, room);
  return world->is_event(fd)
             ? world->read_event(fd, to, room)
             : world->receive(fd, static_cast<char*>(to), room, 0, nullptr, nullptr);
}

ssize_t write(int fd, const void* data, size_t size) {
  RUBATO_REAL(write);
  Network* world = network_of(fd);
  if (world == nullptr) return real(fd, data, size);
  return world->is_event(fd) ? world->write_event(fd, data, size)
                             : world->send(fd, bytes(data, size), 0, nullptr);
}

// ---- Events ---------------------------------------------------------------------------------

int eventfd(unsigned count, int flags) {
  RUBATO_REAL(eventfd);
  Network* world = network();
  return world != nullptr ? world->eventfd(count) : real(count, flags);
}

int timerfd_create(int clock, int flags) {
  RUBATO_REAL(timerfd_create);
  Network* world = network();
  return world != nullptr ? world->make_timer() : real(clock, flags);
}

// Those that go off once, after a time.
int timerfd_settime(int fd, int flags, const itimerspec* time, itimerspec* before) {
  RUBATO_REAL(timerfd_settime);
  Network* world = network_of(fd);
  return world != nullptr ? world->set_timer(fd, limit_of(&time->it_value))
                          : real(fd, flags, time, before);
}

int epoll_create1(int flags) {
  RUBATO_REAL(epoll_create1);
  Network* world = network();
  return world != nullptr ? world->make_epoll() : real(flags);
}

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  RUBATO_REAL(epoll_ctl);
  Network* world = network_of(epoll);
  return world != nullptr ? world->control(epoll, operation, fd, event)
                          : real(epoll, operation, fd, event);
}

int epoll_wait(int epoll, epoll_event* events, int most, int milliseconds) {
  RUBATO_REAL(epoll_wait);
  Network* world = network_of(epoll);
  if (world == nullptr) return real(epoll, events, most, milliseconds);
  return world->wait(epoll, {events, static_cast<size_t>(most)}, limit_of(milliseconds));
}

int epoll_pwait2(int epoll, epoll_event* events, int most, const timespec* time,
                 const sigset_t* mask) {
  RUBATO_REAL(epoll_pwait2);
  Network* world = network_of(epoll);
  if (world == nullptr) return real(epoll, events, most, time, mask);
  return world->wait(epoll, {events, static_cast<size_t>(most)}, limit_of(time));
}

int poll(pollfd* files, nfds_t count, int milliseconds) {
  RUBATO_REAL(poll);
  Network* world = network();
  if (world == nullptr || !all_virtual(*world, {files, count})) {
    return real(files, count, milliseconds);
  }
  return world->poll({files, count}, limit_of(milliseconds));
}

int ppoll(pollfd* files, nfds_t count, const timespec* time, const sigset_t* mask) {
  RUBATO_REAL(ppoll);
  Network* world = network();
  if (world == nullptr || !all_virtual(*world, {files, count})) {
    return real(files, count, time, mask);
  }
  return world->poll({files, count}, limit_of(time));
}

}  // extern "C"
