// SPDX-License-Identifier: Apache-2.0
#include "datapath/datagram_exposition.h"

#include <utility>

namespace rubato {

void expose(OpenMetrics& out, const DatagramDrops& drops, uint64_t no_request) {
  out.family("rubato_datagrams_dropped", "counter",
             "Datagrams that came to nothing, and replies that did not leave.");
  const std::pair<const char*, uint64_t> reasons[] = {{"no_frame", drops.no_frame},
                                                      {"ring_full", drops.ring_full},
                                                      {"malformed", drops.malformed},
                                                      {"fragment", drops.fragments},
                                                      {"no_request", no_request},
                                                      {"unsent", drops.unsent}};
  for (const auto& [reason, count] : reasons) {
    out.counter(count, OpenMetrics::label("reason", reason));
  }
  out.family("rubato_datagrams_passed", "counter",
             "What a datapath beside the kernel has left to it, as it is not the server's.");
  out.counter(drops.passed);
}

}  // namespace rubato
