//===- HandBundle.cpp - Bundles of hand-written kernels -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/schedule/HandBundle.h"

#include "bundle/abi/Abi.h"
#include "runtime/module/CpuFeatures.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <unistd.h>

using namespace heddle;
using bundle::Kernel;
using bundle::Manifest;
using bundle::Term;

static Kernel makeKernel(const std::string &name, Kernel::Kind kind,
                         int64_t queryRows) {
  Kernel kernel;
  kernel.name = name;
  kernel.kind = kind;
  for (const char *dtype : {"f32", "bf16"})
    kernel.variants.push_back(
        {bundle::variantSymbol(name, dtype, test::handHeadDim), dtype,
         test::handHeadDim, queryRows, 0, 4});
  return kernel;
}

Manifest test::handManifest() {
  Manifest manifest;
  manifest.producer = "hand";
  manifest.schedule = "hand";
  manifest.abi = abi::abiVersion;
  manifest.targets.emplace_back().triple =
      std::string(rt::hostArchitecture()) + "-unknown-linux-gnu";
  for (int64_t group : {16, 32}) {
    bundle::Selection selection;
    selection.name = "groups" + std::to_string(group);
    selection.keep = {1, 2};
    selection.group = group;
    selection.cadence.kind = bundle::Cadence::Kind::Every;
    selection.cadence.period = 1;
    manifest.selections.push_back(selection);
  }
  const Term columns16{Term::Kind::Columns, 0, 0};
  const Term columns32{Term::Kind::Columns, 0, 1};
  auto window = [](int64_t size) { return Term{Term::Kind::Window, size, -1}; };
  auto sinks = [](int64_t size) { return Term{Term::Kind::Sinks, size, -1}; };
  auto share = [](int64_t num, int64_t den) {
    return Term{Term::Kind::Sinks, 0, -1, {num, den}};
  };
  auto attention = [&](const std::string &name, int64_t rows, bool lse,
                       std::vector<Term> terms) {
    Kernel kernel = makeKernel(name, Kernel::Kind::Attention, rows);
    kernel.writesLse = lse;
    kernel.terms = std::move(terms);
    manifest.kernels.push_back(std::move(kernel));
  };
  attention("dense", 8, false, {});
  attention("dense_lse", 16, true, {});
  attention("columns16", 16, false, {columns16});
  attention("columns32", 16, false, {columns32});
  attention("window6", 8, false, {window(6)});
  attention("window5_sinks2", 3, false, {window(5), sinks(2)});
  attention("sinks3_lse", 8, true, {sinks(3)});
  attention("window5_share", 8, false, {window(5), share(1, 5)});
  attention("share_lse", 8, true, {sinks(3), share(1, 10)});
  attention("columns16_window6_sinks2", 8, false,
            {columns16, window(6), sinks(2)});
  attention("columns16_columns32_lse", 16, true, {columns16, columns32});
  for (int64_t group : {16, 32}) {
    Kernel kernel = makeKernel("select" + std::to_string(group),
                               Kernel::Kind::Select, group);
    kernel.group = group;
    manifest.kernels.push_back(kernel);
  }
  bundle::Rule rule;
  rule.phases.emplace_back().attention = 0;
  manifest.rules.push_back(rule);
  return manifest;
}

int64_t test::kernelNamed(const Manifest &manifest, const std::string &name) {
  for (size_t k = 0; k < manifest.kernels.size(); ++k)
    if (manifest.kernels[k].name == name)
      return static_cast<int64_t>(k);
  std::fprintf(stderr, "no hand-written kernel '%s'\n", name.c_str());
  std::abort();
}

std::string test::handCode() {
  std::ifstream file(HEDDLE_HAND_KERNELS, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<bundle::Bundle> test::makeBundle(const Manifest &manifest,
                                        const std::string &code) {
  const char *folder = std::getenv("TMPDIR");
  std::string path =
      std::string(folder && *folder ? folder : "/tmp") + "/heddle-test-XXXXXX";
  int fd = mkstemp(path.data());
  if (fd < 0)
    return Error("no temporary file");
  close(fd);
  std::vector<std::pair<std::string, std::string>> sections;
  if (!code.empty())
    sections.emplace_back(
        bundle::codeSection(manifest.targets.front(), bundle::CodeForm::Native),
        code);
  Status written = bundle::Bundle::write(path, manifest, sections);
  Result<bundle::Bundle> result =
      written ? bundle::Bundle::read(path)
              : Result<bundle::Bundle>(written.takeError());
  unlink(path.c_str());
  return result;
}

bundle::Bundle test::makeHandBundle(const Manifest &manifest) {
  Result<bundle::Bundle> result = makeBundle(manifest, handCode());
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    std::abort();
  }
  return std::move(*result);
}
