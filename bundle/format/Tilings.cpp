//===- Tilings.cpp - Tables of measured tilings ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Tilings.h"

#include "bundle/format/StrictJson.h"
#include "bundle/program/Printable.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>

#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::bundle;
using nlohmann::json;

namespace {

/// The fields of one rule, with the first problem among them.
class Fields {
public:
  explicit Fields(const json &object) : object(object) {}

  void number(const char *name, int64_t &into) {
    if (!object.contains(name))
      return fail("'" + std::string(name) + "' is not there or no integer");
    optionalNumber(name, into, "' is not there or no integer");
  }

  void optionalNumber(const char *name, int64_t &into,
                      const char *otherwise = "' is no integer") {
    auto at = find(name);
    if (!at)
      return;
    const bool fits =
        at->is_number_integer() &&
        (!at->is_number_unsigned() ||
         at->get<uint64_t>() <=
             static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits)
      return fail("'" + std::string(name) + otherwise);
    into = at->get<int64_t>();
  }

  void flag(const char *name, bool &into) {
    auto at = find(name);
    if (!at)
      return;
    if (!at->is_boolean())
      return fail("'" + std::string(name) + "' is true or false");
    into = at->get<bool>();
  }

  /// Leaves `into` as it is where the field is not there.
  void word(const char *name, std::initializer_list<const char *> words,
            const char *otherwise, std::string &into) {
    auto at = find(name);
    if (!at)
      return;
    if (!at->is_string() ||
        std::ranges::find(words, at->get<std::string>()) == words.end())
      return fail("'" + std::string(name) + "' is " + otherwise);
    into = at->get<std::string>();
  }

  void end() {
    if (object.size() != known)
      fail("there are fields beside 'element', 'over', 'blocks', "
           "'copies', 'cluster', 'positions', 'shared', 'key_shares', "
           "'least_keys', 'query_stages', 'packed', 'head_dim', 'consumers', "
           "'keys', 'stages', 'parts', 'producer_registers' and "
           "'consumer_registers'");
  }

  void fail(std::string what) {
    if (problem.empty())
      problem = std::move(what);
  }

  std::string problem;

private:
  const json *find(const char *name) {
    auto at = object.find(name);
    if (at == object.end())
      return nullptr;
    ++known;
    return &*at;
  }

  const json &object;
  size_t known = 0;
};

/// Reads a rule; returns what is wrong with it.
std::string readRule(const json &value, TilingRule &rule) {
  if (!value.is_object())
    return "expected an object";
  Fields fields(value);
  fields.word("element", {"bf16", "f16"}, "\"bf16\" or \"f16\"", rule.element);
  if (rule.element.empty())
    fields.fail("'element' is \"bf16\" or \"f16\"");
  fields.number("head_dim", rule.headDim);
  fields.number("consumers", rule.consumers);
  fields.number("keys", rule.keys);
  fields.number("stages", rule.stages);
  fields.number("parts", rule.parts);
  fields.number("producer_registers", rule.producerRegisters);
  fields.number("consumer_registers", rule.consumerRegisters);
  fields.word("over", {"all", "list", "blocks", "range", "union", "scores"},
              "\"all\", \"list\", \"blocks\", \"range\", \"union\" or "
              "\"scores\"",
              rule.over);
  std::string copies;
  fields.word("copies", {"threads", "tma"}, "\"threads\" or \"tma\"", copies);
  rule.tma = copies == "tma";
  fields.flag("positions", rule.positions);
  fields.flag("shared", rule.shared);
  fields.flag("packed", rule.packed);
  fields.optionalNumber("blocks", rule.blocks);
  fields.optionalNumber("cluster", rule.cluster);
  fields.optionalNumber("key_shares", rule.keyShares);
  fields.optionalNumber("least_keys", rule.leastKeys);
  fields.optionalNumber("query_stages", rule.queryStages);
  fields.end();
  // A kernel of another has no products of warpgroups: the rule would wait for
  // it without a word.
  constexpr int64_t most = 512, step = 64;
  if (rule.headDim < step || rule.headDim > most || rule.headDim % step)
    fields.fail("'head_dim' is a multiple of " + std::to_string(step) +
                " up to " + std::to_string(most) + ", not " +
                std::to_string(rule.headDim));
  if (rule.leastKeys < 0)
    fields.fail("'least_keys' is 0 or more, not " +
                std::to_string(rule.leastKeys));
  if (rule.shared && rule.queryStages)
    fields.fail("'query_stages' is 0 with 'shared', not " +
                std::to_string(rule.queryStages) +
                ": where heads share lists some warpgroups have no work, and "
                "blocks that go on to further rows need all of them");
  if (rule.packed &&
      (rule.shared || (rule.over != "all" && rule.over != "range")))
    fields.fail("'packed' is false with " +
                (rule.shared ? "'shared'" : "'over' \"" + rule.over + "\"") +
                ": rows of several query heads are packed over all keys and "
                "ranges, which these heads have in common; leave it out");
  return std::move(fields.problem);
}

} // namespace

Result<std::vector<TilingRule>>
heddle::bundle::tilingsFromJson(std::string_view text) {
  constexpr size_t maxDepth = 3; // the table, its list, a rule
  const std::string expected =
      "a table of tilings is an object with a list 'wgmma' of objects";
  if (std::string problem = jsonProblem(text, maxDepth); !problem.empty())
    return Error(expected + ": " + problem);
  json table;
  try {
    table = json::parse(text);
  } catch (const json::exception &error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
    std::string_view reason = error.what();
    reason.remove_prefix(std::min(reason.find("parse error"), reason.size()));
    return Error("a table of tilings is no JSON: " + printableLines(reason));
  }
  if (!table.is_object() || table.size() != 1 || !table.contains("wgmma") ||
      !table["wgmma"].is_array())
    return Error(
        "a table of tilings is an object with a list 'wgmma' and nothing else");
  std::vector<TilingRule> rules;
  for (const json &each : table["wgmma"]) {
    TilingRule &rule = rules.emplace_back();
    if (std::string problem = readRule(each, rule); !problem.empty())
      return Error("wgmma[" + std::to_string(rules.size() - 1) +
                   "]: " + problem);
  }
  return rules;
}
