// SPDX-License-Identifier: Apache-2.0
#include "spin_server/rpc_spin.h"

#include <optional>

#include "runtime/slow_requests.h"

namespace rubato::spin {
namespace {

struct RpcSpinRequest final : RequestData {
  rpc::ServerRequest rpc;
  std::optional<Work> work;
};

RpcSpinRequest& of(const Request& request) { return static_cast<RpcSpinRequest&>(*request.data); }

void fail(RpcSpinRequest& request) {
  request.rpc.outcome = rpc::ServerRequest::Outcome::kFailed;
  request.rpc.fault = rpc::Fault::kFailed;
}

class RpcSpinSession final : public Session {
 public:
  RpcSpinSession(const SpinOptions& options, rpc::AdmissionController& admission, const Peer& peer,
                 const rpc::SessionLimits& limits)
      : options_(options), rpc_(admission, peer.flow, limits, peer.address) {}

  uint32_t concurrency() const override { return rpc_.limits().in_service; }
  std::unique_ptr<RequestData> make_request_data() override {
    return std::make_unique<RpcSpinRequest>();
  }
  Frame frame(std::string_view unread, Request& request) override {
    const Frame found = rpc_.find(unread, request, of(request).rpc);
    if (found.state == FrameState::kComplete) understand(request);
    return found;
  }
  bool admits(Request& request) override { return rpc_.admits(of(request).rpc); }
  void refuse(Request& request) override { rpc::ServerSession::refused(request, of(request).rpc); }
  void answer(Request& request) override { rpc_.answer(request, of(request).rpc); }
  void complete(Request& request, ReplyBuffer& to) override {
    rpc_.complete(request, of(request).rpc, to, request.reply->unsent());
  }
  void on_push(ReplyBuffer& reply) override { rpc_.on_push(reply); }

  // Called on the worker, which does not own the session.
  void run(Request& request) {
    RpcSpinRequest& own = of(request);
    if (!own.work) return fail(own);
    if (own.work->is_long) long_begin();
    busy_work(own.work->service);
    if (own.work->is_long) long_end();
    if (request.cancelled) return fail(own);
    request.reply->append("OK");
  }

 private:
  void understand(Request& request) {
    RpcSpinRequest& own = of(request);
    const std::string_view body = own.rpc.body;
    const size_t space = body.find(' ');
    const bool has_class = space != std::string_view::npos;
    own.work =
        parse_work(body.substr(0, space), has_class ? body.substr(space + 1) : "", options_);
    if (!own.work) {
      request.type = kControl;
      return;
    }
    request.type = own.work->is_long ? kLong : kShort;
    request.size_hint = own.work->service;
    rpc_.set_class(own.rpc, own.work->is_long ? rpc::kLongClass : rpc::kShortClass);
  }

  const SpinOptions& options_;
  rpc::ServerSession rpc_;
};

}  // namespace

std::unique_ptr<Session> RpcSpin::open(const Peer& peer) {
  return std::make_unique<RpcSpinSession>(options_, admission_, peer, limits_);
}

void RpcSpin::handle(Request& request) {
  static_cast<RpcSpinSession&>(*request.session).run(request);
}

void RpcSpin::slow(const Request& request, const Completion& times) {
  log_slow_request(type_name(request.type), times, type_name(times.blocker_type));
}

}  // namespace rubato::spin
