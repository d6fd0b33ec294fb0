// SPDX-License-Identifier: Apache-2.0
//
// RequestSource: the source of a run's requests. It draws the next request's type from the mix and
// appends its bytes. Deterministic for the generator's seed. One owner at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "workload/mix.h"

namespace rubato::load {

struct SourceType {
  std::string name;
  double share = 0;                   // 0..1
  std::optional<Nanos> service_mean;  // nominal, where it is known
};

class RequestSource {
 public:
  struct Draw {
    uint32_t type = 0;
    Nanos service;  // nominal; 0 = unknown
  };

  virtual ~RequestSource() = default;

  // Appends one request to `out`.
  virtual Draw draw(Prng& prng, std::string& out) = 0;

  const std::vector<SourceType>& types() const { return types_; }

 protected:
  std::vector<SourceType> types_;
};

// The parameters of a key-value mix.
struct KvShape {
  uint64_t keys = 100000;
  uint32_t value_size_bytes = 64;
  uint32_t scan_limit = 1000;  // items of a range, scan, lrange or smembers without its own number
};

// `get:0.99,range:0.01`: VERB[/NUMBER]:WEIGHT joined by commas. NUMBER overrides the verb's own
// size: items, microseconds of debugsleep, loops of eval. `service_us` holds nominal service times
// (`get=3,range=1000`) and may be empty. Fails with one line that names the part that does not fit.
Result<std::unique_ptr<RequestSource>> make_kv_source(std::string_view mix, const KvShape& shape,
                                                      std::string_view service_us);

// `SPIN <nanoseconds>` with service times drawn from the mix.
std::unique_ptr<RequestSource> make_spin_source(Mix mix);

// The same for the body of an RPC request: the nanoseconds alone.
std::unique_ptr<RequestSource> make_rpc_spin_source(Mix mix);

// One line per verb, for the help text: its name and the command that it sends.
std::vector<std::pair<std::string_view, std::string_view>> kv_verbs();

// Appends `*N\r\n$len\r\narg...`.
void append_command(std::string& out, std::initializer_list<std::string_view> args);

// The name of a key, as the sources use it and preload() fills it.
std::string key_name(uint64_t index);
inline constexpr std::string_view kLastKey = "key:999999999999";
inline constexpr std::string_view kListKey = "list:0";
inline constexpr std::string_view kSetKey = "set:0";

}  // namespace rubato::load
