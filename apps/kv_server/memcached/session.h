// SPDX-License-Identifier: Apache-2.0
//
// MemcachedSession: a connection of the port that speaks memcached's text protocol. Its requests
// count as the commands of the table that do the same (incr as INCRBY). Otherwise it is a
// KvSession, which CLIENT LIST shows. It shares keys and values with RESP clients, see item.h.
#pragma once

#include "kv_server/memcached/parser.h"
#include "kv_server/server/session.h"

namespace rubato::kv {

class MemcachedSession final : public KvSession {
 public:
  MemcachedSession(Server& server, const Peer& peer)
      : KvSession(server, peer, Speaks::kMemcached) {}

  Frame frame(std::string_view unread, Request& request) override;
  void refuse(Request& request) override;

  // Runs the request that frame() has found last.
  void run(Request& request);

 private:
  MemcachedParser parser_;
  MemcachedRequest asked_;
};

}  // namespace rubato::kv
