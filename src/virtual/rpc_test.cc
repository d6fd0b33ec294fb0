// SPDX-License-Identifier: Apache-2.0
//
// A server that speaks Rubato RPC in virtual time, over TCP and over UDP, with clients that ask for
// more than it can do: datagrams that are lost, come twice and overtake each other, connections
// that are reset in the middle of a frame. Each request ends once and gets its own reply, the
// server's counts are those of its clients, no credit is lost, the workers do not all sleep while a
// client waits, and the server ends soon.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "datapath/joint.h"
#include "datapath/tcp.h"
#include "datapath/udp_wire.h"
#include "mechanism/clock/clock.h"
#include "policy/testing/replay.h"
#include "rpc/admission.h"
#include "rpc/client_session.h"
#include "rpc/frames.h"
#include "rpc/server_session.h"
#include "rpc/udp.h"
#include "runtime/runtime.h"
#include "runtime/testing/live_policies.h"
#include "virtual/testing/connection.h"
#include "virtual/testing/cores.h"
#include "virtual/testing/credits.h"
#include "virtual/testing/each_seed.h"
#include "virtual/testing/waiting_work.h"
#include "virtual/testing/watch.h"
#include "virtual/world.h"

namespace rubato {
namespace {

using rpc::Ending;
using testing::LivePolicy;
using virt::testing::Cores;
using virt::testing::WaitingWork;
using virt::testing::Watch;

struct Setting {
  static constexpr uint32_t kFibers = 128;

  Setting(const LivePolicy& live, Prng& prng)
      : policy(live),
        workers(1u << prng.below(5)),
        clients(1 + prng.below(8)),
        requests(5 + prng.below(60)),
        udp(prng.below(2) == 0),
        breaks(prng.below(2) == 0),
        target(Nanos::micros(5 << prng.below(6))) {
    world.seed = prng.next();
    world.latency = Nanos::micros(1 + prng.below(50));
    world.end = Nanos::seconds(60);
    ranked = world.seed % 3 == 0;
    limited = ranked && world.seed % 2 == 0;
    if (prng.below(4) == 0) max_fibers = workers + 1 + prng.below(8);
    if (prng.below(4) == 0) no_memory_one_in = 1 + prng.below(8);
    if (prng.below(4) == 0) {  // a wake-up that is missed is not made up for by the next request
      quiet = true;
      clients = 1 + prng.below(2);
    }
    if (workers > 1 && prng.below(4) == 0) cores = Cores::draw(prng, workers);
    beside_tcp = udp && prng.below(2) == 0;
    if (prng.below(2) == 0) idle_spin = Nanos(prng.below(5000));
    if (prng.below(2) == 0) in_service = 2 + prng.below(4);
    impatient = prng.below(2) == 0;
    patient = prng.below(2) == 0;
    if (prng.below(3) == 0) {
      faulty = true;
      world.stall_places_one_in = 1u << prng.below(3);
      return;
    }
    if (prng.below(2) == 0) return;
    faulty = true;
    if (prng.below(4) == 0) world.clock_jump_one_in = 1'000u << prng.below(5);
    world.cut_one_in = 3;
    world.lose_one_in = 8;
    world.late_wake_up_one_in = 8;
    world.spurious_wake_up_one_in = 8;
    if (prng.below(2) == 0) {
      world.stall_one_in = 4'000u << prng.below(4);
    } else {
      world.write_stall_one_in = 50u << prng.below(4);
      world.plain_stall_one_in = 500u << prng.below(6);
    }
  }

  // All that was sent arrives, and is answered for as long as the server is there.
  bool reliable() const { return !breaks && !(udp && faulty); }

  // Of bytes, and with them of what they have the peer send.
  Nanos longest_on_the_way() const {
    constexpr int64_t kLatencies = 12;
    return world.latency * kLatencies + (world.cut_one_in > 0 ? world.late_most * 2 : Nanos());
  }

  std::string describe() const {
    return policy.name + (", " + std::to_string(workers)) + " workers, " + std::to_string(clients) +
           " clients, " + (udp ? "UDP" : "TCP") + (beside_tcp ? " beside TCP" : "") +
           (faulty ? ", faults" : "") +
           (breaks ? ", breaks" : "") + (quiet ? ", quiet" : "") +
           (limited ? ", limited" : ranked ? ", ranked" : "") +
           (impatient ? ", impatient" : "") + (patient ? ", patient" : "") + cores.describe() +
           ", target " + std::to_string(target.count()) + " ns, in service " +
           std::to_string(in_service) +
           (max_fibers < kFibers ? ", fibers " + std::to_string(max_fibers) : "") +
           (no_memory_one_in > 0 ? ", no memory one in " + std::to_string(no_memory_one_in) : "");
  }

  LivePolicy policy;
  uint32_t workers;
  uint32_t clients;
  uint32_t requests;
  bool udp;
  bool beside_tcp = false;  // whose sleep the queues of UDP join in; nobody connects
  bool breaks;  // clients give their sessions up, in different ways
  bool quiet = false;  // one request at a time, with rests
  bool ranked = false;  // requests tell how urgent they are, and clients ask for the load
  bool limited = false;  // which a limiter goes by
  bool impatient = false;  // clients say again and again what they have queued
  bool patient = false;  // they keep it until they have a credit
  Cores cores = {};
  Nanos target;
  Nanos idle_spin = Nanos::micros(50);
  uint32_t in_service = rpc::kMaxInService;  // of a session
  uint32_t max_fibers = kFibers;
  uint32_t no_memory_one_in = 0;
  bool faulty = false;
  virt::WorldOptions world;
};

// ---- The server's application ---------------------------------------------------------------

// The body of a request is `MICROSECONDS SHORT|LONG NUMBER`, and so is that of its reply.
struct EchoRequest final : RequestData {
  rpc::ServerRequest rpc;
  std::string body;
  Nanos service;
  bool is_long = false;
};

// The ends of requests that the server has written, whether or not their clients hear of them.
struct Written {
  std::atomic<uint64_t> replies{0};  // and errors of single requests
  std::atomic<uint64_t> refusals{0};
  std::atomic<uint64_t> refused_as_they_came{0};  // of these, by admission

  // `owes_welcome`: they answer the request that came with the hello.
  void count(std::string_view frames, bool owes_welcome) {
    while (!frames.empty()) {
      const rpc::Decoded frame = rpc::decode(frames, rpc::Side::kServer);
      ASSERT_EQ(frame.state, rpc::Decoded::State::kComplete);
      frames.remove_prefix(frame.length);
      if (frame.message.kind == rpc::Kind::kRefusal) ++refusals;
      const bool failed = frame.message.kind == rpc::Kind::kError && frame.message.id != 0;
      EXPECT_TRUE(!std::exchange(owes_welcome, false) ||
                  frame.message.kind == rpc::Kind::kWelcome);
      if (failed || frame.message.kind == rpc::Kind::kResponse) ++replies;
    }
  }
};

class EchoSession final : public Session {
 public:
  EchoSession(rpc::AdmissionController& admission, const Peer& peer,
              const rpc::SessionLimits& limits, Written& written)
      : rpc_(admission, peer.flow, limits, peer.address), written_(written) {}

  uint32_t concurrency() const override { return rpc_.limits().in_service; }
  std::unique_ptr<RequestData> make_request_data() override {
    return std::make_unique<EchoRequest>();
  }
  Frame frame(std::string_view unread, Request& request) override {
    EchoRequest& own = of(request);
    const Frame found = rpc_.find(unread, request, own.rpc);
    if (found.state == FrameState::kComplete) understand(request, own);
    return found;
  }
  bool admits(Request& request) override { return rpc_.admits(of(request).rpc); }
  void refuse(Request& request) override { rpc::ServerSession::refused(request, of(request).rpc); }
  void answer(Request& request) override {
    const size_t before = request.reply->size();
    const bool owes_welcome = of(request).rpc.owes_welcome;
    if (of(request).rpc.refuses()) ++written_.refused_as_they_came;
    rpc_.answer(request, of(request).rpc);
    written_.count(request.reply->unsent().substr(before), owes_welcome);
  }
  void complete(Request& request, ReplyBuffer& to) override {
    const size_t before = to.size();
    const bool owes_welcome = of(request).rpc.owes_welcome;
    rpc_.complete(request, of(request).rpc, to, request.reply->unsent());
    written_.count(to.unsent().substr(before), owes_welcome);
  }
  void on_push(ReplyBuffer& reply) override { rpc_.on_push(reply); }

  // Called on the worker, which does not own the session.
  static void run(Request& request) {
    constexpr Nanos kStep = Nanos(500);
    EchoRequest& own = of(request);
    if (own.is_long) long_begin();
    for (Nanos done; done < own.service && !request.cancelled; done += kStep) {
      virt::spend(kStep);
      checkpoint();
    }
    if (own.is_long) long_end();
    if (request.cancelled) {
      own.rpc.outcome = rpc::ServerRequest::Outcome::kFailed;
      own.rpc.fault = rpc::Fault::kFailed;
    } else {
      request.reply->append(own.body);
    }
  }

 private:
  static EchoRequest& of(const Request& request) {
    return static_cast<EchoRequest&>(*request.data);
  }

  void understand(Request& request, EchoRequest& own) {
    own.body = own.rpc.body;
    int64_t us = 0;
    std::from_chars(own.body.data(), own.body.data() + own.body.size(), us);
    own.service = Nanos::micros(us);
    own.is_long = own.body.find("LONG") != std::string::npos;
    request.type = own.is_long ? 2 : 1;
    request.size_hint = own.service;
    rpc_.set_class(own.rpc, own.is_long ? rpc::kLongClass : rpc::kShortClass);
  }

  rpc::ServerSession rpc_;
  Written& written_;
};

class Echo final : public Application, public Protocol {
 public:
  Echo(rpc::AdmissionController& admission, const rpc::SessionLimits& limits)
      : admission_(admission), limits_(limits) {}
  std::unique_ptr<Session> open(const Peer& peer) override {
    return std::make_unique<EchoSession>(admission_, peer, limits_, written_);
  }
  void handle(Request& request) override { EchoSession::run(request); }
  const Written& written() const { return written_; }

 private:
  rpc::AdmissionController& admission_;
  const rpc::SessionLimits limits_;
  Written written_;
};

// ---- The server -----------------------------------------------------------------------------

class RpcServer {
 public:
  RpcServer(const Setting& setting, Watch& watch)
      : admission_(admission_options(setting)), application_(admission_, limits(setting)) {
    if (setting.beside_tcp) {
      datapath_ = open_both(setting);
    } else if (setting.udp) {
      datapath_ = open_udp(setting);
    } else {
      datapath_ = open_tcp(setting);
    }
    attachment_ = std::make_unique<rpc::AdmissionAttachment>(admission_, *datapath_);
    RuntimeOptions options;
    options.policy = setting.policy.name;
    options.workers = setting.workers;
    options.max_fibers = setting.max_fibers;
    options.inbox_capacity = options.shared_capacity = 1024;  // more than clients send ahead
    options.credits = &admission_;
    options.idle_spin = setting.idle_spin;
    setting.cores.add_to(options);
    if (setting.limited) {
      options.overload = Overload::kDagor;
      options.overload_settings = {{"window", "50us"}};
      options.refusal_rule.target_delay = setting.target;
    }
    runtime_ = Runtime::create(options, *datapath_, application_).value();
    runtime_->set_server_loop([this, &watch] {
      watch.note_worker();
      while (Request* request = recv()) {
        application_.handle(*request);
        send(*request);
      }
    });
    thread_ = std::thread([this] { drained_ = runtime_->run(); });
  }

  uint16_t port() const { return port_; }
  virt::testing::WaitingWork waiting(const LivePolicy& policy) {
    return {*runtime_, *datapath_, policy};
  }
  // True = everything in flight was answered.
  bool stop() {
    runtime_->stop();
    thread_.join();
    return drained_;
  }
  // The sessions that are left are closed.
  void close() {
    stats_ = runtime_->stats();
    runtime_.reset();
    attachment_.reset();
    datapath_.reset();
    guest_.reset();
    host_.reset();
  }
  rpc::AdmissionController& admission() { return admission_; }
  // A session has no credit though there are some.
  bool withholds_credits() const {
    return admission_.pool().drained() > 0 && admission_.pool().unissued() > 0;
  }
  const Written& written() const { return application_.written(); }
  const RuntimeStats& stats() const { return stats_; }

 private:
  std::unique_ptr<TcpDatapath> open_tcp(const Setting& setting) {
    TcpOptions options;
    options.queues = setting.workers;
    options.kernel_timestamps = false;
    auto tcp = TcpDatapath::open(options, application_).value();
    port_ = tcp->port();
    return tcp;
  }
  std::unique_ptr<rpc::UdpDatapath> open_udp(const Setting& setting) {
    UdpWireOptions options;
    options.queues = setting.workers;
    rpc::UdpOptions rules;
    rules.first_flow = uint64_t{1} << 40;
    auto udp = rpc::UdpDatapath::open(UdpWire::open(options).value(), rules, application_).value();
    port_ = udp->port();
    return udp;
  }
  std::unique_ptr<JointDatapath> open_both(const Setting& setting) {
    host_ = open_tcp(setting);
    guest_ = open_udp(setting);
    return JointDatapath::open(*host_, {guest_.get()}).value();
  }

  static rpc::AdmissionOptions admission_options(const Setting& setting) {
    rpc::AdmissionOptions options;
    options.workers = setting.workers;
    options.credits.target_delay = setting.target;
    options.credits.refuse_delay = setting.target * 2;
    return options;
  }
  static rpc::SessionLimits limits(const Setting& setting) {
    rpc::SessionLimits limits;
    limits.datagrams = setting.udp;
    limits.in_service = setting.in_service;
    return limits;
  }

  rpc::AdmissionController admission_;
  Echo application_;
  std::unique_ptr<TcpDatapath> host_;  // these two borrowed by the joint one
  std::unique_ptr<rpc::UdpDatapath> guest_;
  std::unique_ptr<Datapath> datapath_;
  std::unique_ptr<rpc::AdmissionAttachment> attachment_;
  std::unique_ptr<Runtime> runtime_;
  RuntimeStats stats_;
  std::thread thread_;
  uint16_t port_ = 0;
  bool drained_ = false;
};

class Client final : public rpc::ClientEvents {
 public:
  Client(const Setting& setting, uint32_t number, uint64_t seed, uint16_t port)
      : setting_(setting),
        number_(number),
        prng_(seed),
        port_(port),
        bodies_(setting.requests),
        ended_(setting.requests, 0) {
    rpc::ClientOptions options;
    options.session = number + 1;
    options.datagrams = setting.udp;
    options.expire = setting.patient ? Nanos() : Nanos::millis(5);
    options.answer_within = setting.reliable() ? Nanos() : Nanos::millis(50);
    session_ = std::make_unique<rpc::ClientSession>(options, *this);
  }

  void on_end(const rpc::Ended& request) override {
    EXPECT_LT(request.tag, ended_.size());
    EXPECT_EQ(++ended_[request.tag], 1u);
    ++of_ending_[static_cast<size_t>(request.ending)];
    if (request.ending == Ending::kReply) {
      EXPECT_EQ(request.body, bodies_.at(request.tag));
    }
  }

  void run() {
    open();
    for (uint64_t tag = 0; tag < setting_.requests; ++tag) {
      bodies_[tag] = body(tag);
      session_->submit(tag, bodies_[tag], now(), rank());
      exchange();
      if (setting_.ranked && prng_.below(4) == 0) probe();
      if (setting_.quiet) {
        while (session_->outstanding() > 0) wait(Nanos::micros(50));
        wait(Nanos::micros(1 + prng_.below(400)));
      } else if (prng_.below(3) != 0) {
        continue;
      }
      wait(Nanos::micros(1 + prng_.below(200)));
      if (setting_.breaks && prng_.below(8) == 0) break_off();
    }
    while (session_->outstanding() + session_->queued() > 0) wait(Nanos::millis(1));
    std::string bye;
    session_->leave(bye);
    send(bye);
    close();
  }

  // A reply, of a server that has answered before.
  Instant awaits_since() const { return awaiting_.since(); }
  uint64_t ended(Ending ending) const { return of_ending_[static_cast<size_t>(ending)]; }
  uint64_t all_ended() const {
    uint64_t sum = 0;
    for (const uint64_t count : of_ending_) sum += count;
    return sum;
  }

 private:
  // Most are short.
  std::string body(uint64_t tag) {
    const uint32_t us = prng_.below(8) == 0 ? 50 + prng_.below(100) : 1 + prng_.below(3);
    return std::to_string(us) + (us >= 50 ? " LONG " : " SHORT ") +
           std::to_string(tag * setting_.clients + number_);
  }

  void open() {
    if (setting_.udp) {
      fd_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    } else {
      connection_ = std::make_unique<virt::testing::Connection>(port_);
      fd_ = connection_->fd();
    }
  }
  void close() {
    if (setting_.udp) ::close(fd_);
    connection_.reset();
  }

  std::optional<rpc::Rank> rank() {
    if (!setting_.ranked || prng_.below(4) == 0) return std::nullopt;
    return rpc::Rank{static_cast<uint8_t>(prng_.below(rpc::kMaxPriority + 1)),
                     static_cast<uint8_t>(prng_.below(rpc::kMaxCohort + 1))};
  }
  void probe() {
    std::string frame;
    if (session_->probe(frame)) send(frame);
  }

  void exchange() {
    for (std::string frame; session_->next_frame(frame, now()); frame.clear()) send(frame);
  }
  void send(const std::string& frame) {
    if (!setting_.udp) {
      if (!connection_->send(frame)) lost();
      return;
    }
    const sockaddr_in to = virt::testing::loopback(port_);
    ::sendto(fd_, frame.data(), frame.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
             sizeof to);
  }

  // Takes what comes within that time.
  void wait(Nanos limit) {
    const Instant until = now() + limit;
    do {
      if (setting_.impatient && was_served_ && session_->queued() > 0) ask_again();
      pollfd ready{fd_, POLLIN, 0};
      const timespec time{0, std::max<int64_t>((until - now()).count(), 0)};
      // What it waits for may be on its way, lost, or refused for want of credits.
      if (setting_.reliable() && was_served_ && session_->outstanding() > 0) awaiting_.begin();
      if (::ppoll(&ready, 1, &time, nullptr) > 0) receive();
      if (session_->outstanding() == 0) awaiting_.end();
      session_->poll(now());
      exchange();
    } while (now() < until);
  }
  // While a session has no credit its demand and an offer to it may meet.
  void ask_again() {
    std::string frame;
    const auto queued = static_cast<uint32_t>(session_->queued());
    rpc::encode(frame, {rpc::Kind::kDemand, number_ + 1, queued, 0, {}});
    send(frame);
  }
  void receive() {
    char bytes[4096];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0 && setting_.udp) return;
    if (got <= 0) return lost();
    was_served_ = true;
    awaiting_.end();
    const Status taken = session_->receive({bytes, static_cast<size_t>(got)}, now());
    if (!taken.ok()) lost();
  }
  // In the middle of a frame, with a word, or with one that is none; requests may be in service.
  void break_off() {
    std::string last;
    switch (prng_.below(3)) {
      case 0:
        if (!setting_.udp && session_->next_frame(last, now())) {
          last.resize(prng_.below(static_cast<uint32_t>(last.size())));
        }
        break;
      case 1: session_->leave(last); break;
      default: last.assign(64, '?');
    }
    if (!last.empty()) send(last);
    if (prng_.below(2) == 0) wait(Nanos::micros(1 + prng_.below(100)));
    lost();
  }
  void lost() {
    EXPECT_FALSE(setting_.reliable());
    if (connection_ != nullptr && prng_.below(2) == 0) connection_->reset_at_close();
    close();
    session_->lost();
    was_served_ = false;
    open();
  }

  const Setting& setting_;
  const uint32_t number_;
  Prng prng_;
  const uint16_t port_;
  bool was_served_ = false;
  virt::testing::Awaiting awaiting_;
  std::vector<std::string> bodies_;  // by tag
  std::vector<uint32_t> ended_;  // by tag
  std::array<uint64_t, rpc::kEndings> of_ending_{};
  std::unique_ptr<rpc::ClientSession> session_;
  std::unique_ptr<virt::testing::Connection> connection_;
  int fd_ = -1;
};

// How long all workers may wait beside a client that waits, if no bytes are on their way; longer
// where cores come and go.
constexpr Nanos kIdleBound = Nanos::micros(300);
constexpr Nanos kIdleBoundOfCores = Nanos::millis(10);
// How long one worker may beside a request that any may run; as in virtual_runtime_test.
constexpr Nanos kWatchdogBound = Nanos::millis(5);
// The same beside what this worker alone may run.
constexpr Nanos kOwnBound = Nanos::millis(1);
// How long a session may have no credit while there are some: a quiet server looks every 20 ms.
constexpr Nanos kCreditBound = Nanos::millis(40);
constexpr Nanos kStopBound = Nanos::millis(50);

// What clients heard of, at least, is what was counted; what was counted is what was written.
void check_counts(const Setting& setting, RpcServer& server, uint64_t replied, uint64_t refused) {
  const rpc::AdmissionController::Counts counts = server.admission().counts();
  uint64_t counted = 0;
  for (const uint64_t count : counts.refused) counted += count;
  uint64_t by_admission = 0;
  for (const auto& by_class : counts.refused_by_admission) {
    for (const uint64_t count : by_class) by_admission += count;
  }
  EXPECT_EQ(counts.served, server.written().replies);
  EXPECT_EQ(counted, server.written().refusals);
  EXPECT_EQ(by_admission, server.written().refused_as_they_came);
  EXPECT_GE(counts.served, replied);
  EXPECT_GE(counted, refused);
  if (!setting.reliable()) return;
  EXPECT_EQ(counts.served, replied);
  EXPECT_EQ(counted, refused);
}

void serve(const Setting& setting, Prng& prng) {
  std::vector<std::unique_ptr<Client>> clients(setting.clients);
  std::atomic<bool> all_made{false};
  std::unique_ptr<RpcServer> server;
  std::optional<WaitingWork> waiting;
  std::atomic<bool> is_made{false};
  const bool quick = !setting.cores.come_and_go();
  Watch watch({.workers = setting.workers,
               .bound = (quick ? kIdleBound : kIdleBoundOfCores) + setting.longest_on_the_way(),
               .work_since =
                   [&] {
                     Instant since = Instant::never();
                     for (size_t i = 0; all_made && i < clients.size(); ++i) {
                       since = std::min(since, clients[i]->awaits_since());
                     }
                     return since;
                   },
               .any_may_run = [&] { return quick && is_made && waiting->is_for_all(); },
               .bound_of_each = kWatchdogBound,
               .has_own_work =
                   [&](uint32_t worker) {
                     return quick && is_made &&
                            (waiting->has_come(worker) || waiting->is_queued(worker));
                   },
               .bound_of_own = kOwnBound,
               .is_starved = [&] { return is_made && server->withholds_credits(); },
               .bound_of_starved = kCreditBound});
  server = std::make_unique<RpcServer>(setting, watch);
  waiting.emplace(server->waiting(setting.policy));
  is_made = true;
  watch.fail_memory(setting.no_memory_one_in);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < setting.clients; ++i) {
    clients[i] = std::make_unique<Client>(setting, i, prng.next(), server->port());
    threads.emplace_back([&client = *clients[i]] { client.run(); });
  }
  all_made = true;
  for (std::thread& thread : threads) thread.join();
  uint64_t replied = 0;
  uint64_t refused = 0;
  for (const auto& client : clients) {
    EXPECT_EQ(client->all_ended(), setting.requests);
    replied += client->ended(Ending::kReply);
    refused += client->ended(Ending::kRefused);
    EXPECT_EQ(client->ended(Ending::kFailed), 0u);
    if (setting.reliable()) {
      EXPECT_EQ(client->ended(Ending::kLost), 0u);
    }
  }
  watch.stop();
  const Instant stops = now();
  const Nanos faults = virt::faults_so_far() - std::max(virt::faults_over() - stops, Nanos());
  EXPECT_TRUE(server->stop());
  const Nanos took = now() - stops;  // the clock may jump at this reading
  EXPECT_LT(took.count(), (kStopBound + (virt::faults_so_far() - faults) * 2).count());
  server->close();
  check_counts(setting, *server, replied, refused);
  EXPECT_EQ(server->stats().preemptions, server->stats().resumed);
  server->admission().tick(now());
  EXPECT_TRUE(virt::testing::all_credits_are_back(server->admission()));
}

class VirtualRpc : public ::testing::TestWithParam<LivePolicy> {};

INSTANTIATE_TEST_SUITE_P(EveryPolicy, VirtualRpc, ::testing::ValuesIn(testing::all_live()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(VirtualRpc, each_request_ends_once_and_no_credit_is_lost) {
  virt::testing::each_seed(10, [](uint64_t seed) {
    Prng prng = virt::testing::prng_of(seed, GetParam().name);
    const Setting setting(GetParam(), prng);
    const testing::Replay replay(seed, setting.describe());
    virt::run(setting.world, [&] { serve(setting, prng); });
  });
}

}  // namespace
}  // namespace rubato
