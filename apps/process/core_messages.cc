// SPDX-License-Identifier: Apache-2.0
#include "process/core_messages.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rubato {
namespace {

constexpr int kBacklog = 64;

Error system_error(const std::string& what) { return Error{what + ": " + std::strerror(errno)}; }

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{"takes a path of 1 to " + std::to_string(sizeof address.sun_path - 1) + " bytes"};
  }
  path.copy(address.sun_path, path.size());
  return address;
}

Fd packet_socket() {
  return Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

const sockaddr* raw(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

CoreBytes::Came CoreBytes::receive(const Fd& from) {
  ssize_t got = 0;
  do {
    got = ::recv(from.get(), bytes_.data(), bytes_.size(), MSG_DONTWAIT | MSG_TRUNC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Came::kNothing;
  if (got <= 0) return Came::kEnd;
  size_ = static_cast<size_t>(got);
  return Came::kMessage;
}

Result<Fd> connect_to_cores(const std::string& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address.ok()) return Error{address.error()};
  Fd manager = packet_socket();
  if (!manager.valid()) return system_error("no socket");
  if (::connect(manager.get(), raw(address.value()), sizeof(sockaddr_un)) == 0) return manager;
  if (errno == ENOENT || errno == ECONNREFUSED) {
    return Error{"no manager of cores listens at '" + path + "'"};
  }
  if (errno == EPROTOTYPE || errno == ENOTSOCK) {
    return Error{"'" + path + "' is not the socket of a manager of cores"};
  }
  return system_error("cannot connect to '" + path + "'");
}

Result<Fd> listen_for_cores(const std::string& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address.ok()) return Error{address.error()};
  struct stat file {};
  if (::lstat(path.c_str(), &file) == 0) {
    if (!S_ISSOCK(file.st_mode)) return Error{"'" + path + "' is there and is no socket"};
    if (connect_to_cores(path).ok()) return Error{"another manager listens at '" + path + "'"};
    ::unlink(path.c_str());  // of one that has ended
  }
  Fd door = packet_socket();
  if (!door.valid()) return system_error("no socket");
  // The file gets the mode of the socket.
  if (::fchmod(door.get(), S_IRUSR | S_IWUSR) != 0 ||
      ::bind(door.get(), raw(address.value()), sizeof(sockaddr_un)) != 0 ||
      ::listen(door.get(), kBacklog) != 0) {
    return system_error("cannot listen at '" + path + "'");
  }
  return door;
}

}  // namespace rubato
