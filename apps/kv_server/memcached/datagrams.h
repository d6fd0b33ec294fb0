// SPDX-License-Identifier: Apache-2.0
//
// Memcached's text protocol over UDP (protocol.txt of memcached 1.6, "UDP protocol"). Each datagram
// begins with eight bytes, four numbers of 16 bits: the request's id, which its reply repeats, the
// datagram's number in its message, the number of datagrams in the message, zero. A request is
// one datagram with one or more commands; its reply has as many datagrams as it takes, up to
// kMostUdpReplyBytes. Commands are found, run and counted as over TCP (memcached/call.h). `noreply`
// and quiet commands leave no datagram. A request is refused, or cancelled while the server stops,
// as a whole: one error, if any of its commands wants a reply.
//
// The sender's address may be forged. So that no two servers answer each other for ever, a datagram
// is dropped unless it begins as a command does, with a small letter, which no reply does; and so
// is every datagram of a request of several but the first, which gets an error. Clients of other
// machines are dropped in protected mode: an answer would have more bytes than they sent.
//
// MemcachedDatagramPort makes the sessions, one per queue for all its clients. Thread safe as
// Protocol and DatagramRules ask; borrows the server.
#pragma once

#include <memory>

#include "datapath/datagram_datapath.h"
#include "kv_server/memcached/session.h"

namespace rubato::kv {

inline constexpr size_t kMemcachedUdpHeaderBytes = 8;
// Of a reply's datagram with its header, as memcached has it (UDP_MAX_PAYLOAD_SIZE): it fits in an
// Ethernet packet of IPv6 or of a tunnel too.
inline constexpr size_t kMostUdpDatagramBytes = 1400;
// Of all datagrams, without their headers.
inline constexpr size_t kMostUdpReplyBytes = size_t{64} << 10;

class MemcachedDatagrams final : public MemcachedSession {
 public:
  using MemcachedSession::MemcachedSession;

  std::unique_ptr<RequestData> make_request_data() override;
  Frame frame(std::string_view datagram, Request& request) override;
  void refuse(Request& request) override;
  void answer(Request& request) override;
  void run(Request& request) override;

 private:
  MemcachedCall::Found run_all(Request& request);
  void fail(Request& request, uint64_t mark, std::string_view error);
  template <class F>
  bool look_over(Request& request, F&& each);
};

class MemcachedDatagramPort final : public Protocol, public DatagramRules {
 public:
  explicit MemcachedDatagramPort(Server& server, bool keeps_order = false)
      : server_(server), keeps_order_(keeps_order) {}

  std::unique_ptr<Session> open(const Peer& peer) override {
    return std::make_unique<MemcachedDatagrams>(server_, peer);
  }
  bool serves(const DatagramPeer& peer) const override;
  bool keeps_order() const override { return keeps_order_; }
  size_t header_bytes() const override { return kMemcachedUdpHeaderBytes; }
  void put_header(std::string_view request, uint32_t number, uint32_t count,
                  char* to) const override;
  size_t most_datagram_bytes() const override { return kMostUdpDatagramBytes; }
  size_t most_reply_bytes() const override { return kMostUdpReplyBytes; }
  MemoryAccount* memory() const override { return server_.options().memory; }

 private:
  Server& server_;
  const bool keeps_order_;
};

}  // namespace rubato::kv
