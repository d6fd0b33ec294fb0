// SPDX-License-Identifier: Apache-2.0
//
// The command `stats` of memcached's text protocol (protocol.txt of memcached 1.6, "Statistics").
// The counters by verb are those of this protocol's requests (memcached/counters.h); what else it
// shows is the server's, whichever protocol its clients speak.
#pragma once

#include <string_view>

#include "kv_server/memcached/operation.h"

namespace rubato::kv {

class MemcachedStats : private MemcachedOperation {
 public:
  using MemcachedOperation::MemcachedOperation;

  void run();

 private:
  void general();
  void settings();
  void detail(std::string_view what);
  void dump();
  void prefix(std::string_view name, const PrefixCounters::Counts& counts);
  void by_verb();
  uint64_t threads() const;

  void stat(std::string_view name, std::string_view value);
  void stat(std::string_view name, uint64_t value);
};

}  // namespace rubato::kv
