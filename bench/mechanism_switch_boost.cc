// SPDX-License-Identifier: Apache-2.0
//
// The reference of mechanism_switch_bench: Boost.Context's hand-written fcontext.
#include <benchmark/benchmark.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "bench_support.h"
#include "mechanism/fiber/stack.h"

namespace rubato::bench {
namespace {

namespace fcontext = boost::context::detail;

void bounce_fcontext(fcontext::transfer_t back) {
  for (;;) back = fcontext::jump_fcontext(back.fctx, nullptr);
}

void reference_boost_fcontext_switch(::benchmark::State& state) {
  StackPool pool;
  Stack* stack = pool.take();
  fcontext::transfer_t there{
      fcontext::make_fcontext(stack->low + stack->size_bytes, stack->size_bytes, &bounce_fcontext),
      nullptr};
  for (auto _ : state) there = fcontext::jump_fcontext(there.fctx, nullptr);
  report_each(state, "switch", 2);
  pool.give(stack);
}
BENCHMARK(reference_boost_fcontext_switch)->Apply(fixed_iterations);

}  // namespace
}  // namespace rubato::bench
