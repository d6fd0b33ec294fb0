// SPDX-License-Identifier: Apache-2.0
//
// TraceRecorder: writes what the workers of a running server do to a file for Perfetto, in the
// layout of simulated traces (metrics/trace.h), while that is wanted. Times count from the start of
// the trace; a request that had arrived before has 0 there. Events that found no room in a ring, or
// come after the limit, are counted. Borrows the rings. Any thread, but for finish().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "metrics/trace.h"
#include "runtime/recording.h"
#include "runtime/trace_ring.h"

namespace rubato {

struct TraceOptions {
  static constexpr uint64_t kDefaultEvents = 100'000;  // some 9 MB
  static constexpr uint64_t kMostEvents = 1'000'000'000;

  std::string file;                 // empty = there is no recorder
  uint64_t events = kDefaultEvents;  // at which a trace ends
};

class TraceRecorder final : public Recording {
 public:
  // `rings` are those of a runtime (Runtime::trace_rings), of which `type_name` names `types`
  // request types. Nothing is recorded yet.
  TraceRecorder(TraceOptions options, std::vector<TraceRing*> rings, uint32_t types,
                const std::function<std::string(uint32_t)>& type_name);
  ~TraceRecorder() override { close(); }

  struct Counts {
    uint64_t written = 0, dropped = 0;  // events of all traces
  };
  // As of the last look into the rings; waits for no disk.
  Counts counts() const {
    return {written_.load(std::memory_order_relaxed), dropped_.load(std::memory_order_relaxed)};
  }
  void expose(OpenMetrics& out) const override;
  Status finish() override;

 private:
  // A request of which a slice has been seen: where it is, and when it was first given a worker.
  using Key = std::pair<const void*, int64_t>;
  struct Hash {
    size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.first) ^ std::hash<int64_t>()(key.second);
    }
  };

  Status begin() override;
  Status end() override;
  bool collect(Status& error) override;

  void take_records();
  // Those before `until`, in the order of time. The rest waits: rings are not emptied at once.
  void write_depths(Instant until);
  void publish_counts();
  void write(uint32_t worker, const TraceRecord& record);
  uint64_t number_of(const TraceRecord& slice);
  // Closes the file.
  Status complete();
  Instant since_start(Instant at) const { return Instant((at - start_).count()); }
  void want(uint32_t trace);

  const TraceOptions options_;
  const std::vector<TraceRing*> rings_;
  std::vector<std::string> types_;
  std::vector<TraceRecord> batch_;
  std::unique_ptr<Trace> trace_;  // null = nothing is recorded
  uint32_t number_ = 0;           // of the trace; from 1 on
  Instant start_;
  std::unordered_map<Key, uint64_t, Hash> numbers_;  // of requests that have not ended
  std::vector<Key> ended_, ended_before_;  // in this round, and in the one before
  uint64_t requests_ = 0;
  std::vector<TraceRecord> depths_;  // not written yet
  Instant looked_;                   // into the rings last
  // The newest that was written of each queue: name, index.
  std::map<std::pair<const char*, uint32_t>, TraceRecord> newest_;
  Counts complete_;              // of traces that are
  uint64_t dropped_before_ = 0;  // by the rings, before this trace
  std::atomic<uint64_t> written_{0}, dropped_{0};  // relaxed: numbers for a scrape
};

}  // namespace rubato
