// SPDX-License-Identifier: Apache-2.0
//
// Recording: what is written into a file while it is wanted, from rings that workers fill: started
// and ended while the server runs, each time into a new file. A thread of its own, which the first
// start makes, empties the rings every 10 ms. Heirs say what is written. Any thread, but for
// finish().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "metrics/open_metrics.h"

namespace rubato {

class Recording {
 public:
  // Requires that the heir has called close().
  virtual ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Starts or ends it. Each start writes the file anew; who reads the one before still has that.
  // Fails with one line if it cannot be written. An error later, or the end of what the file may
  // have, ends it and is logged.
  Status record(bool wanted);
  // Ends it, unless it has ended by itself. Fails with one line if the last recording has failed,
  // then or before.
  Status end_whole();
  bool recording() const { return recording_.load(std::memory_order_relaxed); }

  // Appends its families, and waits for no disk: without the lock that writes hold.
  virtual void expose(OpenMetrics& out) const = 0;
  // Records the rest, once the runtime has stopped. Fails with one line if the last recording has.
  virtual Status finish() = 0;

 protected:
  Recording() = default;

  // The heir's destructor calls it: ends the recording, whatever comes of it, and the thread.
  void close();

  // All called one at a time. After a begin() that fails, and end(), the file is closed.
  virtual Status begin() = 0;
  virtual Status end() = 0;
  // Takes what the rings have. False: the recording is over, and the file closed, with that error
  // or, for a file that has all it may have, without one; it has been logged.
  virtual bool collect(Status& error) = 0;

 private:
  Status record_locked(bool wanted);
  void work();
  void set_open(bool open) {
    open_ = open;
    recording_.store(open, std::memory_order_relaxed);
  }

  mutable std::mutex mutex_;  // guards all below, but for recording_
  std::condition_variable wake_;
  bool open_ = false;
  bool stopping_ = false;
  Status last_ = Done{};
  std::atomic<bool> recording_{false};  // open_, for who must not wait; relaxed
  std::thread thread_;
};

// How recordings name the types below `types`: "type 3" where that one has no name.
std::vector<std::string> names_of(uint32_t types,
                                  const std::function<std::string(uint32_t)>& type_name);

// Makes the file for its owner to write and its group to read, and returns a descriptor. One that
// has the name is removed, which its readers keep; what is no file stays. Fails with one line.
Result<int> make_file_anew(const std::string& path);

inline constexpr int kMostAside = 5;

// If a file has the name, gives it another one, PATH.1, and logs that. The one that has this name
// becomes PATH.2, and so on; there are kMostAside at most, the oldest is lost. Fails with one line.
Status set_file_aside(const std::string& path);

}  // namespace rubato
