// SPDX-License-Identifier: Apache-2.0
//
// Any bytes are a one-line error or a profile that is read back as it is written and can be drawn
// from.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "workload/traffic_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rubato;
  const auto profile = parse_traffic_profile({reinterpret_cast<const char*>(data), size});
  if (!profile.ok()) {
    RUBATO_CHECK(!profile.error().empty() && profile.error().find('\n') == std::string::npos);
    return 0;
  }
  const std::string text = to_json(profile.value());
  const auto again = parse_traffic_profile(text);
  RUBATO_CHECK(again.ok() && to_json(again.value()) == text);
  WorkloadSpec workload;
  use_profile(profile.value(), "fuzz", workload);
  workload.flows = FlowSpec();  // a large table of shares takes long to make
  RUBATO_CHECK(validate(workload).ok());
  RequestSource source(workload, 1);
  Instant last;
  for (int i = 0; i < 50; ++i) {
    const Offer offer = source.next();
    RUBATO_CHECK(offer.at >= last && offer.service >= Nanos(1));
    RUBATO_CHECK(offer.type < profile.value().types.size());
    last = offer.at;
  }
  return 0;
}
