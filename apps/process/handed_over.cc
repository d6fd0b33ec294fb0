// SPDX-License-Identifier: Apache-2.0
#include "process/handed_over.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace rubato {
namespace {

constexpr int kFirst = 3;  // behind standard input, output and error
constexpr int kMost = 1024;

// A number of the environment; -1 = it is not there or is none.
int number_in(const char* name) {
  const char* text = std::getenv(name);
  int number = -1;
  if (text == nullptr) return number;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : -1;
}

int option_of(int fd, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
}

}  // namespace

bool is_tcp_listener(int fd) {
  const int family = option_of(fd, SO_DOMAIN);
  return (family == AF_INET || family == AF_INET6) && option_of(fd, SO_TYPE) == SOCK_STREAM &&
         option_of(fd, SO_ACCEPTCONN) == 1;
}

Result<std::vector<int>> handed_over_listeners() {
  const bool mine = number_in("LISTEN_PID") == ::getpid();
  const int count = number_in("LISTEN_FDS");
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  std::vector<int> listeners;
  if (!mine) return listeners;
  if (count < 0 || count > kMost) return Error{"LISTEN_FDS: takes a number of descriptors"};
  for (int fd = kFirst; fd < kFirst + count; ++fd) {
    if (!is_tcp_listener(fd)) {
      return Error{"LISTEN_FDS: descriptor " + std::to_string(fd) +
                   " is no listening TCP socket"};
    }
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    listeners.push_back(fd);
  }
  return listeners;
}

}  // namespace rubato
