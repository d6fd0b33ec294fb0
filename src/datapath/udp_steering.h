// SPDX-License-Identifier: Apache-2.0
//
// UdpSteering: a table in the kernel that gives each steering group of a UDP port to one socket of
// its SO_REUSEPORT group. A BPF program (BPF_PROG_TYPE_SK_REUSEPORT) looks the group of a datagram
// up, by the sender's port, and selects the socket; the table is mapped here, so a move is one
// store. It takes CAP_BPF, and CAP_NET_ADMIN before Linux 6.2 or so; without these, or in a world
// without BPF, attach() fails and the kernel spreads flows by a hash of its own.
//
// Memory order: the words of the table are read by the kernel on any CPU; relaxed stores suffice,
// since no other data is read on their word.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "datapath/tcp_socket.h"

namespace rubato {

class UdpSteering {
 public:
  UdpSteering() = default;
  UdpSteering(const UdpSteering&) = delete;
  UdpSteering& operator=(const UdpSteering&) = delete;
  ~UdpSteering();

  // `sockets` are bound to one port with SO_REUSEPORT, in the order of the queues; groups are dealt
  // to them in turn. Fails with one line that says what the kernel did not allow.
  Status attach(std::span<const int> sockets);
  bool attached() const { return table_ != nullptr; }

  // False: the group is there already. Requires attached(). Any thread.
  bool move(uint32_t group, uint32_t queue);
  uint32_t queue_of(uint32_t group) const;

 private:
  Status fill_sockets(std::span<const int> sockets);
  Status load_program(const Fd& table, Fd& program);

  Fd sockets_;
  std::atomic<uint64_t>* table_ = nullptr;  // of kSteeringGroups words
};

}  // namespace rubato
