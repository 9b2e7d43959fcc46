//===- Manifest.h - What a bundle says about itself -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The step program of a compiled schedule and the kernels that it runs, as
// plain data: written by the compiler, stored as JSON in the bundle's
// "manifest" section, executed by the runtime. Steps are 1-based; T is the
// total number of denoising steps of the run; every ratio is an exact fraction.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_MANIFEST_H
#define HEDDLE_BUNDLE_PROGRAM_MANIFEST_H

#include "bundle/Result.h"
#include "bundle/abi/IndexLayout.h"
#include "bundle/abi/RowOps.h"
#include "bundle/program/PairSets.h"
#include "bundle/program/PositionForms.h"
#include "bundle/program/Scores.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bundle {

/// Rows that share an index list: a power of two in this range (P2).
inline constexpr int64_t minGroup = 16;
inline constexpr int64_t maxGroup = 1024;
/// The group that has all rows of any sequence.
inline constexpr int64_t groupOfAll = int64_t(1) << 30;

/// Keys over whose scores a selection takes the largest: an odd number (P15).
inline constexpr int64_t minPooled = 3;
inline constexpr int64_t maxPooled = 127;

/// The largest block of keys (P6).
inline constexpr int64_t maxBlock = 128;

/// The most sets of positions and passes of a schedule: far above anything
/// sensible.
inline constexpr size_t maxPositions = 256;
inline constexpr size_t maxPasses = 256;
/// Ranges of layers that the passes of a manifest name in all, and its reuses.
inline constexpr size_t maxLayerRanges = 1024;

/// The largest ratio that is a bound and no share: `below` of a pass (a cosine
/// is at most 1, so above that all rows are), `ratio` of a commit rule.
inline constexpr int64_t maxBelow = 2;
inline constexpr int64_t maxFactor = 1024;

/// The most steps that are drafted ahead: far above what is ever right.
inline constexpr int64_t maxDrafts = 64;

/// The most rows of one task of a kernel.
inline constexpr int64_t maxQueryRows = 1024;

/// The most scratch memory of one task of a kernel that is not by key.
inline constexpr int64_t maxScratchBytes = int64_t(1) << 30;

/// Threads of a block of a CUDA kernel are a multiple of a warp.
inline constexpr int64_t warpThreads = 32;
inline constexpr int64_t maxThreads = 1024;

/// The most dynamic shared memory of a block on any GPU: 227 KiB.
/// Source: CUDA C++ Programming Guide, compute capabilities 9.0 and 10.0.
inline constexpr int64_t maxSharedBytes = 232448;
inline constexpr int64_t maxMapRows = 256;
inline constexpr int64_t maxLeastKeys = int64_t(1) << 31;
/// Blocks of a cluster: so many at most, and so many on any GPU that has
/// clusters. Source: CUDA C++ Programming Guide, thread block clusters.
inline constexpr int64_t maxCluster = 16;
inline constexpr int64_t portableCluster = 8;

/// True if `text` has no control characters (C0, C1, DEL, UTF-8 marks that turn
/// the direction of writing or end a line): names and CPUs are printed to
/// terminals.
inline bool isPlainText(std::string_view text) {
  for (std::string_view mark :
       {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
        "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"})
    if (text.find(mark) != std::string_view::npos)
      return false;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    // C1 controls are 0xC2 0x80 to 0xC2 0x9F in UTF-8.
    bool c1 = c == 0xC2 && i + 1 < text.size() &&
              static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c < 0x20 || c == 0x7F || c1)
      return false;
  }
  return true;
}

/// How keep * n is made a whole number of keys; at least one key is kept, at
/// most n.
enum class KeepRule { Floor, Ceil, Round, FloorPlusOne };

/// max(1, min(n, rule(ratio * n))) in integers. Floor is the default
/// everywhere (Source: PulseCol, equation 6, which leaves it open).
int64_t keepCount(Ratio ratio, KeepRule rule, int64_t n);

/// Where a step stands in the run of one sequence. Sequences of a batch whose
/// blocks end by confidence are at different places.
struct StepPlace {
  int64_t step = 1;        ///< 1-based, over the whole run
  int64_t totalSteps = 1;  ///< T: planned steps of the run
  int64_t block = 0;       ///< 0-based
  int64_t stepInBlock = 1; ///< 1-based
  int64_t blockSteps = 1;  ///< planned steps of each block
  bool afterEos = false;   ///< an earlier step looked for EOS and found it
  /// The layers of the schedule's cadences by drift that have the step
  /// (DriftWatch); unset: that is not known, and nothing drifts.
  std::optional<std::vector<int64_t>> drifted{};
  bool operator==(const StepPlace &) const = default;
};

/// A set of columns, or of blocks of keys, that the runtime keeps per layer and
/// sequence.
struct Selection {
  enum class Kind {
    Columns, ///< lists of keys
    Blocks,  ///< lists of blocks of `group` consecutive keys
  };
  /// Blocks: how prompt and response are told apart.
  enum class Isolation {
    None,     ///< they are not: the best share of all blocks
    Spans,    ///< the best share of each span's blocks, which start anew at the
              ///< response's first key (abi::IndexList::split)
    Aligned,  ///< the same of blocks that do not start anew: one that holds the
              ///< boundary counts as prompt
    Filtered, ///< as Aligned, but of the best share of all blocks those in the
              ///< prompt, and the best share of the response's blocks by the
              ///< probability among response keys alone
  };
  /// What logits are divided by when scored (attention itself always divides by
  /// the root of the head dim).
  enum class Scale { HeadDim, Heads };
  /// How a key is scored for a group.
  enum class Scorer {
    MeanProbability, ///< mean over the group's rows of the softmax probability
                     ///< over all keys
    MeanLogit, ///< mean over the group's rows of the logit, less the least
               ///< key's or block's
  };
  std::string name;
  Ratio keep; ///< of all keys or blocks, made a whole number by `rule`
  KeepRule rule = KeepRule::Floor;
  int64_t group = 0; ///< consecutive query rows that share a list; Blocks: also
                     ///< the keys of a block
  Scorer scorer = Scorer::MeanProbability;
  Cadence cadence; ///< when it is refreshed
  Kind kind = Kind::Columns;
  Isolation isolation = Isolation::None;
  Scale scale = Scale::HeadDim;
  /// One list for all query heads that share a key/value head, by the mean of
  /// their scores; else each query head has its own.
  bool perKvHead = false;
  /// One list for all query heads of a layer, likewise.
  bool perLayer = false;
  int64_t count = 0;  ///< if not 0: so many keys or blocks, whatever `keep`
  int64_t pooled = 0; ///< Columns: if not 0, a key's score is the largest of so
                      ///< many neighbours', an odd number, itself among them
  /// Columns: indices of `positions`, or -1. The rows whose probability scores
  /// the keys, if not all of a group; and the keys that are listed whatever
  /// they score, beside those that `keep` counts.
  int64_t rows = -1, always = -1;
  /// Columns: the index of the selection, one before this one, from whose keys
  /// it chooses; -1: from all.
  int64_t within = -1;
  bool operator==(const Selection &) const = default;

  /// Query heads that share a list.
  int64_t headsPerList(int64_t queryHeads, int64_t kvHeads) const {
    return perLayer                   ? queryHeads
           : perKvHead && kvHeads > 0 ? queryHeads / kvHeads
                                      : 1;
  }

  /// Of `rows` rows that score keys, how many meet each of them: all, or one
  /// sum for each group.
  int64_t scoringRows(int64_t rows) const;

  /// How many keys its lists have where it chooses from n, of which `fixed` are
  /// in any list.
  int64_t listed(int64_t n, int64_t fixed) const {
    return fixed + (n > fixed ? kept(n - fixed) : 0);
  }

  /// How many of n keys or blocks that it chooses from it keeps.
  int64_t kept(int64_t n) const {
    return count > 0 ? std::min(count, std::max<int64_t>(0, n))
                     : keepCount(keep, rule, n);
  }
};

/// Whether keys are scored by the log-sum-exps of dense attention, and by the
/// functions of logits that it had.
inline bool readsLse(Selection::Scorer scorer) {
  return scorer == Selection::Scorer::MeanProbability;
}

inline int64_t Selection::scoringRows(int64_t rows) const {
  return readsLse(scorer) ? rows : (rows + group - 1) / group;
}

/// "1/5" or, of a number of keys or blocks, "512".
std::string keepText(const Selection &selection);

/// A selection whose lists were attended to, and in whose place all keys are.
struct Fallback {
  std::string selection; ///< its name
  Selection::Kind kind = Selection::Kind::Columns;
  int64_t group = 0; ///< Selection::group
  Ratio keep;        ///< of the keys, in its lists
  Ratio denseAbove;  ///< of the keys: lists of more take longer than all
  bool operator==(const Fallback &) const = default;
};

/// A machine that the bundle has code for.
struct Target {
  enum class Kind {
    Host, ///< CPUs that the runtime itself runs on
    Cuda, ///< NVIDIA GPUs
  };
  Kind kind = Kind::Host;
  std::string triple; ///< "x86_64-unknown-linux-gnu", "nvptx64-nvidia-cuda"
  std::string cpu;    ///< as LLVM names it: "sapphirerapids", "sm_90a"
  /// What the machine must have, LLVM's names. Host: "avx2", "avx512f",
  /// "amx-bf16", ... Cuda: the one PTX version that the code needs, "ptx80".
  std::vector<std::string> features;
  /// The encodings of lists of keys that its kernels come in (lists of blocks
  /// are Int32 in each of them), in the order of preference:
  /// a run takes the first that holds its longest sequence. Host: Int32.
  std::vector<Encoding> encodings = {Encoding::Int32};
  bool operator==(const Target &) const = default;
};

/// The encoding of a selection's lists where those of keys are `ofKeys`.
inline Encoding listEncoding(const Selection &selection, Encoding ofKeys) {
  return selection.kind == Selection::Kind::Blocks ? Encoding::Int32 : ofKeys;
}

/// The encoding of index lists in a run on `target` whose longest sequence has
/// `n` tokens; none when the target's kernels come in no encoding that holds n.
std::optional<Encoding> encodingFor(const Target &target, int64_t n);

/// "x86_64-unknown-linux-gnu, x86-64-v3" or "sm_90a", for people.
std::string toString(const Target &target);

/// As manifests and the compiler's options spell it: "int32", "uint16",
/// "bitmap".
std::string_view nameOf(Encoding encoding);

/// The symbol of a kernel's form for an element type ("f32") and head dim:
/// "attention_dense_f32_d128". Compiler and readers ask this function, so that
/// no manifest can send a kernel's arguments to the code of another.
inline std::string variantSymbol(std::string_view kernel,
                                 std::string_view dtype, int64_t headDim) {
  return std::string(kernel) + "_" + std::string(dtype) + "_d" +
         std::to_string(headDim);
}

/// The same for a CUDA kernel that reads or writes lists: one form for each
/// encoding, "select_32_bf16_d128_u16" (i32, u16, bitmap).
std::string variantSymbol(std::string_view kernel, std::string_view dtype,
                          int64_t headDim, Encoding encoding);

/// Which sequences a form of an attention kernel computes (program/Forms.h). A
/// kernel has one for any; others stand beside it, on GPUs alone.
enum class LaunchForm {
  Any,    ///< those that no other form takes
  Long,   ///< some rows over many keys, which blocks divide among them
  Packed, ///< the same, where tiles have the rows of all query heads of a key
          ///< head (abi/Abi.h)
  All,    ///< all rows
};
inline constexpr std::array launchForms = {LaunchForm::Any, LaunchForm::Long,
                                           LaunchForm::Packed, LaunchForm::All};

/// The symbol of a form beside `symbol`, that of the one for any: "..._long".
std::string formSymbol(std::string_view symbol, LaunchForm form);

/// How the names of select kernels, and of no others, begin: by it a symbol
/// says which argument block its code takes.
inline constexpr std::string_view selectPrefix = "select";

/// One compiled form of a kernel.
struct KernelVariant {
  std::string symbol;    ///< expectedSymbol(), exported by the code section
  std::string dtype;     ///< "f32", "bf16" or, Cuda only, "f16": element type
                         ///< of Q, K, V, O
  int64_t headDim = 0;   ///< 64, 128, ...
  int64_t queryRows = 0; ///< rows of one task or block
  int64_t scratchBytes = 0;
  int64_t scratchBytesPerKey = 0;
  int64_t target = 0;                  ///< index into Manifest::targets
  Encoding encoding = Encoding::Int32; ///< of the lists that it reads or
                                       ///< writes; Int32 if it has none
  int64_t threads = 0;                 ///< of a block; Cuda only, else 0
  int64_t sharedBytes = 0; ///< dynamic shared memory of a block; Cuda only
  /// Rows of the boxes of its tensor maps (abi::TileMaps); 0 if it reads none.
  /// Cuda only, not in f32.
  int64_t mapRows = 0;
  /// Blocks next to each other in x that run together as a cluster; Cuda only,
  /// else 1.
  int64_t cluster = 1;
  LaunchForm form = LaunchForm::Any; ///< others: attention and Cuda only
  /// Of forms Long and Packed, from how many keys on they take sequences
  /// (LaunchForms::of), else 0.
  int64_t leastKeys = 0;
  /// Whether its blocks go on to further tasks, so that a grid has no more of
  /// them than the device holds at once. Attention and Cuda only.
  bool persistent = false;
  bool operator==(const KernelVariant &) const = default;
};

/// Bytes of scratch memory that one block of a CUDA kernel has for sequences of
/// at most `longest` keys: what its record asks for, in whole lines of 128
/// bytes, so that every block's row is aligned as Abi.h says.
inline int64_t scratchRowBytes(const KernelVariant &variant, int64_t longest) {
  constexpr int64_t line = 128;
  return (variant.scratchBytes + variant.scratchBytesPerKey * longest + line -
          1) /
         line * line;
}

/// What of a selection its select kernel is compiled for.
struct ListForm {
  int64_t group = 0;
  bool blocks = false; ///< of keys instead of single ones
  bool perKvHead = false;
  bool perLayer = false;
  int64_t pooled = 0;
  Selection::Scorer scorer = Selection::Scorer::MeanProbability;
  /// The group of the selection that Selection::within is, and whether it is of
  /// blocks; 0: it chooses from all keys.
  int64_t withinGroup = 0;
  bool withinBlocks = false;
  bool operator==(const ListForm &) const = default;
};

/// That of a selection within `outer`, or within none if that is null.
ListForm formOf(const Selection &selection, const Selection *outer);

/// A kernel that the step program names. For each target it has a variant of
/// every (dtype, headDim) that any kernel of that target has, and if it has
/// lists, of each in encodingsOf() the target's; beside any of these there
/// may be one of each other LaunchForm.
struct Kernel : ListForm { // of which only Select has more than defaults
  enum class Kind { Attention, Select };
  std::string name;
  Kind kind = Kind::Attention;
  bool writesLse = false;  ///< Attention
  std::vector<Term> terms; ///< Attention; empty means dense (all pairs)
  Scores scores;           ///< what becomes of logits; none: nothing
  std::vector<KernelVariant> variants;

  /// The selections whose lists it reads, in the order of its arguments.
  std::vector<int64_t> selections() const;
  /// Whether it reads or writes index lists.
  bool hasLists() const;
  /// Whether it asks where in the sequence keys and rows stand.
  bool comparesPositions() const;
  bool operator==(const Kernel &) const = default;
};

/// The symbol that a variant of `kernel` on `target` must have.
std::string expectedSymbol(const Kernel &kernel, const KernelVariant &variant,
                           const Target &target);

/// One compiled form of a row kernel.
struct RowVariant {
  int64_t target = 0; ///< index into Manifest::targets, a Cuda one
  std::string symbol; ///< rowSymbol(), exported by the code section
  std::string dtype;  ///< "f32", "bf16", "f16": element type of the rows
  int64_t threads = 0;
  int64_t sharedBytes = 0;
};

/// A row operation of the model or sampler. For each Cuda target it has a
/// variant of every dtype that any kernel of that target has.
struct RowKernel {
  RowOp op = RowOp::Embed;
  std::vector<RowVariant> variants;
};

/// When a phase applies. The first phase of a rule whose condition holds at a
/// step is the one that runs; the last phase of a rule is Otherwise, so the
/// phases partition the steps.
struct When {
  enum class Kind {
    On,        ///< the step is one of the cadence's
    Before,    ///< no step of the cadence has come yet (t < first; also when
               ///< the cadence is empty)
    Otherwise, ///< always
  };
  Kind kind = Kind::Otherwise;
  Cadence cadence; ///< On, Before
  bool operator==(const When &) const = default;
};

/// What one phase does in a layer: one attention, then selections refreshed
/// from that same step's Q, K and log-sum-exp, and what is measured. A refresh
/// happens only in the steps of its selection's cadence: a phase that serves
/// two selections also runs at steps of one of them alone.
struct Phase {
  When when;
  int64_t attention = -1; ///< index into Manifest::kernels
  /// That of the rows of shadows (CommitRule::revokeBy), over the keys of their
  /// sequence and their own: index into Manifest::kernels; -1: there are none.
  int64_t shadow = -1;
  /// What adds up, behind the step's last layer, the attention that keys drew
  /// (Positions::Kind::Attended): index into Manifest::kernels, Kind::Select;
  /// -1: no set goes by it.
  int64_t rollout = -1;
  /// An attention over all active rows for its log-sum-exps alone, by which a
  /// refresh scores where those of scorer() are not its own.
  struct Scoring {
    int64_t kernel = -1; ///< index into Manifest::kernels
    Selection::Scale scale = Selection::Scale::HeadDim;
    /// Over the keys behind the prompt's blocks: Isolation::Filtered. It is not
    /// launched where the prompt has none.
    bool ofResponse = false;
    bool operator==(const Scoring &) const = default;
  };
  struct Refresh {
    int64_t selection = -1; ///< index into Manifest::selections
    int64_t kernel = -1;    ///< index into Manifest::kernels, Kind::Select
    std::vector<Scoring> scorings = {}; ///< before it, in its own steps
  };
  /// One whose kernel reads log-sum-exps only if `scoring`, or `attention`
  /// without one, writes them.
  std::vector<Refresh> refreshes;
  /// Whether refreshes come before `attention`, which then reads what has just
  /// been chosen, not behind it.
  bool refreshesFirst = false;
  /// Of refreshes that come first: the kernel that runs before them, for its
  /// log-sum-exp alone, in steps in which one that reads it is due. -1: none
  /// reads it.
  int64_t scoring = -1;
  /// How far a run has gone since the latest step of a cadence by drift, which
  /// is measured in the cadence's layer in the steps that are not its own.
  struct Measure {
    Cadence cadence;
    /// By attention: index into Manifest::kernels, of `attention`, which runs
    /// once more, over values that say of each key its class; -1: V as it is.
    int64_t kernel = -1;
    bool operator==(const Measure &) const = default;
  };
  std::vector<Measure> measures = {}; ///< setMeasures()

  /// The kernel whose log-sum-exps the refreshes read, but for their scorings.
  int64_t scorer() const { return scoring < 0 ? attention : scoring; }
};

/// The phases of a range of layers. The rules of a manifest cover every layer
/// exactly once: `first`..`last` inclusive, negative counts from the last layer
/// (-1); the rule with `isDefault` takes all layers that no other names.
struct Rule {
  bool isDefault = true;
  int64_t firstLayer = 0;
  int64_t lastLayer = -1;
  std::vector<Phase> phases;
};

/// Layers next to each other, `first` and `last` included; negative ones count
/// from the model's last layer, which is -1.
struct LayerRange {
  int64_t first = 0, last = -1;
  bool operator==(const LayerRange &) const = default;
};

/// Which rows the layers of a step compute. In a layer the first pass of a
/// manifest runs that has the layer and all of whose conditions hold; the last
/// one has all layers and no condition. A manifest without passes computes all
/// visible rows at every step.
struct Pass {
  /// Of the pass's rows, which ones a layer computes exactly: queries, keys,
  /// values, attention and FFN. What other rows contribute is Reuse's business.
  enum class Exact {
    All,          ///< all of them
    Salient,      ///< those whose attention context, all heads together, has a
                  ///< cosine below `below` against the cached one in the layer
                  ///< before (below its own bound, if its pass compares
                  ///< contexts); in layer 0 Committed(count = 1). A layer's
                  ///< own finding also says whose FFN it computes.
                  ///< Source: DyLLM, algorithm 1.
    LeastSimilar, ///< of the rows in `among` the share `keep` with the lowest
                  ///< cosine of V, all heads together, against the cached one
                  ///< (V is computed and cached for all of them, unless the
                  ///< share is 0), and all rows that are not in `among`; in
                  ///< layer 0, where V depends on the token alone, all rows.
                  ///< The others may end (Reuse::carries). Source: dLLM-Cache.
    SalientFfn,   ///< all of them, but the FFN of those rows alone that Salient
                  ///< would find: whose context in this layer has a cosine
                  ///< below `below`. Source: DyLLM, table 1 ("salient token
                  ///< selection" without approximate attention).
  };
  std::vector<When> when;         ///< On and Before only; all must hold
  std::vector<LayerRange> layers; ///< none: all of them
  int64_t rows =
      -1; ///< index into Manifest::positions; -1: all visible ones.
          ///< With a model that predicts position i in row i - 1, row
          ///< i - 1 of each position i of the set is computed as well
  /// That row is not: a position of the set whose predicting row the step does
  /// not compute is predicted by its own.
  bool alone = false;
  /// Positions of the set that are not visible are computed as well: their
  /// queries attend to the visible keys, and no row, themselves included, to
  /// theirs.
  bool unseen = false;
  Exact exact = Exact::All;
  Ratio below;        ///< Salient, SalientFfn: in (0, 2]
  Ratio keep;         ///< LeastSimilar: floor(keep * rows in `among`)
  int64_t among = -1; ///< LeastSimilar: index into Manifest::positions
  /// LeastSimilar: the weight w, at most 1, of the confidence c of the last
  /// prediction of what a row predicts; the highest w c + (1 - w) (1 - cosine)
  /// are chosen. c is 0 where that is not masked or was not predicted. Source:
  /// ES-dLLM. None: by cosine alone.
  Ratio confidence;

  /// Whether its layers compute all visible rows.
  bool computesAllRows() const { return rows < 0 && exact == Exact::All; }
  /// Whether attention contexts are compared with cached ones.
  bool comparesContexts() const {
    return exact == Exact::Salient || exact == Exact::SalientFfn;
  }
  /// Whether V is, but for layer 0; a share of 0 needs no comparison.
  bool comparesValues() const {
    return exact == Exact::LeastSimilar && keep.num > 0;
  }
  bool operator==(const Pass &) const = default;
};

/// What is kept, per layer and visible row, for steps that do not compute the
/// row. A step that computes a row refreshes all that is kept of it.
struct Reuse {
  enum class Attention {
    None,
    Context,    ///< attention's output, before its projection
    Propagated, ///< the same; a row that is not exact adds sum_j P_ij (V_j new
                ///< - V_j cached) over the exact j, P with the exact
                ///< denominator over all of the row's pairs
    Output,     ///< attention's output after its projection
    Outside,    ///< attention over the keys outside of `inside`, before its
                ///< projection, with its log-sum-exp. Steps of `cadence`
                ///< compute all rows and keep it; at others rows attend to the
                ///< keys inside, and the two are merged. Source: FlashBlock
  };
  bool kv = false; ///< keys (after RoPE) and values
  Attention attention = Attention::None;
  bool ffn = false; ///< the FFN's output
  /// Outside: index into Manifest::positions, a range, as it was before the
  /// latest step of `cadence`.
  int64_t inside = -1;
  Cadence cadence = {}; ///< Outside
  /// Outside: index into Manifest::positions, -1: none. At steps that are not
  /// the cadence's its active rows attend to the keys outside, too, and keep
  /// that anew: in layer 0 all, in others the floor(keep * rows) whose new V
  /// has the lowest cosine against the cached one. Source: after LoSA
  int64_t refreshed = -1;
  Ratio keep = {1, 1}; ///< in [0, 1]
  /// Whether V says which rows are refreshed in layers but the first.
  bool refreshesByValues() const {
    return refreshed >= 0 && keep.num > 0 && keep.num < keep.den;
  }
  /// Whether attention's output is kept before its projection.
  bool keepsContext() const {
    return attention == Attention::Context ||
           attention == Attention::Propagated;
  }
  /// Whether a row goes on through a layer that does not compute it: else it
  /// ends there, and neither a later layer computes it nor is it a prediction.
  bool carries() const {
    return attention != Attention::None && attention != Attention::Outside &&
           ffn;
  }
  bool operator==(const Reuse &) const = default;
};

/// What some of the layers keep instead of Manifest::reuse.
struct LayeredReuse {
  std::vector<LayerRange> layers; ///< at least one
  Reuse reuse;
  bool operator==(const LayeredReuse &) const = default;
};

/// Which predictions become tokens.
struct CommitRule {
  enum class Kind {
    Quota,  ///< the model's quota of each step
    Above,  ///< all of confidence `ratio` and more, at least the best one
    Factor, ///< the best m, the largest m with (m + 1)(1 - c_m) < ratio, at
            ///< least one; c_m the m-th largest confidence. Source: Fast-dLLM
    RandomOrder, ///< the model's quota of each step, in an order of the
                 ///< response's positions that is drawn before the run
    Best,        ///< the `count` most confident ones
    Timesteps, ///< of the block's m masked positions floor(m (1 - s / t)), all
               ///< at the planned last step; t and s are the step's times of a
               ///< ramp over the block's steps. Source: Dream's schedule, in
               ///< blocks as Fast-dLLM's code has it
    Even, ///< the block's masked positions in equal shares over its planned
          ///< steps, whatever the model's quota. Source: LLaDA
    EvenAbove, ///< of an equal share those of confidence `ratio` and more, at
               ///< least the best one; later steps make up for the others.
               ///< Source: Fast-dLLM's released code for Dream
    Entropy,   ///< those of least entropy, as many as may be so that the
               ///< entropies of all but the last sum to `ratio` at most, in
               ///< nats, at least one. Source: EB-Sampler
  };
  Kind kind = Kind::Quota;
  Ratio ratio;            ///< Above, Factor, EvenAbove, Entropy
  int64_t count = 0;      ///< Best
  bool strictly = false;  ///< isAbove(): those of more confidence than `ratio`
  bool lastAlone = false; ///< Factor: where only the last candidate fails, it
                          ///< is taken too. Source: Fast-dLLM's released code
  int64_t within = -1;    ///< index into Manifest::positions: of these only
  /// Above 0: a confidence counts times the share of what is near that is
  /// decoded, by a Gaussian of this standard deviation, in positions. Source:
  /// d2Cache's certainty prior
  int64_t near = 0;
  /// Above 0: of m candidates a step takes at most floor(share m), but not
  /// fewer than `limitLeast` and not more than `limitMost`.
  Ratio limitShare;
  int64_t limitLeast = 1, limitMost = maxCount;
  /// Above 0: of the block's tokens that earlier steps committed, and whose
  /// predicting rows the step computes, those whose probability is below it
  /// become masks again, the least probable first, fewer than the step commits.
  Ratio revokeBelow;
  /// By which row the probability of a token is.
  enum class RevokeBy {
    Row,    ///< the one that predicts the position
    Shadow, ///< that of a second view of the block, which the step computes
            ///< besides: a mask in each row that predicts one of the block's
            ///< positions. Such a row attends to the sequence, but for the
            ///< position that it predicts, and to the rows of the view, to
            ///< which no other row does. Source: WINO's released code
  };
  RevokeBy revokeBy = RevokeBy::Row;
  /// Fewer than which step commits are revoked.
  enum class RevokeFewerThan {
    Step,       ///< this one
    StepBefore, ///< the one before it in the block; and none where this one
                ///< commits a single token, or none. Source: likewise
  };
  RevokeFewerThan revokeFewerThan = RevokeFewerThan::Step;
  /// Above 0: those of these tokens in whose place the row draws another one of
  /// this probability and more are replaced by it, before any is revoked, by a
  /// step that commits or finds no mask in its block.
  Ratio editAbove;
  /// With `editAbove`: a block whose masks are gone takes further passes, at
  /// most so many, while each changes something. Source: LLaDA2.1's samplers
  int64_t furtherPasses = 0;
  /// At each step the model reads a token that is drawn anew in place of the
  /// mask token at each masked position of the block being decoded: noise, of
  /// the vocabulary without special tokens. What is masked stays so until it is
  /// committed; of the whole run: DatedCommits leave it as it is.
  /// Source: Diffusers' BlockRefinementScheduler without a mask token
  bool renoises = false;

  bool stopAtEos = false;  ///< after a step of the rule EOS is looked for; once
                           ///< it is found, the sequence ends when no masked
                           ///< position stands before it
  bool narrows = false;    ///< stopAtEos: what stands behind the EOS that was
                           ///< found is neither Decoded, Committed nor
                           ///< Undecoded, and not committed
  int64_t leastPasses = 1; ///< a block takes so many steps at least; of the
                           ///< whole run: DatedCommits leave it as it is
  /// So many steps after a step are drafted, by the latest predictions, and
  /// verified with it: its forward pass has 1 + `drafts` copies of a sequence
  /// at most, copy i as the sequence is after the first i steps if each commits
  /// what was drafted of it. Steps are made, one after the other, as long as
  /// that is what they commit. So the run is the same as without; of the whole
  /// run: DatedCommits leave it as it is.
  /// Source: FreeDave (arXiv:2510.00294), SSD (arXiv:2510.04147)
  int64_t drafts = 0;

  /// Whether steps are planned how many tokens they take, so that blocks take
  /// the planned number of steps.
  bool byQuota() const {
    return kind == Kind::Quota || kind == Kind::RandomOrder ||
           kind == Kind::Timesteps || hasEvenQuota();
  }
  bool hasEvenQuota() const {
    return kind == Kind::Even || kind == Kind::EvenAbove;
  }
  bool hasRatio() const {
    return isAbove() || kind == Kind::Factor || kind == Kind::Entropy;
  }
  bool revokes() const { return revokeBelow.num > 0; }
  bool hasShadow() const { return revokes() && revokeBy == RevokeBy::Shadow; }
  bool isLimited() const { return limitShare.num > 0; }
  bool lifts() const { return near > 0; }
  /// How many of so many candidates a step takes at most.
  int64_t limitOf(int64_t candidates) const;
  bool verifies() const { return drafts > 0; }
  bool edits() const { return editAbove.num > 0; }
  /// Whether `ratio` is a confidence, at most 1.
  bool isAbove() const {
    return kind == Kind::Above || kind == Kind::EvenAbove;
  }

  /// Whether the model's own confidence orders candidates; else it is the
  /// token's probability, which thresholds are of, or the negative entropy.
  bool hasModelsConfidence() const {
    return kind == Kind::Quota || kind == Kind::Best ||
           kind == Kind::Timesteps || kind == Kind::Even;
  }
  /// Whether what a step predicts, and commits not, says what the steps after
  /// it may: they take a number of tokens that is known, the surest ones.
  bool canBeDrafted() const {
    return hasModelsConfidence() && within < 0 && !revokes() && !edits();
  }
  bool operator==(const CommitRule &) const = default;
};

/// What some of the steps commit by instead of Manifest::commit.
struct DatedCommit {
  std::vector<When> when; ///< On only, at least one; all must hold
  CommitRule rule;
};

struct Manifest {
  std::string producer;        ///< "heddlec 0.1.0 (LLVM 22.1.8)"
  std::string schedule;        ///< the schedule's symbol name
  uint32_t abi = 0;            ///< abi::abiVersion of the compiler
  std::vector<Target> targets; ///< at least one, at most one Host
  std::vector<Selection> selections;
  std::vector<Fallback> fallbacks;
  std::vector<Kernel> kernels;
  std::vector<RowKernel> rowKernels; ///< each op once if there is a Cuda
                                     ///< target, else none
  std::vector<Rule> rules;

  std::vector<Positions> positions; ///< what follows refers to these
  /// The visible positions: the others are neither row nor key, as if the
  /// sequence were shorter. Groups, blocks and lists count visible positions;
  /// RoPE, windows and sinks go by the position in the sequence. -1: all. What
  /// becomes visible within a run is computed at that step, or was visible and
  /// computed at the step before.
  int64_t visible = -1;
  Cadence allVisible; ///< at its steps all positions are, and all rows are
                      ///< computed
  std::vector<Pass> passes;
  /// The one that has a layer says what it keeps, or `reuse`. All keep keys and
  /// values, or none.
  std::vector<LayeredReuse> layeredReuses;
  Reuse reuse;
  /// The first all of whose conditions hold is the rule of a step, or `commit`.
  std::vector<DatedCommit> datedCommits;
  CommitRule commit;

  const Kernel &kernel(int64_t index) const {
    return kernels[static_cast<size_t>(index)];
  }
  const Selection &selection(int64_t index) const {
    return selections[static_cast<size_t>(index)];
  }

  /// Whether positions that `visible` lacks are visible at some steps.
  bool showsAll() const { return allVisible.kind != Cadence::Kind::Never; }

  /// The sizes of the groups, or blocks, of Kernel::selections().
  std::vector<int64_t> groupsOf(const Kernel &kernel) const;

  /// Whether every step computes every position exactly and the model's own
  /// rule commits: nothing of rows, keys, reuse and commit is used.
  bool computesAll() const {
    return visible < 0 && passes.empty() && datedCommits.empty() &&
           commit == CommitRule();
  }
};

/// What a kernel that refreshes the selection is compiled for.
ListForm formOf(const Manifest &manifest, const Selection &selection);

/// The index of the bundle's Host target, or -1.
int64_t hostTarget(const Manifest &manifest);

/// All targets, for people: "x86_64-unknown-linux-gnu, x86-64-v3; sm_90a".
std::string toString(const std::vector<Target> &targets);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_MANIFEST_H
