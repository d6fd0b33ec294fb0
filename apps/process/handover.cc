// SPDX-License-Identifier: Apache-2.0
#include "process/handover.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/time.h"
#include "process/handed_over.h"

namespace rubato {
namespace {

constexpr std::string_view kName = "rubato handover ";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kTaken = "taken";
constexpr std::string_view kStops = "stops";
constexpr size_t kMostListeners = 16;
constexpr size_t kMostText = 64;
constexpr int kBacklog = 16;
constexpr int kPatienceMs = 10'000;  // with a process that says nothing
constexpr int kMostTries = 10;       // with servers that end as they are asked

std::string greeting() { return std::string(kName) + std::string(kVersion); }

Error system_error(const std::string& what) { return Error{what + ": " + std::strerror(errno)}; }

// True: the descriptor is ready, and `wake`, which may be -1, is not.
bool wait_for(int fd, int wake, int patience_ms) {
  std::array<pollfd, 2> watched{{{fd, POLLIN, 0}, {wake, POLLIN, 0}}};
  int ready = 0;
  do {
    ready = ::poll(watched.data(), watched.size(), patience_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0 && watched[1].revents == 0;
}

bool say(const Fd& to, std::string_view text) {
  return ::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(text.size());
}

// Empty: the other end has gone, or says nothing.
std::string hear(const Fd& from, int wake) {
  std::array<char, kMostText> text{};
  if (!wait_for(from.get(), wake, kPatienceMs)) return {};
  const ssize_t got = ::recv(from.get(), text.data(), text.size(), MSG_DONTWAIT);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
}

pid_t pid_of(const Fd& other_end) {
  ucred who{};
  socklen_t length = sizeof who;
  return ::getsockopt(other_end.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 ? who.pid : 0;
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error{"takes a path of " + std::to_string(sizeof address.sun_path - 1) +
                 " bytes at most"};
  }
  path.copy(address.sun_path, path.size());
  return address;
}

Fd packet_socket() { return Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

// Nothing can come after the end of the other process, which says nothing before.
void wait_for_end(const Fd& server) {
  char unused = 0;
  ssize_t got = 0;
  do {
    got = ::recv(server.get(), &unused, sizeof unused, 0);
  } while (got > 0 || (got < 0 && errno == EINTR));
}

bool has_gone(const Fd& other_end) {
  char unused = 0;
  const ssize_t got = ::recv(other_end.get(), &unused, sizeof unused, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

Result<std::unique_ptr<Handover>> Handover::open(const std::string& path) {
  std::unique_ptr<Handover> handover(new Handover(path));
  const Status taken = handover->take_over();
  if (!taken.ok()) return Error{taken.error()};
  return handover;
}

Handover::~Handover() {
  if (door_.valid() && !given_) ::unlink(path_.c_str());
}

// ---- The new process ----------------------------------------------------------------------------

Status Handover::take_over() {
  for (int i = 0; i < kMostTries; ++i) {
    Result<Fd> server = connect();
    if (!server.ok()) return Error{server.error()};
    if (!server->valid()) return Done{};
    Result<bool> taken = take_from(*server);
    if (!taken.ok()) return Error{taken.error()};
    if (!*taken) continue;
    log_line(LogLevel::kInfo, LogEvent::kStart, "waits until the server before has ended",
             {{"pid", pid_of(*server)}});
    wait_for_end(*server);
    return Done{};
  }
  return Error{"servers at '" + path_ + "' end as soon as they are asked"};
}

Result<Fd> Handover::connect() const {
  Result<sockaddr_un> address = address_of(path_);
  if (!address.ok()) return Error{address.error()};
  struct stat file {};
  if (::stat(path_.c_str(), &file) != 0) {
    if (errno == ENOENT) return Fd();
    return system_error("cannot use '" + path_ + "'");
  }
  if (!S_ISSOCK(file.st_mode)) return Error{"'" + path_ + "' is there and is no socket"};
  Fd server = packet_socket();
  if (!server.valid()) return system_error("no socket");
  const auto* const raw = reinterpret_cast<const sockaddr*>(&*address);
  if (::connect(server.get(), raw, sizeof *address) == 0) return server;
  if (errno == ECONNREFUSED || errno == ENOENT) return Fd();  // its server has ended
  if (errno == EPROTOTYPE) return Error{"'" + path_ + "' is the socket of another program"};
  return system_error("cannot ask the server at '" + path_ + "'");
}

Result<bool> Handover::take_from(const Fd& server) {
  const std::string at = "the server at '" + path_ + "' ";
  if (!say(server, greeting())) return false;
  if (!wait_for(server.get(), -1, kPatienceMs)) {
    return Error{at + "gives no answer; another process may be waiting for its end"};
  }
  std::string answer;
  std::vector<Fd> given;
  if (Status received = receive_listeners(server, answer, given); !received.ok()) {
    return Error{at + received.error()};
  }
  if (answer.empty()) return false;
  if (!answer.starts_with(kName)) return Error{"'" + path_ + "' is the socket of another program"};
  if (answer != greeting()) {
    return Error{at + "speaks version " + answer.substr(kName.size()) +
                 " of the handover, this program " + std::string(kVersion) + ": stop it first"};
  }
  if (given.empty()) return Error{at + "gave no listener"};
  // Where the server is killed now nobody else has the door, and the others are kept, also beside
  // those of a server that takes its place.
  Fd door = std::move(given.front());
  std::move(given.begin() + 1, given.end(), std::back_inserter(taken_));
  took_over_ = true;
  if (!say(server, kTaken) || hear(server, -1) != kStops) return false;
  door_ = std::move(door);
  return true;
}

Status Handover::receive_listeners(const Fd& server, std::string& greeting,
                                   std::vector<Fd>& given) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostListeners * sizeof(int))> descriptors{};
  std::array<char, kMostText> text{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = descriptors.data();
  message.msg_controllen = descriptors.size();
  const ssize_t got = ::recvmsg(server.get(), &message, MSG_CMSG_CLOEXEC);
  greeting.assign(text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + CMSG_LEN(0) + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
      given.emplace_back(fd);
    }
  }
  for (size_t i = 1; i < given.size(); ++i) {
    if (!is_tcp_listener(given[i].get())) return Error{"gave what is no listening TCP socket"};
  }
  if ((message.msg_flags & MSG_CTRUNC) == 0) return Done{};
  return Error{"gave more listeners than this process may have open files (ulimit -n)"};
}

Result<int> Handover::listener(const std::string& bind, uint16_t port, int backlog) {
  Result<SocketAddress> wanted = resolve(bind, port);
  if (!wanted.ok()) return Error{wanted.error()};
  const std::string name = to_text(*wanted);
  const auto found = std::find_if(taken_.begin(), taken_.end(), [&](const Fd& one) {
    return local_text(one.get()) == name;
  });
  if (found != taken_.end()) {
    listeners_.push_back(std::move(*found));
    taken_.erase(found);
  } else {
    SocketAddress address;
    Result<Fd> made = listen_alone(bind, port, backlog, address);
    if (!made.ok()) return Error{made.error()};
    listeners_.push_back(std::move(*made));
  }
  return listeners_.back().get();
}

Status Handover::listen() {
  taken_.clear();
  if (door_.valid()) return Done{};
  Result<sockaddr_un> address = address_of(path_);
  if (!address.ok()) return Error{address.error()};
  Fd door = packet_socket();
  if (!door.valid()) return system_error("no socket");
  ::unlink(path_.c_str());  // of a server that has ended
  // The file gets the mode of the socket.
  const auto* const raw = reinterpret_cast<const sockaddr*>(&*address);
  if (::fchmod(door.get(), S_IRUSR | S_IWUSR) != 0 ||
      ::bind(door.get(), raw, sizeof *address) != 0 || ::listen(door.get(), kBacklog) != 0) {
    return system_error("cannot listen at '" + path_ + "'");
  }
  door_ = std::move(door);
  return Done{};
}

// ---- The old process ----------------------------------------------------------------------------

std::jthread Handover::serve(std::function<void()> stop) {
  return std::jthread([this, stop = std::move(stop)](const std::stop_token& ending) {
    const Fd wake(::eventfd(0, EFD_CLOEXEC));
    if (!wake.valid()) {
      return log_line(LogLevel::kError, LogEvent::kStart, "no handover: there is no eventfd");
    }
    const std::stop_callback wakes(ending, [&wake] {
      constexpr uint64_t kOnce = 1;
      static_cast<void>(!::write(wake.get(), &kOnce, sizeof kOnce));
    });
    look_for_others(ending, wake.get(), stop);
  });
}

// While one waits for the end of this process, others wait for that one.
void Handover::look_for_others(const std::stop_token& ending, int wake,
                               const std::function<void()>& stop) {
  constexpr int kForever = -1;
  while (!ending.stop_requested()) {
    const bool waits = next_.valid();
    if (!wait_for(waits ? next_.get() : door_.get(), wake, kForever)) continue;
    if (waits) {
      if (!has_gone(next_)) continue;
      next_.reset();
      log_line(LogLevel::kWarning, LogEvent::kStop, "the next server has ended before this one");
      continue;
    }
    Fd asker(::accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!asker.valid() || !hand_over(asker, wake)) continue;
    log_line(LogLevel::kInfo, LogEvent::kStop, "the listeners are the next server's",
             {{"pid", pid_of(asker)}});
    next_ = std::move(asker);
    stop();
  }
}

bool Handover::hand_over(const Fd& asker, int wake) {
  const std::string asked = hear(asker, wake);
  if (!asked.starts_with(kName)) return false;
  if (asked != greeting()) {
    say(asker, greeting());  // from which it tells the version
    return false;
  }
  if (!send_listeners(asker) || hear(asker, wake) != kTaken) return false;
  given_ = say(asker, kStops);
  return given_;
}

bool Handover::send_listeners(const Fd& asker) const {
  std::vector<int> given{door_.get()};
  for (const Fd& listener : listeners_) given.push_back(listener.get());
  const size_t size = given.size() * sizeof(int);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostListeners * sizeof(int))> descriptors{};
  std::string text = greeting();
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = descriptors.data();
  message.msg_controllen = CMSG_SPACE(size);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(rights), given.data(), size);
  return ::sendmsg(asker.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

}  // namespace rubato
