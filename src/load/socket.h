// SPDX-License-Identifier: Apache-2.0
//
// The few socket calls that a generator needs. All sockets are close-on-exec, and TCP sockets have
// TCP_NODELAY. Any thread; an Fd owns its descriptor.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "load/target.h"

namespace rubato::load {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
  std::string text;  // host:port, for messages
};

// Raises the soft limit of open files for `count` sockets, as far as allowed.
void allow_files(uint32_t count);

// The target's first address.
Result<Endpoint> resolve(const Target& target);

// A connected non-blocking socket. Fails with one line that names the endpoint and the reason.
Result<Fd> connect_now(const Endpoint& endpoint, Nanos timeout);

// A non-blocking UDP socket whose only peer is the endpoint.
Result<Fd> connect_datagrams(const Endpoint& endpoint);

// The address from which the system sends to the endpoint, without a port; its text is the address
// alone. Fails with one line where there is no way to it.
Result<Endpoint> source_of(const Endpoint& to);

// Starts connecting without waiting; the Fd is not open if that failed at once. When the socket
// becomes writable, connect_error() is 0 or the errno of the failure.
Fd begin_connect(const Endpoint& endpoint);
int connect_error(int fd);

// Waits until there are bytes to read, or the end of the stream, or room to write. False after
// `timeout`.
bool wait_readable(int fd, Nanos timeout);
bool wait_writable(int fd, Nanos timeout);

// The same to the microsecond, for callers that check the socket themselves afterwards.
void nap_until_readable(const Fd& fd, Nanos limit);

}  // namespace rubato::load
