// SPDX-License-Identifier: Apache-2.0
//
// GuestQueue: a DatapathQueue of datagrams, beside which the same worker may have another one, in
// whose sleep it joins (datapath/joint.h). How its owner sleeps, and who polls for an owner that is
// away. Threads as datapath.h says.
#pragma once

#include <functional>
#include <span>

#include "datapath/datapath.h"
#include "datapath/queue_sleep.h"

namespace rubato {

class GuestQueue : public DatapathQueue {
 public:
  using Sleep = std::function<void(Nanos limit)>;

  explicit GuestQueue(WireQueue& wire) : wire_queue_(wire) {}

  // Set-up, before any other call. Fails with one line where the system has no eventfd.
  Status start() { return sleep_.start(wire_queue_); }

  // Descriptors that poll(2) reports readable when a poll would find something.
  std::span<const int> files() const { return wire_queue_.files(); }

  // As wait(), where `sleep` waits for the files and no poll of this queue can come between; it is
  // not called if the owner must not sleep, and for no longer than it says.
  virtual void wait_by(Nanos limit, const Sleep& sleep) = 0;

  // Lowers `limit` to how long who polls for an owner that is away may sleep on the files; false:
  // it must poll instead. Any thread.
  bool lets_sleep(Nanos& limit);

  // From now on every wake() of this queue wakes `host` too. Set-up, before any other call.
  void join(DatapathQueue& host) { sleep_.join(&host); }

  void push() override { wire_queue_.push(); }
  void wait(Nanos limit) override {
    wait_by(limit, [this](Nanos less) { sleep_.wait(less); });
  }
  void wait(Nanos limit, std::span<DatapathQueue* const> delegated) override;
  void wake() override { sleep_.wake(); }
  bool delegate_to(DatapathQueue* proxy) override;

 protected:
  WireQueue& wire_queue() { return wire_queue_; }
  const WireQueue& wire_queue() const { return wire_queue_; }
  QueueSleep& queue_sleep() { return sleep_; }

 private:
  WireQueue& wire_queue_;
  QueueSleep sleep_;
};

}  // namespace rubato
