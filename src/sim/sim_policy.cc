// SPDX-License-Identifier: Apache-2.0
//
// Compiled once per policy (policy/unit.h).
#include "sim/sim_policy.h"

#include "base/option_text.h"
#include "sim/elastic_server.h"
#include "sim/engine.h"
#include "sim/static_server.h"

namespace rubato::sim {
namespace {

template <Policy P, class Server>
Result<Outcome> simulate_on(const Settings& settings, const Setup& setup, const Watch& watch) {
  Result<typename P::Config> config = read_options<P>(settings);
  if (!config) return Error{config.error()};
  return std::make_unique<Engine<P, Server>>(setup, *config, watch)->run();
}

// Nothing has a price, and nobody looks on: for the engine that knows that.
template <Policy P>
Result<Outcome> simulate_static(const Settings& settings, const Setup& setup, const Watch& watch) {
  const bool is_ideal =
      static_cast<const Prices&>(setup.costs) == kIdealPrices && watch.trace == nullptr &&
      setup.worker_speeds.empty();
  return is_ideal ? simulate_on<P, IdealServer>(settings, setup, watch)
                  : simulate_on<P, StaticServer>(settings, setup, watch);
}

template <Policy P>
class HostedEngine final : public HostedServer {
 public:
  HostedEngine(const Setup& setup, const typename P::Config& config, ServerClient& client)
      : engine_(setup, config, watch_of(client)) {
    engine_.start();
  }

  void send(const SentRequest& request) override { engine_.send(request); }
  Instant next() const override { return engine_.first().at; }
  void step() override { engine_.step(); }
  ServerTotals totals() const override { return engine_.totals(); }
  uint32_t admitted_levels() const override { return engine_.admitted_levels(); }

 private:
  static Watch watch_of(ServerClient& client) {
    Watch watch;
    watch.client = &client;
    return watch;
  }

  Engine<P, StaticServer> engine_;
};

template <Policy P>
Result<std::unique_ptr<HostedServer>> host(const Settings& settings, const Setup& setup,
                                           ServerClient& client) {
  Result<typename P::Config> config = read_options<P>(settings);
  if (!config) return Error{config.error()};
  return std::unique_ptr<HostedServer>(new HostedEngine<P>(setup, *config, client));
}

template <Policy P>
constexpr SimPolicy entry() {
  if constexpr (kGoesElastic<P>) {
    return {P::kName, simulate_static<P>, host<P>, simulate_on<P, ElasticServer>};
  }
  return {P::kName, simulate_static<P>, host<P>, nullptr};
}

}  // namespace

template <>
const SimPolicy& sim_policy<RUBATO_POLICY_UNIT>() {
  static constexpr SimPolicy kEntry = entry<RUBATO_POLICY>();
  return kEntry;
}

}  // namespace rubato::sim
