// SPDX-License-Identifier: Apache-2.0
#include "workload/request_trace.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/crc32.h"

namespace rubato {
namespace {

using namespace trace_form;

// ---- Numbers ------------------------------------------------------------------------------------

void put_number(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_word(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint8_t byte_at(std::string_view bytes, size_t place) {
  return static_cast<uint8_t>(bytes[place]);
}

uint32_t word_at(std::string_view bytes, size_t place) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{byte_at(bytes, place + i)} << (8 * i);
  return value;
}

// A number of at most 64 bits in bytes of seven. False = `bytes` do not hold one at `place`.
bool take_number(std::string_view bytes, size_t& place, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && place < bytes.size(); shift += 7) {
    const uint64_t part = byte_at(bytes, place++);
    if (shift == 63 && part > 1) return false;
    value |= (part & 0x7f) << shift;
    if (part < 0x80) return true;
  }
  return false;
}

bool take_time(std::string_view bytes, size_t& place, Nanos& time) {
  uint64_t value = 0;
  if (!take_number(bytes, place, value) || value > uint64_t{kLatestNs}) return false;
  time = Nanos(static_cast<int64_t>(value));
  return true;
}

// ---- Chunks -------------------------------------------------------------------------------------

uint32_t checksum(std::string_view bytes) {
  Crc32Iso crc;
  crc.add(bytes);
  return crc.value();
}

std::string chunk_of(Kind kind, std::string_view payload) {
  std::string chunk = {static_cast<char>(kind), 0, 0, 0};
  put_word(chunk, static_cast<uint32_t>(payload.size()));
  put_word(chunk, checksum(payload));
  return chunk.append(payload);
}

uint64_t number_of(Nanos time) { return static_cast<uint64_t>(time.count()); }

// A request as it is in a chunk, after one that arrived at `before`.
void put_request(std::string& out, const RecordedRequest& request, Nanos before) {
  put_number(out, number_of(request.at - before));
  put_number(out, uint64_t{request.type} * 2 + (request.refused ? 1 : 0));
  put_number(out, request.flow);
  put_number(out, number_of(request.latency));
  if (!request.refused) put_number(out, number_of(request.service));
}

bool take_request(std::string_view bytes, size_t& place, Nanos before, RecordedRequest& request) {
  uint64_t type = 0;
  Nanos gap;
  request.service = Nanos();
  if (!take_time(bytes, place, gap) || gap.count() > kLatestNs - before.count() ||
      !take_number(bytes, place, type) || type / 2 >= kMostTypes ||
      !take_number(bytes, place, request.flow) || !take_time(bytes, place, request.latency)) {
    return false;
  }
  request.at = before + gap;
  request.type = static_cast<uint32_t>(type / 2);
  request.refused = type % 2 == 1;
  return request.refused || (take_time(bytes, place, request.service) &&
                             request.service >= Nanos(1) &&
                             request.service <= ServiceTime::kLongest);
}

Error wrong(size_t place, const std::string& what) {
  return Error{"trace: byte " + std::to_string(place) + ": " + what};
}

// ---- Service times by bucket: 16 to an octave ---------------------------------------------------

constexpr int kBucketBits = 4;

size_t bucket_of(Nanos service) {
  const uint64_t ns = number_of(service);
  const int shift = std::max(static_cast<int>(std::bit_width(ns)) - kBucketBits - 1, 0);
  return (static_cast<size_t>(shift) << kBucketBits) + static_cast<size_t>(ns >> shift);
}

Nanos low_of(size_t bucket) {
  constexpr size_t kExact = size_t{2} << kBucketBits;
  if (bucket < kExact) return Nanos(static_cast<int64_t>(bucket));
  const size_t shift = (bucket >> kBucketBits) - 1;
  return Nanos(static_cast<int64_t>((bucket - (shift << kBucketBits)) << shift));
}

// A bit per hash of a flow: linear counting (Whang, Vander-Zanden and Taylor, ACM TODS 1990).
constexpr size_t kFlowBits = size_t{1} << 22;

uint64_t mixed(uint64_t flow) {
  flow = (flow ^ (flow >> 31)) * 0x7fb5d329728ea185u;
  flow = (flow ^ (flow >> 27)) * 0x81dadef4bc2dd44du;
  return flow ^ (flow >> 33);
}

}  // namespace

// ---- TraceEncoder -------------------------------------------------------------------------------

std::string TraceEncoder::begin(const std::vector<std::string>& types) {
  std::string payload;
  put_number(payload, types.size());
  for (const std::string& name : types) {
    const std::string_view kept = std::string_view(name).substr(0, kMostName);
    put_number(payload, kept.size());
    payload.append(kept);
  }
  return std::string(kMagic) + chunk_of(Kind::kTypes, payload);
}

std::string TraceEncoder::take() {
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const RecordedRequest& a, const RecordedRequest& b) { return a.at < b.at; });
  std::string chunks;
  for (size_t begin = 0; begin < waiting_.size(); begin += kChunkRequests) {
    const size_t end = std::min(begin + kChunkRequests, waiting_.size());
    std::string payload;
    put_number(payload, end - begin);
    Nanos before;
    for (size_t i = begin; i < end; ++i) {
      put_request(payload, waiting_[i], before);
      before = waiting_[i].at;
    }
    chunks += chunk_of(Kind::kRequests, payload);
  }
  waiting_.clear();
  return chunks;
}

std::string TraceEncoder::dropped(uint64_t count) {
  std::string payload;
  put_number(payload, count);
  return chunk_of(Kind::kDropped, payload);
}

// ---- RequestTrace -------------------------------------------------------------------------------

Result<std::shared_ptr<const RequestTrace>> RequestTrace::parse(std::string_view bytes,
                                                                std::shared_ptr<const void> owner) {
  auto trace = std::make_shared<RequestTrace>();
  trace->bytes_ = bytes;
  trace->owner_ = std::move(owner);
  trace->flow_marks_.resize(kFlowBits / 64);
  if (Status read = trace->read_chunks(); !read) return Error{read.error()};
  if (trace->requests_ == trace->refused_) return Error{"trace: has no served request"};
  trace->finish();
  return std::shared_ptr<const RequestTrace>(std::move(trace));
}

Result<std::shared_ptr<const RequestTrace>> RequestTrace::of(
    const std::vector<RecordedRequest>& all, const std::vector<std::string>& types) {
  TraceEncoder encoder;
  for (size_t i = 0; i < all.size(); ++i) {
    const RecordedRequest& request = all[i];
    const bool times = request.at >= Nanos() && request.at <= Nanos(kLatestNs) &&
                       request.service >= Nanos(request.refused ? 0 : 1) &&
                       request.service <= ServiceTime::kLongest && request.latency >= Nanos();
    if (times && request.type < types.size() && types.size() <= kMostTypes) {
      encoder.add(request);
      continue;
    }
    return Error{"recording: request " + std::to_string(i + 1) +
                 " has an unknown type, or times out of range"};
  }
  const auto text = std::make_shared<const std::string>(TraceEncoder::begin(types) +
                                                        encoder.take());
  return parse(*text, text);
}

Status RequestTrace::read_chunks() {
  if (!bytes_.starts_with(kMagic)) return wrong(0, "a trace starts with RUBATRC1");
  size_t place = kMagic.size();
  while (place < bytes_.size()) {
    cut_ = bytes_.size() - place < kChunkHead;
    if (cut_) break;
    const auto kind = static_cast<Kind>(byte_at(bytes_, place));
    const size_t length = word_at(bytes_, place + 4);
    if (length > kMostPayload) return wrong(place + 4, "a chunk has up to 1048576 bytes");
    cut_ = bytes_.size() - place - kChunkHead < length;
    if (cut_) break;
    const std::string_view payload = bytes_.substr(place + kChunkHead, length);
    if (checksum(payload) != word_at(bytes_, place + 8)) {
      return wrong(place + 8, "the checksum of the chunk is another");
    }
    Status read = Done{};
    size_t in_payload = 0;
    uint64_t dropped = 0;
    if (kind == Kind::kTypes) {
      read = read_types(payload);
    } else if (kind == Kind::kRequests) {
      read = read_requests(payload, place + kChunkHead);
    } else if (kind == Kind::kDropped && take_number(payload, in_payload, dropped)) {
      dropped_ += std::min(dropped, UINT64_MAX - dropped_);
    } else {
      return wrong(place, "a chunk is of kind T, R or D, with a number if it is of kind D");
    }
    if (!read) return wrong(place, read.error());
    place += kChunkHead + length;
  }
  return Done{};
}

Status RequestTrace::read_types(std::string_view payload) {
  size_t place = 0;
  uint64_t count = 0, length = 0;
  if (!types_.empty() || !take_number(payload, place, count) || count > kMostTypes) {
    return Error{"there is one list of types, of up to 4096"};
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (!take_number(payload, place, length) || length < 1 || length > kMostName ||
        length > payload.size() - place) {
      return Error{"the name of a type has 1 to 200 bytes"};
    }
    types_.push_back({.name = std::string(payload.substr(place, length)), .service = {}});
    place += length;
  }
  counts_.resize(types_.size());
  return Done{};
}

Status RequestTrace::read_requests(std::string_view payload, size_t place) {
  size_t position = 0;
  uint64_t count = 0;
  if (!take_number(payload, position, count) || count < 1) return Error{"a chunk without requests"};
  const size_t begin = position;
  Nanos first, before;
  for (uint64_t i = 0; i < count; ++i) {
    RecordedRequest request;
    if (!take_request(payload, position, before, request) || request.type >= types_.size()) {
      return Error{"request " + std::to_string(i + 1) + " of the chunk is malformed"};
    }
    if (i == 0) first = request.at;
    before = request.at;
    this->count(request);
  }
  if (position != payload.size()) return Error{"the chunk has bytes beyond its requests"};
  first_ = chunks_.empty() ? first : std::min(first_, first);
  last_ = std::max(last_, before);
  chunks_.push_back({place + begin, place + payload.size(), first, before});
  return Done{};
}

void RequestTrace::count(const RecordedRequest& request) {
  Type& type = types_[request.type];
  ++requests_;
  const uint64_t mark = mixed(request.flow) % kFlowBits;
  flow_marks_[mark / 64] |= uint64_t{1} << (mark % 64);
  if (request.refused) {
    ++refused_;
    ++type.refused;
    return;
  }
  ++type.served;
  type.service_ns += static_cast<double>(request.service.count());
  std::vector<uint64_t>& counts = counts_[request.type];
  const size_t bucket = bucket_of(request.service);
  if (counts.size() <= bucket) counts.resize(bucket + 1);
  ++counts[bucket];
}

void RequestTrace::finish() {
  for (size_t t = 0; t < types_.size(); ++t) {
    for (size_t i = 0; i < counts_[t].size(); ++i) {
      if (counts_[t][i] == 0) continue;
      const Nanos high = std::min(low_of(i + 1), ServiceTime::kLongest);
      types_[t].service.push_back({std::min(low_of(i), high - Nanos(1)), high, counts_[t][i]});
    }
  }
  uint64_t marked = 0;
  for (const uint64_t word : flow_marks_) marked += static_cast<uint64_t>(std::popcount(word));
  const double bits = static_cast<double>(kFlowBits);
  const double unmarked = std::max(1.0, bits - static_cast<double>(marked));
  flows_ = std::max<uint64_t>(1, static_cast<uint64_t>(bits * std::log(bits / unmarked) + 0.5));
  counts_ = {};
  flow_marks_ = {};
  std::stable_sort(chunks_.begin(), chunks_.end(),
                   [](const Chunk& a, const Chunk& b) { return a.first < b.first; });
  for (const Chunk& chunk : chunks_) {
    const bool later = last_until_.empty() || last_until_.back() < chunk.last;
    last_until_.push_back(later ? chunk.last : last_until_.back());
  }
  gap_ = std::max(Nanos(static_cast<int64_t>(1e9 / rate_rps())), Nanos(1));
}

double RequestTrace::rate_rps() const {
  const double span_ns = static_cast<double>(std::max((last_ - first_).count(), int64_t{1}));
  return static_cast<double>(std::max<uint64_t>(requests_ - 1, 1)) / span_ns * 1e9;
}

double RequestTrace::mean_service_ns() const {
  double sum = 0;
  for (const Type& type : types_) sum += type.service_ns;
  return sum / static_cast<double>(requests_ - refused_);
}

// ---- TraceCursor --------------------------------------------------------------------------------

namespace {

// Of a heap whose top is the earliest.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.request.at != b.request.at ? a.request.at > b.request.at : a.chunk > b.chunk;
};

}  // namespace

TraceCursor::TraceCursor(std::shared_ptr<const RequestTrace> trace) : trace_(std::move(trace)) {}

// Chunks whose requests all came before are left out.
void TraceCursor::seek(Nanos from) {
  open_.clear();
  const auto& until = trace_->last_until_;
  next_chunk_ = static_cast<size_t>(std::lower_bound(until.begin(), until.end(), from) -
                                    until.begin());
  const auto& chunks = trace_->chunks_;
  while (next_chunk_ < chunks.size() && chunks[next_chunk_].first <= from) {
    if (chunks[next_chunk_].last >= from) open(next_chunk_, from);
    ++next_chunk_;
  }
}

void TraceCursor::open(size_t chunk, Nanos from) {
  Open opened{{}, chunk, trace_->chunks_[chunk].begin};
  while (advance(opened)) {
    if (opened.request.at < from) continue;
    open_.push_back(opened);
    std::push_heap(open_.begin(), open_.end(), kLater);
    return;
  }
}

// The bytes were checked when the trace was parsed.
bool TraceCursor::advance(Open& open) const {
  const RequestTrace::Chunk& chunk = trace_->chunks_[open.chunk];
  if (open.position == chunk.end) return false;
  const Nanos before = open.request.at;
  return take_request(trace_->bytes_.substr(0, chunk.end), open.position, before, open.request);
}

std::optional<RecordedRequest> TraceCursor::next() {
  const auto& chunks = trace_->chunks_;
  while (next_chunk_ < chunks.size() &&
         (open_.empty() || chunks[next_chunk_].first <= open_.front().request.at)) {
    const size_t chunk = next_chunk_++;
    open(chunk, chunks[chunk].first);
  }
  if (open_.empty()) return {};
  std::pop_heap(open_.begin(), open_.end(), kLater);
  const RecordedRequest request = open_.back().request;
  if (advance(open_.back())) {
    std::push_heap(open_.begin(), open_.end(), kLater);
  } else {
    open_.pop_back();
  }
  return request;
}

// ---- The mix ------------------------------------------------------------------------------------

namespace {

void add(const RequestTrace::Type& from, RequestTrace::Type& into) {
  into.served += from.served;
  into.service_ns += from.service_ns;
  into.service.insert(into.service.end(), from.service.begin(), from.service.end());
}

// Types of one name are one type, as in a workload.
std::vector<RequestTrace::Type> served_types(const RequestTrace& trace) {
  std::vector<RequestTrace::Type> kept;
  std::map<std::string, size_t> places;
  for (const RequestTrace::Type& type : trace.types()) {
    if (type.served == 0) continue;
    const auto [place, is_new] = places.emplace(type.name, kept.size());
    if (is_new) {
      kept.push_back(type);
    } else {
      add(type, kept[place->second]);
    }
  }
  return kept;
}

}  // namespace

Mix mix_of(const RequestTrace& trace, const std::string& name) {
  std::vector<RequestTrace::Type> kept = served_types(trace);
  if (kept.size() > Mix::kMaxTypes) {
    std::stable_sort(kept.begin(), kept.end(),
                     [](const auto& a, const auto& b) { return a.served > b.served; });
    RequestTrace::Type others{.name = kOtherTypes, .service = {}};
    for (size_t i = Mix::kMaxTypes - 1; i < kept.size(); ++i) add(kept[i], others);
    kept.resize(Mix::kMaxTypes - 1);
    kept.push_back(std::move(others));
  }
  std::vector<RequestType> types;
  for (RequestTrace::Type& type : kept) {
    ServiceTime service = service_of(std::move(type.service));
    service.mean = Nanos(std::llround(type.service_ns / static_cast<double>(type.served)));
    types.push_back({type.name, std::move(service), static_cast<double>(type.served)});
  }
  return Mix(name, std::move(types));
}

}  // namespace rubato
