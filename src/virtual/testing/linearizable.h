// SPDX-License-Identifier: Apache-2.0
//
// linearizable: whether what clients saw of one object could have come about if each operation had
// been done at one instant between its call and its return, those of a client in their order. The
// search is that of Wing and Gong ("Testing and Verifying Concurrent Objects", 1993, section 4),
// with Lowe's memory of what was tried ("Testing for linearizability", 2017, section 3).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/time.h"

namespace rubato::virt::testing {

// What one client did, in its order. An operation that did not return may have been done or not;
// only others that did not follow it, which were done without it where it may have been refused.
template <class Operation>
struct Recorded {
  Operation operation;
  Instant called;
  Instant returned = Instant::never();
  bool may_be_refused = false;  // looked at where it did not return

  bool unknown() const { return returned == Instant::never(); }
};

// A Model has a State, which is a std::string, and
//   static bool step(State&, const Operation&, bool unknown)
// which does the operation and says whether its result fits; any result fits where it is unknown.
template <class Model, class Operation>
class Linearizer {
 public:
  using Clients = std::vector<std::vector<Recorded<Operation>>>;

  explicit Linearizer(const Clients& clients) : clients_(clients), done_(clients.size(), 0) {}

  bool search(const std::string& state = {}) {
    if (only_unknown_left()) return true;
    if (!tried_.insert(key(state)).second) return false;
    const Instant first_return = earliest_return();
    for (size_t client = 0; client < clients_.size(); ++client) {
      if (done_[client] == clients_[client].size()) continue;
      const Recorded<Operation>& next = clients_[client][done_[client]];
      if (next.called > first_return) continue;
      ++done_[client];
      std::string after = state;
      if (Model::step(after, next.operation, next.unknown()) && search(after)) return true;
      if (next.unknown() && next.may_be_refused && search(state)) return true;
      --done_[client];
    }
    return false;
  }

 private:
  bool only_unknown_left() const {
    for (size_t client = 0; client < clients_.size(); ++client) {
      for (size_t i = done_[client]; i < clients_[client].size(); ++i) {
        if (!clients_[client][i].unknown()) return false;
      }
    }
    return true;
  }

  Instant earliest_return() const {
    Instant earliest = Instant::never();
    for (size_t client = 0; client < clients_.size(); ++client) {
      if (done_[client] == clients_[client].size()) continue;
      earliest = std::min(earliest, clients_[client][done_[client]].returned);
    }
    return earliest;
  }

  std::string key(const std::string& state) const {
    std::string text;
    for (const size_t done : done_) text += std::to_string(done) + ",";
    return text + state;
  }

  const Clients& clients_;
  std::vector<size_t> done_;  // by client
  std::unordered_set<std::string> tried_;
};

template <class Model, class Operation>
bool linearizable(const std::vector<std::vector<Recorded<Operation>>>& clients) {
  return Linearizer<Model, Operation>(clients).search();
}

}  // namespace rubato::virt::testing
