// SPDX-License-Identifier: Apache-2.0
//
// StaticServer: the model of a server whose requests come by themselves, and on which every worker
// has its core. The other model is ElasticServer (sim/elastic_server.h). It costs an engine
// nothing. A plain value.
#pragma once

#include "base/time.h"
#include "sim/setup.h"

namespace rubato::sim {

struct StaticServer {
  static constexpr bool kElastic = false;
  StaticServer(const Setup&, Instant) {}
};

}  // namespace rubato::sim
