// SPDX-License-Identifier: Apache-2.0
//
// QueueSleep: how the owner of a datagram queue sleeps until its queue has datagrams or wake() is
// called. Waking is that of datapath/wake_token.h, with an eventfd that wait() reads. The owner
// calls wait() and holds the queue's poll lock meanwhile: a thread that polls for it may leave
// datagrams over, which end no sleep. Any thread calls wake().
#pragma once

#include <span>
#include <vector>

#include <poll.h>

#include "base/result.h"
#include "datapath/datagram.h"
#include "datapath/datapath.h"
#include "datapath/tcp_socket.h"
#include "datapath/wake_token.h"

namespace rubato {

class QueueSleep {
 public:
  // Fails with one line where the system has no eventfd.
  Status start(WireQueue& queue);

  // Pushes; false: the queue can neither sleep nor nap, or has something left over.
  bool may_sleep();
  // The longest that wait() may take: `limit`, or the nap of a queue that cannot sleep or that no
  // descriptor would wake.
  Nanos longest(Nanos limit) const;
  // Requires may_sleep(), and a limit that longest() gave. What comes to the descriptors `others`
  // ends it too.
  void wait(Nanos limit, std::span<const int> others = {});
  void wake();
  // Every wake() wakes `host` too; null = no longer.
  void join(DatapathQueue* host) { wake_token_.delegate_to(host); }

 private:
  bool busy_poll(Nanos limit);

  Fd event_;
  std::vector<pollfd> files_;  // the eventfd is the first; in wait() also those of others
  WireQueue* queue_ = nullptr;
  WakeToken<DatapathQueue> wake_token_;
};

}  // namespace rubato
