// SPDX-License-Identifier: Apache-2.0
#include "metrics/histogram_json.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

namespace rubato {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLayout = "log-linear-64-8";
static_assert(buckets::kFineBits == 6 && buckets::kCoarseBits == 3);

// Null = it is no whole number, or missing.
const uint64_t* whole(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? nullptr : found->get_ptr<const Json::number_unsigned_t*>();
}

// The number before `end`, which is taken away with it. False = there is none.
bool take(std::string_view& text, char end, uint64_t& number) {
  const size_t length = std::min(text.find(end), text.size());
  const auto [stop, error] = std::from_chars(text.data(), text.data() + length, number);
  if (error != std::errc() || stop != text.data() + length) return false;
  text.remove_prefix(std::min(length + 1, text.size()));
  return true;
}

}  // namespace

Json histogram_json(const Histogram& histogram) {
  std::string counts;
  histogram.for_each_bucket([&counts](Nanos low, Nanos, uint64_t count) {
    if (!counts.empty()) counts += ' ';
    counts += std::to_string(buckets::index_of(static_cast<uint64_t>(low.count())));
    counts += ':' + std::to_string(count);
  });
  return {{"layout", kLayout},
          {"sum", histogram.sum_ns()},
          {"min", static_cast<uint64_t>(histogram.min().count())},
          {"max", static_cast<uint64_t>(histogram.max().count())},
          {"overflow", histogram.overflow()},
          {"counts", std::move(counts)}};
}

Result<Histogram> parse_histogram(const Json& json) {
  const auto layout = json.is_object() ? json.find("layout") : json.end();
  if (!json.is_object() || layout == json.end() || *layout != kLayout) {
    return Error{std::string("a histogram has the layout ") + kLayout};
  }
  const auto sum = json.find("sum"), counts = json.find("counts");
  const uint64_t* const least = whole(json, "min");
  const uint64_t* const most = whole(json, "max");
  const uint64_t* const overflow = whole(json, "overflow");
  if (sum == json.end() || !sum->is_number() || counts == json.end() || !counts->is_string() ||
      least == nullptr || most == nullptr || overflow == nullptr) {
    return Error{"a histogram has numbers sum, min, max, overflow, and a text of counts"};
  }
  Histogram::Parts parts{.sum = sum->get<double>(), .min = *least, .max = *most,
                         .overflow = *overflow, .counts = {}};
  const std::string& written = counts->get_ref<const std::string&>();
  for (std::string_view text = written; !text.empty();) {
    uint64_t bucket = 0, count = 0;
    if (!take(text, ':', bucket) || !take(text, ' ', count)) {
      return Error{"the counts of a histogram are BUCKET:COUNT with a blank between them"};
    }
    parts.counts.emplace_back(bucket, count);
  }
  std::optional<Histogram> histogram = Histogram::from(parts);
  if (histogram) return std::move(*histogram);
  return Error{"the buckets of a histogram rise and hold its least and its greatest value"};
}

}  // namespace rubato
