//===- Tilings.cpp - Tables of measured tilings ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Tilings.h"

#include "bundle/format/Tables.h"

#include <algorithm>
#include <bit>
#include <string>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::detail;

namespace heddle::bundle {

namespace {
enum class Copies { Threads, Tma };
constexpr auto namesOf(Copies) {
  return std::to_array<Name>({"threads", "tma"});
}
} // namespace

namespace detail {

/// Ranges are tilingProblem()'s.
inline constexpr Range anyNumber = {INT64_MIN, INT64_MAX};
inline constexpr Text elementOfProducts = {
    [](const std::string &text) { return text == "bf16" || text == "f16"; },
    "is unknown, expected bf16 or f16"};
inline constexpr Text keysOfTilings = {
    [](const std::string &text) {
      constexpr auto all = std::to_array<Name>(
          {"all", "list", "blocks", "range", "union", "scores"});
      return std::ranges::find(all, text) != all.end();
    },
    "is unknown, expected one of all, list, blocks, range, union, scores"};

template <typename V> void fields(V &v, TilingRule &x) {
  v("head_dim", x.headDim, anyNumber);
  v("consumers", x.consumers, anyNumber);
  v("keys", x.keys, anyNumber);
  v("stages", x.stages, anyNumber);
  v("parts", x.parts, anyNumber);
  v("producer_registers", x.producerRegisters, anyNumber);
  v("consumer_registers", x.consumerRegisters, anyNumber);
  optional(v, "element", x.element, elementOfProducts);
  optional(v, "over", x.over, keysOfTilings);
  Copies copies = x.tma ? Copies::Tma : Copies::Threads;
  optional(v, "copies", copies);
  x.tma = copies == Copies::Tma;
  optional(v, "positions", x.positions);
  optional(v, "shared", x.shared);
  optional(v, "packed", x.packed);
  optional(v, "masked", x.masked);
  optional(v, "check_sums", x.checkSums);
  optional(v, "ping_pong", x.pingPong);
  optional(v, "blocks", x.blocks, anyNumber);
  optional(v, "cluster", x.cluster, anyNumber);
  optional(v, "key_shares", x.keyShares, anyNumber);
  optional(v, "least_keys", x.leastKeys, anyNumber);
  optional(v, "query_stages", x.queryStages, anyNumber);
  optional(v, "tail_keys", x.tailKeys, anyNumber);
  optional(v, "one_ring", x.oneRing);
}

} // namespace detail
} // namespace heddle::bundle

std::string heddle::bundle::kernelProblem(const TilingRule &rule) {
  // A tile in shared memory has panels of `step` columns, and a product at most
  // `most` columns of sums.
  constexpr int64_t most = 256, step = 64;
  if (rule.headDim < step || rule.headDim > most || rule.headDim % step)
    return "head_dim is a multiple of " + std::to_string(step) + " up to " +
           std::to_string(most) + ", not " + std::to_string(rule.headDim);
  if (rule.shared && rule.queryStages)
    return "query_stages is 0 with shared, not " +
           std::to_string(rule.queryStages) +
           ": where heads share lists some warpgroups have no work, and blocks "
           "that go on to further rows need all of them";
  if (rule.packed &&
      (rule.shared || (rule.over != "all" && rule.over != "range")))
    return "packed is false with " +
           (rule.shared ? "shared" : "over \"" + rule.over + "\"") +
           ": rows of several query heads are packed over all keys and ranges, "
           "which these heads have in common; leave it out";
  const bool ofScores = rule.over == "scores", ofList = rule.over == "list";
  if (rule.tma && ofList)
    return "copies is \"threads\" with over \"" + rule.over +
           "\": tensor maps bring tiles of consecutive keys; leave it out";
  if (ofScores && (rule.keyShares > 1 || rule.queryStages || rule.cluster > 1))
    return std::string(rule.queryStages   ? "query_stages is 0"
                       : rule.cluster > 1 ? "cluster is 1"
                                          : "key_shares is 1") +
           " with over \"scores\": a block that selects has the rows of its "
           "groups and all of their keys; leave it out";
  if (rule.oneRing && ofScores)
    return "one_ring is false with over \"scores\": kernels that select have "
           "tiles of keys alone; leave it out";
  if (rule.checkSums && ofScores)
    return "check_sums is false with over \"scores\": kernels that select "
           "have no sums of weights; leave it out";
  if (rule.pingPong &&
      (rule.shared || (rule.over != "all" && !ofList && rule.over != "blocks")))
    return "ping_pong is false with " +
           (rule.shared ? "shared" : "over \"" + rule.over + "\"") +
           ": warpgroups that wait for each other have the same tiles, which "
           "those of all keys, a list or blocks alone have; leave it out";
  if (rule.tailKeys && !ofList)
    return "tail_keys is 0 with over \"" + rule.over + "\", not " +
           std::to_string(rule.tailKeys) +
           ": lists of keys alone have a tail; leave it out";
  if (rule.cluster == 2 && rule.headDim / step % rule.cluster)
    return "cluster is 1 with head_dim " + std::to_string(rule.headDim) +
           ", not " + std::to_string(rule.cluster) +
           ": the blocks of a cluster bring equal numbers of panels of 64 "
           "channels";
  return "";
}

std::string heddle::bundle::tilingProblem(const TilingRule &rule) {
  auto number = [](int64_t value) { return std::to_string(value); };
  auto isOneOf = [](int64_t value, int64_t low, int64_t high, int64_t step) {
    return value >= low && value <= high && value % step == 0;
  };
  if (!isOneOf(rule.consumers, 1, 4, 1))
    return "a wgmma_tiling has 1 to 4 consumers, not " + number(rule.consumers);
  if (!isOneOf(rule.keys, 16, 256, 16))
    return "keys is a multiple of 16 up to 256, not " + number(rule.keys);
  if (!isOneOf(rule.stages, 2, 8, 1))
    return "stages is from 2 to 8, not " + number(rule.stages);
  if (!isOneOf(rule.parts, 1, rule.keys / 16, 1) ||
      rule.keys % (16 * rule.parts))
    return "parts = " + number(rule.parts) + " does not cut " +
           number(rule.keys) + " keys into multiples of 16";
  for (int64_t registers : {rule.producerRegisters, rule.consumerRegisters})
    if (!isOneOf(registers, 24, 240, 8))
      return "a thread has a multiple of 8 registers from 24 to 240, not " +
             number(registers);
  if (!isOneOf(rule.blocks, 1, 4, 1))
    return "blocks is from 1 to 4, not " + number(rule.blocks);
  if (!isOneOf(rule.cluster, 1, rule.tma ? 2 : 1, 1))
    return "cluster is 1, or 2 with tma, not " + number(rule.cluster);
  if (rule.keyShares < 1 || rule.keyShares > maxCluster ||
      !std::has_single_bit(static_cast<uint64_t>(rule.keyShares)))
    return "key_shares is 1, 2, 4, 8 or 16, not " + number(rule.keyShares);
  if (rule.keyShares > 1 && rule.cluster > 1)
    return "blocks that share tiles (cluster = " + number(rule.cluster) +
           ") have the same keys, not key_shares = " + number(rule.keyShares);
  if (!isOneOf(rule.leastKeys, 0, rule.keyShares > 1 ? maxLeastKeys : 0, 1))
    return "least_keys is 0, or up to " + number(maxLeastKeys) +
           " with key_shares of more than 1, not " + number(rule.leastKeys);
  if (!isOneOf(rule.queryStages, 0, rule.keyShares > 1 ? 0 : 4, 1))
    return "query_stages is from 0 to 4, and 0 with key_shares, not " +
           number(rule.queryStages);
  if (rule.tailKeys && (!isOneOf(rule.tailKeys, 16, rule.keys - 16, 16)))
    return "tail_keys is 0 or a multiple of 16 below keys = " +
           number(rule.keys) + ", not " + number(rule.tailKeys);
  if (rule.pingPong && rule.consumers == 1)
    return "ping_pong is for 2 to 4 consumers, whose products alternate; leave "
           "it out";
  if (rule.packed && rule.keyShares == 1)
    return "packed rows are for few of them, whose blocks divide keys; give "
           "key_shares of more than 1, or leave out packed";
  return "";
}

/// Says where each entry begins. `text` is a table: the objects in its one list
/// are entries, and nothing else in it is two levels deep.
static void findEntries(std::string_view text, std::vector<TilingRule> &rules) {
  auto next = rules.begin();
  int64_t line = 1, column = 0;
  int depth = 0;
  bool inString = false, escaped = false;
  for (char c : text) {
    ++column;
    if (c == '\n') {
      ++line;
      column = 0;
    }
    if (inString) {
      inString = escaped || c != '"';
      escaped = !escaped && c == '\\';
      continue;
    }
    inString = c == '"';
    if (c == '{' && depth == 2 && next != rules.end()) {
      next->line = line;
      next->column = column;
      ++next;
    }
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
  }
}

bool heddle::bundle::takesAllOf(const TilingRule &other,
                                const TilingRule &rule) {
  auto isMultiple = [](int64_t value, int64_t of) { return value % of == 0; };
  if ((!other.element.empty() && other.element != rule.element) ||
      other.headDim != rule.headDim || other.over != rule.over ||
      other.form() != rule.form() || other.shared != rule.shared ||
      other.masked > rule.masked)
    return false;
  // Positions are for functions of logits, which leave no sums to check.
  if (rule.positions && !other.positions && !rule.checkSums)
    return false;
  // Groups are a warpgroup's, or several are: any tiles and warpgroups that are
  // possible take them all.
  if (other.over == "scores")
    return other.keys % 64 == 0 &&
           std::has_single_bit(static_cast<uint64_t>(other.consumers));
  // Clusters do not go over all ranges, tiles and blocks of rows have to divide
  // blocks of keys and groups, and tensor maps bring no list of keys.
  return other.over == "all" || other.over == "range"
             ? other.over == "all" || other.cluster == 1 || other.queryStages
             : other.cluster == 1 && (!other.tma || rule.tma) &&
                   isMultiple(rule.consumers, other.consumers) &&
                   isMultiple(rule.keys, other.keys);
}

static std::string placeOf(const TilingRule &rule) {
  return "line " + std::to_string(rule.line) + ", column " +
         std::to_string(rule.column);
}

Status heddle::bundle::checkTilingsSize(uint64_t bytes) {
  constexpr uint64_t most = uint64_t(1) << 20;
  if (bytes > 0 && bytes <= most)
    return Status::success();
  return Error("a table of tilings has " + std::to_string(bytes) +
               " bytes, expected 1 to " + std::to_string(most));
}

Result<std::vector<TilingRule>>
heddle::bundle::tilingsFromJson(std::string_view text) {
  if (Status status = checkTilingsSize(text.size()); !status)
    return status.takeError();
  constexpr const char *what = "a table of tilings", *list = "wgmma";
  auto rules = readTable<TilingRule>(text, what, list);
  if (!rules)
    return rules;
  for (size_t i = 0; i < rules->size(); ++i)
    for (const std::string &problem :
         {kernelProblem((*rules)[i]), tilingProblem((*rules)[i])})
      if (!problem.empty())
        return entryError(what, list, i, problem);
  findEntries(text, *rules);
  for (auto late = rules->begin(); late != rules->end(); ++late)
    for (auto early = rules->begin(); early != late; ++early)
      if (!early->checkSums && late->checkSums && takesAllOf(*early, *late))
        return entryError(
            what, list, static_cast<size_t>(late - rules->begin()),
            "with check_sums, in " + placeOf(*late) + ", it has no kernel: " +
                at(list, static_cast<size_t>(early - rules->begin())) +
                ", in " + placeOf(*early) +
                ", takes them all; put this one before it");
  std::vector<TilingRule> all;
  for (const TilingRule &entry : *rules)
    for (const char *element : {"bf16", "f16"})
      if (entry.element.empty() || entry.element == element) {
        all.push_back(entry);
        all.back().element = element;
      }
  return all;
}
