// SPDX-License-Identifier: Apache-2.0
#include "api/session.h"

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

}  // namespace

ApiSession::ApiSession(Service& service, const Peer& peer) : service_(service) {
  if (service.admission() != nullptr) {
    rpc_.emplace(*service.admission(), peer.flow,
                 rpc::SessionLimits{.body_bytes = service.max_request_bytes()}, peer.address);
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
  find(unread, request);
  if (found_.state == Found::State::kIncomplete) return {FrameState::kIncomplete, found_.length};
  failed_ = answered_ = false;
  replied_bytes_ = 0;
  what_ = {};
  if (found_.state == Found::State::kComplete && !request.at_once) {
    classify(unread.substr(found_.offset, found_.payload_bytes), request);
  }
  return {FrameState::kComplete, found_.length};
}

// What has waited for too long is answered here, for nothing is to be run any more.
bool ApiSession::starts(Request& request) {
  if (found_.state != Found::State::kComplete || failed_) return false;
  if (!rpc_) return true;
  answered_ = request.at_once || !rpc_->started(request);
  if (request.at_once) rpc_->answer(request);
  return !answered_;
}

void ApiSession::find(std::string_view unread, Request& request) {
  switch (service_.framing()) {
    case RUBATO_FRAMING_LENGTH:
      found_ = find_prefixed(unread, service_.max_request_bytes());
      break;
    case RUBATO_FRAMING_LINES:
      found_ = lines_.find(unread, service_.max_request_bytes());
      break;
    case RUBATO_FRAMING_USER: find_as_user_says(unread); break;
    case RUBATO_FRAMING_RPC: find_rpc(unread, request); break;
  }
}

void ApiSession::find_rpc(std::string_view unread, Request& request) {
  const Frame frame = rpc_->find(unread, request);
  found_ = {Found::State::kIncomplete, frame.length_bytes, 0, 0};
  if (frame.state == FrameState::kIncomplete) return;
  found_.state = Found::State::kComplete;
  if (request.at_once) return;
  found_.payload_bytes = rpc_->body().size();
  found_.offset = frame.length_bytes - found_.payload_bytes;
}

// A frame function that says what cannot be is treated as if the input were malformed.
void ApiSession::find_as_user_says(std::string_view unread) {
  const rubato_application& app = service_.application();
  rubato_frame frame{};
  int state = RUBATO_FRAME_MALFORMED;
  const bool returned = guarded_without_switch(
      [&] { state = app.frame(app.user, unread.data(), unread.size(), &frame); });
  found_ = {Found::State::kMalformed, unread.size(), 0, 0};
  if (!returned) return;
  if (state == RUBATO_FRAME_INCOMPLETE) {
    const bool too_large = unread.size() > service_.max_request_bytes() ||
                           frame.length_bytes > service_.max_request_bytes();
    found_ = too_large ? Found{Found::State::kTooLarge, unread.size(), 0, 0}
                       : Found{Found::State::kIncomplete, frame.length_bytes, 0, 0};
    return;
  }
  const size_t length = frame.length_bytes;
  if (state != RUBATO_FRAME_COMPLETE || length == 0 || length > unread.size()) return;
  const bool whole = frame.payload_offset == 0 && frame.payload_bytes == 0;
  const size_t payload = whole ? length : frame.payload_bytes;
  if (frame.payload_offset > length || payload > length - frame.payload_offset) return;
  found_ = {Found::State::kComplete, length, frame.payload_offset, payload};
}

void ApiSession::classify(std::string_view payload, Request& request) {
  const rubato_application& app = service_.application();
  if (app.classify == nullptr) return;
  const bool returned = guarded_without_switch(
      [&] { app.classify(app.user, payload.data(), payload.size(), &what_); });
  if (!returned) {
    what_ = {};
    failed_ = true;
  }
  request.type = what_.type;
  request.control = what_.is_control != 0;
  if (rpc_) rpc_->set_class(what_.is_long != 0 ? rpc::kLongClass : rpc::kShortClass);
}

bool ApiSession::gathers() const { return rpc_ || service_.framing() == RUBATO_FRAMING_LENGTH; }

bool ApiSession::reply(Request& request, std::string_view bytes) {
  if (gathers()) {
    if (bytes.size() > service_.max_reply_bytes() - body_.size()) {
      failed_ = true;
      return false;
    }
    body_.append(bytes);
  } else {
    request.reply->append(bytes);
    if (request.reply->overflowed()) return false;
  }
  replied_bytes_ += bytes.size();
  return true;
}

// The length goes in front of what is known only at the end. Until then the body waits here, for
// the reply buffer may be sent at any long_begin.
void ApiSession::end_of_reply(Request& request) {
  switch (service_.framing()) {
    case RUBATO_FRAMING_LENGTH:
      request.reply->append(prefix_of(body_.size()));
      request.reply->append(body_);
      break;
    case RUBATO_FRAMING_LINES: request.reply->append("\n"); break;
    case RUBATO_FRAMING_USER: break;
    case RUBATO_FRAMING_RPC: rpc_->reply(request, body_); break;
  }
  body_.clear();
  if (body_.capacity() > kBodyKeptBytes) std::string().swap(body_);
}

void ApiSession::answered(Request& request) {
  if (answered_) return;
  if (found_.state == Found::State::kMalformed) {
    refuse_because(request, RUBATO_REFUSED_MALFORMED);
  } else if (found_.state == Found::State::kTooLarge) {
    refuse_because(request, RUBATO_REFUSED_TOO_LARGE);
  } else if (failed_) {
    refuse_because(request, RUBATO_REFUSED_FAILED);
  } else {
    end_of_reply(request);
  }
}

void ApiSession::refuse(Request& request) { refuse_because(request, RUBATO_REFUSED_OVERLOAD); }

void ApiSession::refuse_because(Request& request, rubato_refusal reason) {
  service_.count_refusal(reason);
  const rubato_application& app = service_.application();
  const bool user_framing = service_.framing() == RUBATO_FRAMING_USER;
  body_.clear();
  if (rpc_) return reason == RUBATO_REFUSED_FAILED ? rpc_->fail(request) : rpc_->answer(request);
  request.close_after |= reason != RUBATO_REFUSED_OVERLOAD;
  // Behind the first part of a reply that has left, a refusal would be read as the rest of it.
  if (replied_bytes_ > 0 && service_.framing() != RUBATO_FRAMING_LENGTH) return;
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
