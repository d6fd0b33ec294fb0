// SPDX-License-Identifier: Apache-2.0
#include "process/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace rubato {
namespace {

// 0 = there is no such number.
int64_t number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  int64_t number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

}  // namespace

ServiceManager::ServiceManager() {
  const char* const socket = std::getenv("NOTIFY_SOCKET");
  if (socket == nullptr || (socket[0] != '/' && socket[0] != '@')) return;
  if (std::strlen(socket) >= sizeof(sockaddr_un::sun_path)) return;
  address_ = socket;
  if (address_.front() == '@') address_.front() = '\0';
  const int64_t watched = number_in("WATCHDOG_PID");
  if (watched == 0 || watched == ::getpid()) watchdog_ = Nanos::micros(number_in("WATCHDOG_USEC"));
}

void ServiceManager::tell(std::string_view state) const {
  if (!listens()) return;
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  static_cast<void>(::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&to), length));
  ::close(socket);
}

void ServiceManager::tell_reloading() const {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  tell("RELOADING=1\nMONOTONIC_USEC=" +
       std::to_string(int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000));
}

}  // namespace rubato
