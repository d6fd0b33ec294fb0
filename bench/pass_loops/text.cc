// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "loops.h"

namespace rubato::loops::RUBATO_LOOPS_VARIANT {
namespace {

constexpr size_t kAll = size_t{1} << 20;
constexpr size_t kWindow = 16384;

// Words of up to nine letters and some numbers, with blanks between, and a zero per window.
std::string make_text() {
  std::string all;
  Sequence sequence(30);
  while (all.size() < kAll) {
    const uint64_t draw = sequence.next();
    for (uint64_t i = 0; i < draw % 9 + 1; ++i) {
      all += static_cast<char>(draw % 5 == 0 ? '0' + (draw >> (4 * i)) % 10
                                             : 'a' + (draw >> (4 * i)) % 16);
    }
    all += draw % 64 == 0 ? '\n' : ' ';
  }
  for (size_t end = kWindow; end <= kAll; end += kWindow) all[end - 1] = '\0';
  return all;
}

// Another part of the text in every round, lest the branch predictor learn it by heart.
std::string_view text(uint32_t round) {
  static const std::string all = make_text();
  return std::string_view(all).substr(round * size_t{7919} % (kAll - 2 * kWindow), kWindow);
}

uint64_t scan_for_end(uint32_t rounds) {
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const char* start = text(round).data();
    const char* at = start;
    while (*at != '\0') ++at;
    sum += static_cast<uint64_t>(at - start);
  }
  return sum;
}

uint64_t count_words(uint32_t rounds) {
  uint64_t words = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    bool inside = false;
    for (const char c : text(round)) {
      const bool letter = c != ' ' && c != '\n';
      words += letter && !inside ? 1 : 0;
      inside = letter;
    }
    words += round;
  }
  return words;
}

uint64_t hash_fnv(uint32_t rounds) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const char c : text(round)) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return hash;
}

uint64_t hash_each_word(uint32_t rounds) {
  uint64_t all = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const char* at = text(round).data();
    while (*at != '\0') {
      uint64_t hash = 5381;
      while (*at != ' ' && *at != '\n' && *at != '\0') {
        hash = hash * 33 + static_cast<uint8_t>(*at++);
      }
      all ^= hash;
      if (*at != '\0') ++at;
    }
  }
  return all;
}

uint64_t checksum_by_table(uint32_t rounds) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
      made[i] = value;
    }
    return made;
  }();
  uint32_t sum = ~0u;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const char c : text(round)) sum = sum >> 8 ^ table[(sum ^ static_cast<uint8_t>(c)) & 255];
  }
  return sum;
}

uint64_t parse(uint32_t rounds) {
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const char* at = text(round).data();
    const char* end = at + kWindow;
    uint64_t number = 0, line = 1, vowels = 0;
    while (at != end) {
      const char c = *at++;
      if (c >= '0' && c <= '9') {
        number = number * 10 + static_cast<uint64_t>(c - '0');
      } else if (c == '\n') {
        hash = mix(hash, line++);
      } else if (c == ' ') {
        hash = mix(hash, number + vowels);
        number = vowels = 0;
      } else if (c == 'a' || c == 'e' || c == 'i' || c == 'o') {
        ++vowels;
      } else {
        number ^= static_cast<uint64_t>(c) << (round % 8);
      }
    }
  }
  return hash;
}

uint64_t encode_base64(uint32_t rounds) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static std::string out(kWindow * 2, '\0');
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    size_t to = 0;
    const std::string_view from = text(round);
    for (size_t i = 0; i + 3 <= from.size(); i += 3) {
      const uint32_t three = static_cast<uint32_t>(from[i]) << 16 |
                             static_cast<uint32_t>(from[i + 1]) << 8 |
                             static_cast<uint32_t>(from[i + 2]);
      for (int shift = 18; shift >= 0; shift -= 6) out[to++] = digits[three >> shift & 63];
    }
    hash = mix(hash, static_cast<uint64_t>(out[round % to]));
  }
  return hash;
}

uint64_t edit_distance(uint32_t rounds) {
  static std::array<uint16_t, 129> row;
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const char* a = text(round).data();
    const char* b = text(0).data() + 3000;
    for (uint16_t i = 0; i <= 128; ++i) row[i] = i;
    for (uint16_t i = 1; i <= 64; ++i) {
      uint16_t diagonal = row[0];
      row[0] = i;
      for (uint16_t j = 1; j <= 128; ++j) {
        const uint16_t change = static_cast<uint16_t>(diagonal + (a[i] == b[j] ? 0 : 1));
        diagonal = row[j];
        row[j] = std::min({change, static_cast<uint16_t>(row[j] + 1),
                           static_cast<uint16_t>(row[j - 1] + 1)});
      }
    }
    hash = mix(hash, row[128]);
  }
  return hash;
}

uint64_t find_pattern(uint32_t rounds) {
  uint64_t found = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const char pattern[] = {'b', static_cast<char>('a' + round % 16), 'd'};
    const std::string_view from = text(round);
    for (size_t i = 0; i + 3 <= from.size(); ++i) {
      size_t same = 0;
      while (same < 3 && from[i + same] == pattern[same]) ++same;
      found += same == 3 ? i : 0;
    }
  }
  return found;
}

uint64_t compress_runs(uint32_t rounds) {
  static std::vector<uint8_t> out(40000);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    size_t to = 0;
    const std::string_view from = text(round);
    for (size_t i = 0; i < from.size();) {
      size_t run = 1;
      while (i + run < from.size() && from[i + run] == from[i] && run < 255) ++run;
      out[to++] = static_cast<uint8_t>(from[i]);
      out[to++] = static_cast<uint8_t>(run);
      i += run;
    }
    hash = mix(hash, to + out[round % to]);
  }
  return hash;
}

uint64_t validate_utf8(uint32_t rounds) {
  uint64_t good = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const char* at = text(round).data();
    const char* end = at + kWindow;
    while (at < end) {
      const uint8_t lead = static_cast<uint8_t>(*at);
      const int length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      for (int i = 1; i < length && at + i < end; ++i) {
        if ((static_cast<uint8_t>(at[i]) & 0xc0) != 0x80) return 0;
      }
      at += length;
      good += lead;
    }
  }
  return good;
}

constexpr Kernel kKernels[] = {
    {"scan_for_end", scan_for_end}, {"count_words", count_words},
    {"hash_fnv", hash_fnv}, {"hash_each_word", hash_each_word},
    {"checksum_by_table", checksum_by_table}, {"parse", parse},
    {"encode_base64", encode_base64}, {"edit_distance", edit_distance},
    {"find_pattern", find_pattern}, {"compress_runs", compress_runs},
    {"validate_utf8", validate_utf8},
};

}  // namespace

std::span<const Kernel> text_kernels() { return kKernels; }

}  // namespace rubato::loops::RUBATO_LOOPS_VARIANT
