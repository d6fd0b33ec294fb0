// SPDX-License-Identifier: Apache-2.0
//
// Compiled once per part of the list of policies (policy/part.h).
#include "runtime/create_part.h"

#include <string>
#include <utility>
#include <vector>

#include "base/option_text.h"
#include "mechanism/cpu/pin.h"
#include "policy/part.h"
#include "runtime/live_runtime.h"

namespace rubato {
namespace {

// One CPU per worker, or an empty list when they are not to be pinned.
Result<std::vector<uint32_t>> choose_cpus(const RuntimeOptions& options) {
  std::vector<uint32_t> chosen;
  if (!options.pin) return chosen;
  const std::vector<uint32_t> allowed = allowed_cpus();
  if (options.pin_first + options.workers > allowed.size()) {
    return Error{"pin: " + std::to_string(options.workers) + " workers from CPU number " +
                 std::to_string(options.pin_first) + " do not fit on " +
                 std::to_string(allowed.size()) + " allowed CPUs"};
  }
  for (uint32_t i = 0; i < options.workers; ++i) chosen.push_back(allowed[options.pin_first + i]);
  return chosen;
}

template <Policy P>
Result<std::unique_ptr<Runtime>> make(const RuntimeOptions& options, Datapath& datapath,
                                      Application& application) {
  typename P::Config config;
  for (const auto& [name, value] : options.policy_settings) {
    Status set = set_option<P>(config, name, value);
    if (!set.ok()) return Error{"set: " + set.error()};
  }
  auto cpus = choose_cpus(options);
  if (!cpus.ok()) return Error{cpus.error()};
  return std::unique_ptr<Runtime>(std::make_unique<LiveRuntime<P>>(
      P(config), options, std::move(*cpus), datapath, application));
}

}  // namespace

template <uint32_t kPart>
std::optional<Result<std::unique_ptr<Runtime>>> create_part(const RuntimeOptions& options,
                                                            Datapath& datapath,
                                                            Application& application) {
  std::optional<Result<std::unique_ptr<Runtime>>> created;
  using Mine = PolicyPart<kPart, RUBATO_POLICY_PARTS>;
  Mine::with(options.policy, [&]<class P>(std::type_identity<P>) {
    if constexpr (kServesLive<P>) {
      created.emplace(make<P>(options, datapath, application));
    } else {
      created.emplace(Error{"policy: '" + options.policy +
                            "' is simulated only, it stands for hardware; use rubato sim"});
    }
  });
  return created;
}

template std::optional<Result<std::unique_ptr<Runtime>>> create_part<RUBATO_POLICY_PART>(
    const RuntimeOptions&, Datapath&, Application&);

}  // namespace rubato
