// SPDX-License-Identifier: Apache-2.0
//
// Service: a rubato_application as the runtime sees one. It opens sessions, runs handlers, hooks or
// the server loop, and ensures that each request is answered or refused once, whatever the
// callbacks do. Thread safe as Application and Protocol require; the application guards the data of
// its callbacks.
#pragma once

#include <rubato/rubato.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rpc/admission.h"
#include "runtime/app.h"

namespace rubato::api {

inline rubato_request* to_c(Request* request) { return reinterpret_cast<rubato_request*>(request); }
inline Request* from_c(rubato_request* request) { return reinterpret_cast<Request*>(request); }
inline const Request& from_c(const rubato_request* request) {
  return *reinterpret_cast<const Request*>(request);
}

class Service final : public Application, public Protocol {
 public:
  // Fails with one line if the application has not exactly one shape, or lacks what its framing
  // needs.
  static Status check(const rubato_application& application);

  // Requires a checked application.
  Service(const rubato_application& application, size_t max_request_bytes, size_t max_reply_bytes,
          const rpc::AdmissionOptions& admission = {});

  std::unique_ptr<Session> open(const Peer& peer) override;
  void handle(Request& request) override;
  std::string_view name_of_type(uint32_t type) const override {
    return type < type_names_.size() ? std::string_view(type_names_[type]) : std::string_view();
  }

  // The body of a worker's fiber if the application has a loop.
  bool has_loop() const { return application_.loop != nullptr; }
  void run_loop();
  // For the loop. recv: null = the server stops. send: false = not the current request.
  static Request* recv();
  static bool send(Request* request);

  // The init callback, if any.
  Status init();

  const rubato_application& application() const { return application_; }
  rubato_framing framing() const { return static_cast<rubato_framing>(application_.framing); }
  size_t max_request_bytes() const { return max_request_bytes_; }
  size_t max_reply_bytes() const { return max_reply_bytes_; }
  std::string type_name(uint32_t type) const;

  // The admission of the sessions with RUBATO_FRAMING_RPC; else null.
  rpc::AdmissionController* admission() const { return admission_.get(); }

  void count_refusal(rubato_refusal reason);
  uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }
  uint64_t malformed() const { return malformed_.load(std::memory_order_relaxed); }

 private:
  int call(Request& request);

  rubato_application application_;
  std::vector<std::string> type_names_;
  size_t max_request_bytes_;
  size_t max_reply_bytes_;
  std::unique_ptr<rpc::AdmissionController> admission_;
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> malformed_{0};
};

}  // namespace rubato::api
