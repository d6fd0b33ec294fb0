// SPDX-License-Identifier: Apache-2.0
//
// The synthetic server over plain datagrams (docs/DATAPATHS.md). A request is eight bytes that the
// client chooses, and `NANOSECONDS[ SHORT|LONG]` in ASCII. Its reply is the same eight bytes and
// `OK`, `ERR` (the text is no such) or `BUSY` (refused, not run). A datagram without the eight
// bytes, or with a reply's text, is dropped. Thread safe as Application and Protocol require.
#pragma once

#include <memory>

#include "spin_server/spin_server.h"

namespace rubato::spin {

inline constexpr size_t kDatagramIdBytes = 8;

class DatagramSpin final : public Application, public Protocol {
 public:
  explicit DatagramSpin(const SpinOptions& options) : options_(options) {}

  std::unique_ptr<Session> open(const Peer& peer) override;
  void handle(Request& request) override;
  void slow(const Request& request, const Completion& times) override;

 private:
  const SpinOptions options_;
};

}  // namespace rubato::spin
