// SPDX-License-Identifier: Apache-2.0
//
// Any bytes are a one-line error or a trace whose requests come in order, all of them, from any
// place, and are the same when they are written anew.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "workload/request_trace.h"

namespace {

using namespace rubato;

// Those from `from` on.
std::vector<RecordedRequest> requests_of(const std::shared_ptr<const RequestTrace>& trace,
                                         Nanos from) {
  TraceCursor cursor(trace);
  cursor.seek(from);
  std::vector<RecordedRequest> all;
  while (const std::optional<RecordedRequest> request = cursor.next()) {
    RUBATO_CHECK(request->at >= (all.empty() ? from : all.back().at));
    RUBATO_CHECK(request->type < trace->types().size());
    all.push_back(*request);
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto trace = RequestTrace::parse({reinterpret_cast<const char*>(data), size});
  if (!trace.ok()) {
    RUBATO_CHECK(!trace.error().empty() && trace.error().find('\n') == std::string::npos);
    return 0;
  }
  const auto all = requests_of(*trace, (*trace)->first());
  RUBATO_CHECK(all.size() == (*trace)->requests());
  const RecordedRequest& middle = all[all.size() / 2];
  const auto later = requests_of(*trace, middle.at);
  RUBATO_CHECK(!later.empty() && later.size() <= all.size() && later[0].at == middle.at);
  std::vector<std::string> names;
  for (const RequestTrace::Type& type : (*trace)->types()) names.push_back(type.name);
  auto again = RequestTrace::of(all, names);
  RUBATO_CHECK(again.ok() && (*again)->requests() == all.size());
  RUBATO_CHECK((*again)->mean_service_ns() == (*trace)->mean_service_ns());
  return 0;
}
