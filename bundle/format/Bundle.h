//===- Bundle.h - One file that holds a compiled schedule -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Goals: one file; nothing in it is used before all of it is verified; a
// reader can always say which version wrote a file; sections can be added
// without a new version. Non-goals: streaming, editing in place, compression.
//
// Layout (little-endian, sections 64-byte aligned, in table order):
//   0   char[8]  magic "HEDDLE\r\n" (a text-mode copy breaks it visibly)
//   8   u32      format version      } these 16 bytes never change meaning
//   12  u32      number of sections  }
//   16  u64      size of the whole file in bytes
//   24  u64      XXH3-64 of bytes [0, 24) and the section table
//   32  section table: { char[24] name (zero-padded), u64 offset, u64 size,
//                        u64 XXH3-64 of the section }
//   ... sections
// Bytes between sections are zero and are checked too.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_BUNDLE_H
#define HEDDLE_BUNDLE_FORMAT_BUNDLE_H

#include "bundle/Result.h"
#include "bundle/format/ManifestJson.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::bundle {

inline constexpr uint32_t formatVersion = 3;

/// Section names. Unknown names are kept and ignored.
inline constexpr std::string_view manifestSection = "manifest"; ///< JSON
inline constexpr std::string_view scheduleSection =
    "schedule"; ///< the source text as the user wrote it
inline constexpr std::string_view planSection = "plan"; ///< IR after planning
inline constexpr std::string_view tuningSection =
    "tuning"; ///< the table of tilings that the user gave (heddlec --tuning)
/// The table of crossovers that attention fell back by, heddlec's own or that
/// of --crossovers.
inline constexpr std::string_view crossoversSection = "crossovers";

/// What a target's code is.
enum class CodeForm {
  Native, ///< Host: an ELF shared object
  Ptx,    ///< Cuda: PTX text, which the driver can compile for later GPUs too
  Cubin,  ///< Cuda: assembled for exactly this GPU; not in every bundle
};

/// The section of a target's code: "code.host", "code.sm_90a.ptx",
/// "code.sm_90a.cubin". Host targets have only Native, Cuda targets the others.
std::string codeSection(const Target &target, CodeForm form);

/// A verified bundle, read into memory.
class Bundle {
public:
  /// Reads and verifies the whole file: magic, version, sizes, alignment,
  /// order and overlap of sections, every checksum, the manifest.
  static Result<Bundle> read(const std::string &path);

  /// As read(), but without the manifest, which is empty: another ABI version
  /// has another one, and its schedule is one all the same.
  static Result<Bundle> readSections(const std::string &path);

  /// The bytes of a file that starts like a bundle; nothing else is verified.
  static Result<std::string> readBytes(const std::string &path);

  /// As read(), on bytes; `name` is used in error messages.
  static Result<Bundle> parse(std::string bytes, const std::string &name);

  /// The bytes of a bundle with these sections after the manifest. Refuses
  /// whatever parse would refuse.
  static Result<std::string>
  serialize(const Manifest &manifest,
            const std::vector<std::pair<std::string, std::string>> &sections);

  /// Writes atomically (a temporary file in the same folder, then rename), so
  /// that an interrupted compilation leaves no half bundle.
  static Status
  write(const std::string &path, const Manifest &manifest,
        const std::vector<std::pair<std::string, std::string>> &sections);

  const Manifest &manifest() const { return info; }

  /// The bytes of a section; empty when there is none of that name.
  std::string_view section(std::string_view name) const;

  struct SectionInfo {
    std::string name;
    uint64_t offset;
    uint64_t size;
    uint64_t checksum;
  };
  const std::vector<SectionInfo> &sections() const { return table; }
  /// Null when there is none of that name.
  const SectionInfo *find(std::string_view name) const;

private:
  static Result<Bundle> parseSections(std::string bytes,
                                      const std::string &name);

  std::string bytes;
  std::vector<SectionInfo> table;
  Manifest info;
};

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_BUNDLE_H
