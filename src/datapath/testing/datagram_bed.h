// SPDX-License-Identifier: Apache-2.0
//
// What tests of datagram wires share: a bed, which is a wire with its clients, and a protocol whose
// requests any test answers. The contract's tests are in datagram_contract.h. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "datapath/datagram.h"
#include "datapath/datagram_datapath.h"
#include "datapath/request.h"

namespace rubato::testing {

class DatagramClient {
 public:
  virtual ~DatagramClient() = default;
  virtual void send(std::string_view bytes) = 0;
  // The next datagram; empty = none has come within 20 ms or so.
  virtual std::string receive() = 0;
};

// A wire and its clients.
class DatagramBed {
 public:
  virtual ~DatagramBed() = default;
  // The wire; called once. Null: it is not permitted here, for the reason given.
  virtual std::unique_ptr<DatagramWire> open(uint32_t queues, std::string& reason) = 0;
  // Clients differ in their steering groups if they can.
  virtual std::unique_ptr<DatagramClient> connect() = 0;
  // What a client sends comes as it was sent.
  virtual bool keeps_order() const { return true; }
  // The largest payload.
  virtual size_t longest() const { return kMaxDatagramPayload; }
};

// A request is text that does not begin with '!'. No refusal of one that begins with '#' fits.
class EchoDatagrams final : public Protocol {
 public:
  struct EchoSession final : Session {
    Frame frame(std::string_view datagram, Request& request) override {
      if (datagram.starts_with('!')) return {};
      request.at_once = datagram.starts_with('?');
      return {FrameState::kComplete, datagram.size()};
    }
    void refuse(Request& request) override {
      const bool fits = !request.payload.starts_with('#');
      request.reply->append(fits ? "refused" : std::string(kMaxDatagramPayload + 1, '#'));
    }
    void answer(Request& request) override { request.reply->append("answered"); }
  };
  std::unique_ptr<Session> open(const Peer&) override { return std::make_unique<EchoSession>(); }
};

class FlowsInOrder final : public DatagramRules {
 public:
  bool keeps_order() const override { return true; }
};

}  // namespace rubato::testing
