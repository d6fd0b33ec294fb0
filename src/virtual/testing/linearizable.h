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

  // First without any that was lost, then with one, and so on: most of them explain nothing.
  bool search() {
    for (lost_most_ = 0;; ++lost_most_) {
      tried_.clear();
      wants_more_ = false;
      if (search_on({})) return true;
      if (!wants_more_) return false;
    }
  }

 private:
  bool search_on(const std::string& state) {
    if (only_unknown_left()) return true;
    if (!tried_.insert(key(state)).second) return false;
    const Instant first_return = earliest_return();
    for (const bool lost : {false, true}) {
      for (size_t client = 0; client < clients_.size(); ++client) {
        if (has_lost_next(client) == lost && search_from(client, state, first_return)) return true;
      }
    }
    return false;
  }

  bool has_lost_next(size_t client) const {
    return done_[client] < clients_[client].size() && clients_[client][done_[client]].unknown();
  }

  // With the next operation of that client, or one behind those of it that were not done, if they
  // were lost. Of those that were lost only what changes something is tried.
  bool search_from(size_t client, const std::string& state, Instant first_return) {
    const size_t done = done_[client];
    for (size_t at = done; at < clients_[client].size(); ++at) {
      const Recorded<Operation>& next = clients_[client][at];
      if (next.called > first_return) return false;
      std::string after = state;
      const bool fits = Model::step(after, next.operation, next.unknown());
      const bool changes = after != state;
      if (fits && (changes || !next.unknown()) && may_do(next.unknown())) {
        done_[client] = at + 1;
        lost_done_ += next.unknown() ? 1u : 0u;
        if (search_on(after)) return true;
        lost_done_ -= next.unknown() ? 1u : 0u;
        done_[client] = done;
      }
      if (!next.unknown() || (changes && !next.may_be_refused)) return false;
    }
    return false;
  }

  bool may_do(bool lost) {
    const bool may = !lost || lost_done_ < lost_most_;
    wants_more_ |= !may;
    return may;
  }

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
    std::string text = std::to_string(lost_done_) + ":";
    for (const size_t done : done_) text += std::to_string(done) + ",";
    return text + state;
  }

  const Clients& clients_;
  std::vector<size_t> done_;  // by client
  size_t lost_done_ = 0;      // of these, lost ones; at most:
  size_t lost_most_ = 0;
  bool wants_more_ = false;
  std::unordered_set<std::string> tried_;
};

template <class Model, class Operation>
bool linearizable(const std::vector<std::vector<Recorded<Operation>>>& clients) {
  return Linearizer<Model, Operation>(clients).search();
}

}  // namespace rubato::virt::testing
