// SPDX-License-Identifier: Apache-2.0
//
// Sockets, for the TCP datapath: an owned descriptor, listeners that share a port, addresses as
// text. Functions are safe on every thread.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/time.h"

namespace rubato {

// Owns a file descriptor; -1 = none.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  uint16_t port() const;
  void set_port(uint16_t port);
};

// "127.0.0.1:80" or "[::1]:80"; "?:0" if the family is neither.
std::string to_text(const SocketAddress& address);

// The first address of `host`; "*" is every local one.
Result<SocketAddress> resolve(const std::string& host, uint16_t port);

// Fails if another process, be it another server of this user, holds the address; with port 0 picks
// a free port. Returns the address with its port. SO_REUSEPORT would let two servers share a port
// silently, each with part of the connections.
Result<SocketAddress> claim_address(SocketAddress address);

struct ListenOptions {
  int backlog = 511;
  bool timestamps = false;
};

// A non-blocking listener that shares its port with others of this user. Connections inherit
// TCP_NODELAY, keep-alive and time stamps.
Result<Fd> listen_on(const SocketAddress& address, const ListenOptions& options);

// Another descriptor of a listener that was handed over, set up like those of listen_on.
Result<Fd> share_listener(int listener, bool timestamps);

// Of listeners that share a port, this one gets the connections whose first packet this CPU has
// received.
Status set_incoming_cpu(int listener, uint32_t cpu);

// A receive from the socket, or from a connection of the listener, looks so long at the queue of
// its card, before it says that there is nothing. Takes CAP_NET_ADMIN.
Status set_busy_poll(int socket, Nanos length);
// The same for waits on an epoll instance, in place of net.core.busy_poll. Takes Linux 6.9.
Status set_busy_wait(int epoll, Nanos length);

// Connections of the listener may send in place (send_in_place). False: the kernel cannot.
bool allow_sends_in_place(int listener);

// The time when the kernel received the bytes that a recvmsg with SO_TIMESTAMPNS returned;
// `otherwise` if the kernel gives no time or an impossible one.
Instant received_at(const msghdr& message, Instant otherwise);

// As recv and send without flags, but a signal does not end them, and a connection that is gone
// raises none. receive_dated also sets `when` to the time when the kernel received the bytes, if it
// is known.
ssize_t receive_bytes(int fd, char* to, size_t room);
ssize_t receive_dated(int fd, char* to, size_t room, Instant& when);
ssize_t send_bytes(int fd, std::string_view bytes);

// As send_bytes, but the kernel reads the bytes until it reports that it has done with this send
// (MSG_ZEROCOPY). ENOBUFS: it has no memory for the report, or may lock no more pages.
ssize_t send_in_place(int fd, std::string_view bytes);

// The kernel has done with the sends `first` to `last` of a socket, of those that send_in_place
// took bytes of, from 0 on, modulo 2^32.
struct SendReport {
  uint32_t first = 0;
  uint32_t last = 0;
  bool copied = false;  // after all
};
// False: there is no report now.
bool next_send_report(int fd, SendReport& report);

// A non-blocking listener on an address that no other socket has; with port 0 on any free port,
// which `address` then holds.
Result<Fd> listen_alone(const std::string& host, uint16_t port, int backlog,
                        SocketAddress& address);

// The next connection, with the other end's address, which the socket no longer gives once that end
// has reset it. An invalid Fd, with errno set: there is no connection.
Fd accept_from(int listener, SocketAddress& peer);

// Lets the process's table of descriptors grow for so many more at once, as far as its limit
// allows. Else it doubles when it is full, and for that Linux makes every thread that opens a
// descriptor wait until all CPUs have passed through the scheduler (expand_fdtable), some 10 ms.
void make_room_for_descriptors(uint64_t more);

// This end of a socket; of no family if the descriptor is no socket.
SocketAddress local_address(int fd);
std::string local_text(int fd);

}  // namespace rubato
