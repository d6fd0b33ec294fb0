// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fcntl.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "options.h"

namespace rubato::pass {

using namespace llvm;

void Report::skipped(const Function& function, StringRef reason) {
  ++seen_;
  ++reasons_[reason];
  left_.push_back({function.getName().str(), reason.str()});
}

void Report::planned(const Function& function, const FunctionPlan& plan, unsigned copies) {
  ++seen_;
  copies_ += copies;
  if (plan.changes() || copies > 0) ++instrumented_;
  if (plan.at_entry) ++entries_;
  for (const LoopPlan& loop : plan.loops) {
    ++kinds_[static_cast<unsigned>(loop.kind)];
    loops_.push_back({function.getName().str(), loop.kind, loop.line, loop.rounds});
  }
}

std::string Report::as_json(const Module& module, unsigned checkpoints) const {
  json::Object reasons;
  for (const auto& [reason, count] : reasons_) reasons[reason] = count;
  json::Object kinds;
  for (unsigned kind = 0; kind < kLoopKinds; ++kind) {
    kinds[name_of(static_cast<LoopKind>(kind))] = kinds_[kind];
  }
  json::Array loops;
  for (const Line& each : loops_) {
    loops.push_back(json::Object{{"function", each.function},
                                 {"kind", name_of(each.kind)},
                                 {"line", each.line},
                                 {"rounds", each.rounds}});
  }
  json::Array left;
  for (const Left& each : left_) {
    left.push_back(json::Object{{"function", each.function}, {"reason", each.reason}});
  }
  json::Object functions{{"seen", seen_},
                               {"instrumented", instrumented_},
                               {"recursion", entries_},
                               {"skipped", std::move(reasons)}};
  json::Object all{{"module", module.getSourceFileName()},
                   {"distance", options().distance},
                   {"checkpoints", checkpoints},
                   {"copies", copies_},
                   {"functions", std::move(functions)},
                   {"loops", std::move(kinds)},
                   {"loop_list", std::move(loops)},
                   {"skip_list", std::move(left)}};
  std::string text;
  raw_string_ostream(text) << json::Value(std::move(all)) << '\n';
  return text;
}

std::string Report::as_line(const Module& module, unsigned checkpoints) const {
  std::string text;
  raw_string_ostream out(text);
  unsigned loops = 0;
  for (const unsigned count : kinds_) loops += count;
  out << "rubato-pass: " << module.getSourceFileName() << ": " << checkpoints << " checkpoints; "
      << instrumented_ << " of " << seen_ << " functions, " << entries_ << " for recursion; "
      << loops << " loops";
  for (unsigned kind = 0; kind < kLoopKinds; ++kind) {
    out << (kind == 0 ? ": " : ", ") << kinds_[kind] << ' ' << name_of(static_cast<LoopKind>(kind));
  }
  for (const auto& [reason, count] : reasons_) out << "; " << count << " left out: " << reason;
  out << '\n';
  return text;
}

void Report::write(const Module& module, unsigned checkpoints) const {
  if (options().summary) errs() << as_line(module, checkpoints);
  const std::string& path = options().report;
  if (path.empty()) return;
  const std::string text = as_json(module, checkpoints);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const bool done = file >= 0 && ::write(file, text.data(), text.size()) ==
                                     static_cast<ssize_t>(text.size());
  const int error = errno;
  if (file >= 0) close(file);
  if (done) return;
  module.getContext().emitError("cannot write the report " + path + ": " + std::strerror(error));
}

}  // namespace rubato::pass
