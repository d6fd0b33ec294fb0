// SPDX-License-Identifier: Apache-2.0
#include "load/flow_set.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "load/request_source.h"
#include "mechanism/clock/clock.h"

namespace rubato::load {
namespace {

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Outstanding OutstandingFifo::pop() {
  const Outstanding first = items_[head_++];
  if (head_ == items_.size()) {
    items_.clear();
    head_ = 0;
  } else if (head_ >= kCompactFrom && head_ * 2 > items_.size()) {
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  return first;
}

FlowSet::FlowSet(Endpoint endpoint, const LoadOptions& options, FlowEvents& events)
    : endpoint_(std::move(endpoint)),
      protocol_(options.target.protocol),
      tls_(options.tls),
      events_(events),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      buffer_(std::make_unique<char[]>(kReceiveBytes)) {
  if (!options.password.empty()) append_command(auth_, {"AUTH", options.password});
}

FlowSet::~FlowSet() = default;

Status FlowSet::open_all(uint32_t count) {
  allow_files(count);
  if (!epoll_.open()) return Error{std::string("cannot create an epoll: ") + std::strerror(errno)};
  flows_.resize(count);
  idle_.start(count);
  for (uint32_t i = 0; i < count; ++i) {
    Result<Channel> channel = connect_channel(endpoint_, tls_, kConnectTimeout);
    if (!channel) return Error{channel.error()};
    flows_[i].channel = std::move(*channel);
    flows_[i].parser = ReplyReader(protocol_);
    if (!watch(i, true))
      return Error{std::string("cannot watch a socket: ") + std::strerror(errno)};
    ready(i);
  }
  return Done{};
}

bool FlowSet::watch(uint32_t index, bool add) {
  const Flow& flow = flows_[index];
  epoll_event event{};
  event.events = EPOLLIN;
  if (flow.state == State::kConnecting || !flow.unsent.empty()) event.events |= EPOLLOUT;
  event.data.u32 = index;
  const int operation = add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  return ::epoll_ctl(epoll_.get(), operation, flow.channel.fd(), &event) == 0;
}

// The connection stands: it sends AUTH, or takes requests at once.
void FlowSet::ready(uint32_t index) {
  flows_[index].state = State::kReady;
  if (auth_.empty()) {
    idle_.add(index);
  } else {
    send(index, auth_, {.due = {}, .service = {}, .type = 0, .measured = false, .setup = true});
  }
}

uint32_t FlowSet::pick_idle(Prng& prng) {
  return idle_.pick(prng);
}

uint32_t FlowSet::pick_any(Prng& prng) {
  const uint32_t count = static_cast<uint32_t>(flows_.size());
  const uint32_t first = prng.below(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t index = first + i < count ? first + i : first + i - count;
    if (flows_[index].state == State::kReady) return index;
  }
  return kNoFlow;
}

void FlowSet::send(uint32_t index, std::string_view bytes, const Outstanding& request) {
  Flow& flow = flows_[index];
  idle_.remove(index);
  flow.waiting.push(request);
  ++outstanding_;
  if (!flow.unsent.empty()) {
    flow.unsent.append(bytes);
    return;
  }
  const ssize_t sent = flow.channel.send(bytes);
  if (sent == static_cast<ssize_t>(bytes.size())) return;
  // A dead connection shows up in the next poll, which then accounts for the request.
  if (sent < 0 && !would_block()) return;
  flow.unsent.assign(bytes.substr(sent > 0 ? static_cast<size_t>(sent) : 0));
  watch(index, false);
}

void FlowSet::flush(uint32_t index) {
  Flow& flow = flows_[index];
  const ssize_t sent = flow.channel.send(flow.unsent);
  if (sent < 0) {
    if (!would_block()) close_flow(index);
    return;
  }
  flow.unsent.erase(0, static_cast<size_t>(sent));
  if (flow.unsent.empty()) watch(index, false);
}

void FlowSet::close_flow(uint32_t index) {
  Flow& flow = flows_[index];
  if (flow.state == State::kReady) events_.on_closed();
  idle_.remove(index);
  if (!flow.channel.failure().empty()) {
    last_notice_ = "TLS: " + std::string(flow.channel.failure());
  }
  drop(flow);
  if (++flow.reconnects > kMaxReconnects) {
    ++gone_;
    flow.retry_at = Instant::never();
    return;
  }
  ++down_;
  flow.retry_at = now_ + kReconnectPause;
}

void FlowSet::drop(Flow& flow) {
  flow.channel.close();
  flow.state = State::kDown;
  flow.parser = ReplyReader(protocol_);
  flow.unsent.clear();
  while (!flow.waiting.empty()) {
    const Outstanding request = flow.waiting.pop();
    --outstanding_;
    if (!request.setup) events_.on_lost(request);
  }
}

void FlowSet::renew(uint32_t index) {
  idle_.remove(index);
  drop(flows_[index]);
  reconnect(index);
}

void FlowSet::reconnect(uint32_t index) {
  Flow& flow = flows_[index];
  flow.channel = Channel(begin_connect(endpoint_), tls_);
  flow.state = State::kConnecting;
  if (!flow.channel.open() || !watch(index, true)) close_flow(index);
}

void FlowSet::reconnect_due(Instant now) {
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    Flow& flow = flows_[i];
    if (flow.state != State::kDown || flow.retry_at > now) continue;
    --down_;
    reconnect(i);
  }
}

void FlowSet::connected(uint32_t index) {
  Result<bool> stands = flows_[index].channel.stands();
  if (!stands) return close_flow(index);
  if (!*stands) return;
  ready(index);
  if (flows_[index].state == State::kReady) watch(index, false);
}

void FlowSet::take_reply(Flow& flow, Instant at) {
  if (flow.waiting.empty()) {
    // Redis and memcached send a connection beyond their limit an error that answers no request,
    // then close it.
    last_notice_ = std::string(flow.parser.error_text());
    return;
  }
  const Outstanding request = flow.waiting.pop();
  --outstanding_;
  if (!request.setup) flow.reconnects = 0;
  if (!request.setup) {
    if (!flow.parser.is_error()) return events_.on_reply(request, at);
    events_.on_failed(request, flow.parser.outcome(), flow.parser.error_text());
  } else if (flow.parser.is_error()) {
    fatal_ = "the server refused the password: " + std::string(flow.parser.error_text());
  }
}

void FlowSet::consume(uint32_t index, const char* data, size_t size, Instant at) {
  Flow& flow = flows_[index];
  while (size > 0) {
    size_t used = 0;
    const ReplyReader::Status status = flow.parser.feed(data, size, used);
    if (status == ReplyReader::Status::kBroken) {
      fatal_ = "what " + endpoint_.text + " sends is not " + std::string(flow.parser.protocol()) +
               ": is this the right port?";
      return;
    }
    if (status == ReplyReader::Status::kReply) {
      take_reply(flow, at);
      if (flow.parser.closes()) return renew(index);
    }
    data += used;
    size -= used;
  }
  if (flow.waiting.empty() && !idle_.has(index)) idle_.add(index);
}

// Receives one bounded piece: the reply of a scan, a megabyte perhaps, must not keep this thread
// from sending the requests that fall due meanwhile. The rest stays readable for the next poll().
void FlowSet::receive(uint32_t index) {
  Channel& channel = flows_[index].channel;
  const ssize_t got = channel.receive(buffer_.get(), kReceiveBytes);
  if (got == 0 && flows_[index].parser.end_of_stream()) {
    take_reply(flows_[index], rubato::now());
    return renew(index);
  }
  if (got == 0 || (got < 0 && !would_block())) return close_flow(index);
  if (channel.holds_more()) unread_.push_back(index);
  if (got > 0) consume(index, buffer_.get(), static_cast<size_t>(got), rubato::now());
}

void FlowSet::receive_rest() {
  for (const uint32_t index : std::exchange(unread_, {})) {
    if (flows_[index].state == State::kReady && flows_[index].channel.holds_more()) receive(index);
  }
}

Status FlowSet::poll(Instant now) {
  now_ = now;
  if (down_ > 0) reconnect_due(now);
  if (!unread_.empty()) receive_rest();
  std::array<epoll_event, kEventsPerPoll> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count && fatal_.empty(); ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    const uint32_t index = event.data.u32;
    if (flows_[index].state == State::kConnecting) {
      connected(index);
      continue;
    }
    if ((event.events & EPOLLOUT) != 0 && !flows_[index].unsent.empty()) flush(index);
    const bool readable = (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    if (readable && flows_[index].state == State::kReady) receive(index);
  }
  if (!fatal_.empty()) return Error{fatal_};
  if (gone_ == flows_.size()) {
    const std::string why = last_notice_.empty() ? "" : " (it said: " + last_notice_ + ")";
    return Error{endpoint_.text + " closed every connection, and reconnecting failed" + why};
  }
  return Done{};
}

void FlowSet::abandon() {
  for (Flow& flow : flows_) {
    while (!flow.waiting.empty()) {
      const Outstanding request = flow.waiting.pop();
      --outstanding_;
      if (!request.setup) events_.on_lost(request);
    }
  }
}

}  // namespace rubato::load
