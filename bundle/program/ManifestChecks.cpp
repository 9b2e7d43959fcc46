//===- ManifestChecks.cpp - What must hold between the fields -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/Abi.h"
#include "bundle/program/KernelNeeds.h"
#include "bundle/program/ManifestNames.h"
#include "bundle/program/Printable.h"
#include "bundle/program/ProgramChecks.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>
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

/// "sm_" or "ptx", two or three digits, for a GPU perhaps the 'a' or 'f' of an
/// architecture's or family's own instructions.
bool isNumbered(std::string_view text, std::string_view prefix,
                std::string_view endings) {
  if (!text.starts_with(prefix))
    return false;
  text.remove_prefix(prefix.size());
  if (!text.empty() && endings.find(text.back()) != std::string_view::npos)
    text.remove_suffix(1);
  return (text.size() == 2 || text.size() == 3) &&
         std::ranges::all_of(text,
                             [](unsigned char c) { return std::isdigit(c); });
}

void checkTarget(Problem &in, const Target &target, const std::string &path) {
  if (target.encodings.empty())
    in.fail(path + ".encodings", "kernels need one encoding of index lists");
  std::set<Encoding> encodings;
  for (size_t i = 0; i < target.encodings.size(); ++i)
    if (!encodings.insert(target.encodings[i]).second)
      in.fail(at(path + ".encodings", i), "named twice");
  if (target.kind == Target::Kind::Host) {
    if (target.encodings != std::vector{Encoding::Int32})
      in.fail(path + ".encodings",
              "host kernels have int32 lists and no others");
    return;
  }
  if (target.triple != "nvptx64-nvidia-cuda")
    in.fail(path + ".triple", "\"" + printable(target.triple) +
                                  "\" is no triple of a cuda target, expected "
                                  "nvptx64-nvidia-cuda");
  if (!isNumbered(target.cpu, "sm_", "af"))
    in.fail(path + ".cpu", "\"" + printable(target.cpu) +
                               "\" is no name of a GPU, expected one such as "
                               "sm_80 or sm_90a");
  if (target.features.size() != 1 ||
      !isNumbered(target.features.front(), "ptx", ""))
    in.fail(path + ".features",
            "expected the PTX version that the code needs and nothing else, "
            "such as [\"ptx80\"]");
}

void checkTargets(Problem &in, const Manifest &manifest) {
  if (manifest.targets.empty())
    in.fail("targets", "there is no target, so nothing runs the schedule");
  std::set<std::string> gpus;
  bool haveHost = false;
  for (size_t i = 0; i < manifest.targets.size(); ++i) {
    const Target &target = manifest.targets[i];
    std::string path = at("targets", i);
    if (target.kind == Target::Kind::Host) {
      if (haveHost)
        in.fail(path, "a second host target");
      haveHost = true;
    } else if (!gpus.insert(target.cpu).second) {
      in.fail(path, "a second target " + printable(target.cpu));
    }
    checkTarget(in, target, path);
  }
}

void checkSelections(Problem &in, const Manifest &manifest) {
  std::set<std::string> names;
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    if (!names.insert(manifest.selections[i].name).second)
      in.fail(at("selections", i) + ".name",
              "a second selection is called \"" +
                  printable(manifest.selections[i].name) + "\"");
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    for (auto [set, name] :
         {std::pair(manifest.selections[i].rows, ".rows"),
          std::pair(manifest.selections[i].always, ".always")})
      if (set >= std::ssize(manifest.positions))
        in.fail(at("selections", i) + name,
                "index " + std::to_string(set) +
                    " is out of range: the manifest has " +
                    std::to_string(manifest.positions.size()) +
                    " position sets");
  // Refreshes go by the order.
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    if (int64_t outer = manifest.selections[i].within;
        outer >= static_cast<int64_t>(i))
      in.fail(at("selections", i) + ".within",
              "index " + std::to_string(outer) +
                  " is none of a selection before this one");
  for (size_t i = 0; i < manifest.fallbacks.size(); ++i)
    if (const Fallback &each = manifest.fallbacks[i];
        !isMore(each.keep, each.denseAbove))
      in.fail(at("fallbacks", i) + ".keep",
              "is no more than dense_above, so that nothing fell back (N13)");
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
    if (readsList(term))
      check(manifest.selection(term.selection).group);
}

void checkSymbol(Problem &in, const std::string &symbol,
                 const std::string &expected, const std::string &path) {
  if (symbol != expected)
    in.fail(path + ".symbol", "\"" + printable(symbol) +
                                  "\" is another kernel's code, expected \"" +
                                  printable(expected) + "\"");
}

/// The parts of a record that only one kind of target has.
template <typename V>
void checkLaunch(Problem &in, const Target &target, const V &variant,
                 const std::string &path) {
  if (target.kind == Target::Kind::Host) {
    if (variant.threads != 0)
      in.fail(path + ".threads", "a host kernel has no blocks, expected 0");
    if (variant.sharedBytes != 0)
      in.fail(path + ".shared_bytes",
              "a host kernel has no shared memory, expected 0");
    if (variant.dtype == "f16")
      in.fail(path + ".dtype", "host kernels are f32 or bf16, not f16");
  } else if (variant.threads == 0 || variant.threads % warpThreads != 0) {
    in.fail(path + ".threads", std::to_string(variant.threads) +
                                   " is no number of threads of a block, "
                                   "expected a multiple of 32 up to 1024");
  }
}

/// Tensor maps tell GPUs of keys and values of 16 bits.
void checkMaps(Problem &in, const Target &target, const Kernel &kernel,
               const KernelVariant &variant, const std::string &path) {
  if (target.kind == Target::Kind::Host && variant.cluster != 1)
    in.fail(path + ".cluster", "a host kernel has no blocks, expected 1");
  if (kernel.kind == Kernel::Kind::Select && variant.cluster != 1)
    in.fail(path + ".cluster",
            "a kernel that selects has blocks of their own, expected 1");
  if (variant.mapRows == 0)
    return;
  if (target.kind == Target::Kind::Host)
    in.fail(path + ".map_rows", "a host kernel has no tensor maps, expected 0");
  else if (variant.dtype == "f32")
    in.fail(path + ".map_rows", "only kernels in bf16 or f16 have tensor maps, "
                                "expected 0");
}

/// Selections are refreshed from all rows anyway, and the host has one form.
void checkForms(Problem &in, const Target &target, const Kernel &kernel,
                const KernelVariant &variant, const std::string &path) {
  const bool one =
      target.kind == Target::Kind::Host || kernel.kind == Kernel::Kind::Select;
  if (variant.form != LaunchForm::Any && one)
    in.fail(path + ".form", "only attention on a GPU has forms beside 'any', "
                            "not '" +
                                nameOf(variant.form) + "'");
  if (variant.persistent && one)
    in.fail(path + ".persistent",
            "only attention on a GPU has blocks that go on to further tasks, "
            "expected false");
  const bool packed = variant.form == LaunchForm::Packed,
             byKeys = packed || variant.form == LaunchForm::Long;
  if (byKeys != (variant.leastKeys > 0))
    in.fail(path + ".least_keys",
            "the form '" + nameOf(variant.form) + "' has " +
                (byKeys ? "least_keys of 1 or more, not none"
                        : "no least_keys, which 'long' and 'packed' have"));
  if (packed && (kernel.hasLists() || variant.persistent))
    in.fail(path + ".form",
            "only kernels without index lists, whose blocks do not go on to "
            "further tasks, pack the rows of several heads");
}

void checkEncoding(Problem &in, const Target &target, const Kernel &kernel,
                   const KernelVariant &variant, const std::string &path) {
  const std::vector<Encoding> known = encodingsOf(kernel, target.encodings);
  if (std::ranges::find(known, variant.encoding) != known.end())
    return;
  std::string expected;
  for (Encoding each : known)
    expected += (expected.empty() ? "" : " or ") + std::string(nameOf(each));
  in.fail(path + ".encoding", std::string(nameOf(variant.encoding)) +
                                  " is none that the kernel has on its "
                                  "target, expected " +
                                  expected +
                                  "; compile the schedule with this version "
                                  "of heddlec");
}

void checkVariant(Problem &in, const Manifest &manifest, const Kernel &kernel,
                  const KernelVariant &variant, const std::string &path) {
  const Target &target = manifest.targets[static_cast<size_t>(variant.target)];
  checkEncoding(in, target, kernel, variant, path);
  checkSymbol(in, variant.symbol, expectedSymbol(kernel, variant, target),
              path);
  checkLaunch(in, target, variant, path);
  checkMaps(in, target, kernel, variant, path);
  checkForms(in, target, kernel, variant, path);
  checkRows(in, manifest, kernel, variant, path);
}

/// The (dtype, head dim) pairs that the kernels of each target come in.
using Form = std::pair<std::string, int64_t>;
using Forms = std::map<int64_t, std::set<Form>>;

Forms formsOf(const Manifest &manifest) {
  Forms forms;
  for (const Kernel &kernel : manifest.kernels)
    for (const KernelVariant &variant : kernel.variants)
      forms[variant.target].insert({variant.dtype, variant.headDim});
  return forms;
}

/// Every kernel comes in all forms of each target, or a run would find out
/// half way that it lacks one.
void checkComplete(Problem &in, const Manifest &manifest, const Kernel &kernel,
                   const Forms &needed, const std::string &path) {
  std::set<std::tuple<int64_t, Form, Encoding, LaunchForm>> own;
  for (const KernelVariant &variant : kernel.variants)
    if (!own.insert({variant.target,
                     {variant.dtype, variant.headDim},
                     variant.encoding,
                     variant.form})
             .second)
      in.fail(path + ".variants",
              "two variants for " + variant.dtype + " and head dim " +
                  std::to_string(variant.headDim) + " on targets[" +
                  std::to_string(variant.target) + "]");
  for (const auto &[target, forms] : needed)
    for (const Form &form : forms) {
      const std::vector<Encoding> encodings = encodingsOf(
          kernel, manifest.targets[static_cast<size_t>(target)].encodings);
      for (Encoding encoding : encodings)
        if (!own.count({target, form, encoding, LaunchForm::Any}))
          in.fail(path + ".variants",
                  "the kernel has no form for targets[" +
                      std::to_string(target) + "], " + form.first +
                      " and head dim " + std::to_string(form.second) +
                      (encodings.size() > 1
                           ? " with " + std::string(nameOf(encoding)) + " lists"
                           : "") +
                      ", which another kernel has");
    }
}

/// Row kernels serve CUDA targets, all of them and nothing else.
void checkRowKernels(Problem &in, const Manifest &manifest) {
  std::set<std::pair<int64_t, std::string>> needed;
  for (const auto &[target, forms] : formsOf(manifest))
    if (manifest.targets[static_cast<size_t>(target)].kind ==
        Target::Kind::Cuda)
      for (const Form &form : forms)
        needed.insert({target, form.first});
  std::set<RowOp> ops;
  for (size_t i = 0; i < manifest.rowKernels.size(); ++i) {
    const RowKernel &kernel = manifest.rowKernels[i];
    std::string path = at("row_kernels", i);
    if (!ops.insert(kernel.op).second)
      in.fail(path + ".op",
              "a second kernel for " + std::string(nameOf(kernel.op)));
    std::set<std::pair<int64_t, std::string>> missing = needed;
    for (size_t j = 0; j < kernel.variants.size(); ++j) {
      const RowVariant &variant = kernel.variants[j];
      std::string here = at(path + ".variants", j);
      const Target &target =
          manifest.targets[static_cast<size_t>(variant.target)];
      if (target.kind == Target::Kind::Host)
        in.fail(here + ".target", "the host has no row kernels");
      checkSymbol(in, variant.symbol, rowSymbol(kernel.op, variant.dtype),
                  here);
      checkLaunch(in, target, variant, here);
      if (!missing.erase({variant.target, variant.dtype}))
        in.fail(here, "a second form for " + variant.dtype + " on targets[" +
                          std::to_string(variant.target) +
                          "], or one that its attention kernels do not have");
    }
    if (!missing.empty())
      in.fail(path + ".variants", "the kernel has no form for targets[" +
                                      std::to_string(missing.begin()->first) +
                                      "] and " + missing.begin()->second +
                                      ", which attention kernels have");
  }
  for (RowOp op : rowOpsOf(manifest))
    if (!needed.empty() && !ops.count(op))
      in.fail("row_kernels", "there is no kernel for " +
                                 std::string(nameOf(op)) +
                                 ", which its runs on a cuda target need; "
                                 "compile the schedule with this version of "
                                 "heddlec");
}

/// The field that is at fault.
std::string pathOf(const Manifest &manifest, const ProgramProblem &problem) {
  using At = ProgramProblem::At;
  auto listed = [&](const char *list, const auto &items, const char *behind) {
    return problem.index < items.size() ? at(list, problem.index) : behind;
  };
  switch (problem.at) {
  case At::Positions:
    return at("positions", problem.index);
  case At::Visible:
    return "visible";
  case At::Pass:
    return at("passes", problem.index);
  case At::Reuse:
    return listed("layered_reuses", manifest.layeredReuses, "reuse");
  case At::Commit:
    return listed("dated_commits", manifest.datedCommits, "commit");
  case At::Selection:
    return at("selections", problem.index);
  }
  return "";
}

/// Rows, keys, reuse and commit: at the fields that they are read from.
void checkProgramFields(Problem &in, const Manifest &manifest) {
  auto limit = [&](const char *path, size_t size, size_t most,
                   const char *what) {
    if (size > most)
      in.fail(path, "more than " + std::to_string(most) + what);
  };
  limit("positions", manifest.positions.size(), maxPositions,
        " sets of positions");
  limit("passes", manifest.passes.size(), maxPasses, " passes");
  limit("layered_reuses", manifest.layeredReuses.size(), maxPasses,
        " reuses of some layers");
  limit("dated_commits", manifest.datedCommits.size(), maxPasses - 1,
        " rules of some steps");
  if (in.failed())
    return;
  if (auto found = checkProgram(manifest))
    in.fail(pathOf(manifest, *found), found->what);
}

void checkKernels(Problem &in, const Manifest &manifest) {
  Forms forms = formsOf(manifest);
  std::set<std::string> names;
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
    for (size_t j = 0; j < kernel.terms.size(); ++j)
      if (std::string why = whyNotWithin(kernel.terms[j]); !why.empty())
        in.fail(at(path + ".terms", j) + ".within", why);
    if (kernel.variants.empty())
      in.fail(path + ".variants", "the kernel has no compiled form");
    for (size_t j = 0; j < kernel.variants.size(); ++j)
      checkVariant(in, manifest, kernel, kernel.variants[j],
                   at(path + ".variants", j));
    checkComplete(in, manifest, kernel, forms, path);
  }
  for (size_t i = 0; i < manifest.targets.size(); ++i)
    if (!forms.count(static_cast<int64_t>(i)))
      in.fail(at("targets", i), "no kernel has a form for this target");
}

/// The field that is at fault.
std::string pathOf(const Manifest &manifest, const PlanProblem &problem) {
  using At = PlanProblem::At;
  const std::string rule = at("rules", problem.rule),
                    phase = at(rule + ".phases", problem.phase);
  switch (problem.at) {
  case At::Kernel:
    return at("kernels", static_cast<size_t>(problem.kernel));
  case At::Rules:
    return "rules";
  case At::Layers:
    return rule + ".layers";
  case At::Rule:
    return rule + ".phases";
  case At::Phase: // what it may not read its attention reads
    return phase + (problem.selection >= 0 ? ".attention" : "");
  case At::Attention:
    return phase + ".attention";
  case At::Scoring:
    return phase + ".scoring";
  case At::Shadow:
    return phase + ".shadow";
  case At::Rollout:
    return phase + ".rollout";
  case At::Measures:
    return phase + ".measures";
  case At::Refresh: {
    // Its own kernel, or the scorer's, of which more than one field tells.
    const Phase &own = manifest.rules[problem.rule].phases[problem.phase];
    const bool ofOther = problem.selection >= 0; // which it is within
    return at(phase + ".refreshes", problem.refresh) +
           (problem.kernel == own.refreshes[problem.refresh].kernel ? ".kernel"
            : problem.kernel < 0 && !ofOther ? ".selection"
                                             : "");
  }
  }
  return "";
}

/// What the plan breaks.
void checkPlanFields(Problem &in, const Manifest &manifest,
                     std::optional<PlanProblem> found) {
  if (!found)
    return;
  if (found->at == PlanProblem::At::Measures &&
      manifest.rules[found->rule].phases[found->phase].measures.empty()) {
    found->at = PlanProblem::At::Phase;
    found->what += "; if an older heddlec wrote the bundle, compile its "
                   "schedule again";
  }
  if (found->selection >= 0)
    found->what += " (selection \"" +
                   printable(manifest.selection(found->selection).name) + "\")";
  if (found->kernel >= 0 && found->at != PlanProblem::At::Kernel)
    found->what +=
        " (kernel \"" + printable(manifest.kernel(found->kernel).name) + "\")";
  if (found->other)
    found->what += " (" + at("rules", *found->other) + ")";
  in.fail(pathOf(manifest, *found), found->what);
}

} // namespace

Status detail::checkManifest(const Manifest &manifest) {
  Problem problem;
  checkSelections(problem, manifest);
  checkTargets(problem, manifest);
  if (!problem.failed())
    checkKernels(problem, manifest);
  checkRowKernels(problem, manifest);
  if (!problem.failed())
    checkPlanFields(problem, manifest, checkPlan(manifest));
  if (!problem.failed())
    checkProgramFields(problem, manifest);
  if (!problem.failed())
    checkPlanFields(problem, manifest, checkPhases(manifest));
  return problem.takeStatus();
}
