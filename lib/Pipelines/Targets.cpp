//===- Targets.cpp - What is made for which machine -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Targets.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

/// "host has f32, bf16; sm_80 has bf16, f16, f32".
static std::string listTypes(ArrayRef<TargetJob> jobs) {
  return llvm::join(
      llvm::map_range(jobs,
                      [](const TargetJob &job) {
                        return job.backend->name().str() + " has " +
                               llvm::join(job.backend->elementTypes(), ", ");
                      }),
      "; ");
}

/// Gives each job the element types that it makes of those asked for.
static llvm::Error chooseTypes(std::vector<TargetJob> &jobs,
                               ArrayRef<std::string> types) {
  for (TargetJob &job : jobs) {
    if (types.empty())
      for (StringRef type : job.backend->defaultElementTypes())
        job.elementTypes.push_back(type.str());
    for (const std::string &type : types)
      if (llvm::is_contained(job.backend->elementTypes(), StringRef(type)))
        job.elementTypes.push_back(type);
    if (job.elementTypes.empty())
      return llvm::createStringError(
          "target " + job.backend->name() + " has no kernels for " +
          llvm::join(types, " or ") + ", only for " +
          llvm::join(job.backend->elementTypes(), ", "));
  }
  for (const std::string &type : types)
    if (llvm::none_of(jobs, [&](const TargetJob &job) {
          return llvm::is_contained(job.elementTypes, type);
        }))
      return llvm::createStringError("no target has kernels for " + type +
                                     ": " + listTypes(jobs));
  return llvm::Error::success();
}

llvm::Expected<std::vector<TargetJob>>
mlir::heddle::planTargets(const CompilerOptions &options) {
  std::vector<TargetJob> jobs;
  if (options.targets.empty())
    return llvm::createStringError("there is no target to compile for");
  for (const std::string &target : options.targets) {
    auto backend = createBackend(target, options.backend);
    if (!backend)
      return backend.takeError();
    for (auto [job, earlier] : llvm::zip(jobs, options.targets))
      if (job.backend->name() == (*backend)->name())
        return llvm::createStringError("targets " + earlier + " and " + target +
                                       " would both be the bundle's code for " +
                                       job.backend->name() +
                                       "; give one of them");
    jobs.push_back({std::move(*backend), {}});
  }
  if (isOfTarget(options.level) && jobs.size() > 1)
    return llvm::createStringError("the level " +
                                   stringifyLevel(options.level) +
                                   " is each target's own; choose one target");
  if (options.level == Level::Pipeline && !jobs.front().backend->hasPipelines())
    return llvm::createStringError(
        "the level pipeline is of GPUs, whose kernels copy tiles ahead; those "
        "of " +
        jobs.front().backend->name() +
        " go from shed to machine at once; choose one of these levels, or "
        "--target=cuda");
  if (llvm::Error error = chooseTypes(jobs, options.elementTypes))
    return error;
  if (options.encoding && llvm::none_of(jobs, [&](const TargetJob &job) {
        return llvm::is_contained(job.backend->encodings(), *options.encoding);
      }))
    return llvm::createStringError(
        "no target has kernels for index lists in " +
        std::string(bundle::nameOf(*options.encoding)) +
        "; CPUs read int32 only");
  return jobs;
}

llvm::Error mlir::heddle::checkTargets(const CompilerOptions &options) {
  return planTargets(options).takeError();
}

bundle::Target
mlir::heddle::describe(const TargetJob &job,
                       ArrayRef<bundle::Selection> selections,
                       std::optional<bundle::Encoding> encoding) {
  bundle::Target target = job.backend->description();
  if (encoding && llvm::is_contained(job.backend->encodings(), *encoding)) {
    target.encodings = {*encoding};
    return target;
  }
  SmallVector<bundle::Encoding> best = job.backend->chooseEncodings(selections);
  target.encodings.assign(best.begin(), best.end());
  return target;
}
