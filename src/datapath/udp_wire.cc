// SPDX-License-Identifier: Apache-2.0
#include "datapath/udp_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "datapath/udp_wire_queue.h"

namespace rubato {
namespace {

constexpr int kSocketBufferBytes = 4 << 20;

bool is_wildcard(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address.storage, sizeof in);
    return IN6_IS_ADDR_UNSPECIFIED(&in.sin6_addr) != 0;
  }
  sockaddr_in in{};
  std::memcpy(&in, &address.storage, sizeof in);
  return in.sin_addr.s_addr == htonl(INADDR_ANY);
}

Result<Fd> bind_datagrams(const SocketAddress& address, bool shared) {
  const auto problem = [&] {
    return Error{"cannot listen on " + to_text(address) + " (UDP): " + std::strerror(errno)};
  };
  Fd fd(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return problem();
  const int on = 1;
  const int off = 0;
  if (shared) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  // Replies leave from the address that was asked.
  if (is_wildcard(address)) {
    const bool ipv6 = address.storage.ss_family == AF_INET6;
    ::setsockopt(fd.get(), ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_RECVPKTINFO : IP_PKTINFO,
                 &on, sizeof on);
  }
  // The system may allow less, but to those with CAP_NET_ADMIN.
  const void* const size = &kSocketBufferBytes;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, size, sizeof kSocketBufferBytes) != 0) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, size, sizeof kSocketBufferBytes);
  }
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::bind(fd.get(), raw, address.length) != 0) return problem();
  return fd;
}

// 0 = as much as was asked for. The kernel counts its own share in, as much again (socket(7)).
size_t smaller_buffer_of(const Fd& socket) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, &length) != 0) return 0;
  return bytes >= 2 * kSocketBufferBytes ? 0 : static_cast<size_t>(bytes) / 2;
}

// As claim_address does for TCP.
Result<SocketAddress> claim_datagrams(SocketAddress address) {
  const Result<Fd> probe = bind_datagrams(address, false);
  if (!probe.ok()) return Error{probe.error()};
  address.length = sizeof address.storage;
  auto* raw = reinterpret_cast<sockaddr*>(&address.storage);
  if (::getsockname(probe.value().get(), raw, &address.length) == 0) return address;
  return Error{std::string("getsockname: ") + std::strerror(errno)};
}

}  // namespace

std::string to_text(const DatagramPeer& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(peer.ipv6 ? AF_INET6 : AF_INET, peer.address.data(), text.data(), text.size());
  const std::string port = ":" + std::to_string(peer.port);
  return peer.ipv6 ? "[" + std::string(text.data()) + "]" + port : text.data() + port;
}

UdpWire::~UdpWire() = default;

Result<std::unique_ptr<UdpWire>> UdpWire::open(const UdpWireOptions& options) {
  if (options.queues == 0 || options.queues > limits::kMaxWorkers) {
    return Error{"queues must be 1 to " + std::to_string(limits::kMaxWorkers)};
  }
  if (options.batch == 0 || options.batch > UdpWireOptions::kMostBatch) {
    return Error{"udp_batch must be 1 to " + std::to_string(UdpWireOptions::kMostBatch)};
  }
  std::unique_ptr<UdpWire> wire(new UdpWire());
  const Status started = wire->start(options);
  if (!started.ok()) return Error{started.error()};
  return wire;
}

Status UdpWire::start(const UdpWireOptions& options) {
  const Result<SocketAddress> wanted = resolve(options.bind, options.port);
  if (!wanted.ok()) return Error{wanted.error()};
  const Result<SocketAddress> address = claim_datagrams(wanted.value());
  if (!address.ok()) return Error{address.error()};
  port_ = address.value().port();
  batch_ = options.batch;
  std::vector<int> sockets;
  for (uint32_t i = 0; i < options.queues; ++i) {
    Result<Fd> socket = bind_datagrams(address.value(), true);
    if (!socket.ok()) return Error{socket.error()};
    sockets.push_back(socket.value().get());
    smaller_buffer_bytes_ = smaller_buffer_of(*socket);
    queues_.push_back(std::make_unique<UdpWireQueue>(std::move(socket).value(), options));
  }
  if (!options.steering || options.queues == 1) return Done{};
  const Status steered = steering_.attach(sockets);
  if (!steered.ok()) no_steering_ = steered.error();
  return Done{};
}

WireQueue& UdpWire::queue(WorkerId worker) { return *queues_[worker.value]; }

DatagramDrops UdpWire::drops() const {
  DatagramDrops drops;
  for (const auto& queue : queues_) queue->add_to(drops);
  return drops;
}

std::string UdpWire::describe() const {
  std::string text = "kernel UDP";
  text += batch_ > 1 ? ", batches of " + std::to_string(batch_) : ", one datagram at a time";
  if (queues_[0]->receives_trains()) text += ", GRO";
  if (queues_[0]->sends_trains()) text += ", GSO";
  if (steering_.attached()) text += ", steered by a BPF table";
  if (smaller_buffer_bytes_ > 0) {
    text += ", receive buffers of " + std::to_string(smaller_buffer_bytes_ / 1024) + " KiB, not " +
            std::to_string(kSocketBufferBytes / 1024) + " (net.core.rmem_max)";
  }
  if (!no_steering_.empty()) text += ", spread by the kernel's hash (" + no_steering_ + ")";
  return text;
}

bool UdpWire::steer_group(uint32_t group, WorkerId to) {
  if (!steering_.attached() || group >= kSteeringGroups || to.value >= queues()) return false;
  return steering_.move(group, to.value);
}

WorkerId UdpWire::queue_of_group(uint32_t group) const {
  return WorkerId{steering_.attached() ? steering_.queue_of(group) : 0};
}

}  // namespace rubato
