// SPDX-License-Identifier: Apache-2.0
//
// MemcachedCall: a command of memcached's text protocol on its way through the server: found in the
// bytes of a client, then run or refused; used again for the next. Commands count as those of the
// table that do the same (incr as INCRBY). Owned by a connection or by the request of a datagram.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kv_server/memcached/parser.h"
#include "kv_server/server/server.h"

namespace rubato::kv {

class MemcachedCall {
 public:
  explicit MemcachedCall(Server& server) : server_(server) {}

  struct Found {
    size_t length = 0;  // of the command; 0 = it is not complete
    size_t wanted = 0;  // then its least length; 0 = unknown
    uint32_t type = 0;  // of the request
    bool is_control = false;
  };
  // The first command of `unread`, which stays where it is until the command has run.
  Found find(std::string_view unread);
  // As find, in bytes that have nothing to do with those before.
  Found find_first(std::string_view unread) {
    parser_.restart();
    return find(unread);
  }

  // These two are for the command found last; they append to request.reply, and nothing if the
  // client wants none.
  void refuse(Request& request) const;
  void run(Request& request);
  // After them: gives back the memory of a command of many words.
  void shrink() { parser_.shrink(asked_); }

  // The error that refuse() appends.
  static void say_overloaded(Request& request);

  // Also of a command that is not complete, as far as its line is.
  bool wants_reply() const { return !asked_.noreply; }
  bool closes() const { return asked_.close || asked_.verb == MemcachedVerb::kQuit; }

 private:
  Server& server_;
  MemcachedParser parser_;
  MemcachedRequest asked_;
};

}  // namespace rubato::kv
