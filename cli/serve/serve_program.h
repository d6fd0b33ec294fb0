// SPDX-License-Identifier: Apache-2.0
//
// ServeProgram: a `rubato serve` command: its options, and what it does with them. run_program does
// what all of them have in common: it reads the options from everywhere they may stand, checks or
// prints them where that is all that is wanted, opens the log, and has SIGHUP load them again. Main
// thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cli/serve/reload.h"
#include "cli/serve/serve_flags.h"
#include "runtime/runtime.h"

namespace rubato::cli {

class ServeProgram {
 public:
  virtual ~ServeProgram() = default;

  virtual const char* name() const = 0;  // "kv"
  ServeOptions& options() { return options_; }
  const ServeOptions& options() const { return options_; }
  // Adds its options, which are fields of this object.
  virtual void declare(CommandLine& command) = 0;
  // After the parse: checks what can be checked without starting anything. Fails with one line.
  virtual Status check() = 0;
  // The ports of its clients, by their options ("--port"), as far as they are TCP; -1 = none.
  using Ports = std::vector<std::pair<const char*, int>>;
  virtual Ports ports() const = 0;
  // A program whose options have their defaults.
  virtual std::unique_ptr<ServeProgram> another() const = 0;
  // Serves, and returns the exit status. Tells `reloader` which options it can change meanwhile.
  virtual int serve(Reloader& reloader) = 0;

 private:
  ServeOptions options_;
};

// Reads the environment and the file into the program's options, and checks them all.
Status load_options(CommandLine& command, ServeProgram& program);

// After the parse. Returns the exit status.
int run_program(CommandLine& command, ServeProgram& program);

// The recorders of requests and traces for which the options name files, which record unless they
// say otherwise; a reload can change that. Fails with one line.
using Recorders = std::vector<std::unique_ptr<Recording>>;
Result<Recorders> start_recorders(ServeOptions& options, Runtime& runtime, RequestFeed& requests,
                                  Reloader& reloader);

// What sends metrics and spans to --otlp while the program serves; null = nothing does. Fails with
// one line.
Result<std::unique_ptr<OtlpExporter>> open_otlp(const ServeProgram& program,
                                                ServingOptions& serving, RequestFeed& requests);

// Has reloads change the scheduler's options while `runtime` serves.
void reload_scheduler(Reloader& reloader, Runtime& runtime);

// Tells why the program cannot serve, and returns `status`.
int refuse(const ServeProgram& program, int status, const std::string& message);

}  // namespace rubato::cli
