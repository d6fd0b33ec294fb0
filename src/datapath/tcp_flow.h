// SPDX-License-Identifier: Apache-2.0
//
// TcpFlow: a StreamFlow over a connected socket, with TLS on it or without. Owns the socket, which
// is closed only with the flow, so that a descriptor in use never names another connection. Only
// the flow's owner uses the TLS session. Threads: as StreamFlow.
#pragma once

#include "datapath/stream_flow.h"
#include "datapath/tcp_socket.h"
#include "datapath/tls.h"

namespace rubato {

class TcpFlow final : public StreamFlow {
 public:
  // `tls` is a session on the socket, or null: the bytes are plain.
  TcpFlow(FlowHost& host, uint64_t id, std::string peer, Instant opened, Fd socket,
          bool kernel_timestamps, std::unique_ptr<TlsSession> tls = nullptr)
      : StreamFlow(host, id, std::move(peer), opened),
        socket_(std::move(socket)),
        timestamps_(kernel_timestamps),
        tls_(std::move(tls)) {
    if (tls_ != nullptr) note_opening();
  }

  ~TcpFlow() override;

  int fd() const { return socket_.get(); }
  void abort() override;

  // Replies of `least_bytes` or more are sent in place from now on. Called once, before a poller
  // sees the flow. Requires that the socket may (allow_sends_in_place) and has no TLS.
  void send_in_place(size_t least_bytes);
  // What the wire's events say of the client, as flags of epoll. Reports of sends, which the kernel
  // shows as errors, are taken out and noted. Any thread that keeps the flow from being freed.
  uint32_t without_reports(uint32_t events);

 protected:
  Transfer receive(char* to, size_t room, bool exact, Instant& when) override;
  Transfer transmit(std::string_view bytes) override;
  void hang_up() override;
  bool rewire(FlowHost& from, FlowHost& to) override;
  void unwire(FlowHost& queue) override;

 private:
  Transfer receive_tls(char* to, size_t room, bool exact, Instant& when);
  void note_handshake();

  Fd socket_;
  const bool timestamps_;
  const std::unique_ptr<TlsSession> tls_;
  SentPages* pages_ = nullptr;  // of the reply buffer; null = nothing is sent in place
};

}  // namespace rubato
