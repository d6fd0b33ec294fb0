// SPDX-License-Identifier: Apache-2.0
//
// The frames of Rubato RPC, version 1, as pure functions over bytes; docs/RPC.md lists every byte.
// Any thread. No type here owns memory; a Message points into the bytes it was found in. Integers
// are big-endian. Units: bytes, and microseconds where the name says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rubato::rpc {

inline constexpr uint8_t kMagic0 = 'R';
inline constexpr uint8_t kMagic1 = 'B';
inline constexpr uint8_t kWireVersion = 1;
inline constexpr size_t kHeaderBytes = 24;
inline constexpr size_t kRefusalBytes = 8;          // body of a refusal
inline constexpr size_t kRankBytes = 4;             // before the body of a ranked request
inline constexpr size_t kLoadBytes = 8;             // body of a load
inline constexpr size_t kMaxErrorText = 256;       // body of an error
inline constexpr size_t kMaxDatagramBytes = 1472;  // one Ethernet packet
// Of the token before each frame of a client over UDP.
inline constexpr size_t kTokenBytes = 8;
// Body of a client's frame over UDP.
inline constexpr size_t kMaxDatagramBodyBytes = kMaxDatagramBytes - kTokenBytes - kHeaderBytes;
inline constexpr size_t kMaxBodyBytes = size_t{16} << 20;
inline constexpr uint32_t kMaxDemand = 65535;      // a larger demand counts as this one

enum class Side : uint8_t { kClient, kServer };

enum class Kind : uint8_t {
  // From the client; `amount` is its demand: the requests that it has queued and not sent.
  kHello = 0x01,    // opens the session; with an id, its body is the first request
  kRequest = 0x02,
  kDemand = 0x03,   // nothing but the demand
  kGoodbye = 0x04,  // ends the session
  kRankedRequest = 0x05,  // a request behind its Rank
  kProbe = 0x06,    // asks for the load; `amount` is 0, the id comes back
  // From the server; `amount` is the session's credit: the requests that it may have unanswered.
  kWelcome = 0x81,
  kResponse = 0x82,
  kCredit = 0x83,  // nothing but the credit
  kRefusal = 0x84,  // the request was not run, see RefusalBody
  kError = 0x85,   // `amount` is a Fault; with an id that request failed, else the session is over
  kToken = 0x86,   // over UDP: `id` is the token of the session
  kLoad = 0x87,    // answers a probe, see LoadBody; `amount` = requests inside
  kLevel = 0x88,   // `amount` = how many of the most urgent levels are admitted
};

enum class Fault : uint32_t {
  kNone = 0,
  kMagic = 1,      // not this protocol
  kVersion = 2,    // another version of it
  kKind = 3,       // unknown, or for the other side to send
  kTooLarge = 4,
  kFields = 5,     // a body or an id where none belongs, or none where one belongs
  kNoSession = 6,  // a frame before hello
  kSession = 7,    // another session's number, or a second hello
  kSessions = 8,   // the server has as many sessions as it takes
  kFailed = 9,     // the application failed the request
  kAddress = 10,   // clients of this address are not served
};

// The reason why a request was not run.
enum class Reason : uint8_t {
  kOverloaded = 1,  // other requests have been waiting for too long
  kQueueFull = 2,   // a queue is full, or the server is stopping
  kOverCredit = 4,  // the session has more requests unanswered than its credit
};

// The class of the request in a refusal; 0 = unknown.
inline constexpr uint8_t kShortClass = 1;
inline constexpr uint8_t kLongClass = 2;

struct RefusalBody {
  Reason reason = Reason::kOverloaded;
  uint8_t of_class = 0;
  uint32_t retry_after_us = 0;  // an earlier retry is useless
};

// How urgent a request is: its level is priority * kCohorts + cohort, 0 = the most urgent
// (overload/load_window.h).
struct Rank {
  uint8_t priority = 0;  // 0 .. 7
  uint8_t cohort = 0;    // of its user, 0 .. 127
};
inline constexpr uint8_t kMaxPriority = 7;
inline constexpr uint8_t kMaxCohort = 127;

struct LoadBody {
  uint32_t latency_us = 0;  // that a request would have; 0 = not known
};

struct Message {
  Kind kind = Kind::kHello;
  uint32_t session = 0;
  uint32_t amount = 0;
  uint64_t id = 0;
  std::string_view body;
};

struct Decoded {
  enum class State : uint8_t {
    kComplete,    // `message`, of `length` bytes
    kIncomplete,  // `length` = the bytes of the whole frame, 0 = not known yet
    kMalformed,   // `fault`; the stream cannot be read on
  };
  State state = State::kIncomplete;
  Fault fault = Fault::kNone;
  size_t length = 0;
  Message message;
};

// The first frame of `unread`, which `from` has sent. A fault is reported as soon as the bytes show
// it. The session's number is not checked here.
Decoded decode(std::string_view unread, Side from, size_t max_body_bytes = kMaxBodyBytes);

// The 24 bytes in front of a body of `body_bytes`.
void encode_header(char* to, const Message& message, size_t body_bytes);

template <class Out>  // appends: std::string, ReplyBuffer
void encode(Out& to, const Message& message) {
  char header[kHeaderBytes];
  encode_header(header, message, message.body.size());
  to.append(std::string_view(header, kHeaderBytes));
  if (!message.body.empty()) to.append(message.body);
}

// Encode and decode the token before a client's frame over UDP. `from` has kTokenBytes or more.
void encode_token(char* to, uint64_t token);
uint64_t decode_token(std::string_view from);

// Encode and decode the body of a refusal. A body of another size than kRefusalBytes decodes to the
// defaults.
void encode_refusal(char* to, const RefusalBody& refuse);
RefusalBody decode_refusal(std::string_view body);

// The same for a rank, and a load, whose body has other bytes that are 0. A Rank beyond its ranges
// does not decode; `from` has kRankBytes or more.
void encode_rank(char* to, Rank rank);
std::optional<Rank> decode_rank(std::string_view from);
void encode_load(char* to, const LoadBody& load);
LoadBody decode_load(std::string_view body);

// Text for messages; never null.
const char* to_string(Fault fault);
const char* to_string(Reason reason);

}  // namespace rubato::rpc
