//===- NativeCode.cpp - What host code may do when it is loaded -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dynamic loader reads an object by addresses, not by offsets in the file,
// and so does this check: every table is looked up through the segments that
// the loader maps. Names follow <elf.h>, rules glibc's loader (2.36).
//
//===----------------------------------------------------------------------===//

#include "bundle/format/NativeCode.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <elf.h>

using namespace heddle;

namespace {

constexpr uint64_t pageSize = 4096;
/// Linkers write four or five. Bounds the time of a look-up.
constexpr size_t mostLoaded = 16;

/// Bytes [start, end) of the object in memory, at load address 0.
struct Range {
  uint64_t start = 0, end = 0;

  bool holds(const Range &other) const {
    return start <= other.start && other.end <= end;
  }
  bool meets(const Range &other) const {
    return start < other.end && other.start < end;
  }
};

/// No range where the sum overflows.
std::optional<Range> rangeOf(uint64_t start, uint64_t size) {
  if (size > UINT64_MAX - start)
    return std::nullopt;
  return Range{start, start + size};
}

/// The relocations that write an address, by machine.
bool writesAnAddress(uint16_t machine, uint64_t type) {
  switch (machine) {
  case EM_X86_64:
    return type == R_X86_64_64 || type == R_X86_64_GLOB_DAT ||
           type == R_X86_64_JUMP_SLOT || type == R_X86_64_RELATIVE;
  case EM_AARCH64:
    return type == R_AARCH64_ABS64 || type == R_AARCH64_GLOB_DAT ||
           type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_RELATIVE;
  }
  return false;
}

/// Why an entry of the dynamic section is refused, for those that people know.
const char *dangerOf(int64_t tag) {
  switch (tag) {
  case DT_INIT:
  case DT_INIT_ARRAY:
  case DT_INIT_ARRAYSZ:
  case DT_PREINIT_ARRAY:
  case DT_PREINIT_ARRAYSZ:
    return "an initialiser, which would run when the code is loaded";
  case DT_FINI:
  case DT_FINI_ARRAY:
  case DT_FINI_ARRAYSZ:
    return "a finaliser, which would run when the code is unloaded";
  case DT_NEEDED:
  case DT_AUXILIARY:
  case DT_FILTER:
  case DT_AUDIT:
  case DT_DEPAUDIT:
    return "a library that it needs, which would be loaded with it";
  case DT_RPATH:
  case DT_RUNPATH:
    return "a folder in which libraries would be looked for";
  case DT_TEXTREL:
    return "relocations of code";
  }
  return nullptr;
}

/// The check of one object, step by step; each relies on those before it.
class Checker {
public:
  explicit Checker(std::string_view code) : code(code) {}

  Status check() {
    for (auto step : {&Checker::checkHeader, &Checker::checkSegments,
                      &Checker::checkDynamic, &Checker::checkSymbols,
                      &Checker::checkRelocations})
      if (Status status = (this->*step)(); !status)
        return status;
    return Status::success();
  }

private:
  struct Segment {
    Range file;   ///< addresses that hold bytes of the file
    Range memory; ///< those and the zeros behind them
    uint64_t offset = 0;
    bool writable = false;
  };

  Status checkHeader();
  Status checkSegments();
  Status addLoaded(const Elf64_Phdr &header, const std::string &what);
  Status checkOther(const Elf64_Phdr &header, const std::string &what);
  Status checkDynamic();
  Status checkFlags();
  Status checkSymbols();
  Status checkSymbol(uint64_t index);
  Status checkRelocations();
  Status checkRelocation(const Elf64_Rela &relocation);

  /// The file's bytes at these addresses, none when no single segment holds
  /// them all.
  const char *bytesAt(const std::optional<Range> &range) const {
    for (const Segment &segment : loaded)
      if (range && segment.file.holds(*range))
        return code.data() + segment.offset +
               (range->start - segment.file.start);
    return nullptr;
  }

  template <typename T> std::optional<T> readAt(uint64_t address) const {
    const char *from = bytesAt(rangeOf(address, sizeof(T)));
    if (!from)
      return std::nullopt;
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }

  /// A table that the loader reads, which no relocation may write to.
  Status addTable(uint64_t address, uint64_t size, const char *name) {
    std::optional<Range> range = rangeOf(address, size);
    if (!bytesAt(range))
      return Error(std::string("the shared object's ") + name +
                   " lies outside of it");
    tables.push_back(*range);
    return Status::success();
  }

  std::optional<uint64_t> entry(int64_t tag) const {
    for (size_t i = 0; i < known.size(); ++i)
      if (known[i] == tag)
        return values[i];
    return std::nullopt;
  }

  /// All that lld, and GNU ld in its place, write for objects like heddlec's.
  static constexpr std::array<int64_t, 16> known = {
      DT_PLTRELSZ, DT_PLTGOT,  DT_STRTAB,   DT_SYMTAB,   DT_RELA,   DT_RELASZ,
      DT_RELAENT,  DT_STRSZ,   DT_SYMENT,   DT_PLTREL,   DT_JMPREL, DT_BIND_NOW,
      DT_FLAGS,    DT_FLAGS_1, DT_GNU_HASH, DT_RELACOUNT};

  std::string_view code;
  Elf64_Ehdr header;
  std::vector<Segment> loaded;
  std::optional<Range> dynamic;
  std::array<std::optional<uint64_t>, known.size()> values;
  std::vector<Range> tables;
};

Status Checker::checkHeader() {
  if (code.size() < sizeof(header))
    return Error("the section has " + std::to_string(code.size()) +
                 " bytes, too few for a shared object");
  std::memcpy(&header, code.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN)
    return Error("the section is not a 64-bit little-endian ELF shared object");
  if (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64)
    return Error("the shared object is for ELF machine " +
                 std::to_string(header.e_machine) + ", expected " +
                 std::to_string(EM_X86_64) + " (x86-64) or " +
                 std::to_string(EM_AARCH64) + " (AArch64)");
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phoff > code.size() ||
      header.e_phnum > (code.size() - header.e_phoff) / sizeof(Elf64_Phdr))
    return Error("the shared object's program headers lie outside of it");
  return Status::success();
}

Status Checker::checkSegments() {
  for (bool loads : {true, false})
    for (uint16_t i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment;
      std::memcpy(&segment, code.data() + header.e_phoff + i * sizeof(segment),
                  sizeof(segment));
      if ((segment.p_type == PT_LOAD) != loads)
        continue;
      std::string what =
          "segment " + std::to_string(i) + " of the shared object";
      // Mapping beyond the end of the file succeeds; touching that is SIGBUS.
      if (segment.p_offset > code.size() ||
          segment.p_filesz > code.size() - segment.p_offset)
        return Error(what + " lies outside of it");
      Status status =
          loads ? addLoaded(segment, what) : checkOther(segment, what);
      if (!status)
        return status;
    }
  return Status::success();
}

/// Whole pages are mapped, one segment after the other: were two of them to
/// share a page, the later one would hide what was read of the earlier.
Status Checker::addLoaded(const Elf64_Phdr &header, const std::string &what) {
  std::optional<Range> memory = rangeOf(header.p_vaddr, header.p_memsz);
  if (!memory || memory->end > UINT64_MAX - pageSize ||
      header.p_filesz > header.p_memsz ||
      header.p_vaddr % pageSize != header.p_offset % pageSize)
    return Error(what + " has sizes that do not fit together");
  if (loaded.size() == mostLoaded)
    return Error("the shared object has more than " +
                 std::to_string(mostLoaded) + " segments to load");
  if (!loaded.empty()) {
    uint64_t taken = (loaded.back().memory.end + pageSize - 1) / pageSize;
    if (header.p_vaddr / pageSize < taken)
      return Error(what + " overlaps with the one before it");
  }
  loaded.push_back({{header.p_vaddr, header.p_vaddr + header.p_filesz},
                    *memory,
                    header.p_offset,
                    (header.p_flags & PF_W) != 0});
  return Status::success();
}

/// Segments that lie in loaded ones, or are none.
Status Checker::checkOther(const Elf64_Phdr &header, const std::string &what) {
  std::optional<Range> range = rangeOf(header.p_vaddr, header.p_memsz);
  switch (header.p_type) {
  case PT_NULL:
  case PT_NOTE:
  case PT_GNU_PROPERTY:
  case PT_GNU_EH_FRAME:
    return Status::success();
  case PT_PHDR:
    if (bytesAt(
            rangeOf(header.p_vaddr, this->header.e_phnum * sizeof(header))) ==
        code.data() + this->header.e_phoff)
      return Status::success();
    return Error(what + " names other program headers than its own");
  case PT_GNU_STACK:
    if (!(header.p_flags & PF_X))
      return Status::success();
    return Error(what + " asks for an executable stack");
  case PT_GNU_RELRO:
    for (const Segment &segment : loaded)
      if (range && segment.memory.holds(*range))
        return Status::success();
    return Error(what + " protects memory outside of it");
  case PT_DYNAMIC:
    if (dynamic)
      return Error(what + " is its second dynamic section");
    dynamic = range;
    return range ? Status::success() : Error(what + " lies outside of it");
  }
  return Error(what + " has type " + std::to_string(header.p_type) +
               ", which heddlec does not write");
}

Status Checker::checkDynamic() {
  if (!dynamic)
    return Error("the shared object has no dynamic section");
  if (Status status = addTable(dynamic->start, dynamic->end - dynamic->start,
                               "dynamic section");
      !status)
    return status;
  for (uint64_t at = dynamic->start;; at += sizeof(Elf64_Dyn)) {
    std::optional<Elf64_Dyn> found;
    if (dynamic->end - at >= sizeof(Elf64_Dyn))
      found = readAt<Elf64_Dyn>(at);
    if (!found)
      return Error("the shared object's dynamic section has no end");
    if (found->d_tag == DT_NULL)
      break;
    if (const char *danger = dangerOf(found->d_tag))
      return Error(std::string("the shared object has ") + danger +
                   "; heddlec writes none: do not use this bundle");
    auto place = std::find(known.begin(), known.end(), found->d_tag);
    if (place == known.end())
      return Error("the shared object's dynamic section has the entry " +
                   std::to_string(found->d_tag) +
                   ", which heddlec does not write");
    std::optional<uint64_t> &value =
        values[static_cast<size_t>(place - known.begin())];
    if (value)
      return Error("the shared object's dynamic section has the entry " +
                   std::to_string(found->d_tag) + " twice");
    value = found->d_un.d_val;
  }
  return checkFlags();
}

Status Checker::checkFlags() {
  if (entry(DT_FLAGS).value_or(0) & ~uint64_t(DF_BIND_NOW | DF_SYMBOLIC))
    return Error("the shared object has flags that heddlec does not set");
  if (entry(DT_FLAGS_1).value_or(0) & ~uint64_t(DF_1_NOW))
    return Error("the shared object has flags that heddlec does not set");
  for (int64_t tag : {DT_STRTAB, DT_STRSZ, DT_SYMTAB, DT_SYMENT, DT_GNU_HASH})
    if (!entry(tag))
      return Error("the shared object's dynamic section lacks the entry " +
                   std::to_string(tag));
  if (*entry(DT_SYMENT) != sizeof(Elf64_Sym) ||
      entry(DT_RELAENT).value_or(sizeof(Elf64_Rela)) != sizeof(Elf64_Rela) ||
      entry(DT_PLTREL).value_or(DT_RELA) != DT_RELA)
    return Error("the shared object's tables have entries of another size");
  uint64_t names = *entry(DT_STRTAB), size = *entry(DT_STRSZ);
  if (Status status = addTable(names, size, "string table"); !status)
    return status;
  if (size == 0 || readAt<char>(names + size - 1) != '\0')
    return Error("the shared object's string table has no end");
  return Status::success();
}

/// All symbols that a look-up can find: the chains of the GNU hash table.
/// Header: buckets, first symbol, words of the Bloom filter (8 bytes each),
/// shift; then filter, buckets, chains. A chain ends at an odd hash.
Status Checker::checkSymbols() {
  uint64_t table = *entry(DT_GNU_HASH);
  const Error outside("the shared object's hash table lies outside of it");
  auto head = readAt<std::array<uint32_t, 4>>(table);
  if (!head)
    return outside;
  auto [buckets, first, words, shift] = *head;
  // The loader's mask of words is right for powers of two alone.
  if (buckets == 0 || words == 0 || (words & (words - 1)) != 0 || shift > 31)
    return Error("the shared object's hash table is malformed");
  uint64_t firstBucket = table + 16 + uint64_t{8} * words;
  uint64_t chains = firstBucket + uint64_t{4} * buckets;
  if (Status status = addTable(table, chains - table, "hash table"); !status)
    return status;
  uint64_t end = first;
  for (uint64_t i = 0; i < buckets; ++i) {
    std::optional<uint32_t> start = readAt<uint32_t>(firstBucket + 4 * i);
    if (!start)
      return outside;
    if (*start == 0)
      continue;
    if (*start < first)
      return Error("the shared object's hash table is malformed");
    // What an earlier chain went through has its end.
    uint64_t symbol = std::max<uint64_t>(*start, end);
    if (*start < end)
      continue;
    for (;; ++symbol) {
      std::optional<uint32_t> hash =
          readAt<uint32_t>(chains + 4 * (symbol - first));
      if (!hash)
        return outside;
      if (*hash & 1)
        break;
    }
    end = symbol + 1;
  }
  if (Status status = addTable(chains, 4 * (end - first), "hash table");
      !status)
    return status;
  for (uint64_t i = 0; i < end; ++i)
    if (Status status = checkSymbol(i); !status)
      return status;
  return addTable(*entry(DT_SYMTAB), sizeof(Elf64_Sym) * end, "symbol table");
}

Status Checker::checkSymbol(uint64_t index) {
  std::optional<Elf64_Sym> symbol =
      readAt<Elf64_Sym>(*entry(DT_SYMTAB) + sizeof(Elf64_Sym) * index);
  if (!symbol || symbol->st_name >= *entry(DT_STRSZ))
    return Error("symbol " + std::to_string(index) +
                 " of the shared object lies outside of it");
  int type = ELF64_ST_TYPE(symbol->st_info);
  if (type == STT_GNU_IFUNC)
    return Error("the shared object has a function that chooses itself when "
                 "it is loaded (IFUNC); heddlec writes none: do not use this "
                 "bundle");
  if (type == STT_TLS)
    return Error("the shared object has thread-local data, which heddlec does "
                 "not write");
  return Status::success();
}

Status Checker::checkRelocations() {
  struct Table {
    std::optional<uint64_t> start;
    uint64_t size;
  };
  const Table both[] = {
      {entry(DT_RELA), entry(DT_RELASZ).value_or(0)},
      {entry(DT_JMPREL), entry(DT_PLTRELSZ).value_or(0)},
  };
  if (entry(DT_RELACOUNT).value_or(0) > both[0].size / sizeof(Elf64_Rela))
    return Error("the shared object counts more relocations than it has");
  for (const auto &[start, size] : both) {
    if (size == 0)
      continue;
    if (!start || size % sizeof(Elf64_Rela) != 0)
      return Error("the shared object's relocations have a wrong size");
    if (Status status = addTable(*start, size, "relocation table"); !status)
      return status;
  }
  for (const auto &[start, size] : both)
    for (uint64_t offset = 0; offset < size; offset += sizeof(Elf64_Rela))
      if (Status status = checkRelocation(*readAt<Elf64_Rela>(*start + offset));
          !status)
        return status;
  return Status::success();
}

Status Checker::checkRelocation(const Elf64_Rela &relocation) {
  if (!writesAnAddress(header.e_machine, ELF64_R_TYPE(relocation.r_info)))
    return Error("the shared object has a relocation of type " +
                 std::to_string(ELF64_R_TYPE(relocation.r_info)) +
                 ", which heddlec does not write");
  std::optional<Range> target = rangeOf(relocation.r_offset, 8);
  bool good = false;
  for (const Segment &segment : loaded)
    good |= target && segment.writable && segment.memory.holds(*target);
  for (const Range &table : tables)
    good &= !target || !table.meets(*target);
  if (!good)
    return Error("the shared object has a relocation that writes where none "
                 "may");
  return checkSymbol(ELF64_R_SYM(relocation.r_info));
}

} // namespace

Status heddle::bundle::checkNativeCode(std::string_view code) {
  return Checker(code).check();
}
