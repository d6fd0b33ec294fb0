// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a frame for a port that no kernel serves: nothing outside of the frame is read or
// written, a datagram lies inside, and an answer is no longer than it may be.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "dpdk/host_frames.h"

namespace rubato::dpdk {
namespace {

void check_frame(const uint8_t* data, size_t size, bool ipv6) {
  HostAddress host;
  host.ipv6 = ipv6;
  host.port = 7777;
  host.mac = {2, 0, 0, 0, 0, 1};
  host.ip = {10, 77, 0, 1};
  if (ipv6) host.ip = {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const std::unique_ptr<char[]> frame(new char[size + kMostAnswerGrowth]);
  std::copy_n(data, size, frame.get());
  SortedFrame sorted;
  sort_frame(frame.get(), size, host, sorted);
  if (sorted.kind == FrameKind::kDatagram) {
    const std::string_view payload = sorted.datagram.payload;
    RUBATO_CHECK(payload.data() >= frame.get());
    RUBATO_CHECK(payload.data() + payload.size() <= frame.get() + size);
    RUBATO_CHECK(sorted.datagram.peer.local_port == host.port);
    RUBATO_CHECK(sorted.datagram.peer.ipv6 == ipv6);
  }
  if (sorted.kind == FrameKind::kAnswer) {
    RUBATO_CHECK(sorted.answer_bytes <= size + kMostAnswerGrowth);
    RUBATO_CHECK(std::memcmp(frame.get() + 6, host.mac.data(), 6) == 0);
  }
}

}  // namespace
}  // namespace rubato::dpdk

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rubato::dpdk::check_frame(data, size, false);
  rubato::dpdk::check_frame(data, size, true);
  return 0;
}
