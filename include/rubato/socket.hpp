// SPDX-License-Identifier: Apache-2.0
//
// Socket: a stream to another service, for tasks and requests; what waits for it holds no worker.
// A name is looked up by a thread of its own, which goes on by itself if the deadline passes, as
// nothing ends a look-up. Header only, over wait_fd; other protocols and descriptors wait by that
// directly.
//
//   auto socket = rubato::Socket::connect("127.0.0.1", 7000, 50ms);
//   if (!socket) return socket.error();
//   socket->write("GET 42\n", 50ms);
//   auto line = socket->read_until('\n', 50ms);
//
// Threads: any task or thread; one reads and one writes at a time. Errors come as one line; a
// deadline that has passed says so, and leaves what was read before for the next call. Each call
// into the kernel is a checkpoint, too, since the other end may be so fast that none has to wait:
// a task that is to end gets Cancelled, as from every wait.
#pragma once

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <rubato/feedback.hpp>
#include <rubato/status.hpp>
#include <rubato/wait.hpp>

namespace rubato::inline v1 {

class Socket {
 public:
  // Takes over a connected stream socket.
  explicit Socket(int fd) : fd_(fd) {
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  }
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), unread_(std::move(other.unread_)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this == &other) return *this;
    close();
    fd_ = std::exchange(other.fd_, -1);
    unread_ = std::move(other.unread_);
    return *this;
  }

  // Connects to the first address of `host`, a name or a numeric address, that answers.
  static Result<Socket> connect(const std::string& host, uint16_t port, Deadline deadline = {}) {
    if (host.find('\0') != std::string::npos) return Error{"connect: a null character in the host"};
    const auto name = std::make_shared<LookUp>(host, port);
    name->run(AI_NUMERICHOST);
    if (name->status == EAI_NONAME) {
      if (Status done = look_up(name, deadline); !done) return Error{done.error()};
    }
    if (name->status != 0) return Error{host + ": " + ::gai_strerror(name->status)};
    int error = 0;
    for (const addrinfo* at = name->addresses.get(); at != nullptr; at = at->ai_next) {
      Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      error = socket.fd_ < 0 ? last_error() : socket.connect_to(*at, deadline);
      if (error == 0) return socket;
    }
    return failure("connect", error);
  }

  // At least one byte and at most `size`; 0 = the other end has written its last.
  Result<size_t> read(void* to, size_t size, Deadline deadline = {}) {
    if (!unread_.empty()) {
      const size_t taken = std::min(size, unread_.size());
      unread_.copy(static_cast<char*>(to), taken);
      unread_.erase(0, taken);
      return taken;
    }
    return receive(to, size, deadline);
  }

  // Exactly so many bytes; an error if the other end writes fewer.
  Result<std::string> read_exactly(size_t size, Deadline deadline = {}) {
    while (unread_.size() < size) {
      if (Status more = fill(deadline); !more) return Error{more.error()};
    }
    return take(size);
  }

  // Up to the first `end`, which is part of the result. An error if the other end stops before, or
  // if it is not among the first `most` bytes, which are left unread.
  Result<std::string> read_until(char end, Deadline deadline = {}, size_t most = size_t{1} << 20) {
    for (size_t looked = 0;;) {
      const size_t at = unread_.find(end, looked);
      if (at < most) return take(at + 1);
      looked = unread_.size();
      if (looked >= most) return Error{"read: " + std::to_string(most) + " bytes without an end"};
      if (Status more = fill(deadline); !more) return Error{more.error()};
    }
  }

  // Writes all bytes.
  Status write(std::string_view bytes, Deadline deadline = {}) {
    while (!bytes.empty()) {
      checkpoint();
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<size_t>(n));
      } else if (const int error = wait_after_error(POLLOUT, deadline); error != 0) {
        return failure("write", error);
      }
    }
    return Done{};
  }

  // The other end reads no more after what was written.
  void end_writing() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int fd() const { return fd_; }

 private:
  struct Free {
    void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
  };
  using Addresses = std::unique_ptr<addrinfo, Free>;

  // Shared by who wants to know and by the thread that finds out.
  struct LookUp {
    LookUp(std::string of_host, uint16_t of_port) : host(std::move(of_host)), port(of_port) {}

    void run(int flags) {
      addrinfo hints{};
      hints.ai_socktype = SOCK_STREAM;
      hints.ai_flags = flags;
      addrinfo* found = nullptr;
      status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      if (status == 0) addresses.reset(found);
    }

    const std::string host;
    const uint16_t port;
    int status = 0;
    Addresses addresses;
    Semaphore ended;
  };

  static Status look_up(const std::shared_ptr<LookUp>& name, Deadline deadline) {
    try {
      std::thread([name] {
        name->run(0);
        name->ended.release();
      }).detach();
    } catch (const std::system_error& error) {
      return Error{name->host + ": " + error.what()};
    }
    if (name->ended.acquire(deadline)) return Done{};
    return failure("connect", ETIMEDOUT);
  }

  static Error failure(const char* what, int error) {
    const std::string why = error == ETIMEDOUT ? "the deadline has passed"
                                               : std::generic_category().message(error);
    return Error{what + (": " + why)};
  }

  // The errno of this very thread: compilers keep its address, and a wait may end on another one.
  [[gnu::noinline]] static int last_error() {
    asm volatile("");
    return errno;
  }

  // 0, or an errno.
  int wait(short events, Deadline deadline) const {
    return wait_fd(fd_, events, deadline) != 0 ? 0 : ETIMEDOUT;
  }
  // After a call that has failed: waits if it would have blocked.
  int wait_after_error(short events, Deadline deadline) const {
    const int error = last_error();
    if (error == EINTR) return 0;
    return error == EAGAIN ? wait(events, deadline) : error;
  }

  int connect_to(const addrinfo& address, Deadline deadline) const {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(fd_, address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (const int error = last_error(); error != EINPROGRESS) return error;
    if (const int late = wait(POLLOUT, deadline); late != 0) return late;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  }

  Result<size_t> receive(void* to, size_t size, Deadline deadline) {
    for (;;) {
      checkpoint();
      const ssize_t n = ::recv(fd_, to, size, 0);
      if (n >= 0) return static_cast<size_t>(n);
      if (const int error = wait_after_error(POLLIN, deadline); error != 0) {
        return failure("read", error);
      }
    }
  }

  Status fill(Deadline deadline) {
    std::array<char, 4096> bytes;
    const Result<size_t> n = receive(bytes.data(), bytes.size(), deadline);
    if (!n) return Error{n.error()};
    if (*n == 0) return Error{"read: the other end has closed"};
    unread_.append(bytes.data(), *n);
    return Done{};
  }
  std::string take(size_t size) {
    std::string taken = unread_.substr(0, size);
    unread_.erase(0, size);
    return taken;
  }

  int fd_;
  std::string unread_;  // read from the descriptor, not yet by the caller
};

}  // namespace rubato::inline v1
