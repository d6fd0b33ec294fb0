// SPDX-License-Identifier: Apache-2.0
//
// Runtime::create: from a policy's name to its instantiation. The one place where the live host
// meets the list of policies.
#include <algorithm>
#include <string>

#include "mechanism/cpu/pin.h"
#include "policy/all.h"
#include "policy/options.h"
#include "runtime/live_runtime.h"
#include "runtime/runtime.h"

namespace rubato {
namespace {

std::string known_policies() {
  std::string names;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    names += (names.empty() ? "" : ", ") + std::string(P::kName);
  });
  return names;
}

Status check_bounds(const RuntimeOptions& options, const Datapath& datapath) {
  if (options.workers < 1 || options.workers > limits::kMaxWorkers) {
    return Error{"workers: " + std::to_string(options.workers) + " is not in 1 .. " +
                 std::to_string(limits::kMaxWorkers)};
  }
  if (datapath.queues() != options.workers) {
    return Error{"workers: the datapath has " + std::to_string(datapath.queues()) +
                 " queues for " + std::to_string(options.workers) + " workers"};
  }
  if (options.max_fibers <= options.workers) {
    return Error{"max_fibers: must be greater than the number of workers, got " +
                 std::to_string(options.max_fibers)};
  }
  return Done{};
}

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

Result<std::unique_ptr<Runtime>> Runtime::create(const RuntimeOptions& options, Datapath& datapath,
                                                 Application& application) {
  Status fits = check_bounds(options, datapath);
  if (!fits.ok()) return Error{fits.error()};
  Result<std::unique_ptr<Runtime>> created =
      Error{"policy: '" + options.policy + "' is not one of " + known_policies()};
  with_policy(options.policy, [&]<class P>(std::type_identity<P>) {
    created = make<P>(options, datapath, application);
  });
  return created;
}

Request* recv() { return this_seat()->recv(); }

// A long reply leaves in pieces: the kernel's copy of a megabyte could not be preempted.
void send(Request& request) {
  while (request.reply->size() > kReplyPieceBytes &&
         request.datapath->flush_some(request, kReplyPieceBytes)) {
    checkpoint();
  }
  this_seat()->send(request);
}

}  // namespace rubato
