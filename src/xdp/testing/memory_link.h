// SPDX-License-Identifier: Apache-2.0
//
// MemoryLink: AF_XDP sockets without a kernel. A program that is linked with it in place of libxdp
// gets memory and sockets whose rings have their other end here: a card with hardware queues, its
// driver and the clients of the link. So what the workers do to the rings can be seen by
// ThreadSanitizer and in virtual time, which see nothing of what a kernel does.
//
// It behaves as Linux does in copy mode on a virtual link: the thread that sends does the work of
// the receiver; a call sends 32 frames at most, and none without room in the completion ring; a
// frame that was sent is complete when its receiver has taken it; a socket is readable while its
// receive ring has frames.
//
// The program is linked with `--wrap` for the system calls on such sockets, see rubato_memory_link
// in xdp/CMakeLists.txt. One link at a time, which outlives its sockets; any thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "datapath/datagram.h"

struct xsk_umem;
struct xsk_socket;

namespace rubato::testing {

class MemoryLink {
 public:
  static constexpr uint16_t kServerPort = 7777;

  // The groups of clients are dealt to the workers in turn.
  MemoryLink(uint32_t hardware_queues, uint32_t workers);
  MemoryLink(const MemoryLink&) = delete;
  MemoryLink& operator=(const MemoryLink&) = delete;
  ~MemoryLink();
  static MemoryLink* current();

  // The program's table. False: the group is there already.
  bool move(uint32_t group, uint32_t worker);
  uint32_t worker_of(uint32_t group) const;

  // A client's datagram, from its port.
  void send(uint16_t from, std::string_view payload);
  // The next datagram to that client; empty = none has come.
  std::string receive(uint16_t at);

  // Of sockets, as the functions of libxdp make them: a worker opens its sockets in the order of
  // the hardware queues, one worker after the other.
  void add(xsk_socket& socket);
  void remove(const xsk_socket& socket);
  xsk_socket* find(int file) const;
  // A frame that a socket has sent.
  void carry(std::string_view frame, xsk_umem& memory, uint64_t address);

  // Frames that have left, and those that the driver keeps for what comes next.
  uint32_t underway() const;

 private:
  struct Sent {
    std::string payload;
    xsk_umem* memory;
    uint64_t address;
  };

  const uint32_t hardware_queues_;
  std::array<std::atomic<uint32_t>, kSteeringGroups> table_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<xsk_socket*> sockets_;
  std::map<uint16_t, std::deque<Sent>> sent_;
};

}  // namespace rubato::testing
