//===- CodeEntry.cpp - A target's code as bytes of the cache --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers are 8 bytes, little-endian; lists and strings follow their length.
//
//===----------------------------------------------------------------------===//

#include "CodeEntry.h"

#include "bundle/format/ManifestFields.h"

#include "llvm/Support/Endian.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// Writes the fields that fields() names.
class Writer {
public:
  static constexpr bool writes = true;

  template <typename T, typename... Rule>
  void operator()(const char *, const T &value, Rule...) {
    if constexpr (std::is_same_v<T, std::string>) {
      number(static_cast<int64_t>(value.size()));
      bytes += value;
    } else {
      number(static_cast<int64_t>(value));
    }
  }
  bool has(const char *, bool needed) {
    number(needed);
    return needed;
  }
  void number(int64_t value) {
    char raw[8];
    llvm::support::endian::write64le(raw, static_cast<uint64_t>(value));
    bytes.append(raw, sizeof(raw));
  }

  std::string bytes;
};

/// Reads them. Once something is missing, `good` is false and fields are empty.
class Reader {
public:
  static constexpr bool writes = false;

  explicit Reader(StringRef bytes) : rest(bytes) {}

  template <typename T, typename... Rule>
  void operator()(const char *, T &value, Rule...) {
    if constexpr (std::is_same_v<T, std::string>)
      value = take(number()).str();
    else
      value = static_cast<T>(number());
  }
  bool has(const char *, bool) { return number() != 0; }
  int64_t number() {
    StringRef raw = take(8);
    return good ? static_cast<int64_t>(
                      llvm::support::endian::read64le(raw.data()))
                : 0;
  }

  StringRef rest;
  bool good = true;

private:
  StringRef take(int64_t size) {
    good = good && size >= 0 && static_cast<uint64_t>(size) <= rest.size();
    StringRef taken = rest.take_front(good ? static_cast<size_t>(size) : 0);
    rest = rest.drop_front(taken.size());
    return taken;
  }
};

// The manifest's fields of a kernel are all that it has.
using ::heddle::bundle::detail::fields;

template <typename V>
void fields(V &v, ::heddle::bundle::detail::In<V, CodeSection> &section) {
  auto &[name, extension, contents] = section;
  v("name", name);
  v("extension", extension);
  v("contents", contents);
}

template <typename Element>
void write(Writer &writer, const SmallVector<Element> &list) {
  writer.number(static_cast<int64_t>(list.size()));
  for (const Element &element : list)
    fields(writer, element);
}

template <typename Element>
void read(Reader &reader, SmallVector<Element> &list) {
  const int64_t size = reader.number();
  for (int64_t i = 0; i < size && reader.good; ++i)
    fields(reader, list.emplace_back());
}

} // namespace

std::string mlir::heddle::toBytes(const CodeEntry &entry) {
  Writer writer;
  write(writer, entry.records);
  write(writer, entry.sections);
  return std::move(writer.bytes);
}

std::optional<CodeEntry> mlir::heddle::toCodeEntry(StringRef bytes) {
  CodeEntry entry;
  Reader reader(bytes);
  read(reader, entry.records);
  read(reader, entry.sections);
  if (!reader.good || !reader.rest.empty())
    return std::nullopt;
  return entry;
}
