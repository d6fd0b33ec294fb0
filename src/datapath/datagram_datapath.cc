// SPDX-License-Identifier: Apache-2.0
#include "datapath/datagram_datapath.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "datapath/datagram_queue.h"
#include "datapath/time_source.h"

namespace rubato {
namespace {

constexpr uint64_t kLeastFlow = uint64_t{1} << 60;
// The numbers end before twice that, so that two bits are left beside them in a word.
constexpr int kFreeBits = 4;

// Nothing of a datagram's reply has left before it is finished.
void take_back_all(ReplyBuffer& reply) {
  static_cast<void>(reply.take_back(reply.mark() - reply.size()));
}

// So many replies leave in a row that no request runs for: one flow does not hold a worker.
constexpr uint32_t kMostAnswers = 32;

// False: the session has the reply, or refuses since the server drains.
bool wants_to_run(const DatagramRequest& request, const DatagramDatapath::Shared& shared) {
  return !request.at_once && !shared.draining.is_set();
}

void answer(DatagramRequest& request) {
  request.at_once ? request.session->answer(request) : request.session->refuse(request);
}

// Returns the bytes of all its datagrams. Of several, the last leaves in the frame.
size_t send_reply(DatagramRequest& request, DatagramDatapath::Shared& shared) {
  const DatagramRules& rules = shared.rules;
  const Datagram& datagram = request.datagram;
  const size_t header = rules.header_bytes();
  if (header == 0) {
    const size_t size = request.reply->size();
    shared.wire->reply(datagram, size);
    return size;
  }
  const size_t most = std::min(datagram.room.size(), rules.most_datagram_bytes());
  const std::span<char> room = datagram.room.first(most);
  const size_t part = room.size() - header;
  std::string_view left = request.reply->unsent();
  const auto count = static_cast<uint32_t>((left.size() + part - 1) / part);
  const size_t sent = left.size() + count * header;
  for (uint32_t number = 0; number < count; ++number) {
    const std::string_view bytes = left.substr(0, part);
    left.remove_prefix(bytes.size());
    rules.put_header(request.payload, number, count, room.data());
    std::memcpy(room.data() + header, bytes.data(), bytes.size());
    const size_t size = header + bytes.size();
    if (left.empty()) {
      shared.wire->reply(datagram, size);
    } else {
      shared.wire->send(datagram.peer, {room.data(), size});
    }
  }
  return sent;
}

}  // namespace

DatagramQueue::DatagramQueue(DatagramDatapath::Shared& shared, WorkerId worker, Protocol& protocol,
                             const std::vector<std::unique_ptr<DatagramQueue>>& all)
    : GuestQueue(shared.wire->queue(worker)),
      shared_(shared),
      me_(worker),
      all_(all),
      session_(protocol.open({worker.value + uint64_t{1}, "datagrams", 0})),
      last_poll_(datapath_now()) {}

DatagramRequest& DatagramQueue::take_spare() {
  if (spare_ == nullptr) spare_ = finished_.take_all();
  if (spare_ == nullptr) {
    auto made = std::make_unique<DatagramRequest>();
    made->own_data = session_->make_request_data();
    made->data = made->own_data.get();
    made->session = session_.get();
    made->datapath = this;
    made->client = &shared_.client;
    made->reply_of_parts = ReplyBuffer(shared_.rules.most_reply_bytes(), shared_.rules.memory());
    requests_.push_back(std::move(made));
    return *requests_.back();
  }
  return *std::exchange(spare_, spare_->next_in_list);
}

uint32_t DatagramQueue::poll(std::span<Request*> out) {
  const PollLock lock(polling_);
  if (!lock.held()) return 0;
  const Instant now = datapath_now();
  const bool late = left_some_ || now - last_poll_ > kLateLook;
  last_poll_ = now;
  if (shared_.order != nullptr) return poll_in_order(out, now, late);
  const auto room = std::span(arrived_).first(std::min(out.size(), arrived_.size()));
  const uint32_t n = wire_queue().receive(room, now, late);
  left_some_ = n == room.size() || wire_queue().has_left_over();
  uint32_t handed = 0;
  for (uint32_t i = 0; i < n; ++i) {
    DatagramRequest* const request = take_up(arrived_[i]);
    if (request == nullptr) continue;
    if (wants_to_run(*request, shared_)) {
      out[handed++] = request;
    } else {
      answer(*request);
      finish(*request);
    }
  }
  return handed;
}

// Null: it was no request, or not one that is served, which is counted.
DatagramRequest* DatagramQueue::take_up(const Datagram& datagram) {
  DatagramRequest& request = take_spare();
  const RequestState fresh;  // not RequestState{}, which the compiler clears as a whole, slowly
  static_cast<RequestState&>(request) = fresh;
  request.datagram = datagram;
  request.payload = datagram.bytes;
  request.arrived = datagram.arrived;
  request.flow = DatagramDatapath::flow_of(datagram.peer);
  if (shared_.rules.header_bytes() > 0) {
    request.reply = &request.reply_of_parts;
  } else {
    request.reply_in_frame = ReplyBuffer(datagram.room);
    request.reply = &request.reply_in_frame;
  }
  input_bytes_ += datagram.bytes.size();
  const bool served = shared_.rules.serves(datagram.peer);
  Frame found;
  if (served && !datagram.cut_off) found = session_->frame(datagram.bytes, request);
  if (found.state != FrameState::kComplete || found.length_bytes != datagram.bytes.size()) {
    ++(served ? no_request_ : not_served_);
    wire_queue().release(datagram);
    request.next_in_list = std::exchange(spare_, &request);
    return nullptr;
  }
  ++taken_;
  return &request;
}

Request* DatagramQueue::finish(Request& of) {
  auto& request = static_cast<DatagramRequest&>(of);
  if (shared_.order != nullptr) {
    uint32_t answers = kMostAnswers;
    return end_in_order(request, answers);
  }
  reply_to(request);
  finished_.push(request);
  return nullptr;
}

// Counted before the frame goes, as drain() waits for both.
void DatagramQueue::reply_to(DatagramRequest& request) {
  if (request.reply->overflowed()) {
    take_back_all(*request.reply);
    request.session->refuse(request);
    if (request.reply->overflowed()) too_long_.fetch_add(1, std::memory_order_relaxed);
  }
  if (!request.reply->overflowed() && !request.reply->empty()) {
    output_bytes_.fetch_add(send_reply(request, shared_), std::memory_order_relaxed);
  } else {
    wire_queue().release(request.datagram);
  }
  if (request.reply == &request.reply_of_parts) {
    take_back_all(*request.reply);
    request.reply->shrink(DatagramRequest::kKeptBytes);
  }
}

uint32_t DatagramQueue::poll_in_order(std::span<Request*> out, Instant now, bool late) {
  left_some_ = !receive_in_order(out.size(), now, late, runnable_);
  settle(now);
  for (DatagramRequest* request = put_off_.take_all_in_order(); request != nullptr;) {
    runnable_.push_back(std::exchange(request, request->next_in_list));
  }
  uint32_t handed = 0;
  uint32_t answers = kMostAnswers;
  while (handed < out.size() && answers > 0 && !runnable_.empty()) {
    DatagramRequest* request = runnable_.front();
    runnable_.pop_front();
    if (!wants_to_run(*request, shared_)) {
      answer(*request);
      --answers;
      request = end_in_order(*request, answers);
    }
    if (request != nullptr) out[handed++] = request;
  }
  holds_some_.store(!runnable_.empty() || !waiting_.empty(), std::memory_order_relaxed);
  return handed;
}

// Takes one burst. True: nothing was left behind it. Those that may run go to `runnable`.
bool DatagramQueue::receive_in_order(size_t most, Instant now, bool late,
                                     std::deque<DatagramRequest*>& runnable) {
  const auto room = std::span(arrived_).first(std::min(most, arrived_.size()));
  const uint32_t n = wire_queue().receive(room, now, late);
  for (uint32_t i = 0; i < n; ++i) {
    DatagramRequest* const request = take_up(arrived_[i]);
    if (request == nullptr) continue;
    const auto old = shared_.order->old_queue(group_of(request->datagram.peer), me_);
    if (old) {
      waiting_.push_back({request, *old});
      holds_some_.store(true, std::memory_order_relaxed);
    } else {
      enter(*request, runnable);
    }
  }
  const bool emptied = n < room.size() && !wire_queue().has_left_over();
  if (emptied) shared_.order->emptied(me_, now);
  return emptied;
}

// Empties the old queues that requests wait for, as far as nobody else is at them.
void DatagramQueue::settle(Instant now) {
  while (!waiting_.empty()) {
    const WorkerId old = waiting_.front().old_queue;
    if (!all_[old.value]->empty_into(runnable_, now)) return;
    std::erase_if(waiting_, [&](const Waiting& each) {
      if (each.old_queue != old) return false;
      enter(*each.request, runnable_);
      shared_.order->settled(group_of(each.request->datagram.peer));
      return true;
    });
  }
}

// For the poller of another queue. False: something may be left, or the poller is busy; if it
// sleeps, it is woken, as it keeps others out.
bool DatagramQueue::empty_into(std::deque<DatagramRequest*>& runnable, Instant now) {
  constexpr uint32_t kMostBursts = 512;
  const PollLock lock(polling_);
  if (!lock.held()) {
    wake();
    return false;
  }
  for (uint32_t burst = 0; burst < kMostBursts; ++burst) {
    if (receive_in_order(arrived_.size(), now, true, runnable)) return true;
  }
  return false;
}

// It has been received here. The first of its flow goes to `runnable`; one too many is refused.
void DatagramQueue::enter(DatagramRequest& request, std::deque<DatagramRequest*>& runnable) {
  const FlowOrder::Entered entered = shared_.order->enter(request);
  if (entered == FlowOrder::Entered::kFirst) runnable.push_back(&request);
  if (entered != FlowOrder::Entered::kRefused) return;
  ++flow_full_;
  request.refusal = Refusal::kFull;
  request.session->refuse(request);
  reply_to(request);
  finished_.push(request);
}

// Returns the next request of the flow that wants to run. The reply leaves before another worker
// can send that of the next one. Of those behind it as many as `answers` are answered; the next
// poll of its own queue goes on with what is left.
DatagramRequest* DatagramQueue::end_in_order(DatagramRequest& first, uint32_t& answers) {
  for (DatagramRequest* request = &first;; --answers) {
    auto& home = static_cast<DatagramQueue&>(*request->datapath);
    home.reply_to(*request);
    shared_.wire->here().push();
    DatagramRequest* const next = shared_.order->leave(*request);
    home.finished_.push(*request);
    if (next == nullptr || wants_to_run(*next, shared_)) return next;
    if (answers == 0) {
      auto& its_home = static_cast<DatagramQueue&>(*next->datapath);
      its_home.put_off_.push(*next);
      its_home.wake();
      return nullptr;
    }
    answer(*next);
    request = next;
  }
}

void DatagramQueue::wait_by(Nanos limit, const Sleep& sleep) {
  const PollLock lock(polling_);
  if (!lock.held() || holds_some_.load(std::memory_order_relaxed)) return;
  if (!put_off_.empty()) return;
  if (!queue_sleep().may_sleep()) return;
  sleep(queue_sleep().longest(limit));
  last_poll_ = datapath_now();
}

uint64_t DatagramQueue::in_flight() const {
  const uint64_t finished = finished_.count();
  return taken_.value() - finished;
}

void DatagramQueue::add_to(DatapathStats& stats) const {
  stats.requests += finished_.count();
  stats.input_bytes += input_bytes_.value();
  stats.output_bytes += output_bytes_.load(std::memory_order_relaxed);
}

void DatagramQueue::add_to(DatagramDatapath::Drops& drops) const {
  drops.no_request += no_request_.value();
  drops.not_served += not_served_.value();
  drops.too_long += too_long_.load(std::memory_order_relaxed);
  drops.flow_full += flow_full_.value();
}

DatagramDatapath::DatagramDatapath(const DatagramRules& rules) : shared_(rules) {}

DatagramDatapath::~DatagramDatapath() = default;

const DatagramRules& DatagramDatapath::default_rules() {
  static const DatagramRules rules;
  return rules;
}

Result<std::unique_ptr<DatagramDatapath>> DatagramDatapath::open(std::unique_ptr<DatagramWire> wire,
                                                                 Protocol& protocol,
                                                                 const DatagramRules& rules) {
  std::unique_ptr<DatagramDatapath> datapath(new DatagramDatapath(rules));
  datapath->shared_.wire = std::move(wire);
  if (rules.keeps_order()) {
    datapath->shared_.order = std::make_unique<FlowOrder>(datapath->wire().queues());
  }
  for (uint32_t i = 0; i < datapath->wire().queues(); ++i) {
    datapath->queues_.push_back(std::make_unique<DatagramQueue>(
        datapath->shared_, WorkerId{i}, protocol, datapath->queues_));
    const Status started = datapath->queues_.back()->start();
    if (!started.ok()) return Error{started.error()};
  }
  return datapath;
}

DatagramDatapath::Drops DatagramDatapath::drops() const {
  Drops drops;
  for (const auto& queue : queues_) queue->add_to(drops);
  return drops;
}

uint32_t DatagramDatapath::queues() const { return static_cast<uint32_t>(queues_.size()); }

DatapathQueue& DatagramDatapath::queue(WorkerId worker) { return *queues_[worker.value]; }

void DatagramDatapath::drain() {
  if (!shared_.draining.set()) return;
  for (auto& queue : queues_) queue->wake();
}

uint64_t DatagramDatapath::in_flight() const {
  uint64_t sum = 0;
  for (const auto& queue : queues_) sum += queue->in_flight();
  return sum + shared_.wire->unsent();
}

DatapathStats DatagramDatapath::stats() const {
  DatapathStats stats;
  for (const auto& queue : queues_) queue->add_to(stats);
  stats.flows_steered = steered_.load(std::memory_order_relaxed);
  stats.flows_unsteered = unsteered_.load(std::memory_order_relaxed);
  return stats;
}

uint64_t DatagramDatapath::flow_of(const DatagramPeer& peer) {
  uint64_t halves[2];
  std::memcpy(halves, peer.address.data(), sizeof halves);
  uint64_t h = (halves[0] ^ (halves[1] * 0x9e3779b97f4a7c15) ^ peer.port) * 0xd6e8feb86659fd93;
  h ^= h >> 32;
  return (h >> kFreeBits | kLeastFlow) / kSteeringGroups * kSteeringGroups + group_of(peer);
}

bool DatagramDatapath::steer(uint64_t flow, WorkerId to) {
  const auto group = static_cast<uint32_t>(flow % kSteeringGroups);
  if (flow < kLeastFlow || shared_.draining.is_set()) return false;
  const bool moved = shared_.order == nullptr
                         ? wire().steer_group(group, to)
                         : shared_.order->move(wire(), group, to);
  if (!moved) return false;
  const bool back = to.value == group % queues();
  (back ? unsteered_ : steered_).fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool DatagramDatapath::unsteer(uint64_t flow) {
  const auto group = static_cast<uint32_t>(flow % kSteeringGroups);
  return steer(flow, WorkerId{group % queues()});
}

}  // namespace rubato
