// SPDX-License-Identifier: Apache-2.0
#include "load/request_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "load/command_template.h"
#include "load/http_template.h"
#include "workload/duration.h"

namespace rubato::load {
namespace {

constexpr uint64_t kMostItems = 100'000'000;

Error bad_part(std::string_view part, std::string_view why) {
  return {fmt::format(
      "mix: '{}' {}; it takes VERB[/NUMBER]:WEIGHT or COMMAND[/ARGUMENT...]:WEIGHT, such as "
      "get:0.99,range:0.01",
      part, why)};
}

struct VerbShare {
  Verb::Sender send = nullptr;  // null = `command` does
  uint64_t size = 0;
  std::string name;
  double weight = 0;  // above 0
  std::optional<CommandTemplate> command = std::nullopt;
  std::optional<HttpTemplate> http = std::nullopt;

  void append(const VerbContext& context) const {
    if (http) return http->append(context);
    command ? command->append(context) : send(context);
  }
};

struct WeightedHead {
  std::string_view head;
  double weight;
};

// A number is all that a verb has behind its name: anything else makes it a command. Null = it is
// no verb.
const Verb* verb_of(std::string_view head) {
  const size_t slash = head.find('/');
  if (slash != std::string_view::npos) {
    constexpr std::string_view kNumberBegins = "0123456789.+-";
    const std::string_view argument = head.substr(slash + 1);
    const bool number = !argument.empty() && kNumberBegins.find(argument[0]) != argument.npos;
    if (!number || argument.find('/') != argument.npos) return nullptr;
  }
  return find_verb(head.substr(0, slash));
}

Result<VerbShare> command_share(std::string_view head, double weight, Protocol protocol) {
  if (protocol != Protocol::kResp) {
    return bad_part(head, "is not a known verb, with a number or without, and commands are for "
                          "resp:// targets");
  }
  Result<CommandTemplate> command = CommandTemplate::parse(head);
  if (!command) return bad_part(head, command.error());
  return VerbShare{nullptr, 1, std::string(head), weight, std::move(*command)};
}

Result<WeightedHead> parse_weight(std::string_view item) {
  const size_t colon = item.rfind(':');
  if (colon == std::string_view::npos) return bad_part(item, "has no weight");
  const auto weight = parse_number(trimmed(item.substr(colon + 1)));
  if (!weight || *weight <= 0) return bad_part(item, "needs a positive weight");
  return WeightedHead{trimmed(item.substr(0, colon)), *weight};
}

Result<VerbShare> http_share(std::string_view item, std::string_view host) {
  Result<WeightedHead> part = parse_weight(item);
  if (!part) return Error{part.error()};
  Result<HttpTemplate> http = HttpTemplate::parse(part->head, host);
  if (!http) return Error{fmt::format("mix: '{}' {}", part->head, http.error())};
  VerbShare share{nullptr, 1, std::string(part->head), part->weight};
  share.http = std::move(*http);
  return share;
}

Result<VerbShare> parse_share(std::string_view item, const KvShape& shape, Protocol protocol) {
  Result<WeightedHead> part = parse_weight(item);
  if (!part) return Error{part.error()};
  const std::string_view head = part->head;
  const Verb* verb = verb_of(head);
  if (verb == nullptr) return command_share(head, part->weight, protocol);
  const Verb::Sender send = verb->sender(protocol);
  if (send == nullptr) return bad_part(head, "is a verb that memcached lacks");
  VerbShare share{send, verb->size > 0 ? verb->size : shape.scan_limit, std::string(head),
                  part->weight};
  if (const size_t slash = head.find('/'); slash != std::string_view::npos) {
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
    const size_t equals = std::min(item.rfind('='), item.size());
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
    return make(choice_.pick(prng), Nanos(0), prng, out);
  }

  Draw make(uint32_t type, Nanos, Prng& prng, std::string& out) override {
    const VerbShare& share = shares_[type];
    const VerbContext context{shape_, value_, share.size, prng, out};
    share.append(context);
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
    return make(draw.type, draw.service, prng, out);
  }

  Draw make(uint32_t type, Nanos service, Prng&, std::string& out) override {
    const std::string nanoseconds = fmt::format_int(service.count()).str();
    if (bare_) {
      out += nanoseconds;
    } else {
      append(out, type, nanoseconds);
    }
    return {type, service};
  }

 private:
  // Two types are what the server calls short and long; of more it is told which one it is.
  void append(std::string& out, uint32_t type, const std::string& nanoseconds) const {
    if (types_.size() <= 2 || types_.size() > kMostNamed) {
      return append_command(out, {"SPIN", nanoseconds});
    }
    append_command(out, {"SPIN", nanoseconds, fmt::format_int(kFirstNamed + type).str()});
  }

  // Of the spin server's types (apps/spin_server/spin_server.h).
  static constexpr uint32_t kFirstNamed = 3;
  static constexpr uint32_t kMostNamed = 60;

  Mix mix_;
  const bool bare_;
};

// `parse` makes a share of each part of the mix.
template <class Parse>
Result<std::unique_ptr<RequestSource>> make_source(std::string_view mix, const KvShape& shape,
                                                   std::string_view service_us, Parse parse) {
  RUBATO_CHECK(shape.keys > 0);
  std::vector<VerbShare> shares;
  std::vector<SourceType> types;
  double total = 0;
  for (std::string_view rest = mix;;) {
    const size_t comma = rest.find(',');
    Result<VerbShare> share = parse(trimmed(rest.substr(0, comma)));
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

}  // namespace

Result<std::unique_ptr<RequestSource>> make_kv_source(std::string_view mix, const KvShape& shape,
                                                      std::string_view service_us,
                                                      Protocol protocol) {
  return make_source(mix, shape, service_us, [&](std::string_view item) {
    return parse_share(item, shape, protocol);
  });
}

Result<std::unique_ptr<RequestSource>> make_http_source(std::string_view mix, const KvShape& shape,
                                                        std::string_view service_us,
                                                        std::string_view host) {
  return make_source(mix, shape, service_us,
                     [host](std::string_view item) { return http_share(item, host); });
}

std::unique_ptr<RequestSource> make_spin_source(Mix mix) {
  return std::make_unique<SpinSource>(std::move(mix), false);
}

std::unique_ptr<RequestSource> make_rpc_spin_source(Mix mix) {
  return std::make_unique<SpinSource>(std::move(mix), true);
}

}  // namespace rubato::load
