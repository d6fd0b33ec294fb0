// SPDX-License-Identifier: Apache-2.0
#include "datapath/net_worker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "datapath/guest_queue.h"
#include "datapath/poll_lock.h"
#include "datapath/tcp_socket.h"
#include "datapath/time_source.h"
#include "datapath/wake_token.h"
#include "mechanism/cpu/pause.h"
#include "mechanism/queue/spsc_queue.h"

namespace rubato {
namespace {

constexpr Nanos kLongestSleep = Nanos::millis(250);  // of the thread, and of a worker
constexpr std::chrono::microseconds kFullNap{20};  // while no channel has room

uint32_t slot_of(uint32_t type) { return std::min(type, limits::kTypes - 1); }

// Until one of the files is readable, or the event is raised, which this takes back.
void wait_for(int event, const std::vector<int>& files, Nanos longest) {
  std::vector<pollfd> wanted{{event, POLLIN, 0}};
  for (const int file : files) wanted.push_back({file, POLLIN, 0});
  const timespec limit{0, longest.count()};
  ::ppoll(wanted.data(), wanted.size(), &limit, nullptr);
  uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t n = ::read(event, &wakes, sizeof wakes);
}

// Each guest may have less time for it, or not let its owner sleep.
void sleep_behind(std::span<GuestQueue* const> guests, Nanos limit,
                  const GuestQueue::Sleep& sleep) {
  if (guests.empty()) return sleep(limit);
  guests.front()->wait_by(
      limit, [&](Nanos less) { sleep_behind(guests.subspan(1), less, sleep); });
}

}  // namespace

// A worker's end: its channel, and its sleep.
class NetQueue final : public DatapathQueue {
 public:
  NetQueue(NetWorkerDatapath& net, DatapathQueue& wire, uint32_t me)
      : net_(net), wire_(wire), me_(me), channel_(NetWorkerDatapath::kChannelCapacity) {}

  uint32_t poll(std::span<Request*> out) override {
    net_.begin();
    uint32_t taken = 0;
    for (uint32_t i = 0; i < net_.queues() && taken < out.size(); ++i) {
      taken += net_.queues_[(me_ + i) % net_.queues()]->take(out.subspan(taken));
    }
    return taken;
  }
  bool pending() const override {
    return std::any_of(net_.queues_.begin(), net_.queues_.end(),
                       [](const auto& queue) { return queue->channel_.depth() > 0; });
  }

  // Requests name the queue that they came by.
  Request* finish(Request& request) override {
    RUBATO_CHECK(request.datapath != this);
    return request.datapath->finish(request);
  }
  void flush(Request& request) override {
    RUBATO_CHECK(request.datapath != this);
    request.datapath->flush(request);
  }
  void push() override { wire_.push(); }

  void wait(Nanos most) override {
    push();
    const std::chrono::nanoseconds limit(std::min(most, kLongestSleep).count());
    {
      const std::lock_guard guard(mutex_);
      ended_ = false;
    }
    if (token_.begin_wait()) {
      asleep_.store(true, std::memory_order_relaxed);
      StdSync::fence();
      if (!pending()) {
        std::unique_lock lock(mutex_);
        end_.wait_for(lock, limit, [this] { return ended_; });
      }
      asleep_.store(false, std::memory_order_relaxed);
    }
    token_.end_wait();
  }
  void wake() override {
    if (!token_.wake()) return;
    {
      const std::lock_guard guard(mutex_);
      ended_ = true;
    }
    end_.notify_one();
  }

  // The net worker's.
  bool put(Request* request) { return channel_.put(request); }
  // True: the worker sleeps, and nobody has claimed it to wake it.
  bool claim() {
    return asleep_.load(std::memory_order_relaxed) &&
           asleep_.exchange(false, std::memory_order_relaxed);
  }
  bool empty() const { return channel_.depth() == 0; }
  bool has_room() const { return channel_.depth() < channel_.capacity(); }

 private:
  uint32_t take(std::span<Request*> out) {
    if (channel_.depth() == 0) return 0;
    const PollLock lock(taking_);
    return lock.held() ? channel_.take_batch(out) : 0;
  }

  NetWorkerDatapath& net_;
  DatapathQueue& wire_;
  const uint32_t me_;
  SpscQueue<Request*> channel_;
  alignas(limits::kCacheLineBytes) std::atomic<bool> taking_{false};
  std::atomic<bool> asleep_{false};
  WakeToken<DatapathQueue> token_;
  std::mutex mutex_;  // guards ended_
  std::condition_variable end_;
  bool ended_ = false;
};

// What the queues wake, in whose sleep the thread sleeps. It has no requests.
class NetBell final : public DatapathQueue {
 public:
  int file() const { return event_.get(); }

  uint32_t poll(std::span<Request*>) override { return 0; }
  bool pending() const override { return false; }
  Request* finish(Request&) override { return nullptr; }
  void flush(Request&) override {}
  void wait(Nanos) override {}
  void wake() override {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
  }

 private:
  const Fd event_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

NetWorkerDatapath::NetWorkerDatapath(Datapath& of, uint32_t typed_capacity)
    : of_(of), typed_capacity_(typed_capacity) {
  for (uint32_t i = 0; i < of.queues(); ++i) {
    queues_.push_back(std::make_unique<NetQueue>(*this, of.queue(WorkerId{i}), i));
  }
}

Result<std::unique_ptr<NetWorkerDatapath>> NetWorkerDatapath::open(Datapath& of,
                                                                   uint32_t typed_capacity) {
  std::unique_ptr<NetWorkerDatapath> opened(new NetWorkerDatapath(of, typed_capacity));
  opened->bell_ = std::make_unique<NetBell>();
  if (opened->bell_->file() < 0) {
    return Error{std::string("cannot make an eventfd: ") + std::strerror(errno)};
  }
  for (uint32_t i = 0; i < of.queues(); ++i) {
    auto* const guest = dynamic_cast<GuestQueue*>(&of.queue(WorkerId{i}));
    if (guest == nullptr) break;
    guest->join(*opened->bell_);
    opened->guests_.push_back(guest);
  }
  opened->thread_ = std::thread([net = opened.get()] { net->run(); });
  return opened;
}

NetWorkerDatapath::~NetWorkerDatapath() {
  if (!thread_.joinable()) return;
  ended_.store(true, std::memory_order_seq_cst);
  begin();
  bell_->wake();
  of_.queue(WorkerId{0}).wake();
  thread_.join();
  for (DatapathQueue* queue : delegated_) queue->delegate_to(nullptr);
}

DatapathQueue& NetWorkerDatapath::queue(WorkerId worker) { return *queues_[worker.value]; }

uint64_t NetWorkerDatapath::refused_of(uint32_t type) const {
  return refused_[slot_of(type)].value();
}

uint64_t NetWorkerDatapath::refused() const {
  uint64_t sum = 0;
  for (const Counter& of_type : refused_) sum += of_type.value();
  return sum;
}

void NetWorkerDatapath::expose(OpenMetrics& out) const {
  out.family("rubato_net_worker_handed_out", "counter",
             "Requests that the net worker handed to workers.");
  out.counter(handed_out());
  out.family("rubato_net_worker_refused", "counter",
             "Requests refused as their type had too many unfinished ones.");
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    const std::string type = slot == kGroups ? "groups" : std::to_string(slot);
    if (refused_[slot].value() > 0) {
      out.counter(refused_[slot].value(), OpenMetrics::label("type", type));
    }
  }
}

void NetWorkerDatapath::ended(Request& request) {
  const uint32_t slot = std::exchange(request.counted_as, uint8_t{0}) - 1u;
  unfinished_[slot].count.fetch_sub(1, std::memory_order_relaxed);
}

void NetWorkerDatapath::begin() {
  if (begun_.load(std::memory_order_relaxed)) return;
  if (!begun_.exchange(true, std::memory_order_acq_rel)) begun_.notify_all();
}

void NetWorkerDatapath::run() {
  begun_.wait(false, std::memory_order_acquire);
  can_sleep_ = prepare_sleep();
  Instant found = datapath_now();
  while (!ended_.load(std::memory_order_relaxed)) {
    const bool received = receive();
    const bool handed = hand_out() > 0;
    if (received || handed) {
      found = datapath_now();
    } else if (held_ > 0) {
      std::this_thread::sleep_for(kFullNap);
    } else if (!can_sleep_ || datapath_now() - found < kSpin) {
      cpu_pause();
    } else {
      sleep();
    }
  }
}

bool NetWorkerDatapath::receive() {
  bool any = false;
  for (uint32_t i = 0; i < of_.queues(); ++i) {
    std::array<Request*, limits::kBurst> burst;
    const uint32_t n = of_.queue(WorkerId{i}).poll(burst);
    for (uint32_t each = 0; each < n; ++each) queue_up(burst[each]);
    any |= n > 0;
  }
  return any;
}

// A flow's next request is tried in place of one that was refused.
void NetWorkerDatapath::queue_up(Request* request) {
  while (request != nullptr) {
    const uint32_t slot = request->group != 0 ? kGroups : slot_of(request->type);
    std::atomic<uint32_t>& unfinished = unfinished_[slot].count;
    if (unfinished.load(std::memory_order_relaxed) < typed_capacity_) {
      unfinished.fetch_add(1, std::memory_order_relaxed);
      request->counted_as = static_cast<uint8_t>(slot + 1);
      typed_[slot].push_back(request);
      ++held_;
      return;
    }
    ++refused_[slot];
    request->refusal = Refusal::kFull;
    request->session->refuse(*request);
    request = request->datapath->finish(*request);
  }
}

// Returns how many; wakes as many sleepers, none of which was woken before.
uint32_t NetWorkerDatapath::hand_out() {
  uint32_t handed = 0;
  while (held_ > 0) {
    NetQueue* const to = with_room();
    if (to == nullptr) break;
    while (typed_[turn_].empty()) turn_ = (turn_ + 1) % kSlots;
    if (!to->put(typed_[turn_].front())) break;
    typed_[turn_].pop_front();
    turn_ = (turn_ + 1) % kSlots;
    --held_;
    ++handed;
  }
  if (handed == 0) return 0;
  handed_out_ += handed;
  StdSync::fence();
  uint32_t woken = 0;
  for (const auto& queue : queues_) {
    if (woken == handed) break;
    if (!queue->claim()) continue;
    queue->wake();
    ++woken;
  }
  return handed;
}

// A channel that is empty, else one with room; workers come in turn.
NetQueue* NetWorkerDatapath::with_room() {
  NetQueue* found = nullptr;
  for (uint32_t i = 0; i < queues_.size(); ++i) {
    NetQueue& queue = *queues_[(next_ + i) % queues_.size()];
    if (!queue.has_room()) continue;
    if (found == nullptr) found = &queue;
    if (!queue.empty()) continue;
    found = &queue;
    break;
  }
  next_ = (next_ + 1) % static_cast<uint32_t>(queues_.size());
  return found;
}

// False: the queues have nothing to sleep on.
bool NetWorkerDatapath::prepare_sleep() {
  for (const GuestQueue* guest : guests_) {
    if (guest->files().empty()) return false;
    files_.insert(files_.end(), guest->files().begin(), guest->files().end());
  }
  if (!guests_.empty()) return true;
  for (uint32_t i = 1; i < of_.queues(); ++i) {
    DatapathQueue& queue = of_.queue(WorkerId{i});
    if (!queue.delegate_to(&of_.queue(WorkerId{0}))) return false;
    delegated_.push_back(&queue);
  }
  return true;
}

void NetWorkerDatapath::sleep() {
  for (uint32_t i = 0; i < of_.queues(); ++i) {
    if (of_.queue(WorkerId{i}).pending()) return;
  }
  if (guests_.empty()) return of_.queue(WorkerId{0}).wait(kLongestSleep, delegated_);
  sleep_behind(guests_, kLongestSleep,
               [this](Nanos limit) { wait_for(bell_->file(), files_, limit); });
}

}  // namespace rubato
