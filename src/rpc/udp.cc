// SPDX-License-Identifier: Apache-2.0
#include "rpc/udp.h"

#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "datapath/time_source.h"
#include "mechanism/preempt/checkpoint.h"
#include "rpc/udp_queue.h"

namespace rubato::rpc {
namespace {

constexpr int kSocketBufferBytes = 4 << 20;

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
  // The system may allow less.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::bind(fd.get(), raw, address.length) != 0) return problem();
  return fd;
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

SipHash::Key random_key() {
  std::random_device device;
  const auto word = [&] { return uint64_t{device()} << 32 | device(); };
  return {word(), word()};
}

}  // namespace

UdpDatapath::Shared::Shared(UdpOptions options_in, Protocol& protocol_in)
    : options(std::move(options_in)), protocol(protocol_in), token_of(random_key()) {}

UdpDatapath::UdpDatapath(UdpOptions options, Protocol& protocol)
    : shared_(std::move(options), protocol) {}

UdpDatapath::~UdpDatapath() = default;

Result<std::unique_ptr<UdpDatapath>> UdpDatapath::open(UdpOptions options, Protocol& protocol) {
  if (options.queues == 0 || options.queues > limits::kMaxWorkers) {
    return Error{"queues must be 1 to " + std::to_string(limits::kMaxWorkers)};
  }
  std::unique_ptr<UdpDatapath> datapath(new UdpDatapath(std::move(options), protocol));
  const Status started = datapath->start();
  if (!started.ok()) return Error{started.error()};
  return datapath;
}

Status UdpDatapath::start() {
  const Result<SocketAddress> wanted = resolve(shared_.options.bind, shared_.options.port);
  if (!wanted.ok()) return Error{wanted.error()};
  const Result<SocketAddress> address = claim_datagrams(wanted.value());
  if (!address.ok()) return Error{address.error()};
  port_ = address.value().port();
  for (uint32_t i = 0; i < shared_.options.queues; ++i) {
    Result<Fd> socket = bind_datagrams(address.value(), true);
    if (!socket.ok()) return Error{socket.error()};
    queues_.push_back(std::make_unique<UdpQueue>(shared_));
    const Status started = queues_.back()->start(std::move(socket).value());
    if (!started.ok()) return started;
  }
  return Done{};
}

uint32_t UdpDatapath::queues() const { return static_cast<uint32_t>(queues_.size()); }

DatapathQueue& UdpDatapath::queue(WorkerId worker) { return *queues_[worker.value]; }

void UdpDatapath::drain() {
  if (!shared_.draining.set()) return;
  for (auto& queue : queues_) queue->wake();
}

uint64_t UdpDatapath::in_flight() const {
  uint64_t sum = 0;
  for (const auto& queue : queues_) sum += queue->registry().in_flight();
  return sum;
}

DatapathStats UdpDatapath::stats() const {
  DatapathStats stats;
  for (const auto& queue : queues_) queue->add_to(stats);
  return stats;
}

UdpDrops UdpDatapath::drops() const {
  UdpDrops drops;
  for (const auto& queue : queues_) queue->add_to(drops);
  return drops;
}

void UdpDatapath::for_each_flow(const std::function<void(const FlowInfo&)>& visit) {
  const Instant now = datapath_now();
  for (const auto& queue : queues_) {
    const auto show = [&](StreamFlow& flow) {
      if (flow.state() != FlowState::kClosing) visit(FlowRegistry::describe(flow, now));
    };
    queue->registry().visit_in_turns(show, [] { checkpoint(); });
  }
}

bool UdpDatapath::close_flow(uint64_t flow_id) { return shared_.index.close(flow_id); }

bool UdpDatapath::request_push(uint64_t flow) {
  return shared_.index.visit(flow, [](StreamFlow& found) {
    found.request_push();
    return true;
  });
}

}  // namespace rubato::rpc
