// SPDX-License-Identifier: Apache-2.0
#include "load/datagram_flows.h"

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "load/datagram_port.h"
#include "load/idle_flows.h"
#include "load/memcached_parser.h"
#include "mechanism/clock/clock.h"

namespace rubato::load {
namespace {

constexpr size_t kIdBytes = 8;  // in front of every datagram, of either protocol
constexpr size_t kMostSentBytes = 1472;  // of UDP in one Ethernet packet
constexpr Nanos kProbeAgain = Nanos::millis(100);

// A whole reply.
struct Answer {
  uint64_t id = 0;
  std::optional<Outcome> failure;  // none = it is a reply as wished
  std::string text;                // of the failure
};

// How requests and replies of a protocol name each other. Requests have ids of the caller's.
class Dialogue {
 public:
  virtual ~Dialogue() = default;
  virtual std::string_view speaker() const = 0;  // for messages
  virtual std::string_view probe() const = 0;    // a request that does nothing
  // Appends the first kIdBytes of a request's datagram; returns what end() takes. None: as many
  // requests of the flow wait as it has ids.
  virtual std::optional<uint64_t> begin(uint32_t flow, uint64_t id, std::string& datagram) = 0;
  // Nobody waits for the reply any more.
  virtual void end(uint64_t begun) = 0;
  // `datagram` has kIdBytes or more. None: it completes no reply.
  virtual std::optional<Answer> take(uint32_t flow, std::string_view datagram) = 0;
};

// docs/DATAPATHS.md: the id is on the wire.
class SpinDialogue final : public Dialogue {
 public:
  std::string_view speaker() const override { return "take datagrams of serve spin --udp"; }
  std::string_view probe() const override { return "0"; }
  std::optional<uint64_t> begin(uint32_t, uint64_t id, std::string& datagram) override {
    datagram.append(reinterpret_cast<const char*>(&id), kIdBytes);
    return 0;
  }
  void end(uint64_t) override {}
  std::optional<Answer> take(uint32_t, std::string_view datagram) override {
    Answer answer;
    std::memcpy(&answer.id, datagram.data(), kIdBytes);
    const std::string_view text = datagram.substr(kIdBytes);
    if (text == "OK") return answer;
    answer.failure = text == "BUSY" ? Outcome::kRefused : Outcome::kError;
    answer.text = text;
    return answer;
  }
};

// The requests of one socket that wait, by 16-bit numbers that are given in turn, so those in use
// lie close together: in a table that doubles where two meet.
class NumberedReplies {
 public:
  struct Reply {
    uint64_t id = 0;
    std::vector<std::optional<std::string>> parts;
    uint32_t missing = 0;
    uint16_t number = 0;
    bool waits = false;
  };

  // A number that no request waits by, with its reply. Null: there is none.
  Reply* begin() {
    for (uint32_t looks = 0; at(next_).waits;) {
      if (table_.size() < kNumbers) {
        grow();
      } else if (++next_, ++looks == kNumbers) {
        return nullptr;
      }
    }
    Reply& reply = at(next_);
    reply.number = next_++;
    reply.waits = true;
    reply.missing = 0;
    reply.parts.clear();
    return &reply;
  }
  // Null: no request waits by that number.
  Reply* find(uint16_t number) {
    Reply& reply = at(number);
    return reply.waits && reply.number == number ? &reply : nullptr;
  }

 private:
  static constexpr uint32_t kNumbers = 1 << 16;
  static constexpr uint32_t kFirstSize = 16;

  Reply& at(uint16_t number) { return table_[number & (table_.size() - 1)]; }
  void grow() {
    std::vector<Reply> old(2 * table_.size());
    old.swap(table_);
    for (Reply& reply : old) {
      if (reply.waits) at(reply.number) = std::move(reply);
    }
  }

  std::vector<Reply> table_ = std::vector<Reply>(kFirstSize);
  uint16_t next_ = 0;
};

// protocol.txt of memcached 1.6, "UDP protocol": the id has 16 bits, and a reply any number of
// datagrams, in any order. Ids of a socket come again after 65536 requests, but for those that
// still wait.
class MemcachedDialogue final : public Dialogue {
 public:
  std::string_view speaker() const override { return "speak memcached's text protocol over UDP"; }
  std::string_view probe() const override { return "version\r\n"; }

  std::optional<uint64_t> begin(uint32_t flow, uint64_t id, std::string& datagram) override {
    if (flow >= flows_.size()) flows_.resize(flow + 1);
    Reply* const reply = flows_[flow].begin();
    if (reply == nullptr) return {};
    reply->id = id;
    const auto high = static_cast<char>(reply->number >> 8);
    const auto low = static_cast<char>(reply->number);
    const std::array<char, kIdBytes> header{high, low, 0, 0, 0, 1, 0, 0};
    datagram.append(header.data(), header.size());
    return uint64_t{flow} << 16 | reply->number;
  }

  void end(uint64_t begun) override {
    Reply* const reply = flows_[begun >> 16].find(static_cast<uint16_t>(begun));
    if (reply != nullptr) reply->waits = false;
  }

  std::optional<Answer> take(uint32_t flow, std::string_view datagram) override {
    Reply* const reply = flow < flows_.size() ? flows_[flow].find(word_at(datagram, 0)) : nullptr;
    if (reply == nullptr) return {};
    const uint16_t number = word_at(datagram, 2);
    const uint16_t count = word_at(datagram, 4);
    const std::string_view text = datagram.substr(kIdBytes);
    if (reply->parts.empty() && count == 1 && number == 0) return judge(reply->id, {&text, 1});
    if (reply->parts.empty()) {
      reply->parts.resize(count);
      reply->missing = count;
    }
    if (count != reply->parts.size() || number >= count || reply->parts[number]) return {};
    reply->parts[number] = std::string(text);
    if (--reply->missing > 0) return {};
    std::vector<std::string_view> texts;
    for (const std::optional<std::string>& part : reply->parts) texts.emplace_back(*part);
    return judge(reply->id, texts);
  }

 private:
  using Reply = NumberedReplies::Reply;

  static uint16_t word_at(std::string_view bytes, size_t at) {
    return static_cast<uint16_t>(static_cast<uint8_t>(bytes[at]) << 8 |
                                 static_cast<uint8_t>(bytes[at + 1]));
  }

  static Answer judge(uint64_t id, std::span<const std::string_view> parts) {
    MemcachedParser parser;
    auto status = MemcachedParser::Status::kMore;
    size_t left_over = 0;
    for (const std::string_view part : parts) {
      size_t used = 0;
      if (status != MemcachedParser::Status::kMore) break;
      status = parser.feed(part.data(), part.size(), used);
      left_over = part.size() - used;
    }
    Answer answer{.id = id, .failure = {}, .text = {}};
    if (status != MemcachedParser::Status::kReply || left_over > 0) {
      answer.failure = Outcome::kError;
      answer.text = "not one whole reply of memcached's text protocol";
    } else if (parser.is_error()) {
      answer.failure = classify_memcached_error(parser.error_text());
      answer.text = parser.error_text();
    }
    return answer;
  }

  std::vector<NumberedReplies> flows_;
};

std::unique_ptr<Dialogue> make_dialogue(Protocol protocol) {
  if (protocol == Protocol::kMemcachedUdp) return std::make_unique<MemcachedDialogue>();
  return std::make_unique<SpinDialogue>();
}

class DatagramFlows final : public Flows, private DatagramEvents {
 public:
  DatagramFlows(Endpoint endpoint, const LoadOptions& options, FlowEvents& events)
      : name_(endpoint.text),
        events_(events),
        timeout_(options.reply_timeout),
        closed_loop_(options.closed_clients > 0),
        dialogue_(make_dialogue(options.target.protocol)),
        port_(make_datagram_port(std::move(endpoint), options)) {}

  Status open_all(uint32_t count) override;
  // In an open loop any will do: no datagram waits for the one before it.
  uint32_t pick_idle(Prng& prng) override {
    return closed_loop_ ? idle_.pick(prng) : pick_any(prng);
  }
  uint32_t pick_any(Prng& prng) override {
    return prng.below(static_cast<uint32_t>(owed_.size()));
  }
  void send(uint32_t flow, std::string_view bytes, const Outstanding& request) override;
  void push() override { port_->push(); }
  Status poll(Instant now) override;
  void wait(Nanos limit) override { port_->wait(limit); }
  uint64_t outstanding() const override { return outstanding_; }
  uint64_t lost_here() const override { return port_->lost(); }
  void abandon() override;

 private:
  // A request by its slot; its id is the slot and the number of its uses, so that a late or doubled
  // reply answers nothing.
  struct Slot {
    Outstanding about;
    uint64_t begun = 0;  // of the dialogue
    uint32_t flow = 0;
    uint32_t uses = 0;
    bool waits = false;
  };
  struct Sent {
    Instant at;
    uint64_t id = 0;
  };

  Status probe();
  void on_datagram(uint32_t flow, std::string_view datagram, Instant at) override;
  void on_unreachable(uint32_t) override {}  // then no reply comes
  Slot* find(uint64_t id);
  Outstanding close(Slot& slot);
  void expire(Instant now);

  const std::string name_;  // of the target
  FlowEvents& events_;
  const Nanos timeout_;
  const bool closed_loop_;
  const std::unique_ptr<Dialogue> dialogue_;
  const std::unique_ptr<DatagramPort> port_;
  std::vector<uint32_t> owed_;  // replies, by flow
  IdleFlows idle_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::deque<Sent> sent_;  // in the order of sending
  uint64_t outstanding_ = 0;
  std::string message_;
  bool answers_ = false;  // something has come back
};

Status DatagramFlows::open_all(uint32_t count) {
  if (Status opened = port_->open(count); !opened) return opened;
  owed_.resize(count);
  idle_.start(count);
  for (uint32_t i = 0; i < count; ++i) idle_.add(i);
  return probe();
}

// Until an answer comes, to whichever.
Status DatagramFlows::probe() {
  std::string message;
  dialogue_->end(*dialogue_->begin(0, ~uint64_t{0}, message));
  message += dialogue_->probe();
  const Instant limit = rubato::now() + kConnectTimeout;
  while (rubato::now() < limit) {
    static_cast<void>(port_->send(0, message));
    port_->push();
    port_->wait(kProbeAgain);
    port_->receive(*this);
    if (answers_) return Done{};
  }
  return Error{name_ + " does not answer: does it " + std::string(dialogue_->speaker()) +
               "?"};
}

void DatagramFlows::send(uint32_t index, std::string_view bytes, const Outstanding& request) {
  if (bytes.size() > kMostSentBytes - kIdBytes) {
    return events_.on_failed(request, Outcome::kError, "the request does not fit in a datagram");
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t at = free_.back();
  Slot& slot = slots_[at];
  const uint64_t id = uint64_t{++slot.uses} << 32 | at;
  message_.clear();
  const std::optional<uint64_t> begun = dialogue_->begin(index, id, message_);
  if (!begun) {
    return events_.on_failed(request, Outcome::kError, "every id of the socket waits for a reply");
  }
  free_.pop_back();
  slot.about = request;
  slot.begun = *begun;
  slot.flow = index;
  slot.waits = true;
  message_.append(bytes);
  ++outstanding_;
  ++owed_[index];
  idle_.remove(index);
  sent_.push_back({rubato::now(), id});
  // What the socket has no room for, and what nobody listens for, is lost.
  static_cast<void>(port_->send(index, message_));
}

void DatagramFlows::on_datagram(uint32_t index, std::string_view datagram, Instant at) {
  if (datagram.size() < kIdBytes) return;
  answers_ = true;
  const std::optional<Answer> answer = dialogue_->take(index, datagram);
  Slot* const slot = answer ? find(answer->id) : nullptr;
  if (slot == nullptr) return;
  const Outstanding request = close(*slot);
  if (!answer->failure) return events_.on_reply(request, at);
  events_.on_failed(request, *answer->failure, answer->text);
}

// Null: the request of that id has its reply already, or there was none.
DatagramFlows::Slot* DatagramFlows::find(uint64_t id) {
  const auto at = static_cast<uint32_t>(id);
  if (at >= slots_.size() || slots_[at].uses != id >> 32 || !slots_[at].waits) return nullptr;
  return &slots_[at];
}

Outstanding DatagramFlows::close(Slot& slot) {
  slot.waits = false;
  dialogue_->end(slot.begun);
  free_.push_back(static_cast<uint32_t>(&slot - slots_.data()));
  --outstanding_;
  if (--owed_[slot.flow] == 0) idle_.add(slot.flow);
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
  port_->receive(*this);
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
