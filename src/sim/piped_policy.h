// SPDX-License-Identifier: Apache-2.0
//
// A policy that another program has, for trying an idea: every hook is asked of it over a pipe, a
// line each, some 20 us per question. lab/rubato_lab/policy.py is the other end.
//
//   the simulator says       start WORKERS SEED N, and N lines with the names of the types; then
//                            HOOK ARGUMENTS, with the names and in the order of policy/contract.h:
//                            a job as its number and fields (as job_text writes them), a queue as
//                            declaration and index, times in nanoseconds, and `now` at the end
//   the other end replies    VERB ARGUMENTS, any number of them, each of which is answered by a
//                            line; then = and what the hook returns. To `start` that is the hooks
//                            that it has, comma-separated (or -), its adapt_period in nanoseconds
//                            (0 = never), and whether workers are interchangeable (0 or 1); - is
//                            no job of `next`, no end of `quantum`
//
// Its queues are `own` of each worker, and limits::kTypes each of `shared` and `ordered` (by
// policy_word). All but `explain` and what extensions.h has can be asked. Any thread, one at a
// time.
#pragma once

#include <string_view>

#include "base/result.h"
#include "sim/simulation.h"

namespace rubato::sim {

// Does this name of a policy mean such a one, "pipe:IN,OUT", two descriptors?
bool is_piped(std::string_view policy);

// As simulate(). Fails with one line, which names the request, if the policy loses one: it neither
// returns nor puts back what it took, or leaves it where no worker takes it; if it breaks the
// contract otherwise, or goes away.
Result<Outcome> simulate_piped(std::string_view policy, const Setup& setup, const Watch& watch);

}  // namespace rubato::sim
