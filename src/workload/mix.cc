// SPDX-License-Identifier: Apache-2.0
#include "workload/mix.h"

#include <optional>

#include "workload/duration.h"

namespace rubato {
namespace {

constexpr std::string_view kWhatFits =
    "takes a name (`rubato load --help` lists them) or NAME:SERVICE:SHARE,... "
    "such as short:0.5us:99.5,long:500us:0.5";

Error bad_mix(std::string_view part, std::string_view why) {
  return {"workload: '" + std::string(part) + "' " + std::string(why) + "; it " +
          std::string(kWhatFits)};
}

// The end of the first item: a comma outside of parentheses, or the end of the text.
size_t end_of_item(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ',' && depth <= 0) return i;
  }
  return std::string_view::npos;
}

Result<RequestType> parse_type(std::string_view item) {
  const size_t first = item.find(':');
  const size_t last = item.rfind(':');
  if (first == std::string_view::npos || first == last) {
    return bad_mix(item, "is neither a known name nor NAME:SERVICE:SHARE");
  }
  RequestType type;
  type.name = std::string(trimmed(item.substr(0, first)));
  if (type.name.empty()) return bad_mix(item, "has no type name");
  const auto service = parse_service(trimmed(item.substr(first + 1, last - first - 1)));
  if (!service) return bad_mix(item, "needs a service time of at least 1ns (0.5us, exp(10us), "
                          "uniform(1us,9us), lognormal(10us,1.2), pareto(10us,1.5))");
  type.service = *service;
  const auto share = parse_number(trimmed(item.substr(last + 1)));
  if (!share || *share <= 0) return bad_mix(item, "needs a positive share");
  type.share = *share;
  return type;
}

Result<std::vector<RequestType>> parse_types(std::string_view spec) {
  std::vector<RequestType> types;
  while (true) {
    const size_t comma = end_of_item(spec);
    Result<RequestType> type = parse_type(trimmed(spec.substr(0, comma)));
    if (!type) return Error{type.error()};
    for (const RequestType& other : types) {
      if (other.name == type->name) return bad_mix(other.name, "is there twice");
    }
    types.push_back(std::move(*type));
    if (types.size() > Mix::kMaxTypes) return bad_mix(spec.substr(0, 20), "has over 1024 types");
    if (comma == std::string_view::npos) return types;
    spec.remove_prefix(comma + 1);
  }
}

// `fixed-850ns` and `exp-10`: one type of that shape.
std::optional<RequestType> parse_single(std::string_view name) {
  RequestType type{.name = "all", .service = {}, .share = 1};
  if (name.starts_with("exp-")) {
    type.service.shape = ServiceTime::Shape::kExponential;
    name.remove_prefix(4);
  } else if (name.starts_with("fixed-")) {
    name.remove_prefix(6);
  } else {
    return {};
  }
  const std::optional<Nanos> mean = parse_duration(name);
  if (!mean || *mean < Nanos(1)) return {};
  type.service.mean = *mean;
  return type;
}

}  // namespace

Mix::Mix(std::string name, std::vector<RequestType> types)
    : name_(std::move(name)), types_(std::move(types)) {
  RUBATO_CHECK(!types_.empty() && types_.size() <= kMaxTypes);
  std::vector<double> shares;
  double total = 0;
  for (const RequestType& type : types_) shares.push_back(type.share), total += type.share;
  choice_ = WeightedChoice(shares);
  for (RequestType& type : types_) type.share /= total;
}

double Mix::mean_service_ns() const {
  double sum = 0;
  for (const RequestType& type : types_) {
    sum += type.share * static_cast<double>(type.service.mean.count());
  }
  return sum;
}

Result<Mix> parse_mix(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return bad_mix(text, "is empty");
  std::string_view spec = text;
  for (const NamedMix& named : named_mixes()) {
    if (named.name == text) spec = named.spec;
  }
  if (auto single = parse_single(spec)) return Mix(std::string(text), {std::move(*single)});
  Result<std::vector<RequestType>> types = parse_types(spec);
  if (!types) return Error{types.error()};
  return Mix(std::string(text), std::move(*types));
}

const std::vector<NamedMix>& named_mixes() {
  static const std::vector<NamedMix> kMixes = {
      {"fixed-1", "all:1us:1", "every request 1 us (SBB, Table 3)"},
      {"fixed-850ns", "all:850ns:1", "every request 850 ns (Altocumulus)"},
      {"exp-1", "all:exp(1us):1", "exponential, mean 1 us"},
      {"exp-10", "all:exp(10us):1", "exponential, mean 10 us"},
      {"bimodal-10", "short:2.5us:80,long:40us:20", "80 % 2.5 us, 20 % 40 us; mean 10 us"},
      {"high-bimodal", "short:1us:50,long:100us:50",
       "half 1 us, half 100 us (Persephone, Synergy)"},
      {"extreme-bimodal", "short:0.5us:99.5,long:500us:0.5",
       "99.5 % 0.5 us, 0.5 % 500 us (Persephone, Synergy)"},
      {"zippydb", "short1:0.5us:78,short2:2.5us:19,long:500us:3", "ZippyDB (Synergy, Table 6.1)"},
      {"tpcc",
       "payment:5.7us:44,order_status:6us:4,new_order:20us:44,delivery:88us:4,stock_level:100us:4",
       "TPC-C transactions (Persephone, Table 4)"},
      {"leveldb", "get:0.92us:50,scan:94us:50", "LevelDB GET and SCAN (Synergy, Table 6.1)"},
      {"rocksdb-ht", "get:1.5us:50,scan:635us:50", "RocksDB GET and SCAN (Persephone, 5.1)"},
      {"usr", "get:1us:99.8,set:1us:0.2", "Memcached USR, nearly constant 1 us (CoreSync)"},
  };
  return kMixes;
}

}  // namespace rubato
