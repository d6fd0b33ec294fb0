// SPDX-License-Identifier: Apache-2.0
//
// rubato_executor: an Executor with its metrics and what it records. Threads: as
// <rubato/executor.h> says of the functions that call these methods.
#pragma once

#include <rubato/executor.h>

#include <memory>

#include "api/recorders.h"
#include "base/result.h"
#include "executor/executor.h"
#include "runtime/exporter.h"
#include "runtime/exposition.h"

struct rubato_executor {
 public:
  static rubato::Result<std::unique_ptr<rubato_executor>> create(
      const rubato_executor_options* options);

  ~rubato_executor();
  rubato_executor(const rubato_executor&) = delete;
  rubato_executor& operator=(const rubato_executor&) = delete;

  rubato::Executor& tasks() { return tasks_; }
  const rubato::Executor& tasks() const { return tasks_; }
  rubato::api::Recorders& recorders() { return recorders_; }
  uint32_t metrics_port() const { return exporter_ == nullptr ? 0 : exporter_->port(); }
  rubato_stats stats() const;
  rubato_group_stats group_stats(uint32_t group) const;

 private:
  explicit rubato_executor(const rubato::ExecutorOptions& options) : tasks_(options) {}
  rubato::Status start_metrics(const std::string& bind, int port);
  rubato::ExposedTypes types() const;
  void expose(rubato::OpenMetrics& out);
  void expose_groups(rubato::OpenMetrics& out) const;

  rubato::Executor tasks_;
  rubato::api::Recorders recorders_{"the executor"};
  rubato::NamedTypes named_types_;  // the exporter's thread's own
  std::unique_ptr<rubato::Exporter> exporter_;  // reads the others
};
