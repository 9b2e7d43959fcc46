//===- NativeCodeTest.cpp - Code that would run before it is called -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/NativeCode.h"

#include "runtime/module/HostModule.h"
#include "runtime/test/schedule/HandBundle.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>

#include <elf.h>
#include <gtest/gtest.h>

using namespace heddle;

namespace {

std::string fileBytes(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string refusal(const std::string &code) {
  Status status = bundle::checkNativeCode(code);
  return status ? "" : status.error().text();
}

#define EXPECT_REFUSED(code, part)                                             \
  do {                                                                         \
    std::string text = refusal(code);                                          \
    EXPECT_NE(text.find(part), std::string::npos) << "found: " << text;        \
  } while (false)

/// The hand-written kernels, whose headers and tables tests change. The file
/// offsets of what is read-only are its addresses, so are those of the first
/// segment; the dynamic section is found by its program header.
struct Object {
  std::string code = test::handCode();

  template <typename T> T *at(uint64_t offset) {
    return reinterpret_cast<T *>(code.data() + offset);
  }
  Elf64_Ehdr *header() { return at<Elf64_Ehdr>(0); }
  Elf64_Phdr *segment(uint32_t type) {
    auto *segments = at<Elf64_Phdr>(header()->e_phoff);
    for (int i = 0; i < header()->e_phnum; ++i)
      if (segments[i].p_type == type)
        return &segments[i];
    ADD_FAILURE() << "no segment of type " << type;
    return segments;
  }
  Elf64_Dyn *entry(int64_t tag) {
    auto *entries = at<Elf64_Dyn>(segment(PT_DYNAMIC)->p_offset);
    while (entries->d_tag != tag && entries->d_tag != DT_NULL)
      ++entries;
    EXPECT_EQ(entries->d_tag, tag);
    return entries;
  }
  Elf64_Rela *jump() { return at<Elf64_Rela>(entry(DT_JMPREL)->d_un.d_ptr); }
  Elf64_Sym *symbol(uint64_t index) {
    return at<Elf64_Sym>(entry(DT_SYMTAB)->d_un.d_ptr) + index;
  }
  /// The section headers say it; the dynamic section does not.
  uint64_t symbolCount() {
    auto *sections = at<Elf64_Shdr>(header()->e_shoff);
    for (int i = 0; i < header()->e_shnum; ++i)
      if (sections[i].sh_type == SHT_DYNSYM)
        return sections[i].sh_size / sizeof(Elf64_Sym);
    ADD_FAILURE() << "no table of dynamic symbols";
    return 1;
  }
};

TEST(NativeCode, TakesWhatHasNothingToRun) {
  EXPECT_EQ(refusal(test::handCode()), "");
}

/// What a compiler makes of a constructor and the like, whole.
TEST(NativeCode, RefusesCodeThatRunsWhenItIsLoaded) {
  const std::pair<const char *, const char *> objects[] = {
      {HEDDLE_TEST_INITIALISER, "an initialiser"},
      {HEDDLE_TEST_FINALISER, "a finaliser"},
      {HEDDLE_TEST_IFUNC, "chooses itself"},
      {HEDDLE_TEST_LIBRARY, "a library that it needs"},
  };
  for (const auto &[path, what] : objects) {
    std::string code = fileBytes(path);
    ASSERT_FALSE(code.empty()) << path;
    EXPECT_REFUSED(code, what);
    Result<bundle::Bundle> made = test::makeBundle(test::handManifest(), code);
    ASSERT_TRUE(made) << made.error().text();
    auto module = rt::HostModule::load(*made);
    ASSERT_FALSE(module);
    EXPECT_NE(module.error().text().find(what), std::string::npos)
        << module.error().text();
  }
  EXPECT_EQ(std::getenv("HEDDLE_TEST_CODE_RAN"), nullptr);
}

TEST(NativeCode, RefusesEntriesOfTheDynamicSection) {
  for (int64_t tag :
       {DT_INIT, DT_INIT_ARRAY, DT_PREINIT_ARRAY, DT_FINI, DT_FINI_ARRAY,
        DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_AUDIT, DT_FILTER, DT_TEXTREL,
        DT_SONAME, DT_REL, int(DT_VERSYM), 0x23 /* DT_RELRSZ */}) {
    Object object;
    object.entry(DT_PLTGOT)->d_tag = tag;
    EXPECT_REFUSED(object.code, "the shared object");
  }
  Object twice;
  twice.entry(DT_PLTGOT)->d_tag = DT_STRTAB;
  EXPECT_REFUSED(twice.code, "twice");
  Object endless;
  endless.segment(PT_DYNAMIC)->p_memsz = 32;
  EXPECT_REFUSED(endless.code, "has no end");
  Object flags;
  flags.entry(DT_PLTGOT)->d_un.d_val = DF_1_INITFIRST;
  flags.entry(DT_PLTGOT)->d_tag = DT_FLAGS_1;
  EXPECT_REFUSED(flags.code, "flags");
}

TEST(NativeCode, RefusesSymbolsThatChooseThemselves) {
  Object object;
  uint64_t index = ELF64_R_SYM(object.jump()->r_info);
  object.symbol(index)->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
  EXPECT_REFUSED(object.code, "IFUNC");
  // One that no relocation names, but a look-up finds.
  Object last;
  last.symbol(last.symbolCount() - 1)->st_info =
      ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
  EXPECT_REFUSED(last.code, "IFUNC");
}

TEST(NativeCode, RefusesRelocationsThatWriteElsewhere) {
  Object type;
  type.jump()->r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE);
  EXPECT_REFUSED(type.code, "a relocation of type 37");
  for (uint64_t target : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX - 3}) {
    Object object;
    object.jump()->r_offset = target;
    EXPECT_REFUSED(object.code, "writes where none may");
  }
  Object tables; // an initialiser would come with the relocation
  tables.jump()->r_offset = tables.segment(PT_DYNAMIC)->p_vaddr + 8;
  EXPECT_REFUSED(tables.code, "writes where none may");
  Object count;
  count.entry(DT_PLTGOT)->d_un.d_val = 1 << 20;
  count.entry(DT_PLTGOT)->d_tag = DT_RELACOUNT;
  EXPECT_REFUSED(count.code, "counts more relocations");
}

TEST(NativeCode, RefusesSegmentsThatMislead) {
  Object stack;
  stack.segment(PT_GNU_STACK)->p_flags |= PF_X;
  EXPECT_REFUSED(stack.code, "executable stack");
  Object interpreter;
  interpreter.segment(PT_NOTE)->p_type = PT_INTERP;
  EXPECT_REFUSED(interpreter.code, "type 3");
  Object overlap;
  overlap.segment(PT_NOTE)->p_type = PT_LOAD;
  EXPECT_REFUSED(overlap.code, "overlaps");
  Object relro;
  relro.segment(PT_GNU_RELRO)->p_vaddr += 1 << 20;
  EXPECT_REFUSED(relro.code, "protects memory");
  Object headers;
  headers.segment(PT_NOTE)->p_type = PT_PHDR;
  EXPECT_REFUSED(headers.code, "other program headers");
  Object two;
  two.segment(PT_NOTE)->p_type = PT_DYNAMIC;
  EXPECT_REFUSED(two.code, "second dynamic section");
  Object none;
  none.segment(PT_DYNAMIC)->p_type = PT_NULL;
  EXPECT_REFUSED(none.code, "no dynamic section");
}

/// Damaged tables are refused or hold; a sanitizer sees reads outside.
TEST(NativeCode, ReadsNothingOutside) {
  const std::string good = test::handCode();
  Object object;
  std::mt19937 random(7);
  auto below = [&](uint64_t limit) { return random() % limit; };
  const uint64_t dynamic = object.segment(PT_DYNAMIC)->p_offset;
  const uint64_t dynamicSize = object.segment(PT_DYNAMIC)->p_filesz;
  const uint64_t heads = object.entry(DT_JMPREL)->d_un.d_ptr +
                         object.entry(DT_PLTRELSZ)->d_un.d_val;
  const uint8_t values[] = {0, 1, 7, 8, 0x7F, 0x80, 0xFE, 0xFF};
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string code = good;
    for (uint64_t changes = 1 + below(4); changes > 0; --changes) {
      uint64_t place = below(2) ? below(heads) : dynamic + below(dynamicSize);
      code[place] = static_cast<char>(below(2) ? values[below(8)] : random());
    }
    if (below(16) == 0)
      code.resize(below(code.size() + 1));
    code.shrink_to_fit();
    refused += !refusal(code).empty();
  }
  EXPECT_GT(refused, 10000);
  EXPECT_LT(refused, 20000);
}

} // namespace
