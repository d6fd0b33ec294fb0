// SPDX-License-Identifier: Apache-2.0
//
// Application and Server: the C++ interface over <rubato/rubato.h>, which has the rules for
// threads, stacks and callbacks in full. Header only; the calls into the library are C.
//
// An Application has one of three shapes:
//   handle        called for each request; `classify` may give the request's class beforehand;
//   loop          runs on every worker: recv(), feedback, send() (Synergy, Algorithm 5.1);
//   hooks(h)      h.init(), h.process(request), h.build_response(request, result) (SBB, table 2).
// Callbacks run on several workers at once, so the application guards the data that they share. An
// exception from a callback is caught and given to on_exception, except for Cancelled, which a
// checkpoint throws. If handle, loop or a hook throws, its request is refused, the connection is
// closed, and Stats::failed counts the request. If `frame` throws, the request is malformed; if
// `classify` throws, the request has the default class.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <rubato/feedback.hpp>
#include <rubato/options.hpp>
#include <rubato/recorded.hpp>
#include <rubato/request.hpp>
#include <rubato/rubato.h>
#include <rubato/status.hpp>

namespace rubato::inline v1 {

struct Application {
  // Exactly one of the two is set; hooks() fills in handle.
  std::function<void(Request&)> handle;
  std::function<void()> loop;

  // The callbacks below may be empty, except frame with Framing::kUser. Server::run calls init
  // once, before the workers start.
  std::function<Status()> init;
  Framing framing = Framing::kLengthPrefix;
  std::function<Frame(std::string_view unread)> frame;  // only with Framing::kUser
  std::function<Class(std::string_view payload)> classify;
  std::function<void(Request&, Refusal)> refuse;  // replies to a refused request
  std::function<std::unique_ptr<Connection>(uint64_t id, std::string_view peer)> connected;
  std::function<void(std::exception_ptr)> on_exception;  // on the worker; brief
  std::vector<std::string> type_names;                   // in the metrics
};

// The server loop; only Application::loop calls these. recv returns the next request, or an empty
// one when the server stops, and the loop must then return. recv may switch. send returns false if
// `request` is not the one that recv returned last.
inline Request recv() { return Request(rubato_recv()); }
inline bool send(const Request& request) { return rubato_send(request.c()) == RUBATO_OK; }

template <class H>
concept Hooks = requires(H& hooks, Request& request) {
  { hooks.init() } -> std::convertible_to<Status>;
  hooks.process(request);
};

// Makes an application from three hooks. `target` outlives the server. The result of process, if it
// is not void, is passed to build_response.
template <Hooks H>
Application hooks(H& target) {
  Application application;
  application.init = [&target]() -> Status { return target.init(); };
  application.handle = [&target](Request& request) {
    if constexpr (std::is_void_v<decltype(target.process(request))>) {
      target.process(request);
      target.build_response(request);
    } else {
      target.build_response(request, target.process(request));
    }
  };
  return application;
}

namespace detail {

// The C callbacks of an Application: `user` points to it, and no exception leaves them.
struct Callbacks {
  static const Application& of(void* user) { return *static_cast<const Application*>(user); }

  template <class F>
  static int guarded(void* user, F&& call) noexcept {
    try {
      call(of(user));
      return RUBATO_OK;
    } catch (const Cancelled&) {
      return RUBATO_ERROR;
    } catch (...) {
      if (of(user).on_exception) of(user).on_exception(std::current_exception());
      return RUBATO_ERROR;
    }
  }

  static int handle(void* user, rubato_request* c) {
    return guarded(user, [c](const Application& app) {
      Request request(c);
      app.handle(request);
    });
  }
  static void loop(void* user) {
    static_cast<void>(guarded(user, [](const Application& app) { app.loop(); }));
  }
  static int init(void* user, rubato_error* error) {
    int status = RUBATO_OK;
    const int returned = guarded(user, [&](const Application& app) {
      const Status done = app.init();
      if (done.ok()) return;
      status = RUBATO_ERROR;
      std::snprintf(error->text, sizeof error->text, "%s", done.error().c_str());
    });
    return returned == RUBATO_OK ? status : returned;
  }
  static int frame(void* user, const char* bytes, size_t size, rubato_frame* to) {
    Frame found = Frame::malformed();
    static_cast<void>(guarded(
        user, [&](const Application& app) { found = app.frame(std::string_view(bytes, size)); }));
    *to = found.where;
    return found.state;
  }
  static void classify(void* user, const char* payload, size_t size, rubato_class* to) {
    Class what;
    static_cast<void>(guarded(user, [&](const Application& app) {
      what = app.classify(std::string_view(payload, size));
    }));
    *to = {what.type, what.is_long ? 1u : 0u, what.priority, what.is_control ? 1u : 0u,
           static_cast<uint64_t>(std::max<int64_t>(what.deadline.count(), 0))};
  }
  static void refuse(void* user, rubato_request* c, int reason) {
    static_cast<void>(guarded(user, [=](const Application& app) {
      Request request(c);
      app.refuse(request, static_cast<Refusal>(reason));
    }));
  }
  static void* connected(void* user, uint64_t id, const char* peer) {
    std::unique_ptr<Connection> made;
    static_cast<void>(
        guarded(user, [&](const Application& app) { made = app.connected(id, peer); }));
    return made.release();
  }
  static void disconnected(void*, void* state) { delete static_cast<Connection*>(state); }

  // The result points into `app` and `names`, which outlive the call of rubato_server_create.
  static rubato_application c_of(Application& app, std::vector<const char*>& names, Texts& texts) {
    rubato_application c;
    rubato_application_init(&c, sizeof c);
    c.user = &app;
    c.framing = static_cast<uint32_t>(app.framing);
    if (app.handle) c.handle = &handle;
    if (app.loop) c.loop = &loop;
    if (app.init) c.init = &init;
    if (app.frame) c.frame = &frame;
    if (app.classify) c.classify = &classify;
    if (app.refuse) c.refuse = &refuse;
    if (app.connected) {
      c.connected = &connected;
      c.disconnected = &disconnected;
    }
    for (const std::string& name : app.type_names) {
      names.push_back(texts.of("type_names", name));
    }
    c.type_names = names.data();
    c.type_names_count = names.size();
    return c;
  }
};

}  // namespace detail

class Server : public Recorded<Server, rubato_server_trace, rubato_server_record,
                               rubato_server_write_profile> {
 public:
  // Creates a server: it binds its address and reserves its resources, but serves no request yet.
  // Fails with one line when an option is out of range, the policy is unknown, the address is in
  // use, or the application has not exactly one shape. Any thread.
  static Result<Server> create(const Options& options, Application application) {
    Server server;
    server.application_ = std::make_unique<Application>(std::move(application));
    detail::COptions c_options(options);
    std::vector<const char*> names;
    const rubato_application c =
        detail::Callbacks::c_of(*server.application_, names, c_options.texts);
    if (!c_options.texts.error.empty()) return Error{c_options.texts.error};
    rubato_error error{};
    server.c_.reset(rubato_server_create(&c_options.c, &c, &error));
    if (server.c_ == nullptr) return Error{error.text};
    return server;
  }

  // Serves on threads of its own and blocks until the server has stopped. A server runs once. True:
  // all requests in flight were answered before the drain limit. Fails if init fails, if the
  // metrics or agent port is in use, or if a file that is recorded into cannot be written. Any
  // thread but a worker.
  Result<bool> run() {
    rubato_error error{};
    const int status = rubato_server_run(c_.get(), &error);
    if (status == RUBATO_ERROR) return Error{error.text};
    return status == RUBATO_OK;
  }

  // Stops the server: it takes no new requests and finishes those in flight, and run() returns
  // after the drain limit at the latest. May be called on any thread, any number of times, before
  // run(), and in a signal handler.
  void stop() noexcept { rubato_server_stop(c_.get()); }

  // The TCP ports, 0 = none; is_serving() is true until the server is told to stop; times() takes a
  // type of request, 0 .. 255. Any thread.
  uint32_t port() const { return rubato_server_port(c_.get()); }
  uint32_t metrics_port() const { return rubato_server_metrics_port(c_.get()); }
  uint32_t agent_port() const { return rubato_server_agent_port(c_.get()); }
  bool is_serving() const { return rubato_server_is_serving(c_.get()) != 0; }
  Stats stats() const {
    Stats stats;
    rubato_server_stats(c_.get(), &stats, sizeof stats);
    return stats;
  }
  Times times(uint32_t type) const {
    Times times;
    rubato_server_times(c_.get(), type, &times.latency, &times.service);
    return times;
  }

  // Runs one step of the timer core, for PreemptionClock::kEmbedded. Call it about every
  // microsecond while the server runs, from one thread at a time.
  void poll_timer() { rubato_server_poll_timer(c_.get()); }

  rubato_server* c() const { return c_.get(); }

 private:
  struct Destroy {
    void operator()(rubato_server* c) const { rubato_server_destroy(c); }
  };

  Server() = default;

  std::unique_ptr<Application> application_;  // outlives c_, which calls it
  std::unique_ptr<rubato_server, Destroy> c_;
};

// A client of a server with Transport::kLoopback; the client must not outlive the server. Any
// thread but a worker, one at a time.
class LoopbackClient {
 public:
  explicit LoopbackClient(Server& server)
      : server_(server.c()), connection_(rubato_loopback_connect(server_)) {}
  ~LoopbackClient() { rubato_loopback_close(server_, connection_); }
  LoopbackClient(const LoopbackClient&) = delete;
  LoopbackClient& operator=(const LoopbackClient&) = delete;

  bool connected() const { return connection_ != 0; }
  // Sends all bytes. False: the connection is closed, or the bytes do not fit into the 1 MiB that
  // may be in transit.
  bool send(std::string_view bytes) {
    return rubato_loopback_send(server_, connection_, bytes.data(), bytes.size()) == RUBATO_OK;
  }
  // Waits for `size` bytes of replies and returns them; fewer if the connection is closed or the
  // limit has passed.
  std::string receive(size_t size, std::chrono::nanoseconds limit = std::chrono::seconds(10)) {
    std::string bytes(size, '\0');
    bytes.resize(
        rubato_loopback_receive(server_, connection_, bytes.data(), size, limit.count()));
    return bytes;
  }

 private:
  rubato_server* server_;
  uint64_t connection_;
};

}  // namespace rubato::inline v1
