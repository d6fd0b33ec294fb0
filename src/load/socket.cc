// SPDX-License-Identifier: Apache-2.0
#include "base/timespec.h"
#include "load/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

namespace rubato::load {
namespace {

Error connect_failure(const Endpoint& endpoint, int code) {
  return {"cannot connect to " + endpoint.text + ": " + std::strerror(code)};
}

// True if the event came in time.
bool wait_for(int fd, short events, Nanos timeout) {
  pollfd entry{fd, events, 0};
  const int milliseconds = static_cast<int>(timeout.count() / Nanos::millis(1).count());
  int ready = 0;
  do { ready = ::poll(&entry, 1, milliseconds); } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void allow_files(uint32_t count) {
  constexpr uint32_t kSpareFiles = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + kSpareFiles) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, count + kSpareFiles);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<Endpoint> resolve(const Target& target) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(target.port);
  const int code = ::getaddrinfo(target.host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) {
    return Error{"cannot find host '" + target.host + "': " + ::gai_strerror(code)};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Endpoint endpoint;
  std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
  endpoint.length = found->ai_addrlen;
  endpoint.text = target.host + ":" + port;
  return endpoint;
}

Fd begin_connect(const Endpoint& endpoint) {
  Fd fd(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.open()) return fd;
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto* address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (::connect(fd.get(), address, endpoint.length) == 0 || errno == EINPROGRESS) return fd;
  const int code = errno;
  fd.reset();
  errno = code;
  return fd;
}

Result<Fd> connect_datagrams(const Endpoint& endpoint) {
  Fd fd(::socket(endpoint.address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (fd.open() && ::connect(fd.get(), address, endpoint.length) == 0) return fd;
  return connect_failure(endpoint, errno);
}

Result<Endpoint> source_of(const Endpoint& to) {
  Result<Fd> socket = connect_datagrams(to);
  if (!socket) return Error{socket.error()};
  Endpoint from;
  from.length = sizeof from.address;
  auto* const address = reinterpret_cast<sockaddr*>(&from.address);
  std::array<char, NI_MAXHOST> text{};
  if (::getsockname(socket->get(), address, &from.length) != 0 ||
      ::getnameinfo(address, from.length, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return connect_failure(to, errno);
  }
  from.text = text.data();
  return from;
}

int connect_error(int fd) {
  int code = 0;
  socklen_t length = sizeof code;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length) != 0) return errno;
  return code;
}

Result<Fd> connect_now(const Endpoint& endpoint, Nanos timeout) {
  Fd fd = begin_connect(endpoint);
  if (!fd.open()) return connect_failure(endpoint, errno);
  if (!wait_for(fd.get(), POLLOUT, timeout)) return connect_failure(endpoint, ETIMEDOUT);
  if (const int code = connect_error(fd.get()); code != 0) return connect_failure(endpoint, code);
  return fd;
}

bool wait_readable(int fd, Nanos timeout) { return wait_for(fd, POLLIN, timeout); }
bool wait_writable(int fd, Nanos timeout) { return wait_for(fd, POLLOUT, timeout); }

void nap_until_readable(const Fd& fd, Nanos limit) {
  if (limit <= Nanos()) return;
  pollfd ready{fd.get(), POLLIN, 0};
  const timespec t = timespec_of(limit);
  ::ppoll(&ready, 1, &t, nullptr);
}

}  // namespace rubato::load
