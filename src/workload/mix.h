// SPDX-License-Identifier: Apache-2.0
//
// Mix: the request types of a workload, how often each comes and how long it takes.
//
// A mix is named (`extreme-bimodal`, see named_mixes()) or written inline as NAME:SERVICE:SHARE
// joined by commas, `short:0.5us:99.5,long:500us:0.5`. SERVICE is a length of time (bare numbers
// are microseconds) or a distribution (workload/service_time.h). Shares are any positive numbers;
// only their ratios count. A plain value, read-only once built; sampling is deterministic for a
// seed on every platform.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "workload/sampling.h"
#include "workload/service_time.h"

namespace rubato {

struct RequestType {
  std::string name;
  ServiceTime service;
  double share = 0;  // 0..1, normalised
};

class Mix {
 public:
  static constexpr size_t kMaxTypes = 1024;
  static constexpr size_t kMaxRecordedTypes = 64;  // that recordings of a server tell apart

  struct Draw {
    uint32_t type;
    Nanos service;
  };

  // Requires 1 to kMaxTypes types of positive share; normalises the shares.
  Mix(std::string name, std::vector<RequestType> types);

  Draw sample(Prng& prng) const {
    const uint32_t type = choice_.pick(prng);
    return {type, types_[type].service.sample(prng)};
  }

  const std::string& name() const { return name_; }  // the name or the inline text
  const std::vector<RequestType>& types() const { return types_; }
  double mean_service_ns() const;

 private:
  std::string name_;
  std::vector<RequestType> types_;
  WeightedChoice choice_;
};

// A named mix or an inline one. Fails with one line that names the part that does not fit. Also
// takes `fixed-LENGTH` and `exp-LENGTH` for any length (`fixed-850ns`, `exp-10`: microseconds).
Result<Mix> parse_mix(std::string_view name_or_spec);

struct NamedMix {
  std::string_view name;
  std::string_view spec;     // what parse_mix makes of it
  std::string_view summary;  // one phrase, with its source
};

// Every mix that has a name of its own.
const std::vector<NamedMix>& named_mixes();

}  // namespace rubato
