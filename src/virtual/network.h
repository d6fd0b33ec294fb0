// SPDX-License-Identifier: Apache-2.0
//
// Network: the sockets, epolls, eventfds and timers of one world, as Linux has them, as far as
// servers and clients use them: streams and datagrams over IPv4 and IPv6 between programs of one
// machine. For the library's own files; programs reach it through libc (posix_network.cc).
//
// Bytes and datagrams arrive some time after they are sent. A stream has a window: what is sent and
// not yet read is bounded. Faults, each drawn from the seed: a send or a receive moves fewer bytes
// than it could, and pieces arrive apart; datagrams get lost, come twice and overtake each other; a
// descriptor is refused.
//
// Methods return what the system call returns, with errno set. Called by the running thread; the
// thread may be switched while a method waits.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "virtual/world.h"

namespace rubato::virt {

class Scheduler;
struct Epoll;

// What a descriptor stands for.
struct Description {
  virtual ~Description() = default;

  // Of EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP and EPOLLERR.
  virtual uint32_t ready(Instant now) const = 0;
  // Rises with each event that an edge-triggered epoll would report.
  virtual uint64_t edges(Instant now) const = 0;
  // When it may become ready without another call; never = it will not.
  virtual Instant next(Instant now) const = 0;

  std::vector<Epoll*> watched_by;
  std::vector<const void*> pollers;  // that wait in poll()
  bool blocks = true;                // calls on it wait
};

class Network {
 public:
  static constexpr int kFirstDescriptor = 1 << 20;

  Network(Scheduler& scheduler, const WorldOptions& options);
  ~Network();

  bool has(int fd) const { return fd >= kFirstDescriptor; }

  int socket(int type);
  int bind(int fd, const sockaddr* address);
  int listen(int fd);
  int connect(int fd, const sockaddr* address);
  int accept(int fd, sockaddr* address, socklen_t* length, int flags);
  int name(int fd, bool of_peer, sockaddr* address, socklen_t* length);
  int set_option(int fd, int level, int option, const void* value, socklen_t length);
  int get_option(int fd, int level, int option, void* value, socklen_t* length);
  int set_blocking(int fd, bool blocks);
  int shutdown(int fd, int how);
  int close(int fd);

  ssize_t receive(int fd, char* to, size_t room, int flags, sockaddr* from, socklen_t* length);
  ssize_t send(int fd, std::string_view bytes, int flags, const sockaddr* to);

  int eventfd(uint64_t count);
  ssize_t read_event(int fd, void* to, size_t room);
  ssize_t write_event(int fd, const void* from, size_t size);
  bool is_event(int fd) const;
  int make_timer();
  // Zero = it is off.
  int set_timer(int fd, Nanos after);
  bool is_timer(int fd) const;
  ssize_t read_timer(int fd, void* to, size_t room);

  int make_epoll();
  int control(int epoll, int operation, int fd, const epoll_event* event);
  // A negative limit means that the call waits until something is ready.
  int wait(int epoll, std::span<epoll_event> events, Nanos limit);
  int poll(std::span<pollfd> files, Nanos limit);

 private:
  struct Listener;
  struct Stream;
  struct Datagrams;
  struct Event;
  struct Timer;
  struct Socket;

  template <class T>
  std::shared_ptr<T> find(int fd) const;
  int add(std::shared_ptr<Description> made, bool blocks);
  bool one_in(uint32_t n) { return n > 0 && prng_.below(n) == 0; }
  Nanos draw_latency();
  Instant now() const;
  int refuse(int error) const;

  // The descriptor may have become ready.
  void signal(Description& description);
  // Waits until signal() or `until`. False = interrupted.
  bool wait_for(Description& description, Instant until);
  void deliver(Stream& to, std::string_view bytes);
  void end_of_stream(Stream& to);
  void reset(Stream& to);
  void hang_up(Stream& stream);
  void leave(Listener& listener);
  ssize_t receive_stream(Stream& stream, char* to, size_t room, int flags);
  ssize_t receive_datagram(Datagrams& socket, char* to, size_t room, sockaddr* from,
                           socklen_t* length);
  ssize_t send_stream(Stream& stream, std::string_view bytes, int flags);
  ssize_t send_datagram(Datagrams& socket, std::string_view bytes, uint16_t port);
  int collect(Epoll& epoll, std::span<epoll_event> events);
  uint16_t free_port();

  Scheduler& scheduler_;
  const WorldOptions options_;
  Prng prng_;
  std::map<int, std::shared_ptr<Description>> descriptions_;
  std::map<uint16_t, std::vector<Listener*>> listeners_;  // by port
  std::map<uint16_t, std::vector<Datagrams*>> datagrams_;
  int next_descriptor_ = kFirstDescriptor;
  uint16_t next_port_ = 40'000;
};

}  // namespace rubato::virt
