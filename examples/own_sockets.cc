// SPDX-License-Identifier: Apache-2.0
//
// A server with sockets and a loop of its own, as most servers are: the loop reads lines, and an
// executor runs what they ask for. A line "work N" takes long and blocks no other client. While a
// client's line is in work its next one waits, so replies keep their order. With the names of two
// files it records what it runs there, for `rubato sim`: every task, and a profile.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <rubato/rubato.hpp>

#include "work.h"

namespace {

struct Client {
  explicit Client(int socket) : fd(socket) {}
  ~Client() { ::close(fd); }
  Client(const Client&) = delete;

  const int fd;
  std::string unread;
  std::atomic<bool> in_work{false};
};

enum Type : uint32_t { kLine, kWork };

uint64_t steps_of(const std::string& line) { return work_steps(line.data(), line.size()); }

std::string answer(const std::string& line) {
  const uint64_t steps = steps_of(line);
  return steps == 0 ? line + "\n" : "worked " + std::to_string(work(steps)) + "\n";
}

void send_all(int fd, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;  // the loop finds the client gone
    sent += static_cast<size_t>(n);
  }
}

// Hands the client's next line to the executor, if there is a whole one and none is in work.
void start_next(rubato::Executor& executor, const std::shared_ptr<Client>& client, int wake) {
  const size_t end = client->unread.find('\n');
  if (end == std::string::npos || client->in_work) return;
  std::string line = client->unread.substr(0, end);
  client->unread.erase(0, end + 1);
  client->in_work = true;
  const auto replied = [client, wake](rubato::Outcome outcome) {
    if (outcome != rubato::Outcome::kFinished) send_all(client->fd, "refused\n");
    client->in_work = false;
    ::eventfd_write(wake, 1);
  };
  const Type type = steps_of(line) == 0 ? kLine : kWork;
  const auto run = [client, line = std::move(line)] { send_all(client->fd, answer(line)); };
  if (!executor.execute(run, {.type = type}, replied)) replied(rubato::Outcome::kRefused);
}

bool receive(Client& client) {
  char bytes[4096];
  const ssize_t n = ::recv(client.fd, bytes, sizeof bytes, 0);
  if (n > 0) client.unread.append(bytes, static_cast<size_t>(n));
  return n > 0;
}

int listen_on(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd, 64) != 0) {
    std::perror("listen");
    std::exit(1);
  }
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("listening on %d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);  // before there are workers
  const int stopped = ::signalfd(-1, &stop, 0);
  const int wake = ::eventfd(0, EFD_NONBLOCK);
  auto executor = rubato::Executor::create({.scheduler = {.record_file = argc > 2 ? argv[2] : "",
                                                          .profile_file = argc > 3 ? argv[3] : ""},
                                            .type_names = {"line", "work"}});
  if (!executor) return std::fprintf(stderr, "%s\n", executor.error().c_str()), 1;
  const int listener = listen_on(argc > 1 ? static_cast<uint16_t>(std::atoi(argv[1])) : 0);
  std::vector<std::shared_ptr<Client>> clients;
  for (;;) {
    std::vector<pollfd> events{{stopped, POLLIN, 0}, {wake, POLLIN, 0}, {listener, POLLIN, 0}};
    for (const auto& client : clients) events.push_back({client->fd, POLLIN, 0});
    ::poll(events.data(), events.size(), -1);
    if (events[0].revents != 0) return 0;  // the executor finishes what it has
    eventfd_t woken;
    ::eventfd_read(wake, &woken);
    for (size_t i = clients.size(); i-- > 0;) {
      if (events[i + 3].revents != 0 && !receive(*clients[i])) {
        clients.erase(clients.begin() + static_cast<ptrdiff_t>(i));
      } else {
        start_next(*executor, clients[i], wake);
      }
    }
    if (events[2].revents == 0) continue;
    clients.push_back(std::make_shared<Client>(::accept(listener, nullptr, nullptr)));
  }
}
