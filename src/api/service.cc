// SPDX-License-Identifier: Apache-2.0
#include "api/service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/later.h"
#include "api/session.h"
#include "api/texts.h"
#include "base/limits.h"
#include "runtime/runtime.h"
#include "runtime/current_worker.h"

namespace rubato::api {
namespace {

constexpr uint32_t kLeastUrgent = limits::kPriorityLevels - 1;

void begin(const Request& request) {
  const rubato_class& what = ApiRequest::of(request).what;
  if (what.is_long == 0) return;
  long_begin(static_cast<uint8_t>(std::min(what.priority, kLeastUrgent)));
}

// The handler has returned: waits for the reply if that is given later.
void settle(Request& request) {
  rubato_later* const later = std::exchange(ApiRequest::of(request).later, nullptr);
  if (later == nullptr) return;
  const bool wanted = !ApiRequest::of(request).failed;
  const std::string* const bytes = wanted ? later->wait() : nullptr;
  if (bytes == nullptr || !ApiSession::of(request).reply(request, *bytes)) {
    ApiSession::fail(request);
  }
  later->leave();
}

void send_answered(Request& request) {
  settle(request);
  ApiSession& session = ApiSession::of(request);
  if (ApiRequest::of(request).what.is_long != 0) long_end();
  session.answered(request);
  rubato::send(request);
}

void send_failed(Request& request) {
  ApiSession::fail(request);
  send_answered(request);
}

}  // namespace

Status Service::check(const rubato_application& application) {
  const int shapes = (application.handle != nullptr ? 1 : 0) +
                     (application.loop != nullptr ? 1 : 0) +
                     (application.process != nullptr ? 1 : 0);
  if (shapes != 1) {
    return Error{"application: takes one of handle, loop, process; got " + std::to_string(shapes)};
  }
  if ((application.process == nullptr) != (application.build_response == nullptr)) {
    return Error{"application: process and build_response come together"};
  }
  if (application.framing > RUBATO_FRAMING_RPC) {
    return Error{"framing: " + std::to_string(application.framing) + " is not 0, 1, 2 or 3"};
  }
  if ((application.framing == RUBATO_FRAMING_USER) != (application.frame != nullptr)) {
    return Error{"frame: goes with RUBATO_FRAMING_USER, and with nothing else"};
  }
  return check_type_names(application.type_names, application.type_names_count);
}

Service::Service(const rubato_application& application, size_t max_request_bytes,
                 size_t max_reply_bytes, const rpc::AdmissionOptions& admission)
    : application_(application),
      max_request_bytes_(max_request_bytes),
      max_reply_bytes_(max_reply_bytes) {
  if (framing() == RUBATO_FRAMING_RPC) {
    admission_ = std::make_unique<rpc::AdmissionController>(admission);
  }
  for (size_t i = 0; i < application.type_names_count; ++i) {
    type_names_.emplace_back(application.type_names[i]);
  }
}

std::unique_ptr<Session> Service::open(const Peer& peer) {
  return std::make_unique<ApiSession>(*this, peer);
}

Status Service::init() {
  if (application_.init == nullptr) return Done{};
  rubato_error error{};
  int status = RUBATO_ERROR;
  const bool returned = guarded([&] { status = application_.init(application_.user, &error); });
  if (returned && status == RUBATO_OK) return Done{};
  error.text[sizeof error.text - 1] = '\0';
  if (error.text[0] != '\0') return Error{std::string("init: ") + error.text};
  return Error{returned ? "init: the application's init failed" : "init: an exception was thrown"};
}

int Service::call(Request& request) {
  rubato_request* const handle = to_c(&request);
  if (application_.handle != nullptr) return application_.handle(application_.user, handle);
  void* result = nullptr;
  const int status = application_.process(application_.user, handle, &result);
  if (status != RUBATO_OK) return status;
  return application_.build_response(application_.user, handle, result);
}

// The runtime's own loop sends the request afterwards.
void Service::handle(Request& request) {
  ApiSession& session = ApiSession::of(request);
  if (ApiSession::starts(request)) {
    begin(request);
    int status = RUBATO_ERROR;
    const bool returned = guarded([&] { status = call(request); });
    if (!returned || status != RUBATO_OK) ApiSession::fail(request);
    settle(request);
    if (ApiRequest::of(request).what.is_long != 0) long_end();
  }
  session.answered(request);
}

// A loop that throws fails its current request, and is called again. A loop that returns early has
// one waiting request refused, so it cannot hold up the other requests in silence.
void Service::run_loop() {
  for (;;) {
    guarded([this] { application_.loop(application_.user); });
    Request* left = current_request();
    if (left == nullptr) left = rubato::recv();
    if (left == nullptr) return;
    send_failed(*left);
  }
}

Request* Service::recv() {
  if (current_worker() == nullptr) return nullptr;
  if (Request* unsent = current_request()) {
    if (!ApiSession::of(*unsent).service().has_loop()) return nullptr;
    send_failed(*unsent);
  }
  for (;;) {
    Request* request = rubato::recv();
    if (request == nullptr) return nullptr;
    if (ApiSession::starts(*request)) {
      begin(*request);
      return request;
    }
    send_answered(*request);
  }
}

bool Service::send(Request* request) {
  if (request == nullptr || request != current_request()) return false;
  if (!ApiSession::of(*request).service().has_loop()) return false;
  send_answered(*request);
  return true;
}

std::string Service::type_name(uint32_t type) const {
  return type < type_names_.size() ? type_names_[type] : std::to_string(type);
}

void Service::count_refusal(rubato_refusal reason) {
  switch (reason) {
    case RUBATO_REFUSED_OVERLOAD: break;  // the runtime counts those
    case RUBATO_REFUSED_FAILED: failed_.fetch_add(1, std::memory_order_relaxed); break;
    case RUBATO_REFUSED_MALFORMED:
    case RUBATO_REFUSED_TOO_LARGE: malformed_.fetch_add(1, std::memory_order_relaxed); break;
  }
}

}  // namespace rubato::api
