//===- ManifestReader.cpp - The manifest read from JSON -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading is strict: what a reader does not know it must not skip, because a
// schedule played without one of its fields gives wrong tokens, not an error.
//
//===----------------------------------------------------------------------===//

#include "bundle/Abi.h"
#include "bundle/Manifest.h"
#include "bundle/ManifestNames.h"
#include "bundle/ManifestScores.h"
#include "bundle/Program.h"

#include "nlohmann/json.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>
#include <set>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::detail;
using nlohmann::ordered_json;

namespace {

/// Walks the JSON and keeps the first error, with the path of its field. Once
/// an error is set every further read gives a default.
class Reader {
public:
  bool failed() const { return !message.empty(); }
  Error takeError() { return Error(std::move(message)); }

  void fail(const std::string &path, const std::string &what) {
    if (message.empty())
      message = "manifest" + (path.empty() ? "" : ": " + path) + ": " + what;
  }

  /// Checks that `json` is an object with exactly these fields.
  bool fields(const ordered_json &json, const std::string &path,
              const std::vector<const char *> &names) {
    if (!json.is_object()) {
      fail(path, std::string("expected an object, found ") + kindOf(json));
      return false;
    }
    for (const char *name : names)
      if (!json.contains(name)) {
        fail(path, std::string("the field \"") + name +
                       "\" is missing; use the heddle version that wrote the "
                       "bundle, or compile the schedule again");
        return false;
      }
    for (const auto &item : json.items()) {
      bool known = false;
      for (const char *name : names)
        known |= item.key() == name;
      if (!known) {
        fail(path, "the field \"" + printable(item.key()) +
                       "\" is not known to this build, which must not skip "
                       "it; use the heddle version that wrote the bundle");
        return false;
      }
    }
    return true;
  }

  std::string string(const ordered_json &json, const std::string &path) {
    if (!json.is_string()) {
      fail(path, std::string("expected a string, found ") + kindOf(json));
      return "";
    }
    const std::string &text = *json.get_ptr<const std::string *>();
    if (!isPlainText(text)) {
      fail(path, "\"" + printable(text) + "\" has control characters");
      return "";
    }
    return text;
  }

  bool boolean(const ordered_json &json, const std::string &path) {
    if (!json.is_boolean()) {
      fail(path, std::string("expected true or false, found ") + kindOf(json));
      return false;
    }
    return *json.get_ptr<const bool *>();
  }

  int64_t integer(const ordered_json &json, const std::string &path,
                  int64_t low, int64_t high) {
    int64_t value = 0;
    bool fits = json.is_number_integer();
    if (!fits) {
      fail(path, std::string("expected an integer, found ") + kindOf(json));
      return low;
    }
    if (json.is_number_unsigned()) {
      uint64_t raw = json.get<uint64_t>();
      fits = raw <= static_cast<uint64_t>(INT64_MAX);
      value = static_cast<int64_t>(raw);
    } else {
      value = json.get<int64_t>();
    }
    if (!fits || value < low || value > high) {
      fail(path, json.dump() + " is out of range, expected " +
                     std::to_string(low) + " to " + std::to_string(high));
      return low;
    }
    return value;
  }

  /// Rows that share an index list (P2).
  int64_t group(const ordered_json &json, const std::string &path) {
    int64_t value = integer(json, path, minGroup, maxGroup);
    if (!failed() && !std::has_single_bit(static_cast<uint64_t>(value)))
      fail(path, std::to_string(value) + " is no power of two (P2)");
    return value;
  }

  /// An index into a list of `size` things called `what`.
  int64_t index(const ordered_json &json, const std::string &path, size_t size,
                const char *what) {
    int64_t value = integer(json, path, 0, INT64_MAX);
    if (!failed() && static_cast<uint64_t>(value) >= size)
      fail(path,
           "index " + std::to_string(value) + " is out of range: there " +
               (size == 1 ? "is 1 " : "are " + std::to_string(size) + " ") +
               what + (size == 1 ? "" : "s"));
    return value;
  }

  /// The same, or -1.
  int64_t indexOrNone(const ordered_json &json, const std::string &path,
                      size_t size, const char *what) {
    return json == -1 ? -1 : index(json, path, size, what);
  }

  const ordered_json &array(const ordered_json &json, const std::string &path) {
    static const ordered_json empty = ordered_json::array();
    if (json.is_array())
      return json;
    fail(path, std::string("expected a list, found ") + kindOf(json));
    return empty;
  }

  template <typename E, size_t N>
  E enumerator(const ordered_json &json, const std::string &path,
               const Named<E> (&names)[N]) {
    std::string found = string(json, path);
    std::string expected;
    for (const Named<E> &entry : names) {
      if (found == entry.name)
        return entry.value;
      expected += (expected.empty() ? "" : ", ") + std::string(entry.name);
    }
    fail(path, "\"" + printable(found) + "\" is unknown, expected one of " +
                   expected);
    return names[0].value;
  }

  /// "num/den" in lowest terms, above 0 and at most `most`.
  Ratio ratio(const ordered_json &json, const std::string &path,
              int64_t most = 1) {
    std::string found = string(json, path);
    const char *end = found.data() + found.size();
    Ratio value;
    auto [slash, error] = std::from_chars(found.data(), end, value.num);
    bool good = error == std::errc() && slash != end && *slash == '/';
    if (good) {
      auto [last, denError] = std::from_chars(slash + 1, end, value.den);
      good = denError == std::errc() && last == end;
    }
    good = good && value.num > 0 && value.den > 0 &&
           (value.num - 1) / most < value.den &&
           std::gcd(value.num, value.den) == 1;
    if (good)
      return value;
    fail(path, "\"" + printable(found) +
                   "\" is no fraction above 0 and up to " +
                   std::to_string(most) + " in lowest terms, such as \"3/10\"");
    return {1, 1};
  }

private:
  static const char *kindOf(const ordered_json &json) {
    return json.type_name();
  }

  std::string message;
};

std::string at(const std::string &list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

Cadence readCadence(Reader &in, const ordered_json &json,
                    const std::string &path) {
  Cadence cadence;
  if (!json.is_object() || !json.contains("kind")) {
    in.fields(json, path, {"kind"});
    return cadence;
  }
  cadence.kind = in.enumerator(json["kind"], path + ".kind", cadenceNames);
  if (in.failed())
    return cadence;
  switch (cadence.kind) {
  case Cadence::Kind::Never:
    in.fields(json, path, {"kind"});
    return cadence;
  case Cadence::Kind::Every:
    if (in.fields(json, path,
                  {"kind", "period", "from", "in_block", "after_eos"})) {
      cadence.period =
          in.integer(json["period"], path + ".period", 1, maxCount);
      cadence.from = in.integer(json["from"], path + ".from", 1, maxCount);
    }
    break;
  case Cadence::Kind::First:
    if (in.fields(json, path, {"kind", "count", "in_block", "after_eos"}))
      cadence.count = in.integer(json["count"], path + ".count", 1, maxCount);
    break;
  case Cadence::Kind::At:
    if (json.contains("step")) {
      if (in.fields(json, path, {"kind", "step", "in_block", "after_eos"}))
        cadence.step = in.integer(json["step"], path + ".step", 1, maxCount);
    } else if (in.fields(
                   json, path,
                   {"kind", "fraction", "plus", "in_block", "after_eos"})) {
      cadence.fraction = in.ratio(json["fraction"], path + ".fraction");
      cadence.from =
          1 + in.integer(json["plus"], path + ".plus", 0, maxCount - 1);
    }
    break;
  case Cadence::Kind::Random:
    if (in.fields(json, path,
                  {"kind", "window", "count", "seed", "in_block", "after_eos"}))
      cadence.seed =
          in.integer(json["seed"], path + ".seed", INT64_MIN, INT64_MAX);
    break;
  case Cadence::Kind::Uniform:
  case Cadence::Kind::Power:
    in.fields(json, path, {"kind", "window", "count", "in_block", "after_eos"});
    break;
  }
  if (in.failed())
    return cadence;
  if (json.contains("window")) {
    cadence.fraction = in.ratio(json["window"], path + ".window");
    cadence.count = in.integer(json["count"], path + ".count", 1, maxCount);
  }
  cadence.inBlock = in.boolean(json["in_block"], path + ".in_block");
  cadence.afterEos = in.boolean(json["after_eos"], path + ".after_eos");
  return cadence;
}

Selection readSelection(Reader &in, const ordered_json &json,
                        const std::string &path) {
  Selection selection;
  if (!in.fields(json, path,
                 {"name", "kind", "keep", "rounding", "group", "isolation",
                  "scale", "per_kv_head", "scorer", "cadence"}))
    return selection;
  selection.name = in.string(json["name"], path + ".name");
  selection.kind = in.enumerator(json["kind"], path + ".kind", selectionNames);
  selection.isolation =
      in.enumerator(json["isolation"], path + ".isolation", isolationNames);
  selection.scale = in.enumerator(json["scale"], path + ".scale", scaleNames);
  selection.perKvHead = in.boolean(json["per_kv_head"], path + ".per_kv_head");
  selection.keep = in.ratio(json["keep"], path + ".keep");
  selection.rule =
      in.enumerator(json["rounding"], path + ".rounding", keepRuleNames);
  selection.group = in.group(json["group"], path + ".group");
  selection.scorer = in.string(json["scorer"], path + ".scorer");
  if (!in.failed() && selection.scorer != "mean_probability")
    in.fail(path + ".scorer", "\"" + printable(selection.scorer) +
                                  "\" is unknown, expected mean_probability");
  selection.cadence = readCadence(in, json["cadence"], path + ".cadence");
  return selection;
}

/// Kernels are named after what the user called a selection, so anything that
/// prints goes.
bool isSymbol(const std::string &text) {
  return !text.empty() && text.size() <= 255 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c > 0x20 && c < 0x7f; });
}

/// What variants of all kernels have.
template <typename V>
void readForm(Reader &in, const ordered_json &json, const std::string &path,
              size_t targets, V &variant) {
  variant.target =
      in.index(json["target"], path + ".target", targets, "target");
  variant.symbol = in.string(json["symbol"], path + ".symbol");
  if (!in.failed() && !isSymbol(variant.symbol))
    in.fail(path + ".symbol", "\"" + printable(variant.symbol) +
                                  "\" is no symbol name (1 to 255 printable "
                                  "characters, no spaces)");
  variant.dtype = in.string(json["dtype"], path + ".dtype");
  if (!in.failed() && variant.dtype != "f32" && variant.dtype != "bf16" &&
      variant.dtype != "f16")
    in.fail(path + ".dtype", "\"" + printable(variant.dtype) +
                                 "\" is unknown, expected f32, bf16 or f16");
  variant.threads =
      in.integer(json["threads"], path + ".threads", 0, maxThreads);
  variant.sharedBytes = in.integer(json["shared_bytes"], path + ".shared_bytes",
                                   0, maxSharedBytes);
}

KernelVariant readVariant(Reader &in, const ordered_json &json,
                          const std::string &path, size_t targets) {
  KernelVariant variant;
  if (!in.fields(json, path,
                 {"symbol", "dtype", "head_dim", "query_rows", "scratch_bytes",
                  "scratch_bytes_per_key", "target", "encoding", "threads",
                  "shared_bytes", "map_rows", "cluster"}))
    return variant;
  readForm(in, json, path, targets, variant);
  variant.encoding =
      in.enumerator(json["encoding"], path + ".encoding", encodingNames);
  variant.headDim = in.integer(json["head_dim"], path + ".head_dim", 1, 65536);
  variant.queryRows =
      in.integer(json["query_rows"], path + ".query_rows", 1, maxQueryRows);
  variant.scratchBytes = in.integer(
      json["scratch_bytes"], path + ".scratch_bytes", 0, maxScratchBytes);
  variant.scratchBytesPerKey =
      in.integer(json["scratch_bytes_per_key"], path + ".scratch_bytes_per_key",
                 0, 1 << 20);
  variant.mapRows =
      in.integer(json["map_rows"], path + ".map_rows", 0, maxMapRows);
  variant.cluster =
      in.integer(json["cluster"], path + ".cluster", 1, maxCluster);
  return variant;
}

RowKernel readRowKernel(Reader &in, const ordered_json &json,
                        const std::string &path, size_t targets) {
  RowKernel kernel;
  if (!in.fields(json, path, {"op", "variants"}))
    return kernel;
  std::string op = in.string(json["op"], path + ".op");
  auto *found = std::find_if(std::begin(allRowOps), std::end(allRowOps),
                             [&](RowOp each) { return nameOf(each) == op; });
  if (found == std::end(allRowOps)) {
    in.fail(path + ".op", "\"" + printable(op) +
                              "\" is no row operation that this build knows");
    return kernel;
  }
  kernel.op = *found;
  for (const ordered_json &item :
       in.array(json["variants"], path + ".variants")) {
    std::string here = at(path + ".variants", kernel.variants.size());
    if (!in.fields(item, here,
                   {"target", "symbol", "dtype", "threads", "shared_bytes"}))
      return kernel;
    readForm(in, item, here, targets, kernel.variants.emplace_back());
    if (in.failed())
      return kernel;
  }
  return kernel;
}

Target readTarget(Reader &in, const ordered_json &json,
                  const std::string &path) {
  Target target;
  if (!in.fields(json, path,
                 {"kind", "triple", "cpu", "features", "encodings"}))
    return target;
  target.kind = in.enumerator(json["kind"], path + ".kind", targetNames);
  target.triple = in.string(json["triple"], path + ".triple");
  target.cpu = in.string(json["cpu"], path + ".cpu");
  for (const ordered_json &item :
       in.array(json["features"], path + ".features"))
    target.features.push_back(
        in.string(item, at(path + ".features", target.features.size())));
  target.encodings.clear();
  for (const ordered_json &item :
       in.array(json["encodings"], path + ".encodings"))
    target.encodings.push_back(in.enumerator(
        item, at(path + ".encodings", target.encodings.size()), encodingNames));
  return target;
}

Kernel readKernel(Reader &in, const ordered_json &json, const std::string &path,
                  size_t selections, size_t targets) {
  Kernel kernel;
  if (!json.is_object() || !json.contains("kind")) {
    in.fields(json, path, {"kind"});
    return kernel;
  }
  kernel.kind = in.enumerator(json["kind"], path + ".kind", kernelNames);
  if (in.failed())
    return kernel;
  const bool scored = json.contains("scores");
  if (kernel.kind == Kernel::Kind::Select) {
    std::vector<const char *> names = {"name",   "kind",        "group",
                                       "blocks", "per_kv_head", "variants"};
    if (scored)
      names.push_back("scores");
    if (!in.fields(json, path, names))
      return kernel;
    kernel.group = in.group(json["group"], path + ".group");
    kernel.blocks = in.boolean(json["blocks"], path + ".blocks");
    kernel.perKvHead = in.boolean(json["per_kv_head"], path + ".per_kv_head");
  } else {
    std::vector<const char *> names = {"name", "kind", "writes_lse", "terms",
                                       "variants"};
    if (scored)
      names.push_back("scores");
    if (!in.fields(json, path, names))
      return kernel;
    kernel.writesLse = in.boolean(json["writes_lse"], path + ".writes_lse");
    int64_t lists = 0;
    for (const ordered_json &item : in.array(json["terms"], path + ".terms")) {
      std::string here = at(path + ".terms", kernel.terms.size());
      Term term;
      if (!item.is_object() || !item.contains("kind")) {
        in.fields(item, here, {"kind"});
        return kernel;
      }
      term.kind = in.enumerator(item["kind"], here + ".kind", termNames);
      if (in.failed())
        return kernel;
      if (readsList(term)) {
        if (in.fields(item, here, {"kind", "selection"}))
          term.selection = in.index(item["selection"], here + ".selection",
                                    selections, "selection");
        if (++lists > abi::maxIndexLists)
          in.fail(path + ".terms", "more than " +
                                       std::to_string(abi::maxIndexLists) +
                                       " index lists in one kernel");
      } else if (term.kind == Term::Kind::Sinks && item.contains("share")) {
        if (in.fields(item, here, {"kind", "share"}))
          term.share = in.ratio(item["share"], here + ".share");
      } else if (in.fields(item, here, {"kind", "size"})) {
        term.size = in.integer(item["size"], here + ".size", 1, maxCount);
      }
      if (in.failed())
        return kernel;
      kernel.terms.push_back(term);
    }
  }
  if (scored)
    if (std::string problem = readScores(json["scores"], kernel.scores);
        !problem.empty())
      in.fail(path + ".scores", problem);
  kernel.name = in.string(json["name"], path + ".name");
  for (const ordered_json &item :
       in.array(json["variants"], path + ".variants")) {
    kernel.variants.push_back(readVariant(
        in, item, at(path + ".variants", kernel.variants.size()), targets));
    if (in.failed())
      return kernel;
  }
  return kernel;
}

When readWhen(Reader &in, const ordered_json &json, const std::string &path) {
  When when;
  if (!json.is_object() || !json.contains("kind")) {
    in.fields(json, path, {"kind"});
    return when;
  }
  when.kind = in.enumerator(json["kind"], path + ".kind", whenNames);
  if (in.failed())
    return when;
  if (when.kind == When::Kind::Otherwise)
    in.fields(json, path, {"kind"});
  else if (in.fields(json, path, {"kind", "cadence"}))
    when.cadence = readCadence(in, json["cadence"], path + ".cadence");
  return when;
}

Phase readPhase(Reader &in, const ordered_json &json, const std::string &path,
                const Manifest &manifest) {
  Phase phase;
  const bool scores = json.is_object() && json.contains("scoring");
  if (!(scores ? in.fields(json, path,
                           {"when", "attention", "scoring", "refreshes"})
               : in.fields(json, path, {"when", "attention", "refreshes"})))
    return phase;
  if (scores)
    phase.scoring = in.index(json["scoring"], path + ".scoring",
                             manifest.kernels.size(), "kernel");
  phase.when = readWhen(in, json["when"], path + ".when");
  phase.attention = in.index(json["attention"], path + ".attention",
                             manifest.kernels.size(), "kernel");
  for (const ordered_json &item :
       in.array(json["refreshes"], path + ".refreshes")) {
    std::string here = at(path + ".refreshes", phase.refreshes.size());
    Phase::Refresh refresh;
    if (!in.fields(item, here, {"selection", "kernel"}))
      return phase;
    refresh.selection = in.index(item["selection"], here + ".selection",
                                 manifest.selections.size(), "selection");
    refresh.kernel = in.index(item["kernel"], here + ".kernel",
                              manifest.kernels.size(), "kernel");
    if (in.failed())
      return phase;
    phase.refreshes.push_back(refresh);
  }
  return phase;
}

Rule readRule(Reader &in, const ordered_json &json, const std::string &path,
              const Manifest &manifest) {
  Rule rule;
  if (!in.fields(json, path, {"layers", "phases"}))
    return rule;
  const ordered_json &layers = json["layers"];
  rule.isDefault = layers.is_string();
  if (rule.isDefault) {
    if (layers != "default")
      in.fail(path + ".layers",
              "expected \"default\" or {\"first\": ..., \"last\": ...}");
  } else if (in.fields(layers, path + ".layers", {"first", "last"})) {
    rule.firstLayer = in.integer(layers["first"], path + ".layers.first",
                                 -maxCount, maxCount);
    rule.lastLayer =
        in.integer(layers["last"], path + ".layers.last", -maxCount, maxCount);
  }
  for (const ordered_json &item : in.array(json["phases"], path + ".phases")) {
    rule.phases.push_back(readPhase(
        in, item, at(path + ".phases", rule.phases.size()), manifest));
    if (in.failed())
      return rule;
  }
  return rule;
}

Positions readPositions(Reader &in, const ordered_json &json,
                        const std::string &path, size_t known) {
  Positions set;
  if (!json.is_object() || !json.contains("kind")) {
    in.fields(json, path, {"kind"});
    return set;
  }
  set.kind = in.enumerator(json["kind"], path + ".kind", positionsNames);
  if (in.failed())
    return set;
  auto readOf = [&] {
    for (const ordered_json &item : in.array(json["of"], path + ".of"))
      set.of.push_back(in.index(item, at(path + ".of", set.of.size()), known,
                                "earlier position set"));
  };
  switch (set.kind) {
  case Positions::Kind::Undecoded:
    if (in.fields(json, path, {"kind", "count"}))
      set.count = in.integer(json["count"], path + ".count", 0, maxCount);
    break;
  case Positions::Kind::Committed:
    if (json.contains("cadence")) {
      if (in.fields(json, path, {"kind", "cadence"}))
        set.cadence = readCadence(in, json["cadence"], path + ".cadence");
    } else if (in.fields(json, path, {"kind", "count"})) {
      set.count = in.integer(json["count"], path + ".count", 1, maxCount);
    }
    break;
  case Positions::Kind::Union:
  case Positions::Kind::Intersect:
  case Positions::Kind::Hull:
  case Positions::Kind::Leading:
  case Positions::Kind::Predicting:
    if (in.fields(json, path, {"kind", "of"}))
      readOf();
    break;
  case Positions::Kind::Fixed:
    if (in.fields(json, path, {"kind", "of", "cadence"})) {
      readOf();
      set.cadence = readCadence(in, json["cadence"], path + ".cadence");
    }
    break;
  case Positions::Kind::Neighbors:
    if (in.fields(json, path, {"kind", "of", "count"})) {
      readOf();
      set.count = in.integer(json["count"], path + ".count", 1, maxCount);
    }
    break;
  default:
    in.fields(json, path, {"kind"});
    break;
  }
  return set;
}

constexpr const char *positionsWhat = "position set";

std::vector<When> readConditions(Reader &in, const ordered_json &json,
                                 const std::string &path) {
  std::vector<When> conditions;
  for (const ordered_json &item : in.array(json, path))
    conditions.push_back(readWhen(in, item, at(path, conditions.size())));
  return conditions;
}

Pass readPass(Reader &in, const ordered_json &json, const std::string &path,
              size_t positions) {
  Pass pass;
  if (!in.fields(json, path, {"when", "rows", "alone", "exact"}))
    return pass;
  pass.when = readConditions(in, json["when"], path + ".when");
  pass.rows =
      in.indexOrNone(json["rows"], path + ".rows", positions, positionsWhat);
  pass.alone = in.boolean(json["alone"], path + ".alone");
  const ordered_json &exact = json["exact"];
  std::string here = path + ".exact";
  if (!exact.is_object() || !exact.contains("kind")) {
    in.fields(exact, here, {"kind"});
    return pass;
  }
  pass.exact = in.enumerator(exact["kind"], here + ".kind", exactNames);
  if (in.failed())
    return pass;
  switch (pass.exact) {
  case Pass::Exact::All:
    in.fields(exact, here, {"kind"});
    break;
  case Pass::Exact::Salient:
  case Pass::Exact::SalientFfn:
    if (in.fields(exact, here, {"kind", "below"}))
      pass.below = in.ratio(exact["below"], here + ".below", maxBelow);
    break;
  case Pass::Exact::LeastSimilar:
    if (in.fields(exact, here, {"kind", "keep", "among"})) {
      pass.keep = in.ratio(exact["keep"], here + ".keep");
      pass.among =
          in.index(exact["among"], here + ".among", positions, positionsWhat);
    }
    break;
  }
  return pass;
}

Reuse readReuse(Reader &in, const ordered_json &json) {
  Reuse reuse;
  if (!in.fields(json, "reuse", {"kv", "attention", "ffn"}))
    return reuse;
  reuse.kv = in.boolean(json["kv"], "reuse.kv");
  reuse.attention =
      in.enumerator(json["attention"], "reuse.attention", reuseNames);
  reuse.ffn = in.boolean(json["ffn"], "reuse.ffn");
  return reuse;
}

/// Of an object with the field `other` besides, which the caller reads.
CommitRule readCommit(Reader &in, const ordered_json &json,
                      const std::string &path, const char *other,
                      size_t positions) {
  using Kind = CommitRule::Kind;
  CommitRule commit;
  if (!json.is_object() || !json.contains("kind")) {
    in.fields(json, path, {"kind"});
    return commit;
  }
  commit.kind = in.enumerator(json["kind"], path + ".kind", commitNames);
  if (in.failed())
    return commit;
  std::vector<const char *> fields = {"kind", "within", "stop_at_eos",
                                      "narrows", other};
  if (commit.hasRatio())
    fields.push_back("ratio");
  if (commit.kind == Kind::Factor)
    fields.push_back("last_alone");
  if (commit.kind == Kind::Best)
    fields.push_back("count");
  if (!in.fields(json, path, fields))
    return commit;
  if (commit.hasRatio())
    commit.ratio = in.ratio(json["ratio"], path + ".ratio",
                            commit.kind == Kind::Above ? 1 : maxFactor);
  if (commit.kind == Kind::Factor)
    commit.lastAlone = in.boolean(json["last_alone"], path + ".last_alone");
  if (commit.kind == Kind::Best)
    commit.count = in.integer(json["count"], path + ".count", 1, maxCount);
  commit.within = in.indexOrNone(json["within"], path + ".within", positions,
                                 positionsWhat);
  commit.stopAtEos = in.boolean(json["stop_at_eos"], path + ".stop_at_eos");
  commit.narrows = in.boolean(json["narrows"], path + ".narrows");
  return commit;
}

/// Parses without exceptions; fails on repeated keys (of which a JSON library
/// would silently keep one) and on nesting that no manifest has.
ordered_json parseJson(const std::string &text, std::string &problem) {
  constexpr int maxDepth = 16;
  std::vector<std::set<std::string>> keys;
  auto callback = [&](int depth, ordered_json::parse_event_t event,
                      ordered_json &parsed) {
    using Event = ordered_json::parse_event_t;
    if (depth > maxDepth) {
      problem = "nested deeper than any manifest is";
      return false;
    }
    if (event == Event::object_start)
      keys.emplace_back();
    else if (event == Event::object_end)
      keys.pop_back();
    else if (event == Event::key &&
             !keys.back().insert(parsed.get<std::string>()).second)
      problem = "the key \"" + printable(parsed.get<std::string>()) +
                "\" appears twice in one object";
    return true;
  };
  ordered_json json = ordered_json::parse(text, callback, false);
  if (json.is_discarded() && problem.empty())
    problem = "not valid JSON";
  return json;
}

} // namespace

Result<Manifest> heddle::bundle::manifestFromJson(const std::string &text) {
  std::string problem;
  ordered_json json = parseJson(text, problem);
  if (!problem.empty())
    return Error("manifest: " + problem);

  Reader in;
  Manifest manifest;
  // Another ABI may have other fields, so it is judged before they are.
  if (json.is_object() && json.contains("abi")) {
    manifest.abi =
        static_cast<uint32_t>(in.integer(json["abi"], "abi", 0, UINT32_MAX));
    if (!in.failed() && manifest.abi != abi::abiVersion)
      in.fail("abi", "the kernels follow ABI version " +
                         std::to_string(manifest.abi) +
                         ", this build calls version " +
                         std::to_string(abi::abiVersion) +
                         ": recompile the schedule with this build's heddlec");
  }
  if (in.failed() ||
      !in.fields(json, "",
                 {"producer", "schedule", "abi", "targets", "selections",
                  "kernels", "row_kernels", "rules", "positions", "visible",
                  "all_visible", "passes", "reuse", "dated_commits", "commit"}))
    return in.takeError();

  manifest.producer = in.string(json["producer"], "producer");
  manifest.schedule = in.string(json["schedule"], "schedule");
  for (const ordered_json &item : in.array(json["targets"], "targets"))
    manifest.targets.push_back(
        readTarget(in, item, at("targets", manifest.targets.size())));
  for (const ordered_json &item : in.array(json["selections"], "selections"))
    manifest.selections.push_back(
        readSelection(in, item, at("selections", manifest.selections.size())));
  for (const ordered_json &item : in.array(json["kernels"], "kernels"))
    manifest.kernels.push_back(
        readKernel(in, item, at("kernels", manifest.kernels.size()),
                   manifest.selections.size(), manifest.targets.size()));
  for (const ordered_json &item : in.array(json["row_kernels"], "row_kernels"))
    manifest.rowKernels.push_back(
        readRowKernel(in, item, at("row_kernels", manifest.rowKernels.size()),
                      manifest.targets.size()));
  for (const ordered_json &item : in.array(json["rules"], "rules"))
    manifest.rules.push_back(
        readRule(in, item, at("rules", manifest.rules.size()), manifest));
  for (const ordered_json &item : in.array(json["positions"], "positions"))
    manifest.positions.push_back(
        readPositions(in, item, at("positions", manifest.positions.size()),
                      manifest.positions.size()));
  size_t sets = manifest.positions.size();
  manifest.visible =
      in.indexOrNone(json["visible"], "visible", sets, positionsWhat);
  manifest.allVisible = readCadence(in, json["all_visible"], "all_visible");
  for (const ordered_json &item : in.array(json["passes"], "passes"))
    manifest.passes.push_back(
        readPass(in, item, at("passes", manifest.passes.size()), sets));
  manifest.reuse = readReuse(in, json["reuse"]);
  for (const ordered_json &item :
       in.array(json["dated_commits"], "dated_commits")) {
    std::string path = at("dated_commits", manifest.datedCommits.size());
    DatedCommit &dated = manifest.datedCommits.emplace_back();
    dated.rule = readCommit(in, item, path, "when", sets);
    if (in.failed())
      break;
    dated.when = readConditions(in, item["when"], path + ".when");
  }
  const ordered_json &commit = json["commit"];
  manifest.commit = readCommit(in, commit, "commit", "least_passes", sets);
  if (in.failed())
    return in.takeError();
  manifest.commit.leastPasses =
      in.integer(commit["least_passes"], "commit.least_passes", 1, maxSteps);

  if (in.failed())
    return in.takeError();
  if (Status status = checkManifest(manifest); !status)
    return status.takeError().withContext("manifest");
  return manifest;
}
