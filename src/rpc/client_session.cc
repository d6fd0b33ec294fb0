// SPDX-License-Identifier: Apache-2.0
#include "rpc/client_session.h"

#include <algorithm>
#include <utility>

namespace rubato::rpc {

void ClientSession::submit(uint64_t tag, std::string_view body, Instant now,
                           std::optional<Rank> rank) {
  expire(now);
  const size_t most = kMaxDatagramBodyBytes - (rank ? kRankBytes : 0);
  if (options_.datagrams && body.size() > most) {
    return events_.on_end({tag, Ending::kFailed, "the request does not fit in a datagram", {}});
  }
  if (queue_.size() >= std::max(options_.queue, 1u)) {
    if (!options_.discard_oldest) return events_.on_end({tag, Ending::kOverflowed, {}, {}});
    const uint64_t oldest = queue_.front().tag;
    queue_.pop_front();
    events_.on_end({oldest, Ending::kOverflowed, {}, {}});
  }
  queue_.push_back({tag, now, std::string(body), rank});
}

bool ClientSession::probe(std::string& out) {
  if (state_ != State::kOpen) return false;
  put(out, {Kind::kProbe, options_.session, 0, next_probe_++, {}});
  return true;
}

bool ClientSession::next_frame(std::string& out, Instant now) {
  expire(now);
  drop_withheld(now);
  switch (state_) {
    case State::kNew: return send_first(out, now);
    case State::kGreeted:
      if (!options_.datagrams || now - asked_at_ < options_.repeat) return false;
      asked_at_ = now;
      send(Kind::kHello, out, 0, {});
      return true;
    case State::kOpen: break;
  }
  if (queue_.empty() || sent_.size() >= allowed()) return send_demand(out, now);
  send_request(Kind::kRequest, out, now);
  return true;
}

// The first request goes along with the hello (CoreSync III-A), over UDP with the one that has the
// token. If the queue is empty, or its request has a rank, which a hello has no room for, it goes
// later, and needs no credit all the same.
bool ClientSession::send_first(std::string& out, Instant now) {
  state_ = State::kGreeted;
  asked_at_ = now;
  const bool needs_token = options_.datagrams && token_ == 0;
  if (queue_.empty() || needs_token || queue_.front().rank) {
    send(Kind::kHello, out, 0, {});
  } else {
    send_request(Kind::kHello, out, now);
  }
  return true;
}

void ClientSession::send_request(Kind kind, std::string& out, Instant now) {
  const Queued next = std::move(queue_.front());
  queue_.pop_front();
  sent_.push_back({next_id_++, next.tag, now});
  spent_first_ = true;
  if (!next.rank) return send(kind, out, sent_.back().id, next.body);
  std::string body(kRankBytes, 0);
  encode_rank(body.data(), *next.rank);
  send(Kind::kRankedRequest, out, sent_.back().id, body.append(next.body));
}

// While a request is unanswered, its answer brings the credit, and the next frame brings the exact
// demand. An answer may take long, though, so a demand that was zero is announced at once.
bool ClientSession::send_demand(std::string& out, Instant now) {
  const bool wants = !queue_.empty();
  if (!sent_.empty() && !wants) return false;
  const bool changed = wants != (advertised_demand_ > 0);
  const bool again = wants && options_.datagrams && now - asked_at_ >= options_.repeat;
  if (!changed && !again) return false;
  asked_at_ = now;
  send(Kind::kDemand, out, 0, {});
  return true;
}

void ClientSession::send(Kind kind, std::string& out, uint64_t id, std::string_view body) {
  advertised_demand_ = static_cast<uint32_t>(std::min<size_t>(queue_.size(), kMaxDemand));
  put(out, {kind, options_.session, advertised_demand_, id, body});
}

void ClientSession::put(std::string& out, const Message& message) const {
  if (options_.datagrams) {
    char token[kTokenBytes];
    encode_token(token, token_);
    out.append(token, sizeof token);
  }
  encode(out, message);
}

// The next frame is a hello with the token. A second token would be one that was delayed.
void ClientSession::take_token(uint64_t token) {
  if (!options_.datagrams || state_ != State::kGreeted || token_ != 0) return;
  token_ = token;
  state_ = State::kNew;
}

Status ClientSession::receive(std::string_view bytes, Instant now) {
  std::string_view rest = bytes;
  if (!unread_.empty()) rest = unread_.append(bytes);
  while (!rest.empty()) {
    const Decoded found = decode(rest, Side::kServer, options_.reply_bytes);
    if (found.state == Decoded::State::kIncomplete) break;
    if (found.state == Decoded::State::kMalformed) {
      return Error{std::string("what the server sends is no answer: ") + to_string(found.fault)};
    }
    rest.remove_prefix(found.length);
    if (Status good = take(found.message, now); !good.ok()) return good;
  }
  // `rest` may lie in unread_ itself.
  unread_ = options_.datagrams ? std::string() : std::string(rest);
  expire(now);
  return Done{};
}

Status ClientSession::take(const Message& message, Instant now) {
  // Before the server knows the session's number, its errors have session 0.
  const bool nameless = message.kind == Kind::kError && message.session == 0;
  if (message.session != options_.session && !nameless) return Done{};  // an earlier one's, by UDP
  switch (message.kind) {
    case Kind::kResponse: end_sent(message, Ending::kReply); break;
    case Kind::kRefusal: end_sent(message, Ending::kRefused); break;
    case Kind::kLoad:
      events_.on_load({message.amount, Nanos::micros(decode_load(message.body).latency_us)});
      return Done{};
    case Kind::kLevel:
      heard_.hear(std::clamp<uint32_t>(message.amount, 1, overload::kLevels), now);
      return Done{};
    case Kind::kToken: take_token(message.id); return Done{};
    case Kind::kError:
      if (message.id == 0) {
        return Error{"the server ended the session: " +
                     (message.body.empty() ? std::string(to_string(static_cast<Fault>(
                                                 message.amount)))
                                           : std::string(message.body))};
      }
      end_sent(message, Ending::kFailed);
      return Done{};  // its amount is no credit
    default: break;   // welcome and credit; decode() lets no other through
  }
  state_ = State::kOpen;
  credit_ = message.amount;
  return Done{};
}

void ClientSession::end_sent(const Message& message, Ending ending) {
  const auto at = std::find_if(sent_.begin(), sent_.end(),
                               [&](const Sent& sent) { return sent.id == message.id; });
  if (at == sent_.end()) return;  // given up, or a duplicate
  Ended ended{at->tag, ending, message.body, {}};
  sent_.erase(at);
  if (ending == Ending::kRefused) ended.refuse = decode_refusal(message.body);
  events_.on_end(ended);
}

void ClientSession::poll(Instant now) {
  expire(now);
  if (options_.answer_within <= Nanos()) return;
  while (!sent_.empty() && now - sent_.front().at > options_.answer_within) {
    const uint64_t tag = sent_.front().tag;
    sent_.erase(sent_.begin());
    events_.on_end({tag, Ending::kLost, {}, {}});
  }
}

void ClientSession::expire(Instant now) {
  if (options_.expire <= Nanos()) return;
  while (!queue_.empty() && now - queue_.front().since > options_.expire) {
    const uint64_t tag = queue_.front().tag;
    queue_.pop_front();
    events_.on_end({tag, Ending::kExpired, {}, {}});
  }
}

void ClientSession::drop_withheld(Instant now) {
  if (state_ != State::kOpen || sent_.size() >= allowed()) return;
  while (!queue_.empty() && queue_.front().rank) {
    const Rank rank = *queue_.front().rank;
    const uint64_t tag = queue_.front().tag;
    if (!heard_.withholds(overload::level_of(rank.priority, rank.cohort), now)) return;
    queue_.pop_front();
    events_.on_end({tag, Ending::kWithheld, {}, {}});
  }
}

void ClientSession::lost() {
  heard_ = {};
  state_ = State::kNew;
  spent_first_ = false;
  token_ = 0;
  credit_ = advertised_demand_ = 0;
  unread_.clear();
  for (const Sent& sent : std::exchange(sent_, {})) {
    events_.on_end({sent.tag, Ending::kLost, {}, {}});
  }
}

void ClientSession::abandon() {
  lost();
  for (const Queued& queued : std::exchange(queue_, {})) {
    events_.on_end({queued.tag, Ending::kLost, {}, {}});
  }
}

void ClientSession::leave(std::string& out) {
  if (state_ != State::kNew) put(out, {Kind::kGoodbye, options_.session, 0, 0, {}});
}

}  // namespace rubato::rpc
