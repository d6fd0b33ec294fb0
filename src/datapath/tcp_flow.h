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

  int fd() const { return socket_.get(); }
  void abort() override;

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
};

}  // namespace rubato
