// SPDX-License-Identifier: Apache-2.0
//
// OptionInfo: an option as everything that shows, reads or checks it sees it. An option is written
// once: whatever has options (the scheduler, a policy, an allocator of cores) lists them in
// `visit`, each with the field that it sets (bool, uint32_t, size_t, double, Nanos, text, an
// enumeration with choices, or settings by name; base/option_text.h reads and checks them):
//   template <class V>
//   static void visit(Config& c, V&& v) {
//     v(OptionInfo{"quantum", "us", 0.1, 1e6, "time before a request is cut"}, c.quantum);
//   }
// Plain values.
#pragma once

#include <cstdint>

namespace rubato {

// What has an option: a mask.
using OptionHosts = uint8_t;
inline constexpr OptionHosts kServe = 1;    // `rubato serve kv` and `spin`, and their files
inline constexpr OptionHosts kSim = 2;      // `rubato sim`
inline constexpr OptionHosts kTune = 4;     // `rubato tune`, which finds the others itself
inline constexpr OptionHosts kLibrary = 8;  // include/rubato
inline constexpr OptionHosts kEveryHost = kServe | kSim | kLibrary;

struct OptionInfo {
  const char* name;  // words_like_this; a flag is --words-like-this
  // Of bare numbers and of the range: "" or, for a Nanos, "ns", "us", "ms", "s"; a size is in
  // bytes.
  const char* unit;
  double low;   // least and
  double high;  // greatest value that is accepted
  const char* help;
  OptionHosts hosts = kEveryHost;
};

// An option whose value has no effect because of another one. A Config may refuse such pairs by
//   constexpr VoidedOption voided() const   the first one; `name` is null if there is none
struct VoidedOption {
  const char* name = nullptr;
  const char* by = nullptr;  // the other option, as "name=value" or "name"
};

// A value of an enumeration that is an option. For such an E there is, found by its namespace,
//   constexpr std::span<const OptionChoice> choices_of(E)   in the order of the values, from 0
struct OptionChoice {
  const char* name;
  const char* help;
};

}  // namespace rubato
