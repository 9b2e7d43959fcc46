//===- Rebuild.cpp - A bundle's schedule, compiled anew -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/trust/Rebuild.h"

#include "bundle/format/Sections.h"
#include "tools/trust/Compiler.h"

#include <set>
#include <vector>

namespace heddle::trust {

namespace {

using Arguments = std::vector<std::string>;

/// Sections with tables that a compiler is given, in the order of asideFiles,
/// by which option, and what it is given without one.
constexpr struct {
  std::string_view section;
  const char *option;
  const char *otherwise;
} tables[] = {{bundle::tuningSection, "--tuning=", ""},
              {bundle::crossoversSection, "--crossovers=", "none"}};

/// The compiler's standard output for the bundle's schedule and its tables.
Result<std::string> compile(const std::string &compiler,
                            const Arguments &arguments,
                            const bundle::Bundle &old,
                            const std::function<bool()> &interrupted) {
  Result<Ended> ended = runProgram(
      compiler, arguments, old.section(bundle::scheduleSection),
      {old.section(tables[0].section), old.section(tables[1].section)},
      interrupted);
  if (!ended)
    return ended.takeError();
  if (!ended->succeeded()) {
    std::string said = std::move(ended->messages);
    while (said.ends_with('\n'))
      said.pop_back();
    // What only the compiler knows by that name.
    for (size_t i = 0; i < asideFiles.size(); ++i)
      for (size_t at; (at = said.find(asideFiles[i])) != std::string::npos;)
        said.replace(at, std::string_view(asideFiles[i]).size(),
                     "the bundle's section " + std::string(tables[i].section));
    return Error(
        "the schedule in the bundle could not be compiled by " + compiler +
        (said.empty() ? std::string(", which says nothing") : ":\n" + said));
  }
  return std::move(ended->output);
}

std::string joined(const std::set<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ",") + word;
  return text;
}

/// What makes the same bundle again. `host` names the host's CPU.
Arguments argumentsFor(const bundle::Bundle &old, const std::string &host) {
  const bundle::Manifest &manifest = old.manifest();
  std::string targets, encoding;
  bool assembled = false;
  for (const bundle::Target &target : manifest.targets) {
    const bool gpu = target.kind == bundle::Target::Kind::Cuda;
    targets += (targets.empty() ? "" : ",") + (gpu ? "cuda:" + target.cpu
                                               : host.empty() ? target.cpu
                                                              : host);
    if (!gpu)
      continue;
    // One that was asked for is that of all; else each has its own.
    const std::string own =
        target.encodings.size() == 1
            ? std::string(bundle::nameOf(target.encodings.front()))
            : "auto";
    encoding = encoding.empty() || encoding == own ? own : "auto";
    assembled |=
        !old.section(codeSection(target, bundle::CodeForm::Cubin)).empty();
  }
  std::set<std::string> types, headDims;
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants) {
      types.insert(variant.dtype);
      headDims.insert(std::to_string(variant.headDim));
    }
  Arguments arguments = {"-",
                         "-o",
                         "-",
                         "--schedule=" + manifest.schedule,
                         "--target=" + targets,
                         "--dtype=" + joined(types),
                         "--head-dim=" + joined(headDims),
                         "--index-encoding=" +
                             (encoding.empty() ? "auto" : encoding),
                         assembled ? "--ptxas=auto" : "--ptxas=none"};
  for (size_t i = 0; i < asideFiles.size(); ++i)
    if (const char *value = old.section(tables[i].section).empty()
                                ? tables[i].otherwise
                                : asideFiles[i];
        *value)
      arguments.push_back(std::string(tables[i].option) + value);
  return arguments;
}

/// The forms that a bundle has kernels in.
std::set<std::string> formsOf(const bundle::Manifest &manifest) {
  std::set<std::string> forms;
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants)
      forms.insert(variant.dtype + " with head dim " +
                   std::to_string(variant.headDim) + " for " +
                   bundle::toString(
                       manifest.targets[static_cast<size_t>(variant.target)]));
  return forms;
}

} // namespace

Result<std::string> rebuild(const bundle::Bundle &old,
                            const std::function<bool()> &interrupted) {
  if (old.section(bundle::scheduleSection).empty())
    return Error("the bundle holds no schedule that could be compiled anew");
  if (Status status = bundle::checkTables(old); !status)
    return status.takeError();
  Result<std::string> compiler = findCompiler();
  if (!compiler)
    return compiler.takeError();
  if (compiler->empty())
    return Error("compiling anew needs heddlec, which is neither beside this "
                 "program nor on PATH; name one in HEDDLEC");
  // A bundle for the machine that it was made on has less than its CPU's name
  // says where a hypervisor hides features; then 'host' gives the same.
  std::string bytes;
  for (const char *host : {"", "host"}) {
    Result<std::string> made =
        compile(*compiler, argumentsFor(old, host), old, interrupted);
    if (!made)
      return made.takeError();
    Result<bundle::Bundle> parsed =
        bundle::Bundle::parse(*made, "what heddlec made");
    if (!parsed)
      return parsed.takeError();
    std::set<std::string> forms = formsOf(parsed->manifest());
    bool same = parsed->manifest().targets == old.manifest().targets;
    if (bytes.empty() || same) {
      for (const std::string &form : formsOf(old.manifest()))
        if (!forms.contains(form))
          return Error("this heddlec makes no kernels in " + form +
                       ", which the bundle has");
      bytes = std::move(*made);
    }
    if (same || bundle::hostTarget(old.manifest()) < 0)
      break;
  }
  return bytes;
}

} // namespace heddle::trust
