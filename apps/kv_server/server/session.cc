// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/session.h"

#include <algorithm>

#include "kv_server/resp/refusal.h"
#include "kv_server/server/server.h"

namespace rubato::kv {

KvSession::KvSession(Server& server, const Peer& peer, Speaks speaks)
    : server_(&server),
      speaks_(speaks),
      table_(&command_table()),
      id_(peer.flow),
      address_(peer.address),
      authenticated_(!server.config().password_required()),
      watched_share_(server.options().memory) {
  ParserLimits limits;
  limits.bulk_bytes = server.config().max_bulk_bytes();
  parser_ = RequestParser(limits);
}

bool KvSession::authenticated() const {
  return authenticated_ || !server_->config().password_required();
}

Frame KvSession::frame(std::string_view unread, Request& request) {
  if (done_) forget_request();
  switch (parser_.parse(unread, authenticated())) {
    case RequestParser::State::kIncomplete:
      return {FrameState::kIncomplete, parser_.length()};
    case RequestParser::State::kError:
      protocol_error_ = parser_.error();
      done_ = true;
      request.type = kUnknownCommand;
      request.group = kPolicyGroup;
      return {FrameState::kComplete, unread.size()};
    case RequestParser::State::kComplete:
      break;
  }
  done_ = true;
  request.type = argv().empty() ? kUnknownCommand : table_->resolve(argv());
  request.group = group_of(((*table_)[request.type].flags & kControl) != 0);
  return {FrameState::kComplete, parser_.length()};
}

void KvSession::take_whole(std::string_view bytes, Request& request) {
  forget_request();
  const Frame found = KvSession::frame(bytes, request);
  if (found.state == FrameState::kComplete && found.length_bytes == bytes.size()) return;
  protocol_error_ = "Protocol error: a body holds one whole command and nothing else";
  done_ = true;
  request.type = kUnknownCommand;
  request.group = kPolicyGroup;
}

void KvSession::forget_request() {
  parser_.reset();
  protocol_error_ = {};
  done_ = false;
}

uint64_t KvSession::max_reply_bytes() const { return server_->options().max_reply_bytes; }

Transaction& KvSession::begin_transaction() {
  transaction_ = std::make_unique<Transaction>(server_->options().memory);
  return *transaction_;
}

// Of several looks at a key the first counts.
bool KvSession::watch(const Watched& key) {
  const bool known = std::any_of(watched_.begin(), watched_.end(),
                                 [&](const Watched& one) { return one.key == key.key; });
  if (known) return true;
  const size_t bytes = watched_bytes_ + sizeof(Watched) + key.key.size();
  if (!watched_share_.resize(bytes)) return false;
  watched_bytes_ = bytes;
  watched_.push_back(key);
  return true;
}

std::vector<Watched> KvSession::take_watched() {
  watched_bytes_ = 0;
  static_cast<void>(watched_share_.resize(0));
  return std::exchange(watched_, {});
}

void KvSession::note_refused_command(uint32_t type) {
  const std::string_view name = (*table_)[type].name;
  if (name == "multi" && transaction_ == nullptr) begin_transaction().reject();
  if (name == "exec") {
    transaction_.reset();
    take_watched();
  }
  if (transaction_ != nullptr) transaction_->abort();
}

void KvSession::refuse(Request& request) {
  note_refused_command(request.type);
  server_->calls().refuse_unstarted(request.type);
  server_->errors().count_refusal();
  if (muted()) return;
  append_refusal(*request.reply, server_->options().overload_reply, request);
}

// Whether the reply to this request is suppressed; this consumes a pending CLIENT REPLY SKIP.
bool KvSession::muted() {
  const bool skipped = replies_ == Replies::kSkipNext;
  if (skipped) replies_ = Replies::kOn;
  return skipped || replies_ == Replies::kOff;
}

void KvSession::set_version(RespVersion version) {
  version_ = version;
  shown_version_.store(static_cast<uint8_t>(version), std::memory_order_relaxed);
}

void KvSession::reset() {
  set_version(RespVersion::k2);
  set_name("");
  set_no_evict(false);
  set_replies(Replies::kOn);
  transaction_.reset();
  take_watched();
  authenticated_ = !server_->config().password_required();
}

std::string KvSession::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

void KvSession::set_name(std::string_view name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
}

void KvSession::set_library(std::string_view name_or_empty, std::string_view version_or_empty) {
  const std::lock_guard lock(mutex_);
  if (!name_or_empty.empty()) library_name_ = name_or_empty;
  if (!version_or_empty.empty()) library_version_ = version_or_empty;
}

std::pair<std::string, std::string> KvSession::library() const {
  const std::lock_guard lock(mutex_);
  return {library_name_, library_version_};
}

}  // namespace rubato::kv
