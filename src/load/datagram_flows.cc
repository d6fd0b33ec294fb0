// SPDX-License-Identifier: Apache-2.0
#include "load/datagram_flows.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "mechanism/clock/clock.h"

namespace rubato::load {
namespace {

constexpr size_t kIdBytes = 8;
constexpr size_t kMostBytes = 2048;
constexpr uint32_t kBurst = 32;
constexpr int kEventsPerPoll = 64;
constexpr Nanos kProbeAgain = Nanos::millis(100);
constexpr std::string_view kProbe = "0";

class DatagramFlows final : public Flows {
 public:
  DatagramFlows(Endpoint endpoint, const LoadOptions& options, FlowEvents& events)
      : endpoint_(std::move(endpoint)),
        events_(events),
        timeout_(options.reply_timeout),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  Status open_all(uint32_t count) override;
  uint32_t pick_idle(Prng& prng) const override {
    return idle_.empty() ? kNoFlow : idle_[prng.below(static_cast<uint32_t>(idle_.size()))];
  }
  uint32_t pick_any(Prng& prng) const override {
    return prng.below(static_cast<uint32_t>(flows_.size()));
  }
  void send(uint32_t flow, std::string_view bytes, const Outstanding& request) override;
  Status poll(Instant now) override;
  void wait(Nanos limit) const override { nap_until_readable(epoll_, limit); }
  uint64_t outstanding() const override { return outstanding_; }
  void abandon() override;

 private:
  struct Flow {
    Fd socket;
    uint32_t owed = 0;
    uint32_t idle_slot = kNoFlow;
  };
  // A request by its slot; the id on the wire is the slot and the number of its uses, so that a
  // late or doubled reply answers nothing.
  struct Slot {
    Outstanding about;
    uint32_t flow = 0;
    uint32_t uses = 0;
    bool waits = false;
  };
  struct Sent {
    Instant at;
    uint64_t id = 0;
  };

  Status probe();
  void set_idle(uint32_t index);
  void unset_idle(uint32_t index);
  void receive(uint32_t index);
  void take(std::string_view datagram, Instant at);
  Slot* find(uint64_t id);
  Outstanding close(Slot& slot);
  void expire(Instant now);

  Endpoint endpoint_;
  FlowEvents& events_;
  const Nanos timeout_;
  Fd epoll_;
  std::vector<Flow> flows_;
  std::vector<uint32_t> idle_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::deque<Sent> sent_;  // in the order of sending
  uint64_t outstanding_ = 0;
  std::array<std::array<char, kMostBytes>, kBurst> buffers_;
  std::string message_;
  bool answers_ = false;  // something has come back
};

Status DatagramFlows::open_all(uint32_t count) {
  allow_files(count);
  if (!epoll_.open()) return Error{std::string("cannot create an epoll: ") + std::strerror(errno)};
  flows_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    Result<Fd> socket = connect_datagrams(endpoint_);
    if (!socket) return Error{socket.error()};
    flows_[i].socket = std::move(*socket);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = i;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, flows_[i].socket.get(), &event) != 0) {
      return Error{std::string("cannot watch a socket: ") + std::strerror(errno)};
    }
    set_idle(i);
  }
  return probe();
}

// A request of no length, with an id that no other has, until an answer comes.
Status DatagramFlows::probe() {
  std::string message(kIdBytes, '\xff');
  message += kProbe;
  const Instant limit = rubato::now() + kConnectTimeout;
  while (rubato::now() < limit) {
    static_cast<void>(::send(flows_[0].socket.get(), message.data(), message.size(), 0));
    wait_readable(flows_[0].socket.get(), kProbeAgain);
    receive(0);
    if (answers_) return Done{};
  }
  return Error{endpoint_.text + " does not answer: does it take datagrams of serve spin --udp?"};
}

void DatagramFlows::set_idle(uint32_t index) {
  flows_[index].idle_slot = static_cast<uint32_t>(idle_.size());
  idle_.push_back(index);
}

void DatagramFlows::unset_idle(uint32_t index) {
  const uint32_t slot = std::exchange(flows_[index].idle_slot, kNoFlow);
  if (slot == kNoFlow) return;
  idle_[slot] = idle_.back();
  flows_[idle_[slot]].idle_slot = slot;
  idle_.pop_back();
}

void DatagramFlows::send(uint32_t index, std::string_view bytes, const Outstanding& request) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t at = free_.back();
  free_.pop_back();
  Slot& slot = slots_[at];
  slot.about = request;
  slot.flow = index;
  slot.waits = true;
  const uint64_t id = uint64_t{++slot.uses} << 32 | at;
  message_.assign(reinterpret_cast<const char*>(&id), kIdBytes);
  message_.append(bytes);
  ++outstanding_;
  ++flows_[index].owed;
  unset_idle(index);
  sent_.push_back({rubato::now(), id});
  // What the socket has no room for, and what nobody listens for, is lost.
  static_cast<void>(::send(flows_[index].socket.get(), message_.data(), message_.size(), 0));
}

void DatagramFlows::receive(uint32_t index) {
  std::array<iovec, kBurst> parts;
  std::array<mmsghdr, kBurst> messages{};
  for (uint32_t i = 0; i < kBurst; ++i) {
    parts[i] = {buffers_[i].data(), buffers_[i].size()};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  const int n =
      ::recvmmsg(flows_[index].socket.get(), messages.data(), kBurst, MSG_DONTWAIT, nullptr);
  const Instant at = rubato::now();
  for (int i = 0; i < n; ++i) {
    const auto which = static_cast<size_t>(i);
    take({buffers_[which].data(), messages[which].msg_len}, at);
  }
}

void DatagramFlows::take(std::string_view datagram, Instant at) {
  if (datagram.size() < kIdBytes) return;
  answers_ = true;
  uint64_t id = 0;
  std::memcpy(&id, datagram.data(), kIdBytes);
  Slot* const slot = find(id);
  if (slot == nullptr) return;
  const Outstanding request = close(*slot);
  const std::string_view text = datagram.substr(kIdBytes);
  if (text == "OK") return events_.on_reply(request, at);
  events_.on_failed(request, text == "BUSY" ? Outcome::kRefused : Outcome::kError, text);
}

// Null: the request of that id has its reply already, or there was none.
DatagramFlows::Slot* DatagramFlows::find(uint64_t id) {
  const auto at = static_cast<uint32_t>(id);
  if (at >= slots_.size() || slots_[at].uses != id >> 32 || !slots_[at].waits) return nullptr;
  return &slots_[at];
}

Outstanding DatagramFlows::close(Slot& slot) {
  slot.waits = false;
  free_.push_back(static_cast<uint32_t>(&slot - slots_.data()));
  --outstanding_;
  if (--flows_[slot.flow].owed == 0) set_idle(slot.flow);
  return slot.about;
}

void DatagramFlows::expire(Instant now) {
  while (!sent_.empty()) {
    Slot* const slot = find(sent_.front().id);
    if (slot != nullptr && now - sent_.front().at < timeout_) return;
    if (slot != nullptr) events_.on_lost(close(*slot));
    sent_.pop_front();
  }
}

Status DatagramFlows::poll(Instant now) {
  std::array<epoll_event, kEventsPerPoll> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) receive(events[static_cast<size_t>(i)].data.u32);
  expire(now);
  return Done{};
}

void DatagramFlows::abandon() {
  for (Slot& slot : slots_) {
    if (slot.waits) events_.on_lost(close(slot));
  }
}

}  // namespace

std::unique_ptr<Flows> make_datagram_flows(Endpoint endpoint, const LoadOptions& options,
                                           FlowEvents& events) {
  return std::make_unique<DatagramFlows>(std::move(endpoint), options, events);
}

}  // namespace rubato::load
