// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/session.h"

namespace rubato::kv {

Frame MemcachedConnection::frame(std::string_view unread, Request& request) {
  const MemcachedCall::Found found = call_.find(unread);
  if (found.length == 0) return {FrameState::kIncomplete, found.wanted};
  request.type = found.type;
  request.group = group_of(found.is_control);
  return {FrameState::kComplete, found.length};
}

void MemcachedConnection::run(Request& request) {
  note_command(request.type);
  call_.run(request);
  call_.shrink();
}

}  // namespace rubato::kv
