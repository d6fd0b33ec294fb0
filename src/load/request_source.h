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
#include "load/target.h"
#include "load/verbs.h"
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

  // The same of the type, where the source's requests are service times with this one.
  virtual Draw make(uint32_t type, Nanos service, Prng& prng, std::string& out) = 0;

  const std::vector<SourceType>& types() const { return types_; }

 protected:
  std::vector<SourceType> types_;
};

// `get:0.99,range:0.01`: VERB[/NUMBER]:WEIGHT joined by commas. NUMBER overrides the verb's own
// size: items, microseconds of debugsleep, loops of eval. Over RESP, what is no verb or has
// anything but a number behind it is a command (command_template.h): `lrange/mylist/0/100:0.5`.
// `service_us` holds nominal service times (`get=3,range=1000`) and may be empty. Fails with one
// line that names the part that does not fit, a verb that the protocol lacks among them. Requires a
// protocol of targets that keep values.
Result<std::unique_ptr<RequestSource>> make_kv_source(std::string_view mix, const KvShape& shape,
                                                      std::string_view service_us,
                                                      Protocol protocol = Protocol::kResp);

// The same of HTTP/1.1 requests (http_template.h), such as `get/items/{key}:9,post/items:1`. `host`
// becomes their header.
Result<std::unique_ptr<RequestSource>> make_http_source(std::string_view mix, const KvShape& shape,
                                                        std::string_view service_us,
                                                        std::string_view host);

// `SPIN <nanoseconds>` with service times drawn from the mix.
std::unique_ptr<RequestSource> make_spin_source(Mix mix);

// The same for the body of an RPC request: the nanoseconds alone.
std::unique_ptr<RequestSource> make_rpc_spin_source(Mix mix);

}  // namespace rubato::load
