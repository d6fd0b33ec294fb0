// SPDX-License-Identifier: Apache-2.0
#include "load/generator.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>

#include "load/balanced_flows.h"
#include "load/datagram_flows.h"
#include "load/flow_set.h"
#include "load/rpc_flows.h"
#include "load/steal_time.h"
#include "mechanism/clock/clock.h"

namespace rubato::load {
namespace {

constexpr int kSendsPerTurn = 32;  // then look for replies
constexpr uint64_t kMostCounted = 10'000'000;

std::unique_ptr<Flows> make_flows(const Endpoint& endpoint, const LoadOptions& options,
                                  FlowEvents& events) {
  if (speaks_rpc(options.target)) return make_rpc_flows(endpoint, options, events);
  if (over_udp(options.target.protocol)) {
    return make_datagram_flows(endpoint, options, events);
  }
  return std::make_unique<FlowSet>(endpoint, options, events);
}

// Requests without a reply are then not the server's fault alone.
void note_lost_here(uint64_t datagrams, RunReport& report) {
  report.settings.emplace_back("datagrams_lost_by_generator", std::to_string(datagrams));
  if (datagrams == 0 || report.valid || report.lost == 0) return;
  report.invalid_reason += fmt::format(" (the generator itself lost {} datagrams)", datagrams);
}

}  // namespace

Nanos next_paced(Nanos due, Nanos gap, Nanos now) {
  return now - due < gap ? due + gap : now + gap;
}

Generator::Generator(const LoadOptions& options, RequestSource& source, Arrivals arrivals)
    : options_(options),
      source_(source),
      arrivals_(std::move(arrivals)),
      recorder_(options, source.types()),
      request_prng_(options.seed + 1),
      flow_prng_(options.seed + 2) {}

Nanos Generator::elapsed() const { return rubato::now() - start_; }

void Generator::on_reply(const Outstanding& request, Instant at) {
  recorder_.replied(request.type, at - start_, at - request.due, request.service, request.measured);
}

void Generator::on_failed(const Outstanding& request, Outcome outcome, std::string_view text) {
  recorder_.failed(request.type, outcome, text, request.measured);
}

void Generator::on_lost(const Outstanding& request) {
  recorder_.lost(request.type, timed_out_, request.measured);
}

void Generator::send_one(uint32_t flow, Nanos due, Nanos lag) {
  bytes_.clear();
  const RequestSource::Draw draw = source_.draw(request_prng_, bytes_);
  const bool measured = recorder_.measured(due);
  if (measured) recorder_.sent(draw.type, lag);
  flows_->send(flow, bytes_,
               {.due = start_ + due,
                .service = draw.service,
                .type = draw.type,
                .measured = measured,
                .setup = false});
}

void Generator::send_due(Nanos now) {
  for (int i = 0; i < kSendsPerTurn && next_due_ <= now && !schedule_done(); ++i) {
    const uint32_t flow =
        options_.pick == Pick::kIdle ? flows_->pick_idle(flow_prng_) : flows_->pick_any(flow_prng_);
    if (flow == kNoFlow) {
      blocked_until_ = now;
      if (!next_waited_) recorder_.waited_for_flow();
      next_waited_ = true;
      return;
    }
    // The wait for a connection is the server's fault; only the rest of the delay is ours.
    send_one(flow, next_due_, now - std::max(next_due_, std::min(blocked_until_, now)));
    next_due_ = arrivals_.next();
    next_waited_ = false;
    now = elapsed();
  }
}

void Generator::send_closed(Nanos now) {
  for (uint32_t i = 0; i < options_.closed_clients && now < options_.duration; ++i) {
    if (now < next_due_) return;
    const uint32_t flow = flows_->pick_idle(flow_prng_);
    if (flow == kNoFlow) return;
    send_one(flow, now, Nanos(0));
    next_due_ = next_paced(next_due_, options_.closed_gap, now);
    now = elapsed();
  }
}

bool Generator::schedule_done() const { return next_due_ >= options_.duration; }

// Counts the requests that were due but never sent. Beyond kMostCounted the rest is estimated from
// the rate.
void Generator::count_unsent() {
  uint64_t count = 0;
  while (!schedule_done() && count < kMostCounted) {
    if (recorder_.measured(next_due_)) ++count;
    next_due_ = arrivals_.next();
  }
  if (!schedule_done()) {
    const double rest = (options_.duration - next_due_).seconds() * options_.rate;
    count += static_cast<uint64_t>(rest);
  }
  recorder_.unsent(count);
}

void Generator::show_progress(Nanos now) {
  if (now < next_progress_) return;
  next_progress_ = now + Nanos::seconds(1);
  const Histogram recent = recorder_.take_recent();
  std::fprintf(stderr, "\r%4.0f s  %9llu/s  p50 %.1f us  p99 %.1f us  max %.1f us  failed %llu   ",
               now.seconds(),
               static_cast<unsigned long long>(recorder_.replies() - progress_replies_),
               recent.percentile(50).micros(), recent.percentile(99).micros(),
               recent.max().micros(), static_cast<unsigned long long>(recorder_.failures()));
  std::fflush(stderr);
  progress_replies_ = recorder_.replies();
}

// The warm-up shows which threads of the server are its workers.
void Generator::look_for_stalls(Nanos now) {
  if (!warm_ && recorder_.measured(now) && now > Nanos(0)) {
    watch_->keep_busy();
    warm_ = true;
  }
  next_look_ = now + kWatchInterval;
  stalls_.clear();
  watch_->poll(now, stalls_);
  for (const Stall& stall : stalls_) recorder_.stalled(stall);
  recorder_.settle(now);
}

// Sleeps until a request is due or a reply comes; only --watch has another reason to wake up.
// Requires that all replies were taken before the last sending: a request that is due then waits
// for a reply, so that no free connection sleeps beside it.
void Generator::nap(Nanos now) {
  constexpr Nanos kLongest = Nanos::millis(20);
  Nanos until = now + kLongest;
  if (options_.watched_server != 0) until = std::min(until, next_look_);
  const bool more = closed_loop() ? next_due_ > now : !schedule_done();
  if (more && blocked_until_ < next_due_) until = std::min(until, next_due_);
  flows_->wait(until - elapsed());
}

Status Generator::open_flows() {
  std::vector<Endpoint> servers;
  for (const Target& target : options_.targets()) {
    Result<Endpoint> endpoint = resolve(target);
    if (!endpoint) return Error{endpoint.error()};
    servers.push_back(std::move(*endpoint));
  }
  if (servers.size() == 1) {
    flows_ = make_flows(servers.front(), options_, *this);
  } else {
    auto balanced = std::make_unique<BalancedFlows>(
        static_cast<uint32_t>(servers.size()), options_.balancing, options_.seed + 3,
        [&](uint32_t server, FlowEvents& events) {
          return make_flows(servers[server], options_, events);
        },
        static_cast<FlowEvents&>(*this));
    balanced_ = balanced.get();
    flows_ = std::move(balanced);
  }
  return flows_->open_all(closed_loop() ? options_.closed_clients : options_.flows);
}

// Which server answered how many.
void Generator::add_servers(RunReport& report) const {
  if (balanced_ == nullptr) return;
  const std::vector<uint64_t> replies = balanced_->replies();
  const std::vector<Target> targets = options_.targets();
  for (size_t i = 0; i < replies.size(); ++i) {
    report.servers.push_back({targets[i].text(), replies[i]});
  }
}

Result<RunReport> Generator::run(const volatile std::sig_atomic_t* stop) {
  if (Status opened = open_flows(); !opened) return Error{opened.error()};

  Result<CoreWatch> watch = CoreWatch::open(options_.watched_server, options_.nap);
  if (!watch) return Error{watch.error()};
  watch_.emplace(std::move(*watch));
  if (options_.before_first) {
    if (Status begun = options_.before_first(); !begun) return Error{begun.error()};
  }

  if (options_.nap) ::prctl(PR_SET_TIMERSLACK, 1);
  const StealTime steal_before = read_steal_time();
  start_ = rubato::now();
  watch_->begin();
  next_due_ = closed_loop() ? Nanos(0) : arrivals_.next();
  const Nanos deadline = options_.duration + options_.reply_timeout;
  Nanos last;
  std::string broke;
  while (true) {
    const Nanos now = elapsed();
    recorder_.turn(now - last);
    last = now;
    if (*stop != 0 || now >= deadline) break;
    const Status polled = flows_->poll(start_ + now);
    if (!polled) {
      broke = polled.error();
      break;
    }
    const Nanos sending = elapsed();
    closed_loop() ? send_closed(sending) : send_due(sending);
    flows_->push();
    if (now >= next_look_) look_for_stalls(now);
    const bool all_sent = closed_loop() || schedule_done();
    if (now >= options_.duration && all_sent && flows_->outstanding() == 0) break;
    if (options_.progress) show_progress(now);
    if (options_.nap) {
      nap(sending);
      last = elapsed();
    }
  }
  if (options_.progress) std::fputs("\r\033[K", stderr);
  if (!broke.empty() && recorder_.replies() == 0) return Error{broke};

  const bool cut_short = *stop != 0 && last < options_.duration;
  if (cut_short) {
    recorder_.interrupted();
  } else {
    timed_out_ = true;
    flows_->abandon();
    if (!closed_loop()) count_unsent();
  }
  look_for_stalls(elapsed());
  recorder_.settle(Nanos::max());
  RunReport report = recorder_.report(cut_short ? last : options_.duration);
  if (!broke.empty()) {
    report.valid = false;
    report.invalid_reason = broke;
  }
  if (report.undisturbed) report.undisturbed->server_threads = watch_->server_threads();
  add_servers(report);
  if (options_.open_wire) note_lost_here(flows_->lost_here(), report);
  report.noise->steal_percent = steal_percent(steal_before, read_steal_time());
  return report;
}

}  // namespace rubato::load
