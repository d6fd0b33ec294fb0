// SPDX-License-Identifier: Apache-2.0
#include "host/serving.h"

#include <csignal>
#include <cstdio>

#include "runtime/exporter.h"
#include "runtime/stop_signals.h"

namespace rubato {
namespace {

std::string metrics_text(const Runtime& runtime, const Datapath& datapath,
                         const ServingOptions& options) {
  OpenMetrics out;
  expose(out, runtime, datapath, {options.type_name, options.types});
  if (options.more_metrics) options.more_metrics(out);
  return std::move(out).finish();
}

}  // namespace

Result<int> serve_until_signal(Runtime& runtime, Datapath& datapath,
                               const ServingOptions& options) {
  std::unique_ptr<Exporter> exporter;
  if (options.metrics_port >= 0) {
    auto started = Exporter::start(options.metrics_bind,
                                   static_cast<uint16_t>(options.metrics_port),
                                   {[&] { return metrics_text(runtime, datapath, options); },
                                    [&] { return runtime.serving(); }});
    if (!started.ok()) return Error{started.error()};
    exporter = std::move(*started);
    std::printf("metrics on http://%s:%u/metrics\n", options.metrics_bind.c_str(),
                exporter->port());
    std::fflush(stdout);
  }
  auto signals = StopSignals::install(runtime);
  if (!signals.ok()) return Error{signals.error()};
  std::signal(SIGPIPE, SIG_IGN);
  const bool drained = runtime.run();
  if (!drained) std::fprintf(stderr, "rubato: the drain limit passed with requests unfinished\n");
  return drained ? 0 : 1;
}

}  // namespace rubato
