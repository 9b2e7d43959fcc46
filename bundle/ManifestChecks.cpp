//===- ManifestChecks.cpp - What must hold between the fields -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/ManifestNames.h"

#include <set>
#include <utility>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::detail;

namespace {

/// Keeps the first failure.
class Problem {
public:
  bool failed() const { return !message.empty(); }
  void fail(const std::string &path, const std::string &what) {
    if (message.empty())
      message = path + ": " + what;
  }
  Status takeStatus() {
    return failed() ? Status(Error(std::move(message))) : Status::success();
  }

private:
  std::string message;
};

std::string at(const std::string &list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

void checkSelections(Problem &in, const Manifest &manifest) {
  std::set<std::string> names;
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    if (!names.insert(manifest.selections[i].name).second)
      in.fail(at("selections", i) + ".name",
              "a second selection is called \"" +
                  printable(manifest.selections[i].name) + "\"");
}

/// A task reads one list of each selection, so its rows lie within a group.
void checkRows(Problem &in, const Manifest &manifest, const Kernel &kernel,
               const KernelVariant &variant, const std::string &path) {
  auto check = [&](int64_t group) {
    if (group % variant.queryRows != 0)
      in.fail(path + ".query_rows",
              "tasks of " + std::to_string(variant.queryRows) +
                  " rows do not fit into groups of " + std::to_string(group));
  };
  if (kernel.kind == Kernel::Kind::Select)
    check(kernel.group);
  for (const Term &term : kernel.terms)
    if (term.kind == Term::Kind::Columns)
      check(manifest.selections[static_cast<size_t>(term.selection)].group);
}

void checkVariant(Problem &in, const Manifest &manifest, const Kernel &kernel,
                  const KernelVariant &variant, const std::string &path) {
  std::string symbol =
      variantSymbol(kernel.name, variant.dtype, variant.headDim);
  if (variant.symbol != symbol)
    in.fail(path + ".symbol", "\"" + printable(variant.symbol) +
                                  "\" is another kernel's code, expected \"" +
                                  printable(symbol) + "\"");
  checkRows(in, manifest, kernel, variant, path);
}

void checkKernels(Problem &in, const Manifest &manifest) {
  using Form = std::pair<std::string, int64_t>;
  std::set<std::string> names;
  std::set<Form> forms;
  for (size_t i = 0; i < manifest.kernels.size(); ++i) {
    const Kernel &kernel = manifest.kernels[i];
    std::string path = at("kernels", i);
    if (!names.insert(kernel.name).second)
      in.fail(path + ".name",
              "a second kernel is called \"" + printable(kernel.name) + "\"");
    bool select = kernel.kind == Kernel::Kind::Select;
    if (kernel.name.starts_with(selectPrefix) != select)
      in.fail(path + ".name",
              "\"" + printable(kernel.name) +
                  "\" is no name for this kind of kernel: names of select "
                  "kernels, and of no others, begin with \"" +
                  std::string(selectPrefix) + "\"");
    std::set<Form> own;
    for (size_t j = 0; j < kernel.variants.size(); ++j) {
      const KernelVariant &variant = kernel.variants[j];
      if (!own.insert({variant.dtype, variant.headDim}).second)
        in.fail(path + ".variants", "two variants for " + variant.dtype +
                                        " and head dim " +
                                        std::to_string(variant.headDim));
      checkVariant(in, manifest, kernel, variant, at(path + ".variants", j));
    }
    if (own.empty())
      in.fail(path + ".variants", "the kernel has no compiled form");
    if (i == 0)
      forms = own;
    else if (own != forms)
      in.fail(path + ".variants",
              "not the same element types and head dims as kernels[0]");
  }
}

/// The attention kernel's reads are all renewed by a phase of the same rule:
/// selections live per layer, so no other rule can have filled them.
void checkReads(Problem &in, const Manifest &manifest, const Rule &rule,
                const std::string &path) {
  std::set<int64_t> renewed;
  for (const Phase &phase : rule.phases)
    for (const Phase::Refresh &refresh : phase.refreshes)
      renewed.insert(refresh.selection);
  for (size_t i = 0; i < rule.phases.size(); ++i) {
    const Kernel &kernel =
        manifest.kernels[static_cast<size_t>(rule.phases[i].attention)];
    for (const Term &term : kernel.terms)
      if (term.kind == Term::Kind::Columns && !renewed.count(term.selection))
        in.fail(at(path + ".phases", i) + ".attention",
                "kernel \"" + printable(kernel.name) + "\" reads selection " +
                    std::to_string(term.selection) +
                    ", which no phase of this rule renews");
  }
}

void checkPhase(Problem &in, const Manifest &manifest, const Phase &phase,
                const std::string &path) {
  const Kernel &attention =
      manifest.kernels[static_cast<size_t>(phase.attention)];
  if (attention.kind != Kernel::Kind::Attention)
    return in.fail(path + ".attention", "kernel \"" +
                                            printable(attention.name) +
                                            "\" is no attention kernel");
  if (!phase.refreshes.empty() && !attention.writesLse)
    in.fail(path + ".refreshes",
            "kernel \"" + printable(attention.name) +
                "\" writes no log-sum-exp, which a refresh needs");
  std::set<int64_t> renewed;
  for (size_t i = 0; i < phase.refreshes.size(); ++i) {
    const Phase::Refresh &refresh = phase.refreshes[i];
    std::string here = at(path + ".refreshes", i);
    const Kernel &select =
        manifest.kernels[static_cast<size_t>(refresh.kernel)];
    int64_t group =
        manifest.selections[static_cast<size_t>(refresh.selection)].group;
    if (select.kind != Kernel::Kind::Select)
      in.fail(here + ".kernel",
              "kernel \"" + printable(select.name) + "\" is no select kernel");
    else if (select.group != group)
      in.fail(here + ".kernel", "the kernel selects for groups of " +
                                    std::to_string(select.group) +
                                    " rows, the selection has groups of " +
                                    std::to_string(group));
    if (!renewed.insert(refresh.selection).second)
      in.fail(here + ".selection", "renewed twice in one phase");
  }
}

void checkRules(Problem &in, const Manifest &manifest) {
  if (manifest.rules.empty())
    return in.fail("rules", "there is no rule, so no layer has a schedule");
  bool haveDefault = false;
  for (size_t i = 0; i < manifest.rules.size(); ++i) {
    const Rule &rule = manifest.rules[i];
    std::string path = at("rules", i);
    if (rule.isDefault) {
      if (haveDefault)
        in.fail(path + ".layers", "a second default rule");
      haveDefault = true;
    } else {
      // Ranges with mixed signs depend on the number of layers: the runtime
      // checks them against the model.
      auto sameSide = [](int64_t a, int64_t b) { return (a < 0) == (b < 0); };
      if (sameSide(rule.firstLayer, rule.lastLayer) &&
          rule.firstLayer > rule.lastLayer)
        in.fail(path + ".layers", "the first layer comes after the last");
      for (size_t j = 0; j < i; ++j) {
        const Rule &other = manifest.rules[j];
        if (!other.isDefault && sameSide(rule.firstLayer, rule.lastLayer) &&
            sameSide(other.firstLayer, other.lastLayer) &&
            sameSide(rule.firstLayer, other.firstLayer) &&
            rule.firstLayer <= other.lastLayer &&
            other.firstLayer <= rule.lastLayer)
          in.fail(path + ".layers",
                  "shares layers with rules[" + std::to_string(j) + "]");
      }
    }
    if (rule.phases.empty() ||
        rule.phases.back().when.kind != When::Kind::Otherwise)
      return in.fail(path + ".phases",
                     "the last phase must be \"otherwise\", so that every "
                     "step has a phase");
    for (size_t j = 0; j < rule.phases.size() && !in.failed(); ++j) {
      std::string here = at(path + ".phases", j);
      if (j + 1 != rule.phases.size() &&
          rule.phases[j].when.kind == When::Kind::Otherwise)
        in.fail(here + ".when", "only the last phase can be \"otherwise\": "
                                "those after it would never run");
      checkPhase(in, manifest, rule.phases[j], here);
    }
    if (in.failed())
      return;
    checkReads(in, manifest, rule, path);
  }
}

} // namespace

std::string detail::printable(const std::string &text) {
  constexpr size_t longest = 60;
  std::string result;
  for (char c : text.substr(0, longest))
    result += c >= 0x20 && c < 0x7f ? c : '?';
  return text.size() > longest ? result + "..." : result;
}

Status detail::checkManifest(const Manifest &manifest) {
  Problem problem;
  checkSelections(problem, manifest);
  checkKernels(problem, manifest);
  if (!problem.failed())
    checkRules(problem, manifest);
  return problem.takeStatus();
}
