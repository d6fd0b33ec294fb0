// SPDX-License-Identifier: Apache-2.0
#include "load/request_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "workload/duration.h"

namespace rubato::load {
namespace {

constexpr uint64_t kMostItems = 100'000'000;
constexpr uint64_t kManyKeys = 10;  // of one MGET or MSET without its own number
constexpr std::string_view kLuaLoop = "local t=0 for i=1,ARGV[1] do t=t+i end return t";

// The context in which a verb draws its keys and appends its command.
struct VerbContext {
  const KvShape& shape;
  std::string_view value;
  uint64_t size;  // the verb's number, resolved
  Prng& prng;
  std::string& out;

  std::string random_key(uint64_t below) const { return key_name(prng.next() % below); }
  std::string random_key() const { return random_key(shape.keys); }
  std::string number(uint64_t n) const { return fmt::format_int(n).str(); }
};

void send_get(const VerbContext& c) { append_command(c.out, {"GET", c.random_key()}); }
void send_set(const VerbContext& c) { append_command(c.out, {"SET", c.random_key(), c.value}); }
void send_incr(const VerbContext& c) {
  append_command(c.out, {"INCR", fmt::format("counter:{}", c.prng.next() % c.shape.keys)});
}
void send_del(const VerbContext& c) { append_command(c.out, {"DEL", c.random_key()}); }
void send_exists(const VerbContext& c) { append_command(c.out, {"EXISTS", c.random_key()}); }
void send_ping(const VerbContext& c) { append_command(c.out, {"PING"}); }

void append_argument(std::string& out, std::string_view arg) {
  fmt::format_to(std::back_inserter(out), "${}\r\n", arg.size());
  out.append(arg);
  out.append("\r\n");
}
void send_mget(const VerbContext& c) {
  fmt::format_to(std::back_inserter(c.out), "*{}\r\n", c.size + 1);
  append_argument(c.out, "MGET");
  for (uint64_t i = 0; i < c.size; ++i) append_argument(c.out, c.random_key());
}
void send_mset(const VerbContext& c) {
  fmt::format_to(std::back_inserter(c.out), "*{}\r\n", 2 * c.size + 1);
  append_argument(c.out, "MSET");
  for (uint64_t i = 0; i < c.size; ++i) {
    append_argument(c.out, c.random_key());
    append_argument(c.out, c.value);
  }
}

// The first key of a range, far enough from the last key for `size` items.
std::string range_start(const VerbContext& c) {
  return c.random_key(c.shape.keys > c.size ? c.shape.keys - c.size : 1);
}
void send_range(const VerbContext& c) {
  append_command(c.out, {"RANGE", range_start(c), kLastKey, "LIMIT", c.number(c.size)});
}
void send_rangecount(const VerbContext& c) {
  const uint64_t first = c.prng.next() % (c.shape.keys > c.size ? c.shape.keys - c.size : 1);
  append_command(c.out, {"RANGECOUNT", key_name(first), key_name(first + c.size - 1)});
}
void send_scan(const VerbContext& c) {
  append_command(c.out, {"SCAN", "0", "COUNT", c.number(c.size)});
}
void send_keys(const VerbContext& c) { append_command(c.out, {"KEYS", "key:*"}); }
void send_debugsleep(const VerbContext& c) {
  append_command(c.out,
                 {"DEBUG", "SLEEP", fmt::format("{:.6f}", static_cast<double>(c.size) / 1e6)});
}
void send_lrange(const VerbContext& c) {
  append_command(c.out, {"LRANGE", kListKey, "0", c.number(c.size - 1)});
}
void send_smembers(const VerbContext& c) { append_command(c.out, {"SMEMBERS", kSetKey}); }
void send_eval(const VerbContext& c) {
  append_command(c.out, {"EVAL", kLuaLoop, "0", c.number(c.size)});
}

struct Verb {
  std::string_view name;
  void (*send)(const VerbContext&);
  uint64_t size;  // default of its number; 0 = KvShape::scan_limit
  std::string_view summary;
};

constexpr Verb kVerbs[] = {
    {"get", send_get, 1, "GET of a random key"},
    {"set", send_set, 1, "SET of a random key"},
    {"incr", send_incr, 1, "INCR of a random counter"},
    {"del", send_del, 1, "DEL of a random key"},
    {"exists", send_exists, 1, "EXISTS of a random key"},
    {"ping", send_ping, 1, "PING"},
    {"mget", send_mget, kManyKeys, "MGET of 10 (or /N) random keys"},
    {"mset", send_mset, kManyKeys, "MSET of 10 (or /N) random keys"},
    {"range", send_range, 0, "RANGE start end LIMIT N, Rubato's ordered read"},
    {"rangecount", send_rangecount, 0, "RANGECOUNT over N keys (Rubato)"},
    {"scan", send_scan, 0, "SCAN 0 COUNT N"},
    {"keys", send_keys, 1, "KEYS key:*, the whole keyspace"},
    {"debugsleep", send_debugsleep, 1000, "DEBUG SLEEP of 1000 (or /N) microseconds"},
    {"lrange", send_lrange, 0, "LRANGE of N items; works on any Redis after --load-keys"},
    {"smembers", send_smembers, 0, "SMEMBERS of N members; any Redis, after --load-keys"},
    {"eval", send_eval, 100000, "EVAL of a Lua loop of 100000 (or /N) turns; any Redis"},
};

Error bad_part(std::string_view part, std::string_view why) {
  return {fmt::format("mix: '{}' {}; it takes VERB[/NUMBER]:WEIGHT,... such as get:0.99,range:0.01",
                      part, why)};
}

struct VerbShare {
  const Verb* verb = nullptr;
  uint64_t size = 0;
  std::string name;
  double weight = 0;
};

Result<VerbShare> parse_share(std::string_view item, const KvShape& shape) {
  const size_t colon = item.find(':');
  if (colon == std::string_view::npos) return bad_part(item, "has no weight");
  const std::string_view head = trimmed(item.substr(0, colon));
  const size_t slash = head.find('/');
  const auto weight = parse_number(trimmed(item.substr(colon + 1)));
  if (!weight || *weight <= 0) return bad_part(item, "needs a positive weight");
  const auto* verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                  [&](const Verb& v) { return v.name == head.substr(0, slash); });
  if (verb == std::end(kVerbs)) return bad_part(head, "is not a known verb");
  VerbShare share{verb, verb->size > 0 ? verb->size : shape.scan_limit, std::string(head), *weight};
  if (slash != std::string_view::npos) {
    const auto size = parse_number(head.substr(slash + 1));
    if (!size || *size < 1 || *size > static_cast<double>(kMostItems)) {
      return bad_part(head, "needs a number of 1 to 100000000 after the '/'");
    }
    share.size = static_cast<uint64_t>(*size);
  }
  return share;
}

// `get=3,range=1000`: sets the nominal service times of the types it names.
Status apply_service_times(std::string_view text, std::vector<SourceType>& types) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = std::min(item.find('='), item.size());
    const auto found = std::find_if(types.begin(), types.end(), [&](const SourceType& type) {
      return type.name == item.substr(0, equals);
    });
    const auto time = equals < item.size() ? parse_duration(item.substr(equals + 1)) : std::nullopt;
    if (found == types.end() || !time || *time < Nanos(1)) {
      return Error{
          fmt::format("service-us: '{}' is not VERB=MICROSECONDS of a verb in the mix", item)};
    }
    found->service_mean = *time;
  }
  return Done{};
}

class KvSource final : public RequestSource {
 public:
  KvSource(std::vector<VerbShare> shares, const KvShape& shape, std::vector<SourceType> types)
      : shares_(std::move(shares)), shape_(shape), value_(shape.value_size_bytes, 'v') {
    types_ = std::move(types);
    std::vector<double> weights;
    for (const VerbShare& share : shares_) weights.push_back(share.weight);
    choice_ = WeightedChoice(weights);
  }

  Draw draw(Prng& prng, std::string& out) override {
    const uint32_t type = choice_.pick(prng);
    shares_[type].verb->send({shape_, value_, shares_[type].size, prng, out});
    return {type, types_[type].service_mean.value_or(Nanos(0))};
  }

 private:
  std::vector<VerbShare> shares_;
  KvShape shape_;
  std::string value_;
  WeightedChoice choice_;
};

class SpinSource final : public RequestSource {
 public:
  SpinSource(Mix mix, bool bare) : mix_(std::move(mix)), bare_(bare) {
    for (const RequestType& type : mix_.types()) {
      types_.push_back({type.name, type.share, type.service.mean});
    }
  }

  Draw draw(Prng& prng, std::string& out) override {
    const Mix::Draw draw = mix_.sample(prng);
    const std::string nanoseconds = fmt::format_int(draw.service.count()).str();
    if (bare_) {
      out += nanoseconds;
    } else {
      append_command(out, {"SPIN", nanoseconds});
    }
    return {draw.type, draw.service};
  }

 private:
  Mix mix_;
  const bool bare_;
};

}  // namespace

std::string key_name(uint64_t index) { return fmt::format("key:{:012}", index); }

void append_command(std::string& out, std::initializer_list<std::string_view> args) {
  fmt::format_to(std::back_inserter(out), "*{}\r\n", args.size());
  for (std::string_view arg : args) append_argument(out, arg);
}

Result<std::unique_ptr<RequestSource>> make_kv_source(std::string_view mix, const KvShape& shape,
                                                      std::string_view service_us) {
  RUBATO_CHECK(shape.keys > 0);
  std::vector<VerbShare> shares;
  std::vector<SourceType> types;
  double total = 0;
  for (std::string_view rest = mix;;) {
    const size_t comma = rest.find(',');
    Result<VerbShare> share = parse_share(trimmed(rest.substr(0, comma)), shape);
    if (!share) return Error{share.error()};
    for (const SourceType& other : types) {
      if (other.name == share->name) return bad_part(other.name, "is there twice");
    }
    total += share->weight;
    types.push_back({share->name, share->weight, {}});
    shares.push_back(std::move(*share));
    if (shares.size() > Mix::kMaxRecordedTypes) {
      return bad_part(mix.substr(0, 20), "has over 64 verbs");
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  for (SourceType& type : types) type.share /= total;
  if (Status done = apply_service_times(service_us, types); !done) return Error{done.error()};
  return std::unique_ptr<RequestSource>(
      std::make_unique<KvSource>(std::move(shares), shape, std::move(types)));
}

std::unique_ptr<RequestSource> make_spin_source(Mix mix) {
  return std::make_unique<SpinSource>(std::move(mix), false);
}

std::unique_ptr<RequestSource> make_rpc_spin_source(Mix mix) {
  return std::make_unique<SpinSource>(std::move(mix), true);
}

std::vector<std::pair<std::string_view, std::string_view>> kv_verbs() {
  std::vector<std::pair<std::string_view, std::string_view>> verbs;
  for (const Verb& verb : kVerbs) verbs.emplace_back(verb.name, verb.summary);
  return verbs;
}

}  // namespace rubato::load
