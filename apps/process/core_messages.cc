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

bool connects(const Fd& socket, const sockaddr_un& address) {
  return ::connect(socket.get(), raw(address), sizeof address) == 0;
}

// Takes the place of a manager that has ended: only then does nobody listen at its socket.
Status clear(const std::string& path, const sockaddr_un& address) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return Done{};
  if (!S_ISSOCK(file.st_mode)) return Error{"'" + path + "' is there and is no socket"};
  const Fd asker = packet_socket();
  if (!asker.valid()) return system_error("no socket");
  // One whose backlog is full says EAGAIN.
  if (connects(asker, address) || errno == EAGAIN) {
    return Error{"another manager listens at '" + path + "'"};
  }
  if (errno != ECONNREFUSED) return system_error("'" + path + "' is another program's");
  ::unlink(path.c_str());
  return Done{};
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
  if (connects(manager, address.value())) return manager;
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
  if (Status cleared = clear(path, address.value()); !cleared.ok()) return Error{cleared.error()};
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
