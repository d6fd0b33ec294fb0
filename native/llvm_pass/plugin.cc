// SPDX-License-Identifier: Apache-2.0
//
// librubato-pass.so: the plugin that compiles checkpoints in. It runs twice: before the first
// optimisation it makes uses of thread-locals safe, and after the last optimisation, when loops
// have been unrolled and vectorised, it places checkpoints. docs/PASS.md is its manual.
#include <llvm/ADT/SCCIterator.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/CallGraph.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/GlobalIFunc.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/ErrorHandling.h>

#include <string>

#include "apply.h"
#include "copies.h"
#include "llvm_versions.h"
#include "options.h"
#include "plan.h"
#include "report.h"
#include "thread_locals.h"
#include "unroll.h"

namespace rubato::pass {
namespace {

using namespace llvm;

constexpr StringRef kAnnotation = "rubato_no_preempt";
using FunctionSet = SmallPtrSet<const Function*, 16>;

bool is_supported(const Module& module) {
  const Triple target(module.getTargetTriple());
  return target.getArch() == Triple::x86_64 && target.isOSLinux();
}

// The functions that RUBATO_NO_PREEMPT marks: Clang lists annotations in a global array of structs
// that begin with the function and the text.
FunctionSet marked_functions(const Module& module) {
  FunctionSet marked;
  const GlobalVariable* list = module.getNamedGlobal("llvm.global.annotations");
  if (list == nullptr || !list->hasInitializer()) return marked;
  for (const Use& entry : list->getInitializer()->operands()) {
    const auto* fields = dyn_cast<ConstantStruct>(entry.get());
    if (fields == nullptr || fields->getNumOperands() < 2) continue;
    const auto* function = dyn_cast<Function>(fields->getOperand(0)->stripPointerCasts());
    const auto* text = dyn_cast<GlobalVariable>(fields->getOperand(1)->stripPointerCasts());
    if (function == nullptr || text == nullptr || !text->hasInitializer()) continue;
    const auto* data = dyn_cast<ConstantDataSequential>(text->getInitializer());
    if (data != nullptr && data->isCString() && data->getAsCString() == kAnnotation) {
      marked.insert(function);
    }
  }
  return marked;
}

// The functions that the loader runs before there is thread-local storage.
FunctionSet resolvers(const Module& module) {
  FunctionSet found;
  for (const GlobalIFunc& each : module.ifuncs()) found.insert(each.getResolverFunction());
  return found;
}

class Placement {
 public:
  Placement(Module& module, FunctionAnalysisManager& analyses, bool optimised)
      : module_(module),
        analyses_(analyses),
        marked_(marked_functions(module)),
        resolvers_(resolvers(module)),
        writer_(module, optimised) {}

  // Goes through callees before callers, so that the summaries of the callees are known.
  void run() {
    CallGraph graph(module_);
    for (auto circle = scc_begin(&graph); !circle.isAtEnd(); ++circle) {
      FunctionSet members;
      for (const CallGraphNode* node : *circle) {
        if (node->getFunction() != nullptr) members.insert(node->getFunction());
      }
      for (const CallGraphNode* node : *circle) {
        Function* function = node->getFunction();
        if (function != nullptr && !function->isDeclaration()) {
          instrument(*function, members, circle.hasCycle());
        }
      }
    }
    report_.write(module_, writer_.written());
  }

 private:
  const char* reason_to_skip(const Function& function) const {
    if (function.hasAvailableExternallyLinkage()) return "compiled elsewhere";
    if (marked_.contains(&function)) return "RUBATO_NO_PREEMPT";
    if (resolvers_.contains(&function)) return "ifunc resolver";
    if (function.hasFnAttribute(Attribute::Naked)) return "naked";
    if (function.hasFnAttribute(Attribute::DisableSanitizerInstrumentation)) {
      return "no instrumentation";
    }
    if (function.isPresplitCoroutine()) return "coroutine not split";
    const CallingConv::ID convention = function.getCallingConv();
    if (convention == CallingConv::X86_INTR) return "interrupt handler";
    if (keeps_thread_local(function)) return "thread-local";
    return nullptr;
  }

  void instrument(Function& function, const FunctionSet& circle, bool recurses) {
    if (is_lookup(function)) return;
    if (const char* reason = reason_to_skip(function)) return report_.skipped(function, reason);
    const Surroundings surroundings{
        .recurses = recurses,
        .reachable = !function.hasLocalLinkage() || function.hasAddressTaken()};
    const auto& library = analyses_.getResult<TargetLibraryAnalysis>(function);
    const auto& target = analyses_.getResult<TargetIRAnalysis>(function);
    unroll_small_loops(function, library, target);
    const FunctionPlan plan = plan_function(function, library, surroundings, circle, summaries_);
    summaries_[&function] = plan.summary;
    writer_.carry_out(function, plan);
    report_.planned(function, plan, split_copies(function, writer_));
  }

  Module& module_;
  FunctionAnalysisManager& analyses_;
  FunctionSet marked_;
  FunctionSet resolvers_;
  Writer writer_;
  Report report_;
  Summaries summaries_;
};

struct ThreadLocalsPass : PassInfoMixin<ThreadLocalsPass> {
  PreservedAnalyses run(Module& module, ModuleAnalysisManager&) {
    if (!is_supported(module) || !options().thread_locals) return PreservedAnalyses::all();
    return look_up_afresh(module) > 0 ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
};

struct CheckpointPass : PassInfoMixin<CheckpointPass> {
  explicit CheckpointPass(bool optimise) : optimised(optimise) {}
  PreservedAnalyses run(Module& module, ModuleAnalysisManager& analyses) {
    const std::string trouble =
        is_supported(module) ? options().error : "librubato-pass knows x86-64 Linux only";
    if (!trouble.empty()) {
      module.getContext().emitError(trouble);
      return PreservedAnalyses::all();
    }
    auto& functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
    Placement(module, functions, optimised).run();
    if (verifyModule(module, &errs())) report_fatal_error("librubato-pass broke the module");
    return PreservedAnalyses::none();
  }

  bool optimised;
};

void register_passes(PassBuilder& builder) {
  builder.registerPipelineStartEPCallback(
      [](ModulePassManager& passes, OptimizationLevel) { passes.addPass(ThreadLocalsPass()); });
  builder.registerOptimizerLastEPCallback(
      [](ModulePassManager& passes, OptimizationLevel level) {
        passes.addPass(CheckpointPass(level != OptimizationLevel::O0));
      });
}

}  // namespace
}  // namespace rubato::pass

extern "C" __attribute__((visibility("default"))) llvm::PassPluginLibraryInfo
llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "rubato", "0.1", &rubato::pass::register_passes};
}
