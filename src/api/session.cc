// SPDX-License-Identifier: Apache-2.0
#include "api/session.h"

#include <algorithm>

#include "api/service.h"

namespace rubato::api {
namespace {

// A reply body of at most this capacity is kept for the connection's next one.
constexpr size_t kBodyKeptBytes = 16 * 1024;

const char* text_of(rubato_refusal reason) {
  switch (reason) {
    case RUBATO_REFUSED_OVERLOAD: return "refused: overload";
    case RUBATO_REFUSED_FAILED: return "refused: the request failed";
    case RUBATO_REFUSED_MALFORMED: return "refused: malformed";
    case RUBATO_REFUSED_TOO_LARGE: return "refused: too large";
  }
  return "refused";
}

void clear(std::string& body) {
  body.clear();
  if (body.capacity() > kBodyKeptBytes) std::string().swap(body);
}

Instant deadline_of(Instant arrived, uint64_t after_ns) {
  constexpr auto kMost = static_cast<uint64_t>(Nanos::seconds(1'000'000'000).count());
  return arrived + Nanos(static_cast<int64_t>(std::min(after_ns, kMost)));
}

}  // namespace

ApiSession::ApiSession(Service& service, const Peer& peer) : service_(service) {
  if (service.admission() != nullptr) {
    rpc_.emplace(*service.admission(), peer.flow,
                 rpc::SessionLimits{.body_bytes = service.max_request_bytes(),
                                    .in_service = rpc::kMaxInService},
                 peer.address);
  }
  const rubato_application& app = service_.application();
  if (app.connected == nullptr) return;
  guarded_without_switch(
      [&] { state_ = app.connected(app.user, peer.flow, peer.address.c_str()); });
}

ApiSession::~ApiSession() {
  const rubato_application& app = service_.application();
  if (app.disconnected == nullptr) return;
  guarded_without_switch([&] { app.disconnected(app.user, state_); });
}

Frame ApiSession::frame(std::string_view unread, Request& request) {
  ApiRequest& own = ApiRequest::of(request);
  find(unread, request);
  if (own.found.state == Found::State::kIncomplete) {
    return {FrameState::kIncomplete, own.found.length};
  }
  own.failed = false;
  own.replied_bytes = 0;
  own.what = {};
  if (own.found.state == Found::State::kComplete && !request.at_once) {
    classify(unread.substr(own.found.offset, own.found.payload_bytes), request);
  }
  return {FrameState::kComplete, own.found.length};
}

bool ApiSession::starts(const Request& request) {
  const ApiRequest& own = ApiRequest::of(request);
  return own.found.state == Found::State::kComplete && !own.failed;
}

void ApiSession::find(std::string_view unread, Request& request) {
  Found& found = ApiRequest::of(request).found;
  switch (service_.framing()) {
    case RUBATO_FRAMING_LENGTH:
      found = find_prefixed(unread, service_.max_request_bytes());
      break;
    case RUBATO_FRAMING_LINES:
      found = lines_.find(unread, service_.max_request_bytes());
      break;
    case RUBATO_FRAMING_USER: found = find_as_user_says(unread); break;
    case RUBATO_FRAMING_RPC: find_rpc(unread, request); break;
  }
}

void ApiSession::find_rpc(std::string_view unread, Request& request) {
  ApiRequest& own = ApiRequest::of(request);
  const Frame frame = rpc_->find(unread, request, own.rpc);
  own.found = {Found::State::kIncomplete, frame.length_bytes, 0, 0};
  if (frame.state == FrameState::kIncomplete) return;
  own.found.state = Found::State::kComplete;
  if (request.at_once) return;
  own.found.payload_bytes = own.rpc.body.size();
  own.found.offset = frame.length_bytes - own.found.payload_bytes;
}

// An impossible result of the frame function is treated as malformed input.
Found ApiSession::find_as_user_says(std::string_view unread) {
  const rubato_application& app = service_.application();
  rubato_frame frame{};
  int state = RUBATO_FRAME_MALFORMED;
  const bool returned = guarded_without_switch(
      [&] { state = app.frame(app.user, unread.data(), unread.size(), &frame); });
  const Found malformed{Found::State::kMalformed, unread.size(), 0, 0};
  if (!returned) return malformed;
  if (state == RUBATO_FRAME_INCOMPLETE) {
    const bool too_large = unread.size() > service_.max_request_bytes() ||
                           frame.length_bytes > service_.max_request_bytes();
    return too_large ? Found{Found::State::kTooLarge, unread.size(), 0, 0}
                       : Found{Found::State::kIncomplete, frame.length_bytes, 0, 0};
  }
  const size_t length = frame.length_bytes;
  if (state != RUBATO_FRAME_COMPLETE || length == 0 || length > unread.size()) {
    return malformed;
  }
  const bool whole = frame.payload_offset == 0 && frame.payload_bytes == 0;
  const size_t payload = whole ? length : frame.payload_bytes;
  if (frame.payload_offset > length || payload > length - frame.payload_offset) {
    return malformed;
  }
  return {Found::State::kComplete, length, frame.payload_offset, payload};
}

void ApiSession::classify(std::string_view payload, Request& request) {
  ApiRequest& own = ApiRequest::of(request);
  const rubato_application& app = service_.application();
  if (app.classify == nullptr) return;
  const bool returned = guarded_without_switch(
      [&] { app.classify(app.user, payload.data(), payload.size(), &own.what); });
  if (!returned) {
    own.what = {};
    own.failed = true;
  }
  request.type = own.what.type;
  request.group = group_of(own.what.is_control != 0);
  const uint64_t after_ns = own.what.deadline_ns;
  if (after_ns != 0) request.deadline = deadline_of(request.arrived, after_ns);
  if (rpc_) rpc_->set_class(own.rpc, own.what.is_long != 0 ? rpc::kLongClass : rpc::kShortClass);
}

bool ApiSession::gathers() const { return rpc_ || service_.framing() == RUBATO_FRAMING_LENGTH; }

bool ApiSession::reply(Request& request, std::string_view bytes) {
  ApiRequest& own = ApiRequest::of(request);
  if (gathers()) {
    if (bytes.size() > service_.max_reply_bytes() - own.body.size()) {
      own.failed = true;
      return false;
    }
    own.body.append(bytes);
  } else {
    request.reply->append(bytes);
    if (request.reply->overflowed()) return false;
  }
  own.replied_bytes += bytes.size();
  return true;
}

// The length goes in front of the body but is known only at its end. Until then the body is kept
// here, since the reply buffer may be sent at any long_begin.
void ApiSession::end_of_reply(Request& request) {
  ApiRequest& own = ApiRequest::of(request);
  switch (service_.framing()) {
    case RUBATO_FRAMING_LENGTH:
      request.reply->append(prefix_of(own.body.size()));
      request.reply->append(own.body);
      break;
    case RUBATO_FRAMING_LINES: request.reply->append("\n"); break;
    case RUBATO_FRAMING_USER: break;
    case RUBATO_FRAMING_RPC: return;  // complete() does
  }
  clear(own.body);
}

void ApiSession::complete(Request& request, ReplyBuffer& to) {
  ApiRequest& own = ApiRequest::of(request);
  rpc_->complete(request, own.rpc, to, own.body);
  clear(own.body);
}

void ApiSession::answered(Request& request) {
  ApiRequest& own = ApiRequest::of(request);
  if (own.found.state == Found::State::kMalformed) {
    refuse_because(request, RUBATO_REFUSED_MALFORMED);
  } else if (own.found.state == Found::State::kTooLarge) {
    refuse_because(request, RUBATO_REFUSED_TOO_LARGE);
  } else if (own.failed || request.cancelled) {
    refuse_because(request, RUBATO_REFUSED_FAILED);
  } else {
    end_of_reply(request);
  }
}

void ApiSession::refuse(Request& request) { refuse_because(request, RUBATO_REFUSED_OVERLOAD); }

void ApiSession::refuse_because(Request& request, rubato_refusal reason) {
  ApiRequest& own = ApiRequest::of(request);
  service_.count_refusal(reason);
  const rubato_application& app = service_.application();
  const bool user_framing = service_.framing() == RUBATO_FRAMING_USER;
  own.body.clear();
  if (rpc_ && reason == RUBATO_REFUSED_FAILED) {
    own.rpc.outcome = rpc::ServerRequest::Outcome::kFailed;
    own.rpc.fault = rpc::Fault::kFailed;
  } else if (rpc_) {
    rpc::ServerSession::refused(request, own.rpc);
  }
  if (rpc_) return;
  request.close_after |= reason != RUBATO_REFUSED_OVERLOAD;
  // A refusal behind the first part of a sent reply would be read as the rest of that reply.
  if (own.replied_bytes > 0 && service_.framing() != RUBATO_FRAMING_LENGTH) return;
  if (app.refuse != nullptr) {
    const bool returned = guarded_without_switch([&] {
      app.refuse(app.user, reinterpret_cast<rubato_request*>(&request), reason);
    });
    request.close_after |= !returned;
  } else if (user_framing) {
    request.close_after = true;
    return;
  } else {
    reply(request, text_of(reason));
  }
  end_of_reply(request);
}

}  // namespace rubato::api
