// SPDX-License-Identifier: Apache-2.0
#include "datapath/datagram_exposition.h"

#include <utility>

namespace rubato {

void expose(OpenMetrics& out, const DatagramDrops& wire, const DatagramDatapath::Drops& above) {
  out.family("rubato_datagrams_dropped", "counter",
             "Datagrams that came to nothing, and replies that did not leave.");
  const std::pair<const char*, uint64_t> reasons[] = {{"no_frame", wire.no_frame},
                                                      {"ring_full", wire.ring_full},
                                                      {"malformed", wire.malformed},
                                                      {"fragment", wire.fragments},
                                                      {"no_request", above.no_request},
                                                      {"not_served", above.not_served},
                                                      {"too_long", above.too_long},
                                                      {"unsent", wire.unsent}};
  for (const auto& [reason, count] : reasons) {
    out.counter(count, OpenMetrics::label("reason", reason));
  }
  out.family("rubato_datagrams_refused", "counter",
             "Requests refused as too many of their client's waited to keep their order.");
  out.counter(above.flow_full);
  out.family("rubato_datagrams_passed", "counter",
             "What a datapath beside the kernel has left to it, as it is not the server's.");
  out.counter(wire.passed);
}

}  // namespace rubato
