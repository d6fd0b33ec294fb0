// SPDX-License-Identifier: Apache-2.0
#include "load/datagram_port.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/timespec.h"
#include "datapath/datagram.h"
#include "datapath/datagram_address.h"
#include "mechanism/clock/clock.h"

namespace rubato::load {
namespace {

constexpr uint32_t kBurst = 32;

class SocketPort final : public DatagramPort {
 public:
  explicit SocketPort(Endpoint endpoint)
      : endpoint_(std::move(endpoint)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  Status open(uint32_t flows) override;
  Sent send(uint32_t flow, std::string_view bytes) override;
  void push() override {}
  void receive(DatagramEvents& events) override;
  void wait(Nanos limit) override { nap_until_readable(epoll_, limit); }
  uint64_t lost() const override { return 0; }  // the kernel does not tell

 private:
  static constexpr size_t kMostBytes = 2048;
  static constexpr int kEventsPerLook = 64;

  void receive_from(uint32_t flow, DatagramEvents& events);

  Endpoint endpoint_;
  Fd epoll_;
  std::vector<Fd> sockets_;  // by flow
  std::array<std::array<char, kMostBytes>, kBurst> buffers_;
};

Status SocketPort::open(uint32_t flows) {
  allow_files(flows);
  if (!epoll_.open()) return Error{std::string("cannot create an epoll: ") + std::strerror(errno)};
  for (uint32_t i = 0; i < flows; ++i) {
    Result<Fd> socket = connect_datagrams(endpoint_);
    if (!socket) return Error{socket.error()};
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = i;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket->get(), &event) != 0) {
      return Error{std::string("cannot watch a socket: ") + std::strerror(errno)};
    }
    sockets_.push_back(std::move(*socket));
  }
  return Done{};
}

DatagramPort::Sent SocketPort::send(uint32_t flow, std::string_view bytes) {
  if (::send(sockets_[flow].get(), bytes.data(), bytes.size(), 0) >= 0) return Sent::kTaken;
  return errno == ECONNREFUSED ? Sent::kUnreachable : Sent::kFull;
}

void SocketPort::receive(DatagramEvents& events) {
  std::array<epoll_event, kEventsPerLook> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), kEventsPerLook, 0);
  for (int i = 0; i < count; ++i) receive_from(ready[static_cast<size_t>(i)].data.u32, events);
}

void SocketPort::receive_from(uint32_t flow, DatagramEvents& events) {
  std::array<iovec, kBurst> parts;
  std::array<mmsghdr, kBurst> messages{};
  for (uint32_t i = 0; i < kBurst; ++i) {
    parts[i] = {buffers_[i].data(), buffers_[i].size()};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  const int n = ::recvmmsg(sockets_[flow].get(), messages.data(), kBurst, MSG_DONTWAIT, nullptr);
  if (n < 0 && errno == ECONNREFUSED) return events.on_unreachable(flow);
  const Instant at = rubato::now();
  for (int i = 0; i < n; ++i) {
    const auto which = static_cast<size_t>(i);
    events.on_datagram(flow, {buffers_[which].data(), messages[which].msg_len}, at);
  }
}

// The wire finds the target's Ethernet address for the first datagrams; from then on they go to
// where its last one came from.
class WirePort final : public DatagramPort {
 public:
  WirePort(Endpoint endpoint, OpenWire open_wire)
      : endpoint_(std::move(endpoint)), open_wire_(std::move(open_wire)) {}

  Status open(uint32_t flows) override;
  Sent send(uint32_t flow, std::string_view bytes) override;
  void push() override { queue().push(); }
  void receive(DatagramEvents& events) override;
  void wait(Nanos limit) override;
  uint64_t lost() const override;

 private:
  static constexpr uint32_t kBurstsPerLook = 8;

  WireQueue& queue() { return wire_->queue(WorkerId{0}); }
  void take(const Datagram& datagram, DatagramEvents& events, Instant at);
  uint64_t dropped() const;

  Endpoint endpoint_;
  OpenWire open_wire_;
  std::unique_ptr<DatagramWire> wire_;
  uint32_t flows_ = 0;
  DatagramPeer target_;
  bool found_ = false;            // the target has answered
  uint64_t lost_before_ = 0;  // while it was looked for
};

Status WirePort::open(uint32_t flows) {
  allow_files(flows);
  Result<std::unique_ptr<DatagramWire>> wire = open_wire_(endpoint_, flows);
  if (!wire) return Error{wire.error()};
  wire_ = std::move(*wire);
  flows_ = flows;
  target_ = peer_of(endpoint_.address);
  return Done{};
}

DatagramPort::Sent WirePort::send(uint32_t flow, std::string_view bytes) {
  target_.local_port = static_cast<uint16_t>(wire_->port() + flow);
  queue().send(target_, bytes);
  return Sent::kTaken;
}

void WirePort::receive(DatagramEvents& events) {
  std::array<Datagram, kBurst> arrived;
  for (uint32_t burst = 0; burst < kBurstsPerLook; ++burst) {
    const uint32_t n = queue().receive(arrived, rubato::now(), false);
    const Instant at = rubato::now();
    for (uint32_t i = 0; i < n; ++i) take(arrived[i], events, at);
    if (n < kBurst) return;
  }
}

void WirePort::take(const Datagram& datagram, DatagramEvents& events, Instant at) {
  const DatagramPeer& from = datagram.peer;
  const auto flow = static_cast<uint16_t>(from.local_port - wire_->port());
  if (flow < flows_ && from.address == target_.address && from.port == target_.port) {
    if (!found_) lost_before_ = dropped();
    found_ = true;
    target_ = from;
    events.on_datagram(flow, datagram.bytes, at);
  }
  queue().release(datagram);
}

void WirePort::wait(Nanos limit) {
  push();
  if (limit <= Nanos() || queue().has_left_over() || queue().pending()) return;
  std::vector<pollfd> files;
  for (const int file : queue().files()) files.push_back({file, POLLIN, 0});
  const Nanos nap = queue().nap();
  if (nap > Nanos()) limit = std::min(limit, nap);
  const timespec t = timespec_of(limit);
  ::ppoll(files.data(), files.size(), &t, nullptr);
}

uint64_t WirePort::lost() const { return dropped() - lost_before_; }

uint64_t WirePort::dropped() const {
  const DatagramDrops drops = wire_->drops();
  return drops.no_frame + drops.ring_full + drops.unsent;
}

}  // namespace

std::unique_ptr<DatagramPort> make_datagram_port(Endpoint endpoint, const LoadOptions& options) {
  if (!options.open_wire) return std::make_unique<SocketPort>(std::move(endpoint));
  return std::make_unique<WirePort>(std::move(endpoint), options.open_wire);
}

}  // namespace rubato::load
