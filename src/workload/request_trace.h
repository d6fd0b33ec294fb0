// SPDX-License-Identifier: Apache-2.0
//
// RequestTrace: every request of a stretch of time, as a live server recorded them (`rubato serve
// --record FILE`) or a text lists them, and its file form rubato.trace/1, which docs/TRACES.md
// explains byte by byte. TraceEncoder writes that form, RequestTrace checks and indexes its bytes,
// TraceCursor reads the requests by their arrival. Pure functions of bytes: no file is known here.
//
// A server knows the service time of a request only at its end, so a file has requests in an order
// near that of their ends: each chunk has its own ordered by arrival, and a cursor merges the
// chunks that overlap. Its memory is 32 bytes per chunk of some thousand requests, and a decoder
// for each chunk that is open at a moment: those since the oldest request that then was in service.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "workload/mix.h"

namespace rubato {

struct RecordedRequest {
  Nanos at = Nanos();       // of the arrival, on any line; 0 or later
  Nanos service = Nanos();  // time on workers; at least 1 ns, of a refused request 0
  uint32_t type = 0;
  uint64_t flow = 0;
  Nanos latency = Nanos();  // from arrival to reply; 0 = unknown
  bool refused = false;
};

// The chunk form that both directions share.
namespace trace_form {
inline constexpr std::string_view kMagic = "RUBATRC1";
inline constexpr size_t kChunkHead = 12;         // kind and three zeros, length, CRC-32 of the rest
inline constexpr size_t kMostPayload = 1 << 20;  // longer chunks are refused
inline constexpr uint32_t kMostTypes = 4096;
inline constexpr size_t kMostName = 200;
inline constexpr int64_t kLatestNs = int64_t{1} << 62;
enum class Kind : uint8_t { kTypes = 'T', kRequests = 'R', kDropped = 'D' };
}  // namespace trace_form

class TraceEncoder {
 public:
  static constexpr size_t kChunkRequests = 4096;

  // The start of a file: what every trace begins with, and the names of types 0, 1, ...
  static std::string begin(const std::vector<std::string>& types);

  // Requires request.type < types, and times of 0 up to trace_form::kLatestNs.
  void add(const RecordedRequest& request) { waiting_.push_back(request); }
  size_t waiting() const { return waiting_.size(); }

  // The requests added since, as chunks; nothing if there are none.
  std::string take();

  // A chunk that says how many requests are missing at this place of the file.
  static std::string dropped(uint64_t count);

 private:
  std::vector<RecordedRequest> waiting_;
};

class RequestTrace {
 public:
  struct Type {
    std::string name;
    uint64_t served = 0, refused = 0;
    double service_ns = 0;               // of the served ones in all
    std::vector<ServiceBucket> service;  // within 4 %
  };

  // The requests of a file. `bytes` must stay as they are for as long as the trace, which keeps
  // `owner` alive. Takes time in proportion to their number: every chunk is checked. A file that
  // ends within a chunk is one that is still written: what is whole counts, and cut() tells.
  // Fails with one line that names the byte.
  static Result<std::shared_ptr<const RequestTrace>> parse(std::string_view bytes,
                                                           std::shared_ptr<const void> owner = {});

  // The same from requests in memory, whose types index `types`. Fails with one line that names the
  // request.
  static Result<std::shared_ptr<const RequestTrace>> of(const std::vector<RecordedRequest>& all,
                                                        const std::vector<std::string>& types);

  const std::vector<Type>& types() const { return types_; }
  uint64_t requests() const { return requests_; }  // refused ones included
  uint64_t refused() const { return refused_; }
  uint64_t dropped() const { return dropped_; }
  uint64_t flows() const { return flows_; }  // about how many there are, 1 or more
  bool cut() const { return cut_; }
  Nanos first() const { return first_; }
  Nanos last() const { return last_; }
  // From the first arrival to where the next would come, a mean gap after the last.
  Nanos span() const { return last_ - first_ + gap_; }
  double rate_rps() const;         // of the arrivals; means nothing if all came at one time
  double mean_service_ns() const;  // of served requests

 private:
  friend class TraceCursor;

  struct Chunk {
    size_t begin, end;  // of its requests, in the bytes
    Nanos first, last;  // arrivals
  };

  Status read_chunks();
  Status read_types(std::string_view payload);
  Status read_requests(std::string_view payload, size_t place);
  void count(const RecordedRequest& request);
  void finish();

  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
  std::vector<Type> types_;
  std::vector<std::vector<uint64_t>> counts_;  // while reading: of each type, by bucket
  std::vector<uint64_t> flow_marks_;           // while reading: a bit for each hash of a flow
  std::vector<Chunk> chunks_;                  // by first arrival
  std::vector<Nanos> last_until_;              // the latest arrival in chunks up to here
  uint64_t requests_ = 0, refused_ = 0, dropped_ = 0, flows_ = 1;
  bool cut_ = false;
  Nanos first_, last_, gap_;
};

// The requests of a trace from an arrival on. Requests of the same arrival come in the order of the
// file. One owner.
class TraceCursor {
 public:
  explicit TraceCursor(std::shared_ptr<const RequestTrace> trace);

  // Goes to the first request that arrived at `from` or later.
  void seek(Nanos from);
  // Nothing = the trace is over.
  std::optional<RecordedRequest> next();

 private:
  struct Open {
    RecordedRequest request;
    size_t chunk;     // of equal arrivals the one first in the file goes first
    size_t position;  // in the bytes, behind the request
  };

  void open(size_t chunk, Nanos from);
  bool advance(Open& open) const;

  std::shared_ptr<const RequestTrace> trace_;
  std::vector<Open> open_;  // a heap, the earliest on top
  size_t next_chunk_ = 0;
};

// Makes a mix of the types that a trace has, by name, with their shares and service times. If there
// are over Mix::kMaxTypes, the rarest become kOtherTypes. Requires a trace with served requests.
inline constexpr const char* kOtherTypes = "(others)";
Mix mix_of(const RequestTrace& trace, const std::string& name);

}  // namespace rubato
