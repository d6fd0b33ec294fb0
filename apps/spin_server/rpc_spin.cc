// SPDX-License-Identifier: Apache-2.0
#include "spin_server/rpc_spin.h"

#include <optional>

namespace rubato::spin {
namespace {

class RpcSpinSession final : public Session {
 public:
  RpcSpinSession(const SpinOptions& options, rpc::AdmissionController& admission, const Peer& peer,
                 const rpc::SessionLimits& limits)
      : options_(options), rpc_(admission, peer.flow, limits, peer.address) {}

  Frame frame(std::string_view unread, Request& request) override {
    const Frame found = rpc_.find(unread, request);
    if (found.state == FrameState::kComplete) understand(request);
    return found;
  }
  void refuse(Request& request) override { rpc_.answer(request); }
  void answer(Request& request) override { rpc_.answer(request); }
  void unasked(ReplyBuffer& reply) override { rpc_.unasked(reply); }

  void run(Request& request) {
    if (!work_) return rpc_.fail(request);
    if (!rpc_.started(request)) return;
    if (work_->is_long) long_begin();
    busy_work(work_->service);
    if (work_->is_long) long_end();
    rpc_.reply(request, "OK");
  }

 private:
  void understand(Request& request) {
    const std::string_view body = rpc_.body();
    const size_t space = body.find(' ');
    const bool has_class = space != std::string_view::npos;
    work_ = parse_work(body.substr(0, space), has_class ? body.substr(space + 1) : "", options_);
    if (!work_) {
      request.type = kControl;
      return;
    }
    request.type = work_->is_long ? kLong : kShort;
    request.size_hint = work_->service;
    rpc_.set_class(work_->is_long ? rpc::kLongClass : rpc::kShortClass);
  }

  const SpinOptions& options_;
  rpc::ServerSession rpc_;
  std::optional<Work> work_;
};

}  // namespace

std::unique_ptr<Session> RpcSpin::open(const Peer& peer) {
  return std::make_unique<RpcSpinSession>(options_, admission_, peer, limits_);
}

void RpcSpin::handle(Request& request) {
  auto& session = static_cast<RpcSpinSession&>(*request.session);
  if (request.at_once) return session.answer(request);
  session.run(request);
}

}  // namespace rubato::spin
