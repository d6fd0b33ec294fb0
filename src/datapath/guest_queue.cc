// SPDX-License-Identifier: Apache-2.0
#include "datapath/guest_queue.h"

#include <algorithm>
#include <vector>

namespace rubato {

bool GuestQueue::lets_sleep(Nanos& limit) {
  bool may = false;
  wait_by(limit, [&](Nanos less) {
    limit = std::min(limit, less);
    may = true;
  });
  return may;
}

// Whoever has polled for an owner that is away may have left some over.
void GuestQueue::wait(Nanos limit, std::span<DatapathQueue* const> delegated) {
  std::vector<int> files;
  for (DatapathQueue* each : delegated) {
    auto& queue = static_cast<GuestQueue&>(*each);
    if (!queue.lets_sleep(limit)) return;
    files.insert(files.end(), queue.files().begin(), queue.files().end());
  }
  wait_by(limit, [this, &files](Nanos less) { sleep_.wait(less, files); });
}

// A queue that has to be looked at lets the proxy poller nap only, or not even that.
bool GuestQueue::delegate_to(DatapathQueue* proxy) {
  sleep_.join(proxy);
  return true;
}

}  // namespace rubato
