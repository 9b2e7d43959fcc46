//===- CacheKey.cpp - What compiled code depends on -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Support/CodeCache.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

#include <link.h>
#include <sys/stat.h>

using namespace llvm;

/// Adds `part` so that no two lists of parts give the same bytes.
static void add(BLAKE3 &hash, StringRef part) {
  uint8_t size[8];
  support::endian::write64le(size, part.size());
  hash.update(size);
  hash.update(part);
}

std::string heddle::programIdentity(StringRef path) {
  SmallString<256> real;
  struct stat info;
  if (sys::fs::real_path(path, real) || ::stat(real.c_str(), &info) != 0)
    return "";
  return formatv("{0} device {1} inode {2} size {3} changed {4}.{5}", real,
                 info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                 info.st_mtim.tv_nsec)
      .str();
}

/// The build id of a loaded object, from its GNU note, or "".
static StringRef buildId(const dl_phdr_info &object) {
  for (const ElfW(Phdr) &header :
       ArrayRef(object.dlpi_phdr, object.dlpi_phnum)) {
    if (header.p_type != PT_NOTE)
      continue;
    StringRef notes(
        reinterpret_cast<const char *>(object.dlpi_addr + header.p_vaddr),
        header.p_memsz);
    uint64_t align = header.p_align == 8 ? 8 : 4;
    while (notes.size() >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, notes.data(), sizeof(note));
      uint64_t start = alignTo(sizeof(note) + note.n_namesz, align);
      if (note.n_type == NT_GNU_BUILD_ID &&
          notes.substr(sizeof(note), note.n_namesz) == StringRef("GNU\0", 4))
        return notes.substr(start, note.n_descsz);
      notes = notes.substr(alignTo(start + note.n_descsz, align));
    }
  }
  return "";
}

/// This program and the libraries that it has loaded, each by its build id or,
/// where it has none, by its file.
static std::string identityOfThisProgram() {
  BLAKE3 hash;
  auto visit = [](dl_phdr_info *object, size_t, void *data) {
    StringRef name = object->dlpi_name;
    if (name.starts_with("linux-vdso")) // the kernel's
      return 0;
    StringRef id = buildId(*object);
    StringRef file = name.empty() ? "/proc/self/exe" : name;
    add(*static_cast<BLAKE3 *>(data),
        id.empty() ? heddle::programIdentity(file) : id.str());
    return 0;
  };
  dl_iterate_phdr(visit, &hash);
  return toStringRef(hash.final()).str();
}

std::string heddle::cacheKey(ArrayRef<StringRef> parts) {
  static const std::string program = identityOfThisProgram();
  BLAKE3 hash;
  add(hash, "heddle code cache, form 1");
  add(hash, program);
  for (StringRef part : parts)
    add(hash, part);
  return toHex(hash.final(), /*LowerCase=*/true);
}
