// SPDX-License-Identifier: Apache-2.0
//
// Report: the counts of the changes that the pass made to a module, written at its end as one line
// of JSON at the end of a file (in one write, so that compilers that run at once do not mix their
// lines) and, if asked for, as a line on stderr.
#pragma once

#include <llvm/ADT/MapVector.h>
#include <llvm/IR/Module.h>

#include <array>
#include <string>
#include <vector>

#include "plan.h"

namespace rubato::pass {

class Report {
 public:
  void skipped(const llvm::Function& function, llvm::StringRef reason);
  void planned(const llvm::Function& function, const FunctionPlan& plan, unsigned copies);

  // If the file cannot be written, the compilation fails.
  void write(const llvm::Module& module, unsigned checkpoints) const;

 private:
  struct Line {
    std::string function;
    LoopKind kind;
    unsigned line;
    unsigned rounds;
  };
  struct Left {
    std::string function;
    std::string reason;
  };

  std::string as_json(const llvm::Module& module, unsigned checkpoints) const;
  std::string as_line(const llvm::Module& module, unsigned checkpoints) const;

  unsigned seen_ = 0;
  unsigned instrumented_ = 0;
  unsigned entries_ = 0;
  unsigned copies_ = 0;
  std::array<unsigned, kLoopKinds> kinds_{};
  llvm::MapVector<llvm::StringRef, unsigned> reasons_;
  std::vector<Line> loops_;
  std::vector<Left> left_;
};

}  // namespace rubato::pass
