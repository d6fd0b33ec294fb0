// SPDX-License-Identifier: Apache-2.0
//
// The synthetic server over plain datagrams (docs/DATAPATHS.md). A request is eight bytes that the
// client chooses, and `NANOSECONDS[ SHORT|LONG]` in ASCII. Its reply is the same eight bytes and
// `OK`, `ERR` (the text is no such) or `BUSY` (refused, not run). A datagram without the eight
// bytes, or with a reply's text, is dropped. Thread safe as Application and Protocol require.
#pragma once

#include <memory>

#include "datapath/datagram_datapath.h"
#include "spin_server/spin_server.h"

namespace rubato::spin {

inline constexpr size_t kDatagramIdBytes = 8;

class DatagramSpin final : public Application, public Protocol, public DatagramRules {
 public:
  DatagramSpin(const SpinOptions& options, bool keeps_order)
      : options_(options), keeps_order_(keeps_order) {}

  std::unique_ptr<Session> open(const Peer& peer) override;
  bool keeps_order() const override { return keeps_order_; }
  void handle(Request& request) override;
  void slow(const Request& request, const Completion& times) override;

 private:
  const SpinOptions options_;
  const bool keeps_order_;
};

}  // namespace rubato::spin
