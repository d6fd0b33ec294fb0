// SPDX-License-Identifier: Apache-2.0
//
// MemcachedSession: a client of memcached's text protocol. Otherwise it is a KvSession, which
// CLIENT LIST shows. It shares keys and values with RESP clients, see item.h.
// MemcachedConnection: one over TCP; memcached/datagrams.h has those over UDP.
#pragma once

#include "kv_server/memcached/call.h"
#include "kv_server/server/session.h"

namespace rubato::kv {

class MemcachedSession : public KvSession {
 public:
  MemcachedSession(Server& server, const Peer& peer)
      : KvSession(server, peer, Speaks::kMemcached) {}

  // Runs the request that frame() has found, on its worker.
  virtual void run(Request& request) = 0;
};

class MemcachedConnection final : public MemcachedSession {
 public:
  MemcachedConnection(Server& server, const Peer& peer)
      : MemcachedSession(server, peer), call_(server) {}

  Frame frame(std::string_view unread, Request& request) override;
  void refuse(Request& request) override { call_.refuse(request); }
  void run(Request& request) override;

 private:
  MemcachedCall call_;
};

}  // namespace rubato::kv
