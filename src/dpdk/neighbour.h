// SPDX-License-Identifier: Apache-2.0
//
// Neighbour: the Ethernet address of the one host that was asked for last. Any thread.
#pragma once

#include <mutex>

#include "datapath/datagram.h"
#include "mechanism/queue/spin_lock.h"

namespace rubato::dpdk {

class Neighbour {
 public:
  // Writes the Ethernet address of `to`. False: it is not known, and is now what is asked for.
  bool find(DatagramPeer& to) {
    const std::lock_guard guard(lock_);
    if (host_.address != to.address) host_ = to;
    to.mac = host_.mac;
    return to.mac != decltype(to.mac){};
  }
  // What some host has told of itself.
  void heard(const DatagramPeer& host) {
    const std::lock_guard guard(lock_);
    if (host_.address == host.address) host_.mac = host.mac;
  }

 private:
  SpinLock lock_;
  DatagramPeer host_;
};

}  // namespace rubato::dpdk
