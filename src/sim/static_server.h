// SPDX-License-Identifier: Apache-2.0
//
// StaticServer: the model of a server whose requests come by themselves, and on which every worker
// has its core. IdealServer is the same on a machine on which every operation is free, untraced:
// the compiler leaves out what has a price. The other model is ElasticServer
// (sim/elastic_server.h). They cost an engine nothing. Plain values.
#pragma once

#include "base/time.h"
#include "sim/setup.h"

namespace rubato::sim {

struct StaticServer {
  static constexpr bool kElastic = false;
  static constexpr bool kIdeal = false;
  StaticServer(const Setup&, Instant) {}
};

struct IdealServer {
  static constexpr bool kElastic = false;
  static constexpr bool kIdeal = true;
  IdealServer(const Setup&, Instant) {}
};

}  // namespace rubato::sim
