// SPDX-License-Identifier: Apache-2.0
#include "rpc/udp_queue.h"

#include <algorithm>
#include <cstring>

#include "datapath/time_source.h"

namespace rubato::rpc {
namespace {

constexpr size_t kInboxKeptBytes = 4096;

// Of a tag's control word, whose other bits are the packet's priority (IEEE 802.1Q, 9.6).
uint16_t vlan_id(uint16_t control) { return control & 0x0fff; }

SessionKey key_of(const DatagramPeer& from, uint32_t session) {
  return {from.address, from.scope, vlan_id(from.vlan), from.port, session};
}

}  // namespace

size_t SessionKeyHash::operator()(const SessionKey& key) const {
  uint64_t halves[2];
  std::memcpy(halves, key.address.data(), sizeof halves);
  uint64_t h = halves[0] ^ (halves[1] * 0x9e3779b97f4a7c15) ^ (uint64_t{key.port} << 32) ^
               (uint64_t{key.vlan} << 48) ^ key.session ^ (key.scope * 0x9e3779b97f4a7c15);
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93;
  return h ^ (h >> 32);
}

UdpFlow::UdpFlow(UdpQueue& queue, FlowHost& host, uint64_t id, const DatagramPeer& peer,
                 const SessionKey& key, Instant opened)
    : StreamFlow(host, id, to_text(peer), opened), queue_(queue), key_(key), address_(peer) {}

UdpFlow::~UdpFlow() { queue_.forget(key_); }

bool UdpFlow::put(std::string_view datagram, const DatagramPeer& from, Instant when) {
  const std::lock_guard lock(mutex_);
  address_ = from;
  if (inbox_.size() - taken_ + datagram.size() > kInboxBytes) return false;
  inbox_.append(datagram);
  came_ = when;
  return true;
}

Transfer UdpFlow::receive(char* to, size_t room, bool, Instant& when) {
  const std::lock_guard lock(mutex_);
  const size_t size = std::min(room, inbox_.size() - taken_);
  if (size == 0) return {Transfer::State::kWait, 0};
  std::memcpy(to, inbox_.data() + taken_, size);
  when = came_;
  taken_ += size;
  if (taken_ == inbox_.size()) {
    taken_ = 0;
    inbox_.clear();
    if (inbox_.capacity() > kInboxKeptBytes) std::string().swap(inbox_);
  }
  return {Transfer::State::kMoved, size};
}

// Sends one frame at a time; the session writes nothing but whole frames.
Transfer UdpFlow::transmit(std::string_view bytes) {
  const Decoded frame = decode(bytes, Side::kServer);
  const size_t size = frame.state == Decoded::State::kComplete ? frame.length : bytes.size();
  DatagramPeer to;
  {
    const std::lock_guard lock(mutex_);
    to = address_;
  }
  queue_.send(bytes.substr(0, size), to);
  return {Transfer::State::kMoved, size};
}

UdpQueue::UdpQueue(UdpDatapath::Shared& shared, WorkerId worker)
    : GuestQueue(shared.wire->queue(worker)),
      shared_(shared),
      owner_queue_(*this, shared.index, shared.limits, shared.draining),
      last_poll_(datapath_now()) {}

UdpQueue::~UdpQueue() = default;

uint32_t UdpQueue::poll(std::span<Request*> out) {
  const OwnerQueue::PollLock lock(owner_queue_);
  if (!lock.held()) return 0;
  const Instant now = datapath_now();
  const bool late = left_some_ || now - last_poll_ > kLateLook;
  last_poll_ = now;
  left_some_ = false;
  reap();
  owner_queue_.sweep(now, OwnerQueue::kSweepInPoll, shared_.idle_timeout());
  uint32_t taken = owner_queue_.take_yielded(out, now, late);
  for (uint32_t looks = 0;; ++looks) {
    left_some_ = taken == out.size() || looks == kLooksPerPoll;
    if (left_some_) break;
    // One datagram is mostly one request; a request that finds no room waits in its flow.
    const auto room = std::span(arrived_).first(std::min(out.size() - taken, arrived_.size()));
    const uint32_t n = wire_queue().receive(room, now, late);
    for (const Datagram& datagram : room.first(n)) {
      taken += take(datagram.bytes, datagram.peer, out.subspan(taken), datagram.arrived, late);
      wire_queue().release(datagram);
    }
    if (n < room.size()) break;
  }
  return taken;
}

uint32_t UdpQueue::take(std::string_view datagram, const DatagramPeer& from,
                        std::span<Request*> out, Instant now, bool late) {
  const std::string_view frame = datagram.substr(std::min(kTokenBytes, datagram.size()));
  const Decoded found = decode(frame, Side::kClient, kMaxDatagramBodyBytes);
  if (found.state != Decoded::State::kComplete || found.length != frame.size() ||
      found.message.session == 0) {
    malformed_.fetch_add(1, std::memory_order_relaxed);
    refuse(frame, from, found.fault == Fault::kNone ? Fault::kFields : found.fault);
    return 0;
  }
  const SessionKey key = key_of(from, found.message.session);
  if (decode_token(datagram) != token_of(key)) {
    answer_without_token(found.message, key, frame, from);
    return 0;
  }
  const auto at = sessions_.find(key);
  UdpFlow* flow = at != sessions_.end() ? at->second : nullptr;
  if (flow == nullptr && owner_queue_.draining()) return 0;
  if (flow == nullptr && found.message.kind == Kind::kHello) {
    flow = open(key, from, now);
    if (flow == nullptr) return 0;
  }
  if (flow == nullptr) {
    no_session_.fetch_add(1, std::memory_order_relaxed);
    if (found.message.kind != Kind::kGoodbye) refuse(frame, from, Fault::kNoSession);
    return 0;
  }
  if (!flow->put(frame, from, now)) {
    full_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  return flow->on_event(owner_queue_.host(), out, now, late, false);
}

// Never zero, which clients send that have none.
uint64_t UdpQueue::token_of(const SessionKey& key) const {
  std::array<char, sizeof(SessionKey)> bytes{};
  char* to = bytes.data();
  const auto append = [&to](const void* field, size_t size) {
    std::memcpy(to, field, size);
    to += size;
  };
  append(key.address.data(), sizeof key.address);
  append(&key.scope, sizeof key.scope);
  append(&key.vlan, sizeof key.vlan);
  append(&key.port, sizeof key.port);
  append(&key.session, sizeof key.session);
  return std::max(shared_.token_of({bytes.data(), bytes.size()}), uint64_t{1});
}

// The address may be forged: only who receives at it learns the token. A client of a server that
// was restarted hears that its session is gone.
void UdpQueue::answer_without_token(const Message& message, const SessionKey& key,
                                    std::string_view frame, const DatagramPeer& from) {
  no_token_.fetch_add(1, std::memory_order_relaxed);
  if (owner_queue_.draining()) return;
  if (message.kind == Kind::kHello) {
    send_header({Kind::kToken, key.session, 0, token_of(key), {}}, from);
  } else if (message.kind != Kind::kGoodbye && !sessions_.contains(key)) {
    refuse(frame, from, Fault::kNoSession);
  }
}

UdpFlow* UdpQueue::open(const SessionKey& key, const DatagramPeer& from, Instant now) {
  const uint64_t id = shared_.next_flow.fetch_add(1, std::memory_order_relaxed);
  const Peer peer{id, to_text(from)};
  std::unique_ptr<Session> session;
  // What the protocol has to say is for connections; this is one header.
  const bool served = shared_.protocol.refusal_for(peer).empty();
  const uint32_t most = shared_.max_flows.load(std::memory_order_relaxed);
  if (shared_.open_flows.fetch_add(1, std::memory_order_relaxed) < most && served) {
    session = shared_.protocol.open(peer);
  }
  if (session == nullptr) {
    shared_.open_flows.fetch_sub(1, std::memory_order_relaxed);
    refused_.fetch_add(1, std::memory_order_relaxed);
    const Fault fault = served ? Fault::kSessions : Fault::kAddress;
    send_header({Kind::kError, key.session, static_cast<uint32_t>(fault), 0, {}}, from);
    return nullptr;
  }
  auto flow = std::make_unique<UdpFlow>(*this, owner_queue_.host(), id, from, key, now);
  flow->attach(std::move(session));
  UdpFlow* const opened = flow.get();
  sessions_.emplace(key, opened);
  owner_queue_.add(std::move(flow));
  return opened;
}

// Answers only a sender that speaks the protocol and sent at least as many bytes, so that a forged
// address cannot be flooded.
void UdpQueue::refuse(std::string_view frame, const DatagramPeer& to, Fault fault) {
  if (frame.size() < kHeaderBytes || fault == Fault::kMagic || owner_queue_.draining()) return;
  // The session's number has the same offset in every frame.
  uint32_t session = 0;
  for (size_t i = 8; i < 12; ++i) session = session << 8 | static_cast<uint8_t>(frame[i]);
  send_header({Kind::kError, session, static_cast<uint32_t>(fault), 0, {}}, to);
}

void UdpQueue::send_header(const Message& message, const DatagramPeer& to) {
  char bytes[kHeaderBytes];
  encode_header(bytes, message, 0);
  send({bytes, sizeof bytes}, to);
}

void UdpQueue::reap() {
  const uint32_t freed = owner_queue_.reap();
  if (freed > 0) shared_.open_flows.fetch_sub(freed, std::memory_order_relaxed);
}

bool UdpQueue::pending() const { return owner_queue_.may_have_yielded() || wire_queue().pending(); }

// The request runs on, perhaps for long.
void UdpQueue::flush(Request& request) {
  StreamFlow::of(request).flush();
  shared_.wire->here().push();
}

void UdpQueue::wait_by(Nanos limit, const Sleep& sleep) {
  const OwnerQueue::PollLock lock(owner_queue_);
  if (!lock.held() || owner_queue_.has_yielded()) return;
  reap();
  owner_queue_.sweep(datapath_now(), OwnerQueue::kSweepInWait, shared_.idle_timeout());
  if (!queue_sleep().may_sleep()) return;
  sleep(queue_sleep().longest(std::min(limit, OwnerQueue::kSweepRound)));
  last_poll_ = datapath_now();
}

void UdpQueue::add_to(DatapathStats& stats) const {
  owner_queue_.add_to(stats);
  stats.flows_refused += refused_.load(std::memory_order_relaxed);
}

void UdpQueue::add_to(UdpDrops& drops) const {
  drops.malformed += malformed_.load(std::memory_order_relaxed);
  drops.no_session += no_session_.load(std::memory_order_relaxed);
  drops.no_token += no_token_.load(std::memory_order_relaxed);
  drops.full += full_.load(std::memory_order_relaxed);
}

}  // namespace rubato::rpc
