//===- NVPTXBackend.cpp - Code generation for NVIDIA GPUs -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/NVPTX/NVPTXBackend.h"

#include "bundle/format/Bundle.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Dialect/Warp/Transforms/Passes.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"
#include "heddle/Target/NVPTX/Ptxas.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

/// What kernels there are, then those that a bundle has unless told otherwise:
/// fp32 has no matrix instructions and is there to compare with.
constexpr StringLiteral types[] = {"bf16", "f16", "f32"};
constexpr size_t defaultTypes = 2;

remark::RemarkOpts remarkOf(StringRef name, StringRef function = {}) {
  return remark::RemarkOpts::name(name)
      .category("heddle-nvptx")
      .function(function);
}

class NVPTXBackend final : public Backend {
public:
  NVPTXBackend(::heddle::CudaTarget target, Assembler assembler,
               StringRef tuning, ArrayRef<shed::WgmmaRule> rules,
               StringRef tuningFile)
      : target(std::move(target)), assembler(assembler), tuning(tuning),
        tuningFile(tuningFile), rules(rules) {}

  StringRef name() const override { return target.description().cpu; }
  const bundle::Target &description() const override {
    return target.description();
  }
  ArrayRef<StringLiteral> elementTypes() const override { return types; }
  ArrayRef<StringLiteral> defaultElementTypes() const override {
    return ArrayRef(types).take_front(defaultTypes);
  }

  ArrayRef<bundle::Encoding> encodings() const override {
    static constexpr bundle::Encoding all[] = {bundle::Encoding::Int32,
                                               bundle::Encoding::Uint16,
                                               bundle::Encoding::Bitmap};
    return all;
  }
  SmallVector<bundle::Encoding>
  chooseEncodings(ArrayRef<bundle::Selection> selections) const override;
  void populateTilePasses(OpPassManager &pm,
                          const KernelForms &forms) const override;
  bool hasPipelines() const override { return true; }
  void populatePipelinePasses(OpPassManager &pm) const override;
  void populateMachinePasses(OpPassManager &pm) const override;
  std::string identity() const override;
  FailureOr<SmallVector<CodeSection>>
  generateCode(ModuleOp module, ::heddle::CodeCache *cache) const override;

private:
  FailureOr<std::optional<std::string>> runAssembler(ModuleOp module,
                                                     StringRef ptx) const;
  LogicalResult judge(ModuleOp module,
                      const ::heddle::Assembled &assembled) const;

  bool usesWarpgroups() const { return !rules.empty(); }

  ::heddle::CudaTarget target;
  Assembler assembler;
  std::string tuning, tuningFile;
  SmallVector<shed::WgmmaRule> rules; ///< of it
};

} // namespace

// A key that is kept costs 2 bytes in a list of 16-bit keys, any key 1/8 byte
// in a bitmap. One form for all selections of keys, so that a kernel that reads
// several has one form too. Lists of blocks are Int32 in any case.
SmallVector<bundle::Encoding>
NVPTXBackend::chooseEncodings(ArrayRef<bundle::Selection> selections) const {
  auto isDense = [](const bundle::Selection &selection) {
    // Of a number of keys, longer sequences keep ever smaller shares.
    return selection.count == 0 &&
           16 * selection.keep.num >= selection.keep.den;
  };
  auto ofKeys =
      llvm::make_filter_range(selections, [](const bundle::Selection &each) {
        return each.kind == bundle::Selection::Kind::Columns;
      });
  if (ofKeys.empty())
    return {bundle::Encoding::Int32};
  // Warpgroups read keys one by one, whose number is little beside their rows.
  const bool oneByOne =
      target.hasWgmma() &&
      llvm::any_of(rules, [&](const shed::WgmmaRule &rule) {
        return (rule.over == "list" || rule.over == "union") &&
               llvm::any_of(ofKeys, [&](const bundle::Selection &each) {
                 return !each.perLayer && rule.shared == each.perKvHead &&
                        shed::dividesRows(rule, each.group);
               });
      });
  if (llvm::all_of(ofKeys, isDense) && !oneByOne)
    return {bundle::Encoding::Bitmap};
  return {bundle::Encoding::Uint16, bundle::Encoding::Int32};
}

void NVPTXBackend::populateTilePasses(OpPassManager &pm,
                                      const KernelForms &forms) const {
  ConvertHeddleToShedOptions kernels;
  kernels.dtypes = forms.elementTypes;
  kernels.headDims = forms.headDims;
  for (bundle::Encoding encoding : forms.encodings)
    kernels.encodings.emplace_back(bundle::nameOf(encoding));
  pm.addPass(createConvertHeddleToShed(kernels));
  if (usesWarpgroups())
    pm.addPass(shed::createShedChooseWgmmaTiles(rules, tuningFile));
  pm.addPass(shed::createShedChooseMmaTiles(target));
  pm.addPass(shed::createShedVerifyMmaKernels(target));
  pm.addPass(shed::createShedAddRowKernels(forms.elementTypes, forms.rowOps));
}

void NVPTXBackend::populatePipelinePasses(OpPassManager &pm) const {
  if (usesWarpgroups()) {
    pm.addPass(createConvertShedToWarp());
    pm.addPass(warp::createWarpSpecializeRoles());
    pm.addPass(warp::createWarpPingPong());
    pm.addPass(warp::createWarpVerifyPipelines({target.sharedBytesPerBlock()}));
  }
  pm.addPass(createShedPipelineCopies());
}

void NVPTXBackend::populateMachinePasses(OpPassManager &pm) const {
  if (usesWarpgroups())
    pm.addPass(createConvertWarpToNVVM());
  pm.addPass(createConvertShedToNVVM());
  pm.addPass(createConvertShedRowsToNVVM());
  // All further simplification is LLVM's: canonicalization here would take
  // twice the time of the rest of this level and change nothing after it.
  pm.addPass(createCSEPass());
  HeddleVerifyMachineOptions options;
  options.dialects = {"arith", "builtin", "cf",  "index", "llvm",
                      "math",  "nvvm",    "scf", "vector"};
  pm.addPass(createHeddleVerifyMachine(options));
}

/// Says what ptxas said. It fails in strict mode only: slow code is right code.
LogicalResult NVPTXBackend::judge(ModuleOp module,
                                  const ::heddle::Assembled &assembled) const {
  bool strict = assembler == Assembler::Strict, good = true;
  auto complain = [&](const std::string &problem) {
    good = false;
    InFlightDiagnostic diagnostic =
        strict ? module.emitError() : module.emitWarning();
    diagnostic << "ptxas for " << name() << ": " << problem;
  };
  for (const ::heddle::PtxasKernel &kernel : assembled.kernels) {
    remark::analysis(module.getLoc(), remarkOf("Assembled", kernel.symbol))
        << llvm::formatv("{0} for {1}: {2} registers, {3} bytes of stack, {4} "
                         "bytes spilled",
                         kernel.symbol, name(), kernel.registers,
                         kernel.stackBytes, kernel.spillBytes)
               .str();
    if (kernel.stackBytes > 0)
      complain(llvm::formatv(
          "{0} keeps {1} bytes of a thread in memory ({2} spilled)",
          kernel.symbol, kernel.stackBytes, kernel.spillBytes));
  }
  for (const std::string &complaint : assembled.complaints)
    complain(complaint);
  // What was not said can't be judged.
  for (const KernelRecord &record : collectKernels(module))
    if (strict && llvm::none_of(assembled.kernels,
                                [&](const ::heddle::PtxasKernel &kernel) {
                                  return kernel.symbol == record.symbol;
                                }))
      complain("it says nothing of " + record.symbol);
  return success(good || !strict);
}

/// The cubin, if there is to be one and ptxas can make it.
FailureOr<std::optional<std::string>>
NVPTXBackend::runAssembler(ModuleOp module, StringRef ptx) const {
  if (assembler == Assembler::None)
    return std::optional<std::string>();
  std::string why = "there is no ptxas in $CUDA_HOME/bin, $CUDA_PATH/bin, on "
                    "PATH or in /usr/local/cuda/bin";
  std::optional<::heddle::Assembled> assembled;
  if (std::optional<std::string> ptxas = ::heddle::findPtxas()) {
    auto result = ::heddle::assemble(*ptxas, name(), ptx, why);
    if (!result)
      return module.emitError() << llvm::toString(result.takeError());
    assembled = std::move(*result);
  }
  if (!assembled && assembler == Assembler::Strict)
    return module.emitError()
           << "the PTX for " << name() << " was not checked: " << why;
  if (!assembled) {
    remark::missed(module.getLoc(), remarkOf("Assembled"))
        << llvm::formatv("PTX only for {0}: {1}", name(), why).str();
    return std::optional<std::string>();
  }
  if (failed(judge(module, *assembled)))
    return failure();
  return std::optional(std::move(assembled->cubin));
}

std::string NVPTXBackend::identity() const {
  std::string ptxas;
  if (assembler != Assembler::None)
    if (std::optional<std::string> path = ::heddle::findPtxas())
      ptxas = ::heddle::programIdentity(*path);
  return llvm::formatv("{0} ptxas {1} {2} tuning {3}", name(),
                       static_cast<int>(assembler), ptxas, tuning)
      .str();
}

FailureOr<SmallVector<CodeSection>>
NVPTXBackend::generateCode(ModuleOp module, ::heddle::CodeCache *cache) const {
  FailureOr<std::string> ptx = emitPtx(module, target, {cache, name().str()});
  if (failed(ptx))
    return failure();
  FailureOr<std::optional<std::string>> cubin = runAssembler(module, *ptx);
  if (failed(cubin))
    return failure();
  SmallVector<CodeSection> sections;
  auto add = [&](bundle::CodeForm form, StringRef extension,
                 std::string contents) {
    sections.push_back({bundle::codeSection(description(), form),
                        extension.str(), std::move(contents)});
  };
  add(bundle::CodeForm::Ptx, ".ptx", std::move(*ptx));
  if (*cubin)
    add(bundle::CodeForm::Cubin, ".cubin", std::move(**cubin));
  return sections;
}

llvm::Expected<std::unique_ptr<Backend>>
mlir::heddle::createNVPTXBackend(::heddle::CudaTarget target,
                                 const BackendOptions &options) {
  StringRef tuning;
  std::vector<shed::WgmmaRule> rules;
  if (target.hasWgmma()) {
    tuning = options.tuning.empty() ? shed::builtInTuning()
                                    : StringRef(options.tuning);
    auto parsed = ::heddle::bundle::tilingsFromJson(tuning);
    if (!parsed)
      return llvm::createStringError(parsed.error().text());
    rules = std::move(*parsed);
  }
  return std::make_unique<NVPTXBackend>(std::move(target), options.assembler,
                                        tuning, rules, options.tuningFile);
}
