// SPDX-License-Identifier: Apache-2.0
#include "xdp/wire.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "datapath/datagram_address.h"
#include "datapath/tcp_socket.h"
#include "xdp/link_state.h"
#include "xdp/program.h"
#include "xdp/queue.h"

namespace rubato {
namespace {

using xdp::FilterProgram;
using xdp::Frames;
using xdp::HardwareQueue;
using xdp::LinkState;
using xdp::XdpQueue;

constexpr uint32_t kMostHardwareQueues = 64;
constexpr int kMostPlaces = 64;

Error failed_to(const std::string& what) {
  return {"af_xdp: " + what + ": " + std::strerror(errno)};
}

// Of all hosts of a network: a socket connects there only if asked to, see socket(7).
bool is_broadcast(const SocketAddress& address) {
  const Fd probe(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address.storage);
  return ::connect(probe.get(), raw, address.length) != 0 && errno == EACCES;
}

// Nobody else gets the port. The kernel's datagrams for it stay here, as few as it allows.
Result<Fd> reserve_one(SocketAddress& address) {
  Fd socket(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  auto* raw = reinterpret_cast<sockaddr*>(&address.storage);
  const int least = 1;
  if (!socket.valid() || ::bind(socket.get(), raw, address.length) != 0) {
    return Error{"cannot listen on " + to_text(address) + " (UDP): " + std::strerror(errno)};
  }
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
  address.length = sizeof address.storage;
  if (::getsockname(socket.get(), raw, &address.length) != 0) return failed_to("getsockname");
  return socket;
}

Result<std::vector<Fd>> reserve_row(SocketAddress& first, uint16_t count) {
  std::vector<Fd> reserved;
  SocketAddress next = first;
  for (uint32_t i = 0; i < count; ++i) {
    if (first.port() + i > UINT16_MAX) return Error{"af_xdp: too few ports above the first"};
    if (i > 0) next.set_port(static_cast<uint16_t>(first.port() + i));
    Result<Fd> one = reserve_one(i == 0 ? first : next);
    if (!one.ok()) return Error{one.error()};
    reserved.push_back(std::move(*one));
  }
  return reserved;
}

// With port 0, of several places that the kernel proposes, the first with so many in a row.
Result<std::vector<Fd>> reserve(SocketAddress& first, uint16_t count) {
  const SocketAddress wanted = first;
  Result<std::vector<Fd>> reserved = reserve_row(first, count);
  for (int tries = 1; tries < kMostPlaces && wanted.port() == 0 && !reserved.ok(); ++tries) {
    first = wanted;
    reserved = reserve_row(first, count);
  }
  return reserved;
}

class XdpWire final : public DatagramWire {
 public:
  Status start(const XdpWireOptions& options);

  uint32_t queues() const override { return static_cast<uint32_t>(queues_.size()); }
  WireQueue& queue(WorkerId worker) override { return *queues_[worker.value]; }
  uint16_t port() const override { return parts_.port; }
  DatagramDrops drops() const override;
  std::string describe() const override;
  void look_at_link() override;
  bool steer_group(uint32_t group, WorkerId to) override {
    return group < kSteeringGroups && to.value < queues() && program_.move(group, to.value);
  }
  WorkerId queue_of_group(uint32_t group) const override {
    return WorkerId{program_.worker_of(group)};
  }

 private:
  Status look_at_interface();
  Status make_memory();
  uint64_t passed_to(const Fd& reserved) const;
  Status open_queues(uint32_t workers, const SocketAddress& address);

  xdp::WireParts parts_;
  FilterProgram program_;
  std::vector<std::unique_ptr<XdpQueue>> queues_;
  Fd any_socket_;
  LinkState first_;  // as it was at the start
  LinkState link_;   // as it was at the last look
  mutable std::mutex mutex_;  // guards the counts of drops()
  mutable uint64_t passed_ = 0;     // what the kernel got
  mutable uint64_t ring_full_ = 0;  // told so far
};

Status XdpWire::start(const XdpWireOptions& options) {
  if (options.queues == 0 || options.queues > limits::kMaxWorkers) {
    return Error{"queues must be 1 to " + std::to_string(limits::kMaxWorkers)};
  }
  parts_.interface = options.interface;
  if (Status looked = look_at_interface(); !looked.ok()) return looked;
  Result<SocketAddress> address = resolve(options.bind, options.port);
  if (!address.ok()) return Error{address.error()};
  if (!is_of_one_host(address->storage) || is_broadcast(*address)) {
    return Error{"af_xdp: takes --bind with an address of " + options.interface + ", not " +
                 options.bind};
  }
  Result<std::vector<Fd>> reserved = reserve(*address, options.ports);
  if (!reserved.ok()) return Error{reserved.error()};
  parts_.reserved = std::move(*reserved);
  parts_.port = address->port();
  parts_.busy_poll = options.busy_poll;
  if (Status made = make_memory(); !made.ok()) return made;
  return open_queues(options.queues, *address);
}

// Fails for more hardware queues than there is memory for: what came by the others would be lost.
Status XdpWire::look_at_interface() {
  any_socket_ = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Result<LinkState> read = xdp::read_link(any_socket_, parts_.interface);
  if (!read.ok()) return Error{read.error()};
  first_ = link_ = read.value();
  parts_.set_mtu(first_.mtu);
  if (first_.hardware_queues <= kMostHardwareQueues) return Done{};
  const std::string most = std::to_string(kMostHardwareQueues);
  return Error{"af_xdp: " + parts_.interface + " has " + std::to_string(first_.hardware_queues) +
               " hardware queues, at most " + most + " can be served: ethtool -L " +
               parts_.interface + " combined " + most};
}

void XdpWire::look_at_link() {
  const std::string name = xdp::name_of_link(any_socket_, first_.index);
  const Result<LinkState> read = xdp::read_link(any_socket_, name);
  const LinkState now = read.ok() ? read.value() : LinkState();
  if (now == link_) return;
  xdp::log_changes(name.empty() ? parts_.interface : name, first_, link_, now);
  if (now.index == first_.index) parts_.set_mtu(now.mtu);
  link_ = now;
}

Status XdpWire::make_memory() {
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};  // as the memory counts as locked
  static_cast<void>(::setrlimit(RLIMIT_MEMLOCK, &unlimited));
  parts_.frames = std::make_unique<Frames>(first_.hardware_queues * xdp::kFramesPerQueue);
  if (!parts_.frames->valid()) return failed_to("no memory for frames");
  for (uint32_t i = 0; i < first_.hardware_queues; ++i) {
    parts_.hardware.push_back(std::make_unique<HardwareQueue>(*parts_.frames));
    errno = parts_.hardware.back()->start();
    if (errno != 0) {
      return failed_to("memory shared with the kernel (it takes CAP_NET_RAW, and CAP_IPC_LOCK or "
                       "32 MiB of locked memory per hardware queue)");
    }
  }
  return Done{};
}

Status XdpWire::open_queues(uint32_t workers, const SocketAddress& address) {
  const auto ports = static_cast<uint16_t>(parts_.reserved.size());
  const Status loaded = program_.load({static_cast<uint32_t>(first_.index), address, ports,
                                       first_.mac, workers, first_.hardware_queues});
  if (!loaded.ok()) return loaded;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    queues_.push_back(std::make_unique<XdpQueue>(parts_, worker));
    if (Status opened = queues_.back()->start(); !opened.ok()) return opened;
    for (uint32_t i = 0; i < first_.hardware_queues; ++i) {
      const Status set = program_.set_socket(i, worker, queues_.back()->socket(i));
      if (!set.ok()) return set;
    }
  }
  for (uint32_t i = 0; i < first_.hardware_queues; ++i) {
    parts_.hardware[i]->refill(queues_[0]->socket(i), true);
  }
  if (Status attached = program_.attach(); !attached.ok()) return attached;
  if (parts_.busy_poll == Nanos() || program_.native()) return Done{};
  return Error{"busy_poll: the driver of " + parts_.interface +
               " runs no XDP program, so that none of its queues can be looked at"};
}

// A reserved socket keeps a few datagrams and counts the rest as dropped.
uint64_t XdpWire::passed_to(const Fd& reserved) const {
  std::array<char, 1> byte;
  while (::recv(reserved.get(), byte.data(), byte.size(), MSG_DONTWAIT) >= 0) ++passed_;
  std::array<uint32_t, 9> memory{};  // SK_MEMINFO_VARS; the last are the drops
  socklen_t length = sizeof memory;
  const int failed = ::getsockopt(reserved.get(), SOL_SOCKET, SO_MEMINFO, memory.data(), &length);
  return failed == 0 ? memory.back() : 0;
}

DatagramDrops XdpWire::drops() const {
  DatagramDrops drops;
  uint64_t dropped = 0;
  for (const auto& queue : queues_) {
    queue->add_to(drops);
    dropped += queue->dropped();
  }
  drops.no_frame = queues_[0]->empty_fills();
  const std::lock_guard guard(mutex_);
  // The two are read one after the other, and a counter never falls.
  const uint64_t unexplained = dropped - std::min(dropped, drops.no_frame);
  ring_full_ = std::max(ring_full_, queues_[0]->copies() ? unexplained : dropped);
  drops.ring_full += ring_full_;
  for (const Fd& reserved : parts_.reserved) drops.passed += passed_to(reserved);
  drops.passed += passed_;
  return drops;
}

std::string XdpWire::describe() const {
  std::string text = "AF_XDP on " + parts_.interface;
  const uint32_t count = first_.hardware_queues;
  text += count == 1 ? ", 1 hardware queue" : ", " + std::to_string(count) + " hardware queues";
  text += program_.native() ? ", in the driver" : ", before the driver's stack (generic)";
  if (parts_.busy_poll > Nanos()) text += ", busy poll";
  return text + (queues_[0]->copies() ? ", copied" : ", without a copy");
}

}  // namespace

Result<std::unique_ptr<DatagramWire>> open_xdp_wire(const XdpWireOptions& options) {
  auto wire = std::make_unique<XdpWire>();
  const Status started = wire->start(options);
  if (!started.ok()) return Error{started.error()};
  return std::unique_ptr<DatagramWire>(std::move(wire));
}

bool has_xdp() { return true; }

}  // namespace rubato
