// SPDX-License-Identifier: Apache-2.0
#include "metrics/hdr_log.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdio>
#include <optional>

namespace rubato {
namespace {

// ---- The array of counts of an HdrHistogram -----------------------------------------------------

constexpr uint32_t kV2 = 0x1c849313;         // V2EncodingCookieBase, words of LEB128
constexpr uint32_t kCompressed = 0x1c849314;  // V2CompressedEncodingCookieBase, likewise
constexpr size_t kHead = 40;
constexpr size_t kMostBytes = size_t{16} << 20;  // of one histogram

// How values are laid out: the lower half of an octave's sub-buckets are those of the one below.
struct Layout {
  int unit_bits = 0;  // of the least value that is told apart
  int half_bits = 7;  // log2 of half the sub-buckets of an octave: 7 for two digits

  uint64_t value_at(uint64_t index) const {  // the least of the slot
    const uint64_t half = uint64_t{1} << half_bits;
    const uint64_t octave = index >> half_bits;
    if (octave == 0) return index << unit_bits;
    const uint64_t within = (index & (half - 1)) + half;
    const uint64_t shift = octave - 1 + static_cast<uint64_t>(unit_bits);
    return shift < 56 - static_cast<uint64_t>(half_bits) ? within << shift : UINT64_MAX;
  }
  uint64_t width_at(uint64_t index) const {
    const uint64_t octave = index >> half_bits;
    return uint64_t{1} << (std::min<uint64_t>(octave == 0 ? 0 : octave - 1, 50) +
                           static_cast<uint64_t>(unit_bits));
  }
  uint64_t index_of(uint64_t value) const {
    const uint64_t mask = (uint64_t{2} << half_bits) - 1;
    const int shift = static_cast<int>(std::bit_width(value | mask)) - half_bits - 1;
    return (static_cast<uint64_t>(shift) << half_bits) + (value >> shift);
  }
};

// ---- Bytes --------------------------------------------------------------------------------------

void put_big(std::string& out, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> shift));
  }
}

uint64_t big_at(std::string_view bytes, size_t place, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | static_cast<uint8_t>(bytes[place + i]);
  return value;
}

// ZigZag in LEB128 whose ninth byte has eight bits.
void put_word(std::string& out, int64_t word) {
  uint64_t value = (static_cast<uint64_t>(word) << 1) ^ static_cast<uint64_t>(word >> 63);
  for (int i = 0; i < 8 && value >= 0x80; ++i, value >>= 7) {
    out.push_back(static_cast<char>(value | 0x80));
  }
  out.push_back(static_cast<char>(value));
}

bool take_word(std::string_view bytes, size_t& place, int64_t& word) {
  uint64_t value = 0;
  for (int i = 0; i < 9; ++i) {
    if (place >= bytes.size()) return false;
    const uint64_t part = static_cast<uint8_t>(bytes[place++]);
    value |= (i < 8 ? part & 0x7f : part) << (7 * i);
    if (i == 8 || part < 0x80) break;
  }
  word = static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  return true;
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t here = std::min<size_t>(3, bytes.size() - i);
    const uint64_t three = big_at(bytes, i, here) << (8 * (3 - here));
    for (size_t c = 0; c < 4; ++c) {
      text.push_back(c <= here ? kBase64[(three >> (18 - 6 * c)) & 63] : '=');
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  if (text.size() % 4 != 0) return {};
  for (size_t i = 0; i < text.size(); i += 4) {
    uint64_t three = 0;
    size_t padding = 0;
    for (size_t c = 0; c < 4; ++c) {
      const size_t digit = kBase64.find(text[i + c]);
      const bool pads = text[i + c] == '=' && i + 4 == text.size() && c >= 2;
      if (!pads && (digit == std::string_view::npos || padding > 0)) return {};
      padding += pads ? 1 : 0;
      three = three << 6 | (pads ? 0 : digit);
    }
    for (size_t b = 0; b + padding < 3; ++b) {
      bytes.push_back(static_cast<char>(three >> (16 - 8 * b)));
    }
  }
  return bytes;
}

std::string deflated(const std::string& bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string out(size, '\0');
  ::compress(reinterpret_cast<Bytef*>(out.data()), &size,
             reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  out.resize(size);
  return out;
}

std::optional<std::string> inflated(std::string_view bytes) {
  for (size_t room = 64 << 10; room <= kMostBytes; room *= 4) {
    std::string out(room, '\0');
    uLongf size = room;
    const int done = ::uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                                  reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    if (done == Z_BUF_ERROR) continue;
    if (done != Z_OK) return {};
    out.resize(size);
    return out;
  }
  return {};
}

// ---- One histogram ------------------------------------------------------------------------------

std::string encoded(const Histogram& histogram) {
  constexpr Layout kLayout;
  std::string words;
  uint64_t next = 0;
  histogram.for_each_bucket([&](Nanos low, Nanos high, uint64_t count) {
    const int64_t middle = low.count() + (high - low).count() / 2;
    const int64_t value =
        std::clamp(middle, histogram.min().count(), histogram.max().count());
    const uint64_t index = kLayout.index_of(static_cast<uint64_t>(value));
    if (index > next) put_word(words, -static_cast<int64_t>(index - next));
    put_word(words, static_cast<int64_t>(count));
    next = index + 1;
  });
  std::string bytes;
  put_big(bytes, kV2, 4);
  put_big(bytes, words.size(), 4);
  put_big(bytes, 0, 4);  // normalizing index offset
  put_big(bytes, 2, 4);  // significant digits
  put_big(bytes, 1, 8);
  put_big(bytes, buckets::kTop - 1, 8);
  put_big(bytes, std::bit_cast<uint64_t>(1.0), 8);
  const std::string packed = deflated(bytes + words);
  std::string whole;
  put_big(whole, kCompressed, 4);
  put_big(whole, packed.size(), 4);
  return base64(whole + packed);
}

std::optional<Layout> layout_of(std::string_view bytes) {
  if (bytes.size() < kHead || big_at(bytes, 0, 4) != kV2) return {};
  const uint64_t digits = big_at(bytes, 12, 4), least = big_at(bytes, 16, 8);
  if (big_at(bytes, 4, 4) != bytes.size() - kHead || big_at(bytes, 8, 4) != 0 || digits > 5 ||
      least < 1 || least > (uint64_t{1} << 40)) {
    return {};
  }
  uint64_t single = 2;  // values up to here are told apart
  for (uint64_t i = 0; i < digits; ++i) single *= 10;
  return Layout{.unit_bits = static_cast<int>(std::bit_width(least)) - 1,
                .half_bits = static_cast<int>(std::bit_width(single - 1)) - 1};
}

std::optional<Histogram> decoded(std::string_view text) {
  const std::optional<std::string> whole = from_base64(text);
  if (!whole || whole->size() < 8 || big_at(*whole, 0, 4) != kCompressed ||
      big_at(*whole, 4, 4) != whole->size() - 8) {
    return {};
  }
  const std::optional<std::string> bytes = inflated(std::string_view(*whole).substr(8));
  const std::optional<Layout> layout = bytes ? layout_of(*bytes) : std::nullopt;
  if (!layout) return {};
  Histogram histogram;
  uint64_t index = 0, total = 0;
  int64_t word = 0;
  for (size_t place = kHead; place < bytes->size();) {
    if (!take_word(*bytes, place, word) || word == INT64_MIN) return {};
    const auto count = static_cast<uint64_t>(word > 0 ? word : 0);
    const uint64_t value = layout->value_at(index) + layout->width_at(index) / 2;
    if (word > 0 && (value > INT64_MAX / 2 || total > UINT64_MAX - count)) return {};
    histogram.record_many(Nanos(static_cast<int64_t>(value)), count);
    total += count;
    index += word < 0 ? static_cast<uint64_t>(-word) : 1;
    if (index > (uint64_t{1} << 32)) return {};
  }
  return histogram;
}

// ---- Lines --------------------------------------------------------------------------------------

std::string clean(std::string tag) {
  for (char& c : tag) {
    if (static_cast<unsigned char>(c) <= ' ' || c == ',' || c == '"' || c == '=') c = '_';
  }
  return tag;
}

// The text up to the next comma, which is taken away with it.
std::string_view next_field(std::string_view& line) {
  const size_t comma = std::min(line.find(','), line.size());
  const std::string_view field = line.substr(0, comma);
  line.remove_prefix(std::min(comma + 1, line.size()));
  return field;
}

// Seconds or milliseconds: of any clock, and no longer when they are written than a line holds.
bool number_in(std::string_view text, double& number) {
  constexpr double kMost = 1e15;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= -kMost && number <= kMost;  // so it is no NaN
}

bool take_line(std::string_view line, HdrInterval& interval) {
  constexpr std::string_view kTag = "Tag=";
  if (line.starts_with(kTag)) interval.tag = next_field(line).substr(kTag.size());
  double most = 0;
  if (!number_in(next_field(line), interval.start_s) ||
      !number_in(next_field(line), interval.length_s) || !number_in(next_field(line), most)) {
    return false;
  }
  std::optional<Histogram> histogram = decoded(line);
  if (histogram) interval.histogram = std::move(*histogram);
  return histogram.has_value();
}

}  // namespace

std::string hdr_log(const std::vector<HdrInterval>& intervals) {
  std::string text =
      "#[Histogram log format version 1.3]\n"
      "#[StartTime: 0.000 (seconds since epoch)]\n"
      "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
  for (const HdrInterval& interval : intervals) {
    if (!interval.tag.empty()) text += "Tag=" + clean(interval.tag) + ',';
    std::array<char, 128> numbers{};  // the maximum in milliseconds, as others write it
    std::snprintf(numbers.data(), numbers.size(), "%.3f,%.3f,%.6f,", interval.start_s,
                  interval.length_s, interval.histogram.max().micros() / 1e3);
    text += numbers.data() + encoded(interval.histogram) + '\n';
  }
  return text;
}

Result<std::vector<HdrInterval>> parse_hdr_log(std::string_view text) {
  std::vector<HdrInterval> intervals;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#' || line.front() == '"') continue;
    HdrInterval interval;
    if (!take_line(line, interval)) {
      return Error{"hdr: line " + std::to_string(number) +
                   " is not [Tag=NAME,]START,LENGTH,MAX,HISTOGRAM with a V2 histogram"};
    }
    intervals.push_back(std::move(interval));
  }
  return intervals;
}

}  // namespace rubato
