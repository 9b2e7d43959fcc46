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

#include "llvm/Support/Endian.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// Writes the fields that visit() names.
class Writer {
public:
  void operator()(const int64_t &value) {
    char raw[8];
    llvm::support::endian::write64le(raw, static_cast<uint64_t>(value));
    bytes.append(raw, sizeof(raw));
  }
  void operator()(const std::string &text) {
    (*this)(static_cast<int64_t>(text.size()));
    bytes += text;
  }

  std::string bytes;
};

/// Reads them. Once something is missing, `good` is false and fields are empty.
class Reader {
public:
  explicit Reader(StringRef bytes) : rest(bytes) {}

  void operator()(int64_t &value) {
    value = 0;
    if ((good = good && rest.size() >= 8))
      value =
          static_cast<int64_t>(llvm::support::endian::read64le(take(8).data()));
  }
  void operator()(std::string &text) {
    int64_t size = 0;
    (*this)(size);
    good = good && size >= 0 && static_cast<uint64_t>(size) <= rest.size();
    text = good ? take(size).str() : "";
  }

  StringRef rest;
  bool good = true;

private:
  StringRef take(size_t size) {
    StringRef taken = rest.take_front(size);
    rest = rest.drop_front(size);
    return taken;
  }
};

// The bindings name every field, so that a new one cannot be forgotten here.

template <typename Record, typename Visitor>
void visit(Record &record, Visitor &field)
  requires std::is_same_v<std::remove_const_t<Record>, KernelRecord>
{
  auto &[symbol, queryRows, scratch, scratchPerKey, threads, shared, mapRows,
         cluster, leastKeys, persistent] = record;
  field(symbol);
  field(queryRows);
  field(scratch);
  field(scratchPerKey);
  field(threads);
  field(shared);
  field(mapRows);
  field(cluster);
  field(leastKeys);
  field(persistent);
}

template <typename Section, typename Visitor>
void visit(Section &section, Visitor &field)
  requires std::is_same_v<std::remove_const_t<Section>, CodeSection>
{
  auto &[name, extension, contents] = section;
  field(name);
  field(extension);
  field(contents);
}

template <typename Element>
void write(Writer &writer, const SmallVector<Element> &list) {
  writer(static_cast<int64_t>(list.size()));
  for (const Element &element : list)
    visit(element, writer);
}

template <typename Element>
void read(Reader &reader, SmallVector<Element> &list) {
  int64_t size = 0;
  reader(size);
  for (int64_t i = 0; i < size && reader.good; ++i)
    visit(list.emplace_back(), reader);
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
