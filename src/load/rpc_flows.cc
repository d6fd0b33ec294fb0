// SPDX-License-Identifier: Apache-2.0
#include "load/rpc_flows.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "load/channel.h"
#include "load/datagram_port.h"
#include "load/idle_flows.h"
#include "load/reply_parser.h"
#include "mechanism/clock/clock.h"
#include "rpc/client_session.h"

namespace rubato::load {
namespace {

using rpc::Ended;
using rpc::Ending;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// As send on a socket.
ssize_t send_datagram(DatagramPort& port, uint32_t flow, std::string_view bytes) {
  const DatagramPort::Sent sent = port.send(flow, bytes);
  if (sent == DatagramPort::Sent::kTaken) return static_cast<ssize_t>(bytes.size());
  errno = sent == DatagramPort::Sent::kFull ? EAGAIN : ECONNREFUSED;
  return -1;
}

class RpcFlows final : public Flows, private rpc::ClientEvents, private DatagramEvents {
 public:
  RpcFlows(Endpoint endpoint, const LoadOptions& options, FlowEvents& events)
      : endpoint_(std::move(endpoint)),
        tls_(options.tls),
        events_(events),
        users_(Prng(options.seed).next()),
        probe_prng_(options.seed),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        buffer_(std::make_unique<char[]>(kReceiveBytes)) {
    client_.queue = options.rpc_queue;
    client_.expire = options.rpc_expire;
    client_.answer_within = options.reply_timeout;
    client_.datagrams = over_udp(options.target.protocol);
    if (client_.datagrams) port_ = make_datagram_port(endpoint_, options);
    resp_ = !spins(options.target);
    closed_loop_ = options.closed_clients > 0;
    priorities_ = options.priorities;
  }

  Status open_all(uint32_t count) override;
  uint32_t pick_idle(Prng& prng) override;
  uint32_t pick_any(Prng& prng) override {
    return prng.below(static_cast<uint32_t>(flows_.size()));
  }
  void send(uint32_t flow, std::string_view bytes, const Outstanding& request) override;
  void ask_load() override;
  void push() override {
    if (port_) port_->push();
  }
  Status poll(Instant now) override;
  // Queued requests may expire meanwhile.
  void wait(Nanos limit) override {
    limit = std::min(limit, kExpiryLook);
    port_ ? port_->wait(limit) : nap_until_readable(epoll_, limit);
  }
  uint64_t outstanding() const override { return requests_.size() - free_.size(); }
  uint64_t lost_here() const override { return port_ ? port_->lost() : 0; }
  void abandon() override;

 private:
  enum class State : uint8_t { kConnecting, kReady, kDown };
  struct Flow {
    Channel channel;  // TCP
    std::unique_ptr<rpc::ClientSession> session;
    std::string unsent;  // bytes for which there was no room
    State state = State::kDown;
    uint32_t to_probe = 0;         // probes that have not left
    uint32_t owed = 0;             // requests whose end the session has not reported
    uint32_t reconnects = 0;
    Instant retry_at = Instant::never();
  };

  struct Request {
    Outstanding about;
    uint32_t flow = 0;
  };

  void on_end(const Ended& ended) override;
  void on_load(const overload::ServerLoad& load) override { events_.on_load(load); }
  void on_datagram(uint32_t flow, std::string_view bytes, Instant at) override;
  void on_unreachable(uint32_t flow) override;
  Status open_channel(uint32_t index);
  Status await_welcome();
  bool watch(uint32_t index, bool add);
  void push(uint32_t index);
  bool push_out(uint32_t index);
  void receive(uint32_t index);
  void receive_all();
  bool take(uint32_t index, std::string_view bytes);
  void close(uint32_t index);
  void look_after(uint32_t index);

  static constexpr size_t kReceiveBytes = 64 * 1024;
  static constexpr size_t kSendTogetherBytes = 16 * 1024;
  static constexpr int kEventsPerPoll = 64;
  static constexpr Nanos kExpiryLook = Nanos::micros(200);
  static constexpr uint32_t kLooksPerPoll = 64;  // at sessions whose time may have passed

  Endpoint endpoint_;
  TlsConnector* const tls_;
  FlowEvents& events_;
  std::vector<uint8_t> priorities_;  // by type; empty = requests have no rank
  const uint64_t users_;             // each flow is a user
  Prng probe_prng_;
  Fd epoll_;
  std::unique_ptr<DatagramPort> port_;  // UDP
  rpc::ClientOptions client_;
  std::vector<Flow> flows_;
  bool resp_ = false;  // replies are RESP, and may be errors
  bool closed_loop_ = false;
  IdleFlows idle_;
  std::vector<Request> requests_;  // by tag
  std::vector<uint64_t> free_;     // tags
  std::unique_ptr<char[]> buffer_;
  uint32_t next_look_ = 0;
  uint32_t gone_ = 0;
  Instant now_;
  std::string last_error_;
};

Status RpcFlows::open_all(uint32_t count) {
  allow_files(count);
  if (!epoll_.open()) return Error{std::string("cannot create an epoll: ") + std::strerror(errno)};
  if (Status opened = port_ ? port_->open(count) : Status(Done{}); !opened) return opened;
  now_ = rubato::now();
  flows_.resize(count);
  idle_.start(count);
  for (uint32_t i = 0; i < count; ++i) {
    Flow& flow = flows_[i];
    rpc::ClientOptions options = client_;
    options.session = i + 1;
    flow.session = std::make_unique<rpc::ClientSession>(options, static_cast<ClientEvents&>(*this));
    if (Status opened = port_ ? Status(Done{}) : open_channel(i); !opened) return opened;
    flow.state = State::kReady;
    push(i);
    idle_.add(i);
  }
  return await_welcome();
}

Status RpcFlows::open_channel(uint32_t index) {
  Result<Channel> channel = connect_channel(endpoint_, tls_, kConnectTimeout);
  if (!channel) return Error{channel.error()};
  flows_[index].channel = std::move(*channel);
  if (watch(index, true)) return Done{};
  return Error{std::string("cannot watch a socket: ") + std::strerror(errno)};
}

// Waits until the first flow is welcomed. A server of another protocol may take the bytes and never
// answer.
Status RpcFlows::await_welcome() {
  const Instant limit = now_ + kConnectTimeout;
  while (!flows_.front().session->open()) {
    if (Status polled = poll(rubato::now()); !polled) return polled;
    if (now_ < limit) {
      wait(kExpiryLook);
      continue;
    }
    return Error{endpoint_.text + " welcomes no session: does it speak Rubato RPC?" +
                 (last_error_.empty() ? "" : " (" + last_error_ + ")")};
  }
  return Done{};
}

// In an open loop a session queues requests itself, so any session will do.
uint32_t RpcFlows::pick_idle(Prng& prng) {
  return closed_loop_ ? idle_.pick(prng) : pick_any(prng);
}

bool RpcFlows::watch(uint32_t index, bool add) {
  const Flow& flow = flows_[index];
  epoll_event event{};
  event.events = EPOLLIN;
  if (flow.state == State::kConnecting || !flow.unsent.empty()) event.events |= EPOLLOUT;
  event.data.u32 = index;
  return ::epoll_ctl(epoll_.get(), add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, flow.channel.fd(),
                     &event) == 0;
}

void RpcFlows::send(uint32_t index, std::string_view bytes, const Outstanding& request) {
  uint64_t tag = requests_.size();
  if (free_.empty()) {
    requests_.push_back({request, index});
  } else {
    tag = free_.back();
    free_.pop_back();
    requests_[tag] = {request, index};
  }
  now_ = rubato::now();
  idle_.remove(index);
  ++flows_[index].owed;
  std::optional<rpc::Rank> rank;
  if (!priorities_.empty()) {
    const uint32_t cohort = overload::cohort_of(users_ + index, now_);
    rank = rpc::Rank{priorities_[request.type], static_cast<uint8_t>(cohort)};
  }
  flows_[index].session->submit(tag, bytes, now_, rank);
  push(index);
}

// On a session that owes nothing, if there is one: over a key-value server others keep its order.
void RpcFlows::ask_load() {
  const uint32_t idle = idle_.pick(probe_prng_);
  const uint32_t index = idle != kNoFlow ? idle : pick_any(probe_prng_);
  ++flows_[index].to_probe;
  push(index);
}

void RpcFlows::on_end(const Ended& ended) {
  const auto [request, index] = requests_[ended.tag];
  free_.push_back(ended.tag);
  if (--flows_[index].owed == 0) idle_.add(index);
  switch (ended.ending) {
    case Ending::kReply: {
      if (!resp_ || !ended.body.starts_with('-')) return events_.on_reply(request, now_);
      const std::string_view text = ended.body.substr(1, ended.body.find('\r') - 1);
      return events_.on_failed(request, classify_error(text), text);
    }
    case Ending::kRefused:
      return events_.on_failed(request, Outcome::kRefused, rpc::to_string(ended.refuse.reason));
    case Ending::kFailed: return events_.on_failed(request, Outcome::kError, ended.body);
    case Ending::kExpired: return events_.on_failed(request, Outcome::kExpired, {});
    case Ending::kOverflowed: return events_.on_failed(request, Outcome::kOverflowed, {});
    case Ending::kWithheld: return events_.on_failed(request, Outcome::kWithheld, {});
    case Ending::kLost: return events_.on_lost(request);
  }
}

// Sends the frames that the session has now.
void RpcFlows::push(uint32_t index) {
  Flow& flow = flows_[index];
  if (flow.state != State::kReady) return;
  const bool waited = !flow.unsent.empty();
  if (!push_out(index)) return close(index);
  if (!port_ && waited != !flow.unsent.empty()) watch(index, false);
}

// False: the connection is gone. A frame that a datagram has no room for stays whole; over TCP
// frames leave together.
bool RpcFlows::push_out(uint32_t index) {
  Flow& flow = flows_[index];
  for (;;) {
    if (flow.unsent.empty() && flow.to_probe > 0 && flow.session->probe(flow.unsent)) {
      --flow.to_probe;
    }
    if (flow.unsent.empty() || !port_) {
      while (flow.session->next_frame(flow.unsent, now_)) {
        if (port_ || flow.unsent.size() >= kSendTogetherBytes) break;
      }
    }
    if (flow.unsent.empty()) return true;
    const ssize_t sent = port_ ? send_datagram(*port_, index, flow.unsent)
                               : flow.channel.send(flow.unsent);
    if (sent < 0) return would_block();
    flow.unsent.erase(0, static_cast<size_t>(sent));
  }
}

void RpcFlows::receive(uint32_t index) {
  Flow& flow = flows_[index];
  do {
    const ssize_t got = flow.channel.receive(buffer_.get(), kReceiveBytes);
    if (got < 0 && would_block()) return;
    if (got <= 0) return close(index);
    now_ = rubato::now();
    if (!take(index, {buffer_.get(), static_cast<size_t>(got)})) return;
  } while (flow.state == State::kReady && flow.channel.holds_more());
}

// False: the session is over.
bool RpcFlows::take(uint32_t index, std::string_view bytes) {
  const Status good = flows_[index].session->receive(bytes, now_);
  if (good.ok()) {
    push(index);
    return true;
  }
  last_error_ = good.error();
  close(index);
  return false;
}

// What comes after the end of a session is for that one.
void RpcFlows::on_datagram(uint32_t index, std::string_view bytes, Instant at) {
  if (flows_[index].state != State::kReady) return;
  now_ = at;
  static_cast<void>(take(index, bytes));
}

void RpcFlows::on_unreachable(uint32_t index) {
  if (flows_[index].state == State::kReady) close(index);
}

void RpcFlows::close(uint32_t index) {
  Flow& flow = flows_[index];
  if (flow.state == State::kReady) events_.on_closed();
  if (!flow.channel.failure().empty()) {
    last_error_ = "TLS: " + std::string(flow.channel.failure());
  }
  flow.channel.close();
  flow.unsent.clear();
  flow.to_probe = 0;
  flow.state = State::kDown;
  flow.session->lost();
  const bool again = ++flow.reconnects <= kMaxReconnects;
  if (!again) ++gone_;
  flow.retry_at = again ? now_ + kReconnectPause : Instant::never();
}

// Handles the passing of time: requests expire, answers are overdue, a connection is tried again.
void RpcFlows::look_after(uint32_t index) {
  Flow& flow = flows_[index];
  flow.session->poll(now_);
  if (flow.state == State::kDown && now_ >= flow.retry_at) {
    flow.state = port_ ? State::kReady : State::kConnecting;
    if (!port_) {
      flow.channel = Channel(begin_connect(endpoint_), tls_);
      if (!flow.channel.open() || !watch(index, true)) close(index);
    }
  }
  push(index);
}

void RpcFlows::receive_all() {
  if (port_) return port_->receive(*this);
  std::array<epoll_event, kEventsPerPoll> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    const uint32_t index = event.data.u32;
    Flow& flow = flows_[index];
    if (flow.state == State::kConnecting) {
      Result<bool> stands = flow.channel.stands();
      if (!stands) close(index);
      if (!stands || !*stands) continue;
      flow.state = State::kReady;
      watch(index, false);
    }
    if ((event.events & EPOLLOUT) != 0) push(index);
    if ((event.events & ~EPOLLOUT) != 0 && flow.state == State::kReady) receive(index);
  }
}

Status RpcFlows::poll(Instant now) {
  now_ = now;
  receive_all();
  for (uint32_t i = 0; i < kLooksPerPoll && i < flows_.size(); ++i) {
    if (++next_look_ >= flows_.size()) next_look_ = 0;
    look_after(next_look_);
  }
  if (gone_ < flows_.size()) return Done{};
  const std::string why = last_error_.empty() ? "" : " (" + last_error_ + ")";
  return Error{endpoint_.text + " closed every connection, and reconnecting failed" + why};
}

void RpcFlows::abandon() {
  for (Flow& flow : flows_) flow.session->abandon();
}

}  // namespace

std::unique_ptr<Flows> make_rpc_flows(Endpoint endpoint, const LoadOptions& options,
                                      FlowEvents& events) {
  return std::make_unique<RpcFlows>(std::move(endpoint), options, events);
}

}  // namespace rubato::load
