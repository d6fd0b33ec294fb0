// SPDX-License-Identifier: Apache-2.0
//
// ApiSession: one connection of an embedded application; ApiRequest: one of its requests. The
// session frames requests, calls the classifier, and composes the reply as the framing requires. It
// belongs to the flow's owner of the moment, and an ApiRequest to the worker that has the request:
// over RPC several requests of one connection may be in service.
//
// The application's callbacks are called through guarded(). Their exceptions stop here, because the
// stack frames below belong to the runtime. Callbacks between requests may not be preempted,
// because they may run inside another request's checkpoint.
#pragma once

#include <rubato/rubato.h>

#include <optional>
#include <string>
#include <utility>

#include "api/framing.h"
#include "datapath/request.h"
#include "rpc/server_session.h"
#include "runtime/app.h"

namespace rubato::api {

class Service;

// False = the call threw.
template <class F>
bool guarded(F&& call) noexcept {
  try {
    call();
    return true;
  } catch (...) {
    return false;
  }
}

// As guarded(), for callbacks between requests, which must not switch.
template <class F>
bool guarded_without_switch(F&& call) noexcept {
  const NoPreempt whole;
  return guarded(std::forward<F>(call));
}

struct ApiRequest final : RequestData {
  static ApiRequest& of(const Request& request) {
    return static_cast<ApiRequest&>(*request.data);
  }

  std::string_view payload(const Request& request) const {
    return request.payload.substr(found.offset, found.payload_bytes);
  }

  Found found;
  rubato_class what{};
  bool failed = false;
  size_t replied_bytes = 0;  // by the application, for this request
  std::string body;          // of the reply, while its length is not known
  rpc::ServerRequest rpc;
  rubato_later* later = nullptr;  // its reply is given later
};

class ApiSession final : public Session {
 public:
  ApiSession(Service& service, const Peer& peer);
  ~ApiSession() override;

  uint32_t concurrency() const override { return rpc_ ? rpc_->limits().in_service : 1; }
  std::unique_ptr<RequestData> make_request_data() override {
    return std::make_unique<ApiRequest>();
  }
  Frame frame(std::string_view unread, Request& request) override;
  void refuse(Request& request) override;
  bool admits(Request& request) override { return rpc_->admits(ApiRequest::of(request).rpc); }
  void answer(Request& request) override { rpc_->answer(request, ApiRequest::of(request).rpc); }
  void complete(Request& request, ReplyBuffer& to) override;
  void on_push(ReplyBuffer& reply) override {
    if (rpc_) rpc_->on_push(reply);
  }

  static ApiSession& of(const Request& request) {
    return static_cast<ApiSession&>(*request.session);
  }

  // The methods up to answered() are for the worker that runs the request.
  // False: the application need not run; answered() sends the refusal.
  static bool starts(const Request& request);
  bool reply(Request& request, std::string_view bytes);
  static void fail(Request& request) { ApiRequest::of(request).failed = true; }
  // The application is done: completes the reply, or refuses the request. Then the runtime may send
  // the reply.
  void answered(Request& request);

  Service& service() const { return service_; }
  void* state() const { return state_; }

 private:
  void find(std::string_view unread, Request& request);
  void find_rpc(std::string_view unread, Request& request);
  Found find_as_user_says(std::string_view unread);
  void classify(std::string_view payload, Request& request);
  void refuse_because(Request& request, rubato_refusal reason);
  void end_of_reply(Request& request);
  // The body of a reply waits for its length.
  bool gathers() const;

  Service& service_;
  void* state_ = nullptr;
  LineFinder lines_;
  std::optional<rpc::ServerSession> rpc_;
};

}  // namespace rubato::api
