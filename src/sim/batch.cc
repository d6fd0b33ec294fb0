// SPDX-License-Identifier: Apache-2.0
#include "sim/batch.h"

#include <span>

#include "sim/simulation.h"

namespace rubato::sim {

void sum_batches(Outcome& outcome) {
  const std::span<const Batch> kept =
      std::span<const Batch>(outcome.batches).subspan(outcome.first_batch);
  outcome.types = std::vector<TypeOutcome>(kept.front().types.size());
  outcome.measured = 0;
  for (const Batch& batch : kept) {
    for (size_t t = 0; t < batch.types.size(); ++t) {
      TypeOutcome& sum = outcome.types[t];
      const TypeBatch& type = batch.types[t];
      type.latency.add_to(sum.latency);
      type.slowdown.add_to(sum.slowdown);
      sum.refused += type.refused;
      sum.lost += type.lost;
      outcome.measured += type.latency.count() + type.refused + type.lost;
    }
  }
  outcome.done_in_time = kept.back().end.done - kept.front().begin.done;
  outcome.measured_time = kept.back().end.at - kept.front().begin.at;
}

}  // namespace rubato::sim
