// SPDX-License-Identifier: Apache-2.0
#include "load/preload.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "load/channel.h"
#include "load/flow_set.h"
#include "load/reply_reader.h"
#include "workload/duration.h"

namespace rubato::load {
namespace {

constexpr uint64_t kBatchCommands = 500;
constexpr size_t kBatchBytes = 256 * 1024;
constexpr Nanos kStallTimeout = Nanos::seconds(30);

// One connection on which batches of commands are sent and their replies awaited.
class Pipeline {
 public:
  Pipeline(Channel channel, Protocol protocol)
      : channel_(std::move(channel)), protocol_(protocol), parser_(protocol) {}

  Status add(std::initializer_list<std::string_view> args) {
    append_command(batch_, args);
    return added();
  }

  Status set(std::string_view key, std::string_view value) {
    if (protocol_ != Protocol::kMemcached) return add({"SET", key, value});
    append_memcached_set(batch_, key, value);
    return added();
  }

  Status finish() {
    if (!send_all(channel_, batch_, kStallTimeout)) return lost();
    batch_.clear();
    while (commands_ > 0) {
      if (Status read = read_some(); !read) return read;
    }
    return Done{};
  }

 private:
  Status added() {
    if (++commands_ < kBatchCommands && batch_.size() < kBatchBytes) return Done{};
    return finish();
  }

  Error lost() const {
    const std::string_view tls = channel_.failure();
    const std::string why = tls.empty() ? "" : " (TLS: " + std::string(tls) + ")";
    return {"loading the keys: the server closed the connection or stalled" + why};
  }

  Status read_some() {
    if (!channel_.holds_more() && !wait_readable(channel_.fd(), kStallTimeout)) return lost();
    const ssize_t got = channel_.receive(buffer_.data(), buffer_.size());
    if (got < 0 && errno == EAGAIN) return Done{};
    if (got <= 0) return lost();
    for (size_t at = 0; at < static_cast<size_t>(got);) {
      size_t used = 0;
      const auto status = parser_.feed(buffer_.data() + at, static_cast<size_t>(got) - at, used);
      at += used;
      if (status == ReplyReader::Status::kBroken) {
        return Error{"loading the keys: what the server sends is not " +
                     std::string(parser_.protocol())};
      }
      if (status != ReplyReader::Status::kReply) continue;
      if (parser_.is_error()) {
        return Error{"loading the keys: the server said " + std::string(parser_.error_text())};
      }
      if (commands_ > 0) --commands_;
    }
    return Done{};
  }

  Channel channel_;
  const Protocol protocol_;
  std::string batch_;
  uint64_t commands_ = 0;
  ReplyReader parser_;
  std::array<char, 65536> buffer_{};
};

// Items of the largest `verb` or `verb/N` in the mix; 0 if it is not there.
uint64_t items_of(std::string_view mix, std::string_view verb, uint64_t bare) {
  uint64_t most = 0;
  while (!mix.empty()) {
    const size_t comma = std::min(mix.find(','), mix.size());
    const std::string_view item = mix.substr(0, comma);
    mix.remove_prefix(std::min(comma + 1, mix.size()));
    std::string_view head = trimmed(item.substr(0, item.rfind(':')));
    if (head == verb) most = std::max(most, bare);
    if (!head.starts_with(verb)) continue;
    head.remove_prefix(verb.size());
    const auto size = head.starts_with('/') ? parse_number(head.substr(1)) : std::nullopt;
    if (size) most = std::max(most, static_cast<uint64_t>(*size));
  }
  return most;
}

// `add(i)` sends what puts the item there. Status of the first that fails.
template <class F>
Status refill(Pipeline& pipeline, std::string_view key, uint64_t items, F&& add) {
  if (items == 0) return Done{};
  if (Status done = pipeline.add({"DEL", key}); !done) return done;
  for (uint64_t i = 0; i < items; ++i) {
    if (Status done = add(i); !done) return done;
  }
  return Done{};
}

Status refill_all(Pipeline& pipeline, const PreloadPlan& plan, std::string_view value) {
  Status done = refill(pipeline, kListKey, plan.list_items, [&](uint64_t i) {
    return pipeline.add({"RPUSH", kListKey, key_name(i)});
  });
  if (!done) return done;
  done = refill(pipeline, kSetKey, plan.set_members, [&](uint64_t i) {
    return pipeline.add({"SADD", kSetKey, key_name(i)});
  });
  if (!done) return done;
  return refill(pipeline, kHashKey, plan.hash_fields, [&](uint64_t i) {
    return pipeline.add({"HSET", kHashKey, key_name(i), value});
  });
}

}  // namespace

PreloadPlan plan_preload(std::string_view mix, const KvShape& shape, Protocol protocol) {
  return {shape, items_of(mix, "lrange", shape.scan_limit),
          items_of(mix, "smembers", shape.scan_limit), items_of(mix, "hgetall", shape.scan_limit),
          protocol == Protocol::kMemcached && items_of(mix, "incr", 1) > 0};
}

namespace {

Status preload_one(const Target& target, const LoadOptions& options, const PreloadPlan& plan) {
  Result<Endpoint> endpoint = resolve(target);
  if (!endpoint) return Error{endpoint.error()};
  Result<Channel> channel = connect_channel(*endpoint, options.tls, kConnectTimeout);
  if (!channel) return Error{channel.error()};
  Pipeline pipeline(std::move(*channel), options.target.protocol);
  if (!options.password.empty()) {
    if (Status done = pipeline.add({"AUTH", options.password}); !done) return done;
  }
  const std::string value(plan.shape.value_size_bytes, 'v');
  for (uint64_t i = 0; i < plan.shape.keys; ++i) {
    if (Status done = pipeline.set(key_name(i), value); !done) return done;
  }
  for (uint64_t i = 0; plan.counters && i < plan.shape.keys; ++i) {
    if (Status done = pipeline.set(counter_name(i), "0"); !done) return done;
  }
  if (Status done = refill_all(pipeline, plan, value); !done) return done;
  return pipeline.finish();
}

}  // namespace

Status preload(const LoadOptions& options, const PreloadPlan& plan) {
  for (const Target& target : options.targets()) {
    if (Status done = preload_one(target, options, plan); !done) return done;
  }
  return Done{};
}

}  // namespace rubato::load
