// SPDX-License-Identifier: Apache-2.0
//
// BatchRecorder: the latency and slowdown of measured requests, per true type, in batches of
// equally many arrivals. Its memory does not depend on the length of the run. One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "sim/batch.h"
#include "sim/recorder.h"
#include "sim/request.h"
#include "sim/simulation.h"

namespace rubato::sim {

class BatchRecorder {
 public:
  // A cell is of so many measured arrivals at first.
  BatchRecorder(size_t types, uint64_t cell_length)
      : recorder_(types), cell_length_(std::max<uint64_t>(cell_length, 1)) {}

  Recorder& now() { return recorder_; }

  // The measured arrivals with which the next cell ends; 1 at first, where the first one begins.
  uint64_t due() const { return due_; }

  // A cell has ended. `progress`, which looks at every worker, is called where a batch begins or
  // ends only. Returns the number of batches if that ended a batch, else 0.
  template <class GetProgress>
  size_t end_cell(const GetProgress& progress) {
    if (!begun_) return begin(progress()), 0;
    add_cell();
    due_ += cell_length_;
    if (cells_.size() < kCellsPerBatch) return 0;
    close(progress());
    const size_t batches = batches_.size();
    if (batches == kMostBatches) join_pairs();
    return batches;
  }

  // No request comes any more; what leaves later belongs to the last batch.
  void end_arrivals(const Progress& progress) { last_ = progress; }

  // All batches so far, which are not empty once end_arrivals was called.
  std::vector<Batch> take() {
    add_cell();
    if (batches_.empty() || cells_.size() > kCellsPerBatch / 2) {
      close(last_);
    } else {
      Batch rest{begin_, last_, recorder_.take_batch(), std::move(cells_)};
      join(batches_.back(), rest);
    }
    return std::move(batches_);
  }
  const std::vector<Batch>& batches() const { return batches_; }

 private:
  void begin(const Progress& progress) {
    begun_ = true;
    begin_ = progress;
    due_ += cell_length_;
  }

  void add_cell() {
    const LatencySum sum = recorder_.sum();
    cells_.push_back({sum.count - counted_.count, sum.sum_ns - counted_.sum_ns});
    counted_ = sum;
  }

  void close(const Progress& progress) {
    batches_.push_back({begin_, progress, recorder_.take_batch(), std::move(cells_)});
    cells_.clear();
    counted_ = {};
    begin_ = progress;
  }

  static void join(Batch& first, const Batch& second) {
    first.end = second.end;
    for (size_t t = 0; t < first.types.size(); ++t) {
      first.types[t].latency.merge(second.types[t].latency);
      first.types[t].slowdown.merge(second.types[t].slowdown);
      first.types[t].refused += second.types[t].refused;
      first.types[t].lost += second.types[t].lost;
    }
    first.cells.insert(first.cells.end(), second.cells.begin(), second.cells.end());
  }

  void join_pairs() {
    for (size_t i = 0; i < batches_.size() / 2; ++i) {
      Batch& pair = batches_[2 * i];
      join(pair, batches_[2 * i + 1]);
      for (size_t c = 0; c < kCellsPerBatch; ++c) {
        const LatencySum &a = pair.cells[2 * c], &b = pair.cells[2 * c + 1];
        pair.cells[c] = {a.count + b.count, a.sum_ns + b.sum_ns};
      }
      pair.cells.resize(kCellsPerBatch);
      if (i > 0) batches_[i] = std::move(pair);
    }
    batches_.resize(batches_.size() / 2);
    due_ += cell_length_;
    cell_length_ *= 2;
  }

  Recorder recorder_;  // of the batch that is not complete
  uint64_t cell_length_;
  uint64_t due_ = 1;
  bool begun_ = false;
  Progress begin_, last_;
  LatencySum counted_;  // in the cells so far
  std::vector<LatencySum> cells_;
  std::vector<Batch> batches_;
};

}  // namespace rubato::sim
