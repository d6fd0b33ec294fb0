// SPDX-License-Identifier: Apache-2.0
#include "metrics/trace.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace rubato {
namespace {

constexpr size_t kBufferBytes = 1u << 18;
constexpr size_t kLongestEventBytes = 1u << 12;
constexpr int kWorkersProcess = 1;
constexpr int kQueuesProcess = 2;
constexpr uint32_t kTimerRow = 0;  // rows of workers start at 1

uint32_t row_of(uint32_t worker) { return worker == Trace::kTimerCore ? kTimerRow : worker + 1; }

const char* name_of(Trace::End how) {
  switch (how) {
    case Trace::End::kFinished: return "finished";
    case Trace::End::kPreempted: return "preempted";
    case Trace::End::kYielded: return "yielded";
  }
  return "";
}

std::string json_string(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    if (byte < 0x20) {
      quoted += "\\u00";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Names of rows ('M') are no events.
uint64_t events_in(std::string_view text) {
  constexpr std::string_view kBegin = "\n{\"ph\":\"";
  uint64_t events = 0;
  for (size_t at = 0; (at = text.find(kBegin, at)) != std::string_view::npos;) {
    at += kBegin.size();
    if (at < text.size() && text[at] != 'M') ++events;
  }
  return events;
}

Error cannot_write(const std::string& path, int error) {
  return Error{"cannot write '" + path + "': " + std::strerror(error)};
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::open(const std::string& path, const Limits& limits,
                                           uint32_t workers, std::vector<std::string> types,
                                           const std::string& row) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return cannot_write(path, errno);
  std::unique_ptr<Trace> trace(new Trace(path, limits, std::move(types), file));
  trace->write_rows(workers, row);
  return trace;
}

Trace::Trace(std::string path, const Limits& limits, std::vector<std::string> types,
             std::FILE* file)
    : path_(std::move(path)), limits_(limits), file_(file), left_(limits.events) {
  for (const std::string& type : types) types_.push_back(json_string(type));
  buffer_.reserve(kBufferBytes + kLongestEventBytes);
  std::setvbuf(file, nullptr, _IONBF, 0);  // the buffer here is the one there is
}

Trace::~Trace() = default;

void Trace::write_rows(uint32_t workers, const std::string& row) {
  add("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  const auto name = [&](std::string_view kind, int process, uint32_t id, const std::string& text) {
    add("{\"ph\":\"M\",\"name\":\"");
    add(kind);
    add("\",\"pid\":");
    add_number(static_cast<uint64_t>(process));
    add(",\"tid\":");
    add_number(id);
    add(",\"args\":{\"name\":");
    add(json_string(text));
    add("}},\n");
    if (buffer_.size() >= kBufferBytes) flush();
  };
  name("process_name", kWorkersProcess, 0, row + "s");
  name("thread_name", kWorkersProcess, kTimerRow, "timer core");
  for (uint32_t w = 0; w < workers; ++w) {
    name("thread_name", kWorkersProcess, row_of(w), row + " " + std::to_string(w));
  }
  // The last one ends without the comma: every event brings its own in front.
  name("process_name", kQueuesProcess, 0, "queues");
  buffer_.resize(buffer_.size() - std::strlen(",\n"));
}

void Trace::write_slice(uint32_t worker, const Request& request, Instant start, Instant end,
                        End how) {
  begin_event('X', row_of(worker), start);
  add(",\"dur\":");
  add_micros((end - start).count());
  add(",\"cat\":\"request\",\"name\":");
  add(request.type < types_.size() ? std::string_view(types_[request.type]) : "\"request\"");
  add(",\"args\":{\"request\":");
  add_number(request.number);
  add(",\"arrived\":");
  add_micros(request.arrived.ns());
  add(",\"end\":\"");
  add(name_of(how));
  add("\"");
  if (request.avoided > 0) {
    add(",\"avoided\":");
    add_number(request.avoided);
  }
  add("}");
  end_event();
}

void Trace::write_span(uint32_t worker, const char* what, Instant start, Instant end) {
  begin_event('X', row_of(worker), start);
  add(",\"dur\":");
  add_micros((end - start).count());
  add(",\"cat\":\"overhead\",\"name\":\"");
  add(what);
  add("\"");
  end_event();
}

void Trace::write_mark(uint32_t worker, const char* what, Instant at) {
  begin_event('i', row_of(worker), at);
  add(",\"s\":\"t\",\"name\":\"");
  add(what);
  add("\"");
  end_event();
}

void Trace::write_depth(const char* queue, uint32_t index, Instant at, uint32_t depth) {
  add(",\n{\"ph\":\"C\",\"pid\":");
  add_number(kQueuesProcess);
  add(",\"ts\":");
  add_micros(at.ns());
  add(",\"name\":\"");
  add(queue);
  add(" ");
  add_number(index);
  add("\",\"args\":{\"waiting\":");
  add_number(depth);
  add("}");
  end_event();
}

void Trace::begin_event(char phase, uint32_t row, Instant at) {
  add(",\n{\"ph\":\"");
  buffer_ += phase;
  add("\",\"pid\":");
  add_number(kWorkersProcess);
  add(",\"tid\":");
  add_number(row);
  add(",\"ts\":");
  add_micros(at.ns());
}

void Trace::end_event() {
  add("}");
  --left_;
  if (buffer_.size() >= kBufferBytes) flush();
}

void Trace::add_number(uint64_t number) {
  std::array<char, 24> digits;
  const auto done = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  buffer_.append(digits.data(), done.ptr);
}

// The format counts in microseconds; three decimals keep every nanosecond.
void Trace::add_micros(int64_t ns) {
  const uint64_t whole = static_cast<uint64_t>(ns < 0 ? 0 : ns);
  add_number(whole / 1000);
  const uint64_t rest = whole % 1000;
  buffer_ += '.';
  buffer_ += static_cast<char>('0' + rest / 100);
  buffer_ += static_cast<char>('0' + rest / 10 % 10);
  buffer_ += static_cast<char>('0' + rest % 10);
}

void Trace::flush() {
  if (failure_ == 0) {
    errno = 0;
    const size_t done = std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get());
    if (done != buffer_.size()) fail(errno != 0 ? errno : EIO);
  }
  buffer_.clear();
}

// The events of the buffer are lost, those that the file has a part of too.
void Trace::fail(int error) {
  failure_ = error;
  const uint64_t lost = events_in(buffer_);
  dropped_ += lost;
  unwritten_ += lost + std::exchange(left_, 0);
}

Status Trace::finish() {
  if (file_ == nullptr) return Done{};
  add("\n],\"otherData\":{\"from\":");
  add_micros(limits_.from.ns());
  add(",\"events_dropped\":");
  add_number(dropped_);
  add("}}\n");
  flush();
  errno = 0;
  if (std::fclose(file_.release()) != 0 && failure_ == 0) fail(errno != 0 ? errno : EIO);
  unwritten_ += std::exchange(left_, 0);
  if (failure_ != 0) return cannot_write(path_, failure_);
  return Done{};
}

}  // namespace rubato
