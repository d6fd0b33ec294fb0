// SPDX-License-Identifier: Apache-2.0
//
// TcpDatapath: kernel TCP sockets. Each queue (one per worker) has an epoll instance, a listener of
// its own on the shared port (SO_REUSEPORT) and an eventfd to be woken by. Connections stay with
// the queue that accepted them unless they are steered to another, which moves them from one epoll
// instance to the other; their requests may run and finish anywhere.
//
// A request costs its share of an epoll_wait, one recv and one send; nothing is allocated and no
// lock is taken. Registration with epoll is edge-triggered and made once per connection and move. A
// connection costs about 500 bytes of ours, its session, and 1 KiB of reply buffer for two seconds
// after its last request; input buffers are borrowed only while there is input. The kernel's memory
// per socket comes on top.
//
// The datapath may listen on several ports; the Protocol decides which protocol each port speaks,
// and TcpOptions which ports have TLS. Who is turned away at such a port gets no reply, as he could
// not read it.
//
// Threads: as datapath.h says. The Protocol must outlive the datapath. No worker may make a call
// while the datapath is destroyed.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "datapath/flow_index.h"
#include "datapath/tls.h"

namespace rubato {

// A port beside the first.
struct TcpPort {
  uint16_t port = 0;             // 0 = any free one
  std::string over_limit_reply;  // as that of the first
  bool tls = false;              // by TcpOptions::tls_context
};

struct TcpOptions {
  std::string bind = "127.0.0.1";  // address or host name; "*" = all addresses
  uint16_t port = 0;               // 0 = any free one, see TcpDatapath::port
  std::vector<TcpPort> more_ports;  // see Peer::port
  bool tls = false;                 // of the first port
  TlsContext* tls_context = nullptr;  // outlives the datapath; null = no port has TLS
  uint32_t queues = 1;
  int backlog = 511;
  // Listening sockets that this process was given, borrowed: a port that one of them has is heard
  // through it, by all queues. They stay open: who comes after the server has left them waits for
  // the next one.
  std::vector<int> handed_over;
  uint32_t max_flows = 10000;
  std::string over_limit_reply;    // sent to a connection over max_flows before it is closed
  Nanos idle_timeout;              // zero = none
  FlowLimits limits;
  // Queue i gets the connections whose first packet CPU cpus[i] has received; who comes by another
  // CPU goes to any. Empty = all to any.
  std::vector<uint32_t> cpus;
  Nanos busy_poll;                 // in receives and waits, of the card's queue; zero = unset
  // Replies of so many bytes or more are sent in place, without a copy in the kernel
  // (sent_pages.h); 0 = none. Not to clients with TLS.
  size_t zerocopy_above = 0;
  bool kernel_timestamps = true;   // date unpolled requests by the kernel's receive time
  bool date_backlog = false;       // also those that a full poll has left in the kernel
};

class TcpQueue;

class TcpDatapath : public Datapath {
 public:
  // Fails when the address does not resolve or is in use, with one line that names it.
  static Result<std::unique_ptr<TcpDatapath>> open(TcpOptions options, Protocol& protocol);
  ~TcpDatapath() override;

  // The port that clients connect to.
  uint16_t port() const { return ports_.front(); }
  // The first port, then those of TcpOptions::more_ports.
  std::span<const uint16_t> ports() const { return ports_; }

  // False: the kernel does not know zerocopy_above, and copies. Any thread.
  bool sends_in_place() const;

  uint32_t queues() const override;
  DatapathQueue& queue(WorkerId worker) override;
  Nanos begin_drain() override;
  void drain() override;
  uint64_t in_flight() const override;
  DatapathStats stats() const override;
  void for_each_flow(const std::function<void(const FlowInfo&)>& visit) override;
  bool close_flow(uint64_t flow) override;
  bool steer(uint64_t flow, WorkerId to) override;
  bool unsteer(uint64_t flow) override;
  bool request_push(uint64_t flow) override;

  // Change the limit on flows and the idle timeout, also while the server runs. Any thread.
  void set_max_flows(uint32_t flows);
  void set_idle_timeout(Nanos timeout) {
    shared_.idle_timeout_ns.store(timeout.count(), std::memory_order_relaxed);
  }

  // The state that all queues share.
  struct Shared {
    Shared(TcpOptions options_in, Protocol& protocol_in);
    const TcpOptions options;
    Protocol& protocol;
    std::atomic<uint32_t> max_flows;
    std::atomic<int64_t> idle_timeout_ns;
    std::atomic<uint64_t> next_flow{1};
    std::atomic<uint32_t> open_flows{0};
    // No new flows; set before drain() if listeners were handed over. Relaxed: a late look accepts
    // one more connection.
    std::atomic<bool> leaving{false};
    DrainFlag<> draining;
    FlowIndex index;
  };

 private:
  TcpDatapath(TcpOptions options, Protocol& protocol);
  Status start();

  Shared shared_;
  std::vector<std::unique_ptr<TcpQueue>> queues_;
  std::vector<uint16_t> ports_;
};

}  // namespace rubato
