// SPDX-License-Identifier: Apache-2.0
//
// Recorded: what a Server and an Executor, which have it as their base, write of their requests and
// tasks into the files that their Options name: a trace for Perfetto, a recording and a profile for
// `rubato sim`. Header only; the calls into the library are C.
#pragma once

#include <rubato/rubato.h>
#include <rubato/status.hpp>

namespace rubato::inline v1 {

// Of its heir, c() and the functions of C that do it. All methods fail with one line if the file
// cannot be written, there is none or the caller is a worker; they may block for the disk. Any
// thread. A file begins as the executor is created, or as Server::run begins, and is whole once the
// executor is gone, or once Server::run has returned.
template <class Heir, auto kTrace, auto kRecord, auto kWriteProfile>
class Recorded {
 public:
  // Begins a trace in Options::trace_file, which is written anew, or ends it; then the file is
  // whole. trace(false) also fails if the last trace is not whole, as on a full disk.
  Status trace(bool wanted) {
    rubato_error error{};
    return status(kTrace(heir().c(), wanted ? 1 : 0, &error), error);
  }

  // The same with a recording in Options::record_file, of every request or task: type, arrival,
  // service. Those of the control plane, and those that came before the beginning, are in none.
  Status record(bool wanted) {
    rubato_error error{};
    return status(kRecord(heir().c(), wanted ? 1 : 0, &error), error);
  }

  // Writes Options::profile_file as it is now, which else happens every 10 s: with all that has
  // ended, and with the arrivals until 0.25 s ago, or after a stop with all. Also fails if fewer
  // than two requests or tasks came.
  Status write_profile() {
    rubato_error error{};
    return status(kWriteProfile(heir().c(), &error), error);
  }

 protected:
  Recorded() = default;

 private:
  Heir& heir() { return static_cast<Heir&>(*this); }
  static Status status(int returned, const rubato_error& error) {
    if (returned == RUBATO_OK) return Done{};
    return Error{error.text};
  }
};

}  // namespace rubato::inline v1
