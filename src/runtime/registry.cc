// SPDX-License-Identifier: Apache-2.0
//
// Runtime::create: from a policy's name to its instantiation. The one place where the live host
// meets the list of policies.
#include <optional>
#include <string>
#include <utility>

#include "policy/part.h"
#include "runtime/create_part.h"
#include "runtime/runtime.h"
#include "runtime/seat.h"

namespace rubato {
namespace {

std::string live_policies() {
  std::string names;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    if (!kServesLive<P>) return;
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

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::create(const RuntimeOptions& options, Datapath& datapath,
                                                 Application& application) {
  Status fits = check_bounds(options, datapath);
  if (!fits.ok()) return Error{fits.error()};
  std::optional<Result<std::unique_ptr<Runtime>>> created;
  for_each_policy_part<RUBATO_POLICY_PARTS>([&]<uint32_t kPart>(PolicyPartNumber<kPart>) {
    if (!created) created = create_part<kPart>(options, datapath, application);
  });
  if (created) return std::move(*created);
  return Error{"policy: '" + options.policy + "' is not one of " + live_policies()};
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
