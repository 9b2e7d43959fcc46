//===- JsonMutator.cpp - Changes of a JSON document -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutators.h"

#include <nlohmann/json.hpp>

using namespace heddle::fuzz;
// Keeps the order of keys, and, as a list of pairs, keys that are there twice.
using Json = nlohmann::ordered_json;

namespace {

void collect(Json &node, std::vector<Json *> &nodes, int depth = 0) {
  nodes.push_back(&node);
  if (depth < 100 && node.is_structured())
    for (Json &child : node)
      collect(child, nodes, depth + 1);
}

class Change {
public:
  Change(Json &document, Random &random) : random(random) {
    collect(document, nodes);
  }

  void apply() {
    Json &node = *nodes[number(nodes.size())];
    if (node.is_object() && !node.empty() && number(4))
      return changeObject(node.get_ref<Json::object_t &>());
    if (node.is_array() && !node.empty() && number(4))
      return changeArray(node.get_ref<Json::array_t &>());
    if (node.is_string() && number(4))
      return changeString(node.get_ref<Json::string_t &>());
    if (node.is_number() && number(4))
      return changeNumber(node);
    node = number(2) ? any() : Json(*nodes[number(nodes.size())]);
  }

private:
  size_t number(size_t bound) { return below(random, bound); }

  Json any() {
    static const Json values[] = {nullptr,
                                  true,
                                  false,
                                  0,
                                  1,
                                  -1,
                                  16,
                                  INT32_MAX,
                                  INT64_MAX,
                                  INT64_MIN,
                                  UINT64_MAX,
                                  1e300,
                                  0.5,
                                  1e-320,
                                  "",
                                  "a",
                                  "\xC4\xA0",
                                  "\u0000",
                                  "../x",
                                  Json::array(),
                                  Json::object(),
                                  Json::array({1, 2})};
    return values[number(std::size(values))];
  }

  void changeObject(Json::object_t &object) {
    const size_t at = number(object.size());
    auto place = object.begin() + static_cast<long>(at);
    switch (number(5)) {
    case 0:
      object.erase(place);
      return;
    case 1: // the same key twice
      object.Container::emplace_back(place->first, any());
      return;
    case 2: {
      std::pair<const std::string, Json> renamed(changeBytes(place->first),
                                                 place->second);
      object.erase(place);
      object.Container::push_back(std::move(renamed));
      return;
    }
    case 3: { // a value of another key, or a key of another object
      Json copy = *nodes[number(nodes.size())];
      if (copy.is_object() && !copy.empty()) {
        auto other =
            std::next(copy.begin(), static_cast<long>(number(copy.size())));
        object.Container::emplace_back(other.key(), other.value());
      } else {
        place->second = std::move(copy);
      }
      return;
    }
    default:
      std::swap(place->second, object[object.begin()->first]);
    }
  }

  void changeArray(Json::array_t &array) {
    const size_t at = number(array.size()), other = number(array.size());
    auto place = array.begin() + static_cast<long>(at);
    switch (number(5)) {
    case 0:
      array.erase(place);
      return;
    case 1: {
      Json copy = array[other];
      array.insert(place, std::move(copy));
      return;
    }
    case 2:
      std::swap(array[at], array[other]);
      return;
    case 3:
      array[at] = array[other];
      return;
    default:
      array.insert(place, any());
    }
  }

  void changeString(std::string &text) {
    const Json &other = *nodes[number(nodes.size())];
    switch (number(3)) {
    case 0:
      if (other.is_string())
        text = other.get<std::string>();
      return;
    case 1:
      text.insert(number(text.size() + 1), 1,
                  "()[]{}*+?|\\^$. -0aZ\"'/:,<>"[number(27)]);
      return;
    default:
      text = changeBytes(text);
    }
  }

  void changeNumber(Json &node) {
    if (!node.is_number_integer()) {
      node = node.get<double>() * (number(2) ? -1 : 1e10);
      return;
    }
    const auto value = node.get<uint64_t>();
    static constexpr int64_t steps[] = {1, 2, 15, 16, 64, 1000, 1 << 20};
    const auto step = static_cast<uint64_t>(steps[number(std::size(steps))]);
    switch (number(4)) {
    case 0:
      node = static_cast<int64_t>(value + step);
      return;
    case 1:
      node = static_cast<int64_t>(value - step);
      return;
    case 2:
      node = static_cast<int64_t>(value * 2);
      return;
    default:
      node = static_cast<int64_t>(number(300));
    }
  }

  Random &random;
  std::vector<Json *> nodes;
};

/// Text that is not UTF-8 cannot stand in a document: its bytes are replaced.
std::string dump(const Json &document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json parse(const std::string &text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

} // namespace

std::string heddle::fuzz::mutatedJson(const std::string &text, Random &random) {
  Json document = parse(text);
  if (document.is_discarded() || below(random, 20) == 0)
    return changeBytes(text);
  Change(document, random).apply();
  return dump(document);
}

std::string heddle::fuzz::crossedJson(const std::string &text,
                                      const std::string &other,
                                      Random &random) {
  Json to = parse(text), from = parse(other);
  if (to.is_discarded() || from.is_discarded())
    return text;
  std::vector<Json *> places, values;
  collect(to, places);
  collect(from, values);
  Json &place = *places[below(random, places.size())];
  const Json &value = *values[below(random, values.size())];
  if (place.is_array())
    place.push_back(value);
  else
    place = value;
  return dump(to);
}
