//===- ElfMutator.cpp - Changes of an ELF file's tables -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ElfMutator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <utility>
#include <vector>

using namespace heddle::fuzz;

namespace {

template <typename T> T load(const std::string &file, size_t at) {
  T value{};
  if (at <= file.size() && sizeof(T) <= file.size() - at)
    std::memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

/// A table: where it starts, its bytes, and the bytes of an entry.
struct Table {
  size_t begin, size, entry;
};

std::vector<Table> tablesOf(const std::string &file) {
  const auto header = load<Elf64_Ehdr>(file, 0);
  std::vector<Table> tables = {{0, sizeof(header), sizeof(header)}};
  auto add = [&](size_t begin, size_t size, size_t entry) {
    if (entry && size >= entry && begin <= file.size() &&
        size <= file.size() - begin)
      tables.push_back({begin, size, entry});
  };
  add(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
  add(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
  for (size_t i = 0; i < std::min<size_t>(header.e_phnum, 64); ++i) {
    const auto segment =
        load<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type == PT_DYNAMIC)
      add(segment.p_offset, segment.p_filesz, sizeof(Elf64_Dyn));
  }
  for (size_t i = 0; i < std::min<size_t>(header.e_shnum, 64); ++i) {
    const auto section =
        load<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type == SHT_RELA || section.sh_type == SHT_DYNSYM)
      add(section.sh_offset, section.sh_size, section.sh_entsize);
  }
  return tables;
}

} // namespace

std::string heddle::fuzz::mutatedElf(const std::string &file, Random &random) {
  std::string changed = file;
  std::vector<Table> tables = tablesOf(file);
  const Table &table = tables[below(random, tables.size())];
  const size_t entries = table.size / table.entry;
  if (file.size() < sizeof(Elf64_Ehdr) || below(random, 20) == 0)
    return changeBytes(file);
  const size_t entry = table.begin + below(random, entries) * table.entry;
  if (entries > 1 && below(random, 6) == 0) {
    // One entry in place of another.
    const size_t from = table.begin + below(random, entries) * table.entry;
    std::memmove(changed.data() + entry, file.data() + from, table.entry);
    return changed;
  }
  // A field: 2, 4 or 8 bytes at their alignment.
  const size_t width = size_t(2) << below(random, 3);
  if (table.entry < width)
    return changeBytes(file);
  const size_t at = entry + below(random, table.entry / width) * width;
  uint64_t value = 0;
  std::memcpy(&value, changed.data() + at, width);
  static constexpr uint64_t special[] = {
      0,          1,         2,         3,      4,      5,          6,
      7,          8,         10,        12,     13,     17,         20,
      23,         25,        26,        27,     28,     32,         33,
      36,         37,        64,        0x1000, 0xFFFF, UINT32_MAX, 0x6ffffef5,
      0x6ffffffb, INT64_MAX, UINT64_MAX};
  switch (below(random, 4)) {
  case 0:
    value = special[below(random, std::size(special))];
    break;
  case 1:
    value += 1 + below(random, 64);
    break;
  case 2:
    value -= 1 + below(random, 64);
    break;
  default:
    value ^= uint64_t(1) << below(random, 8 * width);
  }
  std::memcpy(changed.data() + at, &value, width);
  return changed;
}
