// SPDX-License-Identifier: Apache-2.0
//
// The functions of <rubato/rubato.h>, which documents them. The exception of a failed allocation
// becomes an error at set-up; in a callback it fails the callback's request.
#include <rubato/rubato.h>

#include <algorithm>
#include <exception>
#include <new>

#include "api/error.h"
#include "api/later.h"
#include "api/options.h"
#include "api/server.h"
#include "api/service.h"
#include "api/session.h"
#include "api/versioned.h"
#include "runtime/fiber_local.h"
#include "runtime/waiting.h"

using rubato::Nanos;
using rubato::Request;
using rubato::api::ApiRequest;
using rubato::api::ApiSession;
using rubato::api::from_c;
using rubato::api::say;
using rubato::api::Service;

void rubato_options_init(rubato_options* options, size_t size) {
  rubato::api::write_versioned(rubato::api::default_options(), options, size);
}

void rubato_application_init(rubato_application* application, size_t size) {
  rubato::api::write_versioned(rubato_application{}, application, size);
}

const char* rubato_version(void) { return RUBATO_VERSION; }

rubato_server* rubato_server_create(const rubato_options* options,
                                    const rubato_application* application, rubato_error* error) {
  try {
    auto created = rubato_server::create(options, application);
    if (created.ok()) return created.value().release();
    say(error, created.error());
  } catch (const std::exception& trouble) {
    say(error, trouble.what());
  }
  return nullptr;
}

int rubato_server_run(rubato_server* server, rubato_error* error) {
  try {
    const auto drained = server->run();
    if (drained.ok()) return drained.value() ? RUBATO_OK : RUBATO_DRAIN_LIMIT;
    say(error, drained.error());
  } catch (const std::exception& trouble) {
    say(error, trouble.what());
  }
  return RUBATO_ERROR;
}

void rubato_server_stop(rubato_server* server) { server->stop(); }

void rubato_server_destroy(rubato_server* server) { delete server; }

uint32_t rubato_server_port(const rubato_server* server) { return server->port(); }

uint32_t rubato_server_metrics_port(const rubato_server* server) { return server->metrics_port(); }

uint32_t rubato_server_agent_port(const rubato_server* server) { return server->agent_port(); }

int rubato_server_is_serving(const rubato_server* server) { return server->is_serving() ? 1 : 0; }

void rubato_server_poll_timer(rubato_server* server) { server->poll_timer(); }

void rubato_server_stats(const rubato_server* server, rubato_stats* stats, size_t size) {
  rubato::api::write_versioned(server->stats(), stats, size);
}

void rubato_server_times(const rubato_server* server, uint32_t type, rubato_times* latency,
                         rubato_times* service) {
  if (latency != nullptr) *latency = server->latency(type);
  if (service != nullptr) *service = server->service(type);
}

int rubato_server_trace(rubato_server* server, int wanted, rubato_error* error) {
  return rubato::api::tell(error, [&] { return server->recorders().trace(wanted != 0); });
}

int rubato_server_record(rubato_server* server, int wanted, rubato_error* error) {
  return rubato::api::tell(error, [&] { return server->recorders().record(wanted != 0); });
}

int rubato_server_write_profile(rubato_server* server, rubato_error* error) {
  return rubato::api::tell(error, [&] { return server->recorders().write_profile(); });
}

const char* rubato_request_payload(const rubato_request* request, size_t* size) {
  const Request& inner = from_c(request);
  const std::string_view payload = ApiRequest::of(inner).payload(inner);
  if (size != nullptr) *size = payload.size();
  return payload.data();
}

int rubato_request_reply(rubato_request* request, const void* bytes, size_t size) {
  Request& inner = *from_c(request);
  const std::string_view appended(static_cast<const char*>(bytes), size);
  return ApiSession::of(inner).reply(inner, appended) ? RUBATO_OK : RUBATO_ERROR;
}

rubato_later* rubato_request_defer(rubato_request* request) {
  Request& inner = *from_c(request);
  rubato_later*& later = ApiRequest::of(inner).later;
  if (later != nullptr || !rubato::waiting::is_waited_for_here(inner)) return nullptr;
  return later = new (std::nothrow) rubato_later;
}

int rubato_later_append(rubato_later* later, const void* bytes, size_t size) {
  const std::string_view more(static_cast<const char*>(bytes), size);
  const bool appended = rubato::api::guarded([&] { later->append(more); });
  return appended && later->wanted() ? RUBATO_OK : RUBATO_ERROR;
}

void rubato_later_send(rubato_later* later) { later->tell(true); }

void rubato_later_drop(rubato_later* later) {
  if (later != nullptr) later->tell(false);
}

void rubato_request_close_after(rubato_request* request) { from_c(request)->close_after = true; }

void rubato_request_fail(rubato_request* request) { ApiSession::fail(*from_c(request)); }

int rubato_request_cancelled(const rubato_request* request) {
  return from_c(request).cancelled ? 1 : 0;
}

uint32_t rubato_request_type(const rubato_request* request) { return from_c(request).type; }

uint32_t rubato_request_preemptions(const rubato_request* request) {
  return from_c(request).preemptions;
}

uint64_t rubato_request_connection_id(const rubato_request* request) {
  return from_c(request).flow;
}

void* rubato_request_connection(const rubato_request* request) {
  return ApiSession::of(from_c(request)).state();
}

int64_t rubato_request_retry_after_ns(const rubato_request* request) {
  return from_c(request).retry_after.count();
}

rubato_request* rubato_recv(void) { return rubato::api::to_c(Service::recv()); }

int rubato_send(rubato_request* request) {
  return Service::send(from_c(request)) ? RUBATO_OK : RUBATO_ERROR;
}

void rubato_long_begin(uint32_t priority) {
  rubato::long_begin(
      static_cast<uint8_t>(std::min(priority, rubato::limits::kPriorityLevels - 1)));
}

void rubato_long_end(void) { rubato::long_end(); }

void rubato_preempt_disable(void) {
  rubato::disable_preemption();
}

void rubato_preempt_enable(void) {
  rubato::enable_preemption();
}

uint32_t rubato_fiber_local_new_key(void) { return rubato::new_fiber_local_key(); }

void* rubato_fiber_local(uint32_t key) { return rubato::fiber_local(key); }

int rubato_fiber_local_set(uint32_t key, void* value, void (*destroy)(void* value)) {
  try {
    rubato::set_fiber_local(key, value, destroy);
    return RUBATO_OK;
  } catch (const std::exception&) {
    return RUBATO_ERROR;
  }
}

uint64_t rubato_loopback_connect(rubato_server* server) {
  return server->loopback() == nullptr ? 0 : server->loopback()->connect();
}

int rubato_loopback_send(rubato_server* server, uint64_t connection, const void* bytes,
                         size_t size) {
  if (server->loopback() == nullptr) return RUBATO_ERROR;
  const std::string_view all(static_cast<const char*>(bytes), size);
  return server->loopback()->submit(connection, all) ? RUBATO_OK : RUBATO_ERROR;
}

size_t rubato_loopback_receive(rubato_server* server, uint64_t connection, void* bytes, size_t size,
                               int64_t limit_ns) {
  if (server->loopback() == nullptr) return 0;
  return server->loopback_receive(connection, static_cast<char*>(bytes), size, Nanos(limit_ns));
}

void rubato_loopback_close(rubato_server* server, uint64_t connection) {
  if (server->loopback() != nullptr) server->loopback_close(connection);
}
