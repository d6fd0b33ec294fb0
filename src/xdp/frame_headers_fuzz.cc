// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as an Ethernet frame: what is taken lies inside of it, and its answer can be read back.
#include <array>

#include "base/check.h"
#include "xdp/frame_headers.h"

namespace rubato::xdp {
namespace {

void check_frame(std::string_view frame) {
  ParsedFrame parsed;
  if (!parse_frame(frame, parsed)) return;
  RUBATO_CHECK(parsed.payload.data() >= frame.data());
  RUBATO_CHECK(parsed.payload.data() + parsed.payload.size() <= frame.data() + frame.size());
  std::array<char, kMostHeaderBytes + 32> answer{};
  char* const payload = answer.data() + kMostHeaderBytes;
  const char* const first = write_headers(payload, 32, parsed.peer);
  RUBATO_CHECK(first >= answer.data() && payload - first ==
                                             static_cast<ptrdiff_t>(header_bytes(parsed.peer)));
  ParsedFrame back;
  RUBATO_CHECK(parse_frame({first, static_cast<size_t>(payload + 32 - first)}, back));
  RUBATO_CHECK(back.payload.data() == payload && back.payload.size() == 32);
  RUBATO_CHECK(back.peer.local_port == parsed.peer.port && back.peer.vlan == parsed.peer.vlan);
  RUBATO_CHECK(back.peer.address == parsed.peer.local && back.peer.local == parsed.peer.address);
}

}  // namespace
}  // namespace rubato::xdp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rubato::xdp::check_frame({reinterpret_cast<const char*>(data), size});
  return 0;
}
