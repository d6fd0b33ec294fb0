// SPDX-License-Identifier: Apache-2.0
#include "sim/piped_policy.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "policy/contract.h"
#include "sim/engine.h"
#include "sim/static_server.h"
#include "workload/source.h"

namespace rubato::sim {
namespace {

constexpr std::string_view kPrefix = "pipe:";
constexpr size_t kMostLine = 1u << 16;

// Ends the run, whose hooks cannot fail otherwise; never leaves this file.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  Words words;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

template <class Number>
std::optional<Number> number(std::string_view word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

uint64_t number_of(const Job& job) { return reinterpret_cast<uintptr_t>(&job); }

std::string text(std::initializer_list<int64_t> values) {
  std::string line;
  for (const int64_t value : values) line += " " + std::to_string(value);
  return line;
}

std::string job_text(const Job& job) {
  return " " + std::to_string(number_of(job)) +
         text({job.arrived.ns(), job.started.ns(), job.attained.count(), job.size_hint.count(),
               job.deadline.ns()}) +
         " " + std::to_string(job.policy_word) + " " + std::to_string(job.flow) +
         text({job.type, job.preemptions, static_cast<int64_t>(job.job_class), job.priority});
}

// The verbs of whatever host the engine has.
class Verbs {
 public:
  virtual Instant now() = 0;
  virtual uint32_t depth(QueueRef q) = 0;
  virtual uint64_t first_word(QueueRef q) = 0;
  virtual bool busy(WorkerId worker) = 0;
  virtual uint64_t arrived(uint32_t type) = 0;
  virtual Served served(uint32_t type) = 0;
  virtual Job* take(QueueRef q) = 0;
  virtual bool put(QueueRef q, Job* job) = 0;
  virtual uint32_t random(uint32_t n) = 0;

 protected:
  ~Verbs() = default;
};

template <class H>
class VerbsOf final : public Verbs {
 public:
  explicit VerbsOf(H& host) : host_(host) {}
  Instant now() override { return host_.now(); }
  uint32_t depth(QueueRef q) override { return host_.depth(q); }
  uint64_t first_word(QueueRef q) override { return host_.first_word(q); }
  bool busy(WorkerId worker) override { return host_.busy(worker); }
  uint64_t arrived(uint32_t type) override { return host_.arrived(type); }
  Served served(uint32_t type) override { return host_.served(type); }
  Job* take(QueueRef q) override { return host_.take(q); }
  bool put(QueueRef q, Job* job) override { return host_.put(q, job); }
  uint32_t random(uint32_t n) override { return host_.random(n); }

 private:
  H& host_;
};

constexpr std::array<QueueDeclaration, 3> kPipedQueues{{
    {"own", Scope::kPerWorker, Sharing::kShared},
    {"shared", Scope::kGlobal, Sharing::kShared, limits::kTypes},
    {.name = "ordered", .scope = Scope::kGlobal, .sharing = Sharing::kShared,
     .queue_count = limits::kTypes, .order = Order::kByWord},
}};

std::string name_of(QueueRef q) {
  return std::string(kPipedQueues[q.declaration].name) + " " + std::to_string(q.index);
}

// While it lives, this thread's writes into a pipe that nobody reads fail, and raise no SIGPIPE.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec at_once{};
    while (::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
};

// The conversation. Throws Broken.
class Conversation {
 public:
  Conversation(int in, int out, const Setup& setup) : in_(in), out_(out), workers_(setup.workers) {
    for (const RequestType& type : types_of(setup.workload)) types_.push_back(type.name);
    std::string start = "start" + text({setup.workers}) + " " + std::to_string(setup.seed) +
                        text({static_cast<int64_t>(types_.size())});
    for (const std::string& type : types_) start += "\n" + type;
    const Words reply = converse("start", start, nullptr);
    const auto period = reply.size() == 3 ? number<int64_t>(reply[1]) : std::nullopt;
    if (!period || *period < 0) fail("start", "takes = HOOKS PERIOD INTERCHANGEABLE");
    hooks_ = "," + std::string(reply[0]) + ",";
    if (*period > 0) period_ = Nanos(*period);
    interchangeable_ = reply[2] == "1";
  }

  bool has(std::string_view hook) const {
    return hooks_.find("," + std::string(hook) + ",") != std::string::npos;
  }
  Nanos period() const { return period_; }
  bool interchangeable() const { return interchangeable_; }

  // What the hook returns.
  Words ask(const char* hook, const std::string& arguments, Verbs& host) {
    return converse(hook, hook + arguments + text({host.now().ns()}), &host);
  }
  int64_t ask_number(const char* hook, const std::string& arguments, Verbs& host) {
    const Words reply = ask(hook, arguments, host);
    const auto value = reply.size() == 1 ? number<int64_t>(reply[0]) : std::nullopt;
    if (!value) fail(hook, "returns no number");
    return *value;
  }

  Nanos ask_quantum(const Job& job, Verbs& host) {
    const Words reply = ask("quantum", job_text(job), host);
    if (reply.size() == 1 && reply[0] == "-") return Nanos::max();
    const auto length = reply.size() == 1 ? number<int64_t>(reply[0]) : std::nullopt;
    if (!length) fail("quantum", "returns neither None nor a number");
    if (*length <= 0) {
      fail("quantum", "returns " + std::to_string(*length) + ": a slice has a length");
    }
    return Nanos(*length);
  }

  // Of route and requeue; the job waits there from now on.
  QueueRef ask_queue(const char* hook, Job& job, const std::string& more, Verbs& host) {
    const Words reply = ask(hook, job_text(job) + more, host);
    const auto word = reply.size() == 3 ? number<uint64_t>(reply[2]) : std::nullopt;
    if (!word || *word == kNoWord) fail(hook, "returns no queue and word below 2^64 - 1");
    job.policy_word = *word;
    const QueueRef q = queue(hook, reply, 0);
    waits(job, q);
    return q;
  }
  void waits(const Job& job, QueueRef q) {
    waiting_.insert_or_assign(&job, Waiting{job.arrived, job.type, q});
  }
  void waits_no_more(const Job& job) { waiting_.erase(&job); }

  void tell_finished(const Job& job, Nanos service) {
    converse("finished", "finished" + job_text(job) + text({service.count()}), nullptr);
  }

  Job* ask_next(WorkerId me, Verbs& host) {
    const Words reply = ask("next", text({me.value}), host);
    Job* chosen = nullptr;
    if (reply.size() != 1 || (reply[0] != "-" && (chosen = give_back(reply[0])) == nullptr)) {
      fail("next", "returns neither None nor a request that it has taken");
    }
    check_taken("next", "neither returns it nor puts it back");
    return chosen;
  }

  void ask_dispatch(Verbs& host) {
    ask("dispatch", "", host);
    check_taken("dispatch", "does not put it anywhere");
  }

  // After a run to its end: a request that is left is one that no worker will take.
  void check_end(const Outcome& outcome) const {
    const auto& more = outcome.counters.more;
    const auto left = std::find_if(more.begin(), more.end(), [](const auto& counter) {
      return std::string_view(counter.first) == "left_waiting";
    });
    if (left == more.end() || left->second == 0) return;
    const auto first = std::min_element(
        waiting_.begin(), waiting_.end(),
        [](const auto& a, const auto& b) { return a.second.arrived < b.second.arrived; });
    if (first == waiting_.end()) return;
    const Waiting& lost = first->second;
    throw Broken{"loses " + std::to_string(left->second) + " requests, the first of them " +
                 named(lost.type, lost.arrived) + ": it waits in '" + name_of(lost.queue) +
                 "', from which no worker takes it"};
  }

 private:
  struct Waiting {
    Instant arrived;
    uint32_t type;
    QueueRef queue;
  };

  [[noreturn]] static void fail(std::string_view hook, const std::string& why) {
    throw Broken{std::string(hook) + " " + why};
  }

  // What the hook has taken must be somewhere.
  void check_taken(const char* hook, const char* fault) const {
    if (taken_.empty()) return;
    const Job& lost = *taken_.front();
    fail(hook, "loses the request " + named(lost.type, lost.arrived) + ": takes it, and " + fault);
  }

  std::string named(uint32_t type, Instant arrived) const {
    const bool known = type > 0 && type <= types_.size();
    const std::string name = known ? types_[type - 1] : "(unknown)";
    const std::string at = std::to_string(arrived.ns() / 1000) + "." +
                           std::to_string(1000 + arrived.ns() % 1000).substr(1);
    return "of type '" + name + "' that arrived at " + at + " us";
  }

  Words converse(const char* hook, const std::string& question, Verbs* host) {
    say(question);
    for (;;) {
      const Words words = words_of(hear());
      if (words.empty()) fail(hook, "replies with an empty line");
      if (words[0] == "=") return {words.begin() + 1, words.end()};
      if (host == nullptr) fail(hook, "asks for what only a host has");
      say(verb(hook, words, *host));
    }
  }

  std::string verb(std::string_view hook, const Words& words, Verbs& host) {
    const std::string_view name = words[0];
    if (name == "depth") return std::to_string(host.depth(queue(hook, words, 1)));
    if (name == "first_word") {
      const QueueRef q = queue(hook, words, 1);
      const bool has_words = kPipedQueues[q.declaration].order == Order::kByWord;
      if (!has_words) fail(hook, "asks for the first word of '" + name_of(q) + "'");
      return std::to_string(host.first_word(q));
    }
    if (name == "take") return take(hook, queue(hook, words, 1), host);
    if (name == "put") return put(hook, words, host);
    const auto count = words.size() == 2 ? number<uint32_t>(words[1]) : std::nullopt;
    if (!count) fail(hook, "asks for '" + std::string(name) + "' without its number");
    if (name == "busy" && *count < workers_) return host.busy(WorkerId{*count}) ? "1" : "0";
    if (name == "random" && *count > 0) return std::to_string(host.random(*count));
    if (name == "arrived" && *count < limits::kTypes) return std::to_string(host.arrived(*count));
    if (name == "served" && *count < limits::kTypes) {
      const Served served = host.served(*count);
      return text({static_cast<int64_t>(served.count), served.service.count(),
                   served.waited.count()})
          .substr(1);
    }
    fail(hook, "asks for '" + std::string(name) + " " + std::string(words[1]) + "'");
  }

  std::string take(std::string_view hook, QueueRef q, Verbs& host) {
    if (hook != "next" && hook != "dispatch") {
      fail(hook, "takes a request, as only next and dispatch may");
    }
    Job* const job = host.take(q);
    if (job == nullptr) return "-";
    taken_.push_back(job);
    waits_no_more(*job);  // also if it is refused at its turn
    return job_text(*job).substr(1);
  }

  std::string put(std::string_view hook, const Words& words, Verbs& host) {
    const QueueRef q = queue(hook, words, 1);
    const auto word = words.size() == 5 ? number<uint64_t>(words[4]) : std::nullopt;
    Job* const job = word && *word != kNoWord ? give_back(words[3]) : nullptr;
    if (job == nullptr) fail(hook, "puts a request that it has not taken");
    job->policy_word = *word;
    if (host.put(q, job)) {
      waits(*job, q);
      return "1";
    }
    taken_.push_back(job);
    return "0";
  }

  // The one of the taken that has the number; it is taken no more. Null: none has.
  Job* give_back(std::string_view word) {
    const auto wanted = number<uint64_t>(word);
    const auto found = std::find_if(taken_.begin(), taken_.end(), [&](const Job* job) {
      return wanted && number_of(*job) == *wanted;
    });
    if (found == taken_.end()) return nullptr;
    Job* const job = *found;
    taken_.erase(found);
    return job;
  }

  QueueRef queue(std::string_view hook, const Words& words, size_t from) const {
    std::optional<uint32_t> declaration, index;
    if (words.size() >= from + 2) {
      declaration = number<uint32_t>(words[from]);
      index = number<uint32_t>(words[from + 1]);
    }
    if (!declaration || !index || *declaration >= kPipedQueues.size()) fail(hook, "names no queue");
    const bool own = kPipedQueues[*declaration].scope == Scope::kPerWorker;
    const uint32_t count = own ? workers_ : kPipedQueues[*declaration].queue_count;
    const QueueRef q{*declaration, *index};
    if (*index >= count) {
      fail(hook, "names the queue '" + name_of(q) + "', of which there are " +
                     std::to_string(count));
    }
    return q;
  }

  void say(std::string line) {
    line += '\n';
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t done = ::write(out_, rest.data(), rest.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) throw Broken{"does not listen any more"};
      rest.remove_prefix(static_cast<size_t>(done));
    }
  }

  // Valid until the next call.
  std::string_view hear() {
    heard_.erase(0, read_);
    size_t end = 0;
    while ((end = heard_.find('\n')) == std::string::npos) {
      std::array<char, 4096> piece;
      const ssize_t got = ::read(in_, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw Broken{"has gone before the end of the run"};
      heard_.append(piece.data(), static_cast<size_t>(got));
      if (heard_.size() > kMostLine) throw Broken{"says more than a line can hold"};
    }
    read_ = end + 1;
    return std::string_view(heard_).substr(0, end);
  }

  const int in_, out_;
  const uint32_t workers_;
  std::vector<std::string> types_;
  std::string hooks_;
  Nanos period_ = Nanos::max();
  bool interchangeable_ = false;
  std::string heard_;
  size_t read_ = 0;
  std::vector<Job*> taken_;  // by the present hook
  std::unordered_map<const Job*, Waiting> waiting_;
};

class PipedPolicy {
 public:
  static constexpr const char* kName = "python";
  static constexpr const char* kSummary = "what another program decides, over a pipe";
  static constexpr const char* kSource = "sim/piped_policy.h";
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr bool kUsesSizes = true;
  static constexpr std::array<QueueDeclaration, 3> kQueues = kPipedQueues;

  struct Config {
    Conversation* with;
  };
  using Worker = None;
  using Central = None;
  using Plan = None;

  explicit PipedPolicy(Config config) : with_(*config.with) {}

  bool interchangeable() const { return with_.interchangeable(); }
  Nanos adapt_period() const { return with_.period(); }

  template <class H>
  QueueRef route(Job& job, WorkerId at, H& host) const {
    if (with_.has("route")) {
      VerbsOf<H> verbs(host);
      return with_.ask_queue("route", job, text({at.value}), verbs);
    }
    const QueueRef q{0, at.value};
    with_.waits(job, q);
    return q;
  }

  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    VerbsOf<H> verbs(host);
    return with_.ask_next(me, verbs);
  }

  template <class H>
  void begins(Worker&, const Job& job, WorkerId me, H& host) const {
    with_.waits_no_more(job);
    if (!with_.has("begins")) return;
    VerbsOf<H> verbs(host);
    with_.ask("begins", job_text(job) + text({me.value}), verbs);
  }

  template <class H>
  Nanos quantum(const Worker&, const Job& job, H& host) const {
    if (!with_.has("quantum")) return Nanos::max();
    VerbsOf<H> verbs(host);
    return with_.ask_quantum(job, verbs);
  }

  template <class H>
  SliceDecision expired(const Job& job, WorkerId me, H& host) const {
    if (!with_.has("expired")) return SliceDecision::kContinue;
    VerbsOf<H> verbs(host);
    const bool leaves = with_.ask_number("expired", job_text(job) + text({me.value}), verbs) != 0;
    return leaves ? SliceDecision::kPreempt : SliceDecision::kContinue;
  }

  template <class H>
  QueueRef requeue(Job& job, RequeueReason why, WorkerId me, H& host) const {
    if (!with_.has("requeue")) return route(job, me, host);
    VerbsOf<H> verbs(host);
    return with_.ask_queue("requeue", job, text({static_cast<int64_t>(why), me.value}), verbs);
  }

  void finished(Worker&, const Job& job, Nanos service) const {
    with_.waits_no_more(job);  // it went on where its queue was full
    if (!with_.has("finished")) return;
    with_.tell_finished(job, service);
  }

  template <class H>
  bool may_serve(QueueRef q, WorkerId worker, H& host) const {
    if (!with_.has("may_serve")) return true;
    VerbsOf<H> verbs(host);
    return with_.ask_number("may_serve", text({q.declaration, q.index, worker.value}), verbs) != 0;
  }

  template <class H>
  Plan adapt(Central&, H& host) const {
    if (with_.has("adapt")) {
      VerbsOf<H> verbs(host);
      with_.ask("adapt", "", verbs);
    }
    return {};
  }

 protected:
  Conversation& with_;
};

// One that pushes: a host calls `dispatch` after each event.
class PushingPolicy : public PipedPolicy {
 public:
  using PipedPolicy::PipedPolicy;

  template <class H>
  void dispatch(Central&, H& host) const {
    VerbsOf<H> verbs(host);
    with_.ask_dispatch(verbs);
  }
};

template <class P>
Outcome run(const Setup& setup, Conversation& conversation, const Watch& watch) {
  Engine<P, StaticServer> engine(setup, {&conversation}, watch);
  return engine.run();
}

// Of "pipe:IN,OUT"; nothing = it is not that.
std::optional<std::pair<int, int>> descriptors_of(std::string_view policy) {
  if (!policy.starts_with(kPrefix)) return std::nullopt;
  policy.remove_prefix(kPrefix.size());
  const size_t comma = policy.find(',');
  const auto in = number<int>(policy.substr(0, comma));
  const auto out =
      comma < policy.size() ? number<int>(policy.substr(comma + 1)) : std::optional<int>();
  if (!in || !out) return std::nullopt;
  return std::pair(*in, *out);
}

}  // namespace

bool is_piped(std::string_view policy) { return descriptors_of(policy).has_value(); }

Result<Outcome> simulate_piped(std::string_view policy, const Setup& setup, const Watch& watch) {
  static std::atomic<bool> running{false};
  const auto descriptors = descriptors_of(policy);
  if (!descriptors) return Error{"policy: takes pipe:IN,OUT"};
  for (const int fd : {descriptors->first, descriptors->second}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    return Error{"policy: pipe:IN,OUT names descriptors, and " + std::to_string(fd) +
                 " is not open"};
  }
  if (running.exchange(true, std::memory_order_acquire)) {  // pairs with the release below
    return Error{"policy: takes one run over a pipe at a time"};
  }
  const auto done = [](std::atomic<bool>* flag) { flag->store(false, std::memory_order_release); };
  const std::unique_ptr<std::atomic<bool>, decltype(done)> ends(&running, done);
  const NoPipeSignal quiet;
  try {
    Conversation conversation(descriptors->first, descriptors->second, setup);
    Outcome outcome = conversation.has("dispatch")
                          ? run<PushingPolicy>(setup, conversation, watch)
                          : run<PipedPolicy>(setup, conversation, watch);
    if (!outcome.stopped) conversation.check_end(outcome);
    return outcome;
  } catch (const Broken& broken) {
    return Error{std::string("policy: ") + broken.what()};
  }
}

}  // namespace rubato::sim
