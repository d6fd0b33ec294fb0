// SPDX-License-Identifier: Apache-2.0
#include "rpc/frames.h"

namespace rubato::rpc {
namespace {

// The offsets of the fields in a header.
constexpr size_t kVersionAt = 2;
constexpr size_t kKindAt = 3;
constexpr size_t kBodyBytesAt = 4;
constexpr size_t kSessionAt = 8;
constexpr size_t kAmountAt = 12;
constexpr size_t kIdAt = 16;
// The offsets of the fields in the body of a refusal.
constexpr size_t kReasonAt = 0;
constexpr size_t kClassAt = 1;
constexpr size_t kRetryAt = 4;

template <class T>
T get(std::string_view from, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | static_cast<uint8_t>(from[at + i]));
  }
  return value;
}

template <class T>
void put(char* to, T value) {
  for (size_t i = sizeof(T); i > 0; --i, value = static_cast<T>(value >> 8)) {
    to[i - 1] = static_cast<char>(value & 0xff);
  }
}

bool may_send(Side side, uint8_t kind) {
  if (side == Side::kClient) {
    return kind >= static_cast<uint8_t>(Kind::kHello) &&
           kind <= static_cast<uint8_t>(Kind::kProbe);
  }
  return kind >= static_cast<uint8_t>(Kind::kWelcome) && kind <= static_cast<uint8_t>(Kind::kLevel);
}

// Whether a frame of this kind has the id and the body that it must have, and no other.
bool fields_fit(Kind kind, uint64_t id, size_t body_bytes) {
  switch (kind) {
    case Kind::kHello: return id != 0 || body_bytes == 0;
    case Kind::kRequest:
    case Kind::kResponse: return id != 0;
    case Kind::kRefusal: return id != 0 && body_bytes == kRefusalBytes;
    case Kind::kError: return body_bytes <= kMaxErrorText;
    case Kind::kRankedRequest: return id != 0 && body_bytes >= kRankBytes;
    case Kind::kLoad: return id != 0 && body_bytes == kLoadBytes;
    case Kind::kProbe:
    case Kind::kToken: return id != 0 && body_bytes == 0;
    case Kind::kDemand:
    case Kind::kGoodbye:
    case Kind::kWelcome:
    case Kind::kLevel:
    case Kind::kCredit: return id == 0 && body_bytes == 0;
  }
  return false;
}

Decoded malformed(Fault fault) { return {Decoded::State::kMalformed, fault, 0, {}}; }

}  // namespace

Decoded decode(std::string_view unread, Side from, size_t max_body_bytes) {
  constexpr char kStart[] = {kMagic0, kMagic1};
  for (size_t i = 0; i < sizeof kStart && i < unread.size(); ++i) {
    if (unread[i] != kStart[i]) return malformed(Fault::kMagic);
  }
  if (unread.size() > kVersionAt && static_cast<uint8_t>(unread[kVersionAt]) != kWireVersion) {
    return malformed(Fault::kVersion);
  }
  if (unread.size() > kKindAt && !may_send(from, static_cast<uint8_t>(unread[kKindAt]))) {
    return malformed(Fault::kKind);
  }
  if (unread.size() < kSessionAt) return {};
  const auto kind = static_cast<Kind>(static_cast<uint8_t>(unread[kKindAt]));
  const size_t body_bytes = get<uint32_t>(unread, kBodyBytesAt);
  if (body_bytes > max_body_bytes) return malformed(Fault::kTooLarge);
  const size_t length = kHeaderBytes + body_bytes;
  if (unread.size() < kHeaderBytes) return {Decoded::State::kIncomplete, Fault::kNone, length, {}};
  const uint64_t id = get<uint64_t>(unread, kIdAt);
  if (!fields_fit(kind, id, body_bytes)) return malformed(Fault::kFields);
  if (unread.size() < length) return {Decoded::State::kIncomplete, Fault::kNone, length, {}};
  return {Decoded::State::kComplete,
          Fault::kNone,
          length,
          {kind, get<uint32_t>(unread, kSessionAt), get<uint32_t>(unread, kAmountAt), id,
           unread.substr(kHeaderBytes, body_bytes)}};
}

void encode_header(char* to, const Message& message, size_t body_bytes) {
  to[0] = kMagic0;
  to[1] = kMagic1;
  to[kVersionAt] = kWireVersion;
  to[kKindAt] = static_cast<char>(message.kind);
  put(to + kBodyBytesAt, static_cast<uint32_t>(body_bytes));
  put(to + kSessionAt, message.session);
  put(to + kAmountAt, message.amount);
  put(to + kIdAt, message.id);
}

void encode_token(char* to, uint64_t token) { put(to, token); }

uint64_t decode_token(std::string_view from) { return get<uint64_t>(from, 0); }

void encode_refusal(char* to, const RefusalBody& refuse) {
  to[kReasonAt] = static_cast<char>(refuse.reason);
  to[kClassAt] = static_cast<char>(refuse.of_class);
  put(to + kClassAt + 1, uint16_t{0});
  put(to + kRetryAt, refuse.retry_after_us);
}

RefusalBody decode_refusal(std::string_view body) {
  if (body.size() != kRefusalBytes) return {};
  return {static_cast<Reason>(static_cast<uint8_t>(body[kReasonAt])),
          static_cast<uint8_t>(body[kClassAt]), get<uint32_t>(body, kRetryAt)};
}

void encode_rank(char* to, Rank rank) {
  to[0] = static_cast<char>(rank.priority);
  to[1] = static_cast<char>(rank.cohort);
  put(to + 2, uint16_t{0});
}

std::optional<Rank> decode_rank(std::string_view from) {
  const Rank rank{get<uint8_t>(from, 0), get<uint8_t>(from, 1)};
  if (rank.priority > kMaxPriority || rank.cohort > kMaxCohort) return std::nullopt;
  return rank;
}

void encode_load(char* to, const LoadBody& load) {
  put(to, load.latency_us);
  put(to + sizeof load.latency_us, uint32_t{0});
}

LoadBody decode_load(std::string_view body) {
  if (body.size() != kLoadBytes) return {};
  return {get<uint32_t>(body, 0)};
}

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "no fault";
    case Fault::kMagic: return "this is not Rubato RPC";
    case Fault::kVersion: return "another version of Rubato RPC; here is version 1";
    case Fault::kKind: return "a kind of frame that is unknown, or not yours to send";
    case Fault::kTooLarge: return "a body larger than is taken";
    case Fault::kFields: return "an id or a body where none belongs, or none where one does";
    case Fault::kNoSession: return "no session: hello comes first";
    case Fault::kSession: return "another session's number, or a second hello";
    case Fault::kSessions: return "no more sessions are taken";
    case Fault::kFailed: return "the request failed";
    case Fault::kAddress: return "clients of this address are not served";
  }
  return "a fault of a later version";
}

const char* to_string(Reason reason) {
  switch (reason) {
    case Reason::kOverloaded: return "overloaded";
    case Reason::kQueueFull: return "queue_full";
    case Reason::kOverCredit: return "over_credit";
  }
  return "unknown";
}

}  // namespace rubato::rpc
