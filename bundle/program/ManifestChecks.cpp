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
  if (variant.mapRows == 0)
    return;
  if (target.kind == Target::Kind::Host)
    in.fail(path + ".map_rows", "a host kernel has no tensor maps, expected 0");
  else if (kernel.kind == Kernel::Kind::Select || variant.dtype == "f32")
    in.fail(path + ".map_rows",
            "only attention in bf16 or f16 has tensor maps, "
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

/// An attention kernel reads lists as their selection writes them.
void checkTerms(Problem &in, const Manifest &manifest, const Kernel &kernel,
                const std::string &path) {
  if (std::ranges::count_if(kernel.terms, readsList) > abi::maxIndexLists)
    in.fail(path + ".terms", "more than " + std::to_string(abi::maxIndexLists) +
                                 " index lists in one kernel");
  if (auto different = differentBounds(kernel.terms))
    in.fail(at(path + ".terms", different->second) + ".within",
            "a selection before is within other sets");
  for (size_t i = 0; i < kernel.terms.size(); ++i) {
    const Term &term = kernel.terms[i];
    if (std::string why = whyNotWithin(term); !why.empty())
      in.fail(at(path + ".terms", i) + ".within", why);
    if (!readsList(term))
      continue;
    Selection::Kind kind = manifest.selection(term.selection).kind;
    if ((term.kind == Term::Kind::Blocks) != (kind == Selection::Kind::Blocks))
      in.fail(at(path + ".terms", i) + ".selection",
              "the term reads " + detail::nameOf(term.kind) +
                  ", the selection is of " + detail::nameOf(kind));
  }
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
    checkTerms(in, manifest, kernel, path);
    if (select) {
      Selection form;
      form.kind =
          kernel.blocks ? Selection::Kind::Blocks : Selection::Kind::Columns;
      form.group = kernel.group;
      form.perKvHead = kernel.perKvHead;
      form.perLayer = kernel.perLayer;
      form.pooled = kernel.pooled;
      form.scorer = kernel.scorer;
      form.within = kernel.withinGroup > 0 ? 0 : -1;
      if (auto wrong = checkForm(form))
        in.fail(path, *wrong);
    }
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

/// What a rule's attention reads some phase of the rule refreshes, or one of a
/// rule whose layers come before.
class Reads {
public:
  explicit Reads(const Manifest &manifest) : manifest(manifest) {
    std::vector<LayerSpan> spans;
    for (const Rule &rule : manifest.rules)
      spans.push_back({rule.isDefault, rule.firstLayer, rule.lastLayer});
    first = firstLayers(spans);
    for (size_t i = 0; i < manifest.rules.size(); ++i)
      for (int64_t selection : refreshedBy(manifest.rules[i]))
        refreshing[selection].add(first[i]);
  }

  void check(Problem &in, size_t index, const std::string &path);

private:
  const Manifest &manifest;
  std::vector<int64_t> first;            ///< layer of each rule
  std::map<int64_t, FirstOf> refreshing; ///< by selection
};

void Reads::check(Problem &in, size_t index, const std::string &path) {
  const Rule &rule = manifest.rules[index];
  const std::set<int64_t> refreshed = refreshedBy(rule);
  for (size_t i = 0; i < rule.phases.size(); ++i) {
    const Kernel &kernel = manifest.kernel(rule.phases[i].attention);
    for (const Term &term : kernel.terms)
      if (readsList(term) && !refreshed.count(term.selection) &&
          !refreshing[term.selection].comesBefore(first[index]))
        in.fail(at(path + ".phases", i) + ".attention",
                "kernel \"" + printable(kernel.name) + "\" reads selection " +
                    std::to_string(term.selection) +
                    ", which neither a phase of this rule nor layers before "
                    "its own refresh");
  }
}

/// "all keys", "blocks of 128 keys", "columns of groups of 128 rows".
std::string withinText(const ListForm &form) {
  if (form.withinGroup == 0)
    return "all keys";
  const std::string group =
      form.withinGroup == groupOfAll ? "all" : std::to_string(form.withinGroup);
  return form.withinBlocks ? "blocks of " + group + " keys"
                           : "columns of groups of " + group + " rows";
}

/// In what a kernel is not the one that refreshes a selection; "" if it is.
std::string whyNotFor(const Manifest &manifest, const Selection &selection,
                      const Kernel &select) {
  const ListForm &own = select, wanted = formOf(manifest, selection);
  if (select.kind != Kernel::Kind::Select)
    return "kernel \"" + printable(select.name) + "\" is no select kernel";
  if (own.group != wanted.group)
    return "the kernel selects for groups of " + std::to_string(own.group) +
           " rows, the selection has groups of " + std::to_string(wanted.group);
  if (own.blocks != wanted.blocks)
    return std::string("the kernel selects ") +
           (own.blocks ? "blocks" : "columns") + ", the selection is of " +
           detail::nameOf(selection.kind);
  if (own.perKvHead != wanted.perKvHead || own.perLayer != wanted.perLayer)
    return "kernel and selection do not agree whether heads share lists";
  if (own.scorer != wanted.scorer)
    return "the kernel scores by " + detail::nameOf(own.scorer) +
           ", the selection by " + detail::nameOf(wanted.scorer);
  if (own.pooled != wanted.pooled)
    return "the kernel pools " + std::to_string(own.pooled) +
           " scores, the selection " + std::to_string(wanted.pooled);
  if (own != wanted)
    return "the kernel chooses within " + withinText(own) +
           ", the selection within " + withinText(wanted);
  return "";
}

void checkPhase(Problem &in, const Manifest &manifest, const Phase &phase,
                const std::string &path) {
  for (const auto &[index, field] : {std::pair(phase.attention, ".attention"),
                                     std::pair(phase.scorer(), ".scoring")}) {
    const Kernel &kernel = manifest.kernel(index);
    if (kernel.kind != Kernel::Kind::Attention)
      return in.fail(path + field, "kernel \"" + printable(kernel.name) +
                                       "\" is no attention kernel");
  }
  const Kernel &scorer = manifest.kernel(phase.scorer());
  const bool reads =
      std::ranges::any_of(phase.refreshes, [&](const auto &each) {
        return readsLse(manifest.selection(each.selection).scorer);
      });
  if (phase.scoring >= 0 && (!reads || !scorer.terms.empty()))
    in.fail(path + ".scoring", "kernel \"" + printable(scorer.name) + "\" " +
                                   (reads ? "is not dense" : idleScoring));
  if (phase.refreshesFirst ? phase.refreshes.empty() : phase.scoring >= 0)
    in.fail(path + ".refreshes_first",
            phase.refreshesFirst
                ? "the phase refreshes nothing"
                : "true where a scoring kernel comes before the refreshes");
  if (reads && phase.refreshesFirst && phase.scoring < 0)
    in.fail(path + ".refreshes_first",
            "a refresh reads log-sum-exps, and no scoring kernel writes them");
  else if (reads && !scorer.writesLse)
    in.fail(path + ".refreshes",
            "kernel \"" + printable(scorer.name) +
                "\" writes no log-sum-exp, which a refresh needs");
  std::set<int64_t> refreshed;
  for (size_t i = 0; i < phase.refreshes.size(); ++i) {
    const Phase::Refresh &refresh = phase.refreshes[i];
    std::string here = at(path + ".refreshes", i);
    const Selection &selection = manifest.selection(refresh.selection);
    if (std::string why =
            whyNotFor(manifest, selection, manifest.kernel(refresh.kernel));
        !why.empty())
      in.fail(here + ".kernel", why);
    if (!refreshed.insert(refresh.selection).second)
      in.fail(here + ".selection", "refreshed twice in one phase");
    // Its sets would be those of other keys.
    if (selection.isolation == Selection::Isolation::Filtered &&
        !scorer.terms.empty())
      in.fail(here + ".scorings",
              "scored among the response's keys alone, by kernel \"" +
                  printable(scorer.name) + "\", which is not dense");
    if (auto problem = checkScorings(selection, phase.scorer(), scorer.scores,
                                     refresh.scorings))
      in.fail(here + ".scorings", "the refresh " + *problem);
  }
}

/// What the rest of the program asks of a phase's attention.
void checkAttention(Problem &in, const Manifest &manifest, const Phase &phase,
                    const std::string &path) {
  const Kernel &kernel = manifest.kernel(phase.attention);
  const bool dense = kernel.terms.empty();
  std::optional<std::string> problem;
  // What is kept of attention outside of a set is merged by log-sum-exp.
  if (manifest.reuse.attention == Reuse::Attention::Outside) {
    problem = checkOutside(dense, kernel.scores);
    if (!problem && !kernel.writesLse)
      problem = "writes no log-sum-exp, which keeping attention outside of a "
                "set needs";
  }
  // Rows that are not visible have no place among those that kernels count.
  if (!problem && std::ranges::any_of(manifest.passes, &Pass::unseen))
    problem = checkUnseen(dense, kernel.scores);
  if (problem)
    in.fail(path + ".attention",
            "kernel \"" + printable(kernel.name) + "\" " + *problem);
}

void checkRules(Problem &in, const Manifest &manifest) {
  if (manifest.rules.empty())
    return in.fail("rules", "there is no rule, so no layer has a schedule");
  bool haveDefault = false;
  std::map<int64_t, size_t> byLast; // rules, by their last layers
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
        return in.fail(path + ".layers",
                       "the first layer comes after the last");
      // Those so far are disjoint: one that overlaps is the first that ends at
      // this one's start or later.
      if (sameSide(rule.firstLayer, rule.lastLayer)) {
        auto next = byLast.lower_bound(rule.firstLayer);
        if (next != byLast.end() &&
            manifest.rules[next->second].firstLayer <= rule.lastLayer)
          return in.fail(path + ".layers",
                         "shares layers with " + at("rules", next->second));
        byLast.emplace(rule.lastLayer, i);
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
      checkAttention(in, manifest, rule.phases[j], here);
    }
    if (in.failed())
      return;
  }
  Reads reads(manifest);
  for (size_t i = 0; i < manifest.rules.size(); ++i)
    reads.check(in, i, at("rules", i));
}

/// What phases do of which other fields say whether it is right.
void checkPhaseFields(Problem &in, const Manifest &manifest) {
  const std::optional<PhaseProblem> found = checkPhases(manifest);
  if (!found)
    return;
  const std::string path =
      at(at("rules", found->rule) + ".phases", found->phase);
  if (found->refresh)
    return in.fail(at(path + ".refreshes", *found->refresh), found->what);
  if (found->shadow)
    return in.fail(path + ".shadow", found->what);
  const bool isOlder =
      manifest.rules[found->rule].phases[found->phase].measures.empty();
  in.fail(path + (isOlder ? "" : ".measures"),
          found->what +
              (isOlder ? "; if an older heddlec wrote the bundle, compile its "
                         "schedule again"
                       : ""));
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
    checkRules(problem, manifest);
  if (!problem.failed())
    checkProgramFields(problem, manifest);
  if (!problem.failed())
    checkPhaseFields(problem, manifest);
  return problem.takeStatus();
}
