//===- BundleFuzzer.cpp - A bundle behind its checksums -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs are whole files. After most changes the table and the checksums are
// made right again, so that what they protect is reached.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ElfMutator.h"
#include "test/fuzz/ManifestUse.h"
#include "test/fuzz/Mutators.h"

#include "bundle/format/Bundle.h"
#include "bundle/format/NativeCode.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace heddle;

namespace {

constexpr size_t headerSize = 32, nameSize = 24, entrySize = 48;

struct Section {
  std::string name, contents;
};

uint64_t wordAt(const std::string &bytes, size_t at) {
  uint64_t word = 0;
  if (at + sizeof(word) <= bytes.size())
    std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

void append(std::string &bytes, uint64_t word) {
  bytes.append(reinterpret_cast<const char *>(&word), sizeof(word));
}

/// As far as the table can be followed.
std::vector<Section> sectionsOf(const std::string &bytes) {
  std::vector<Section> sections;
  const uint64_t count = std::min<uint64_t>(wordAt(bytes, 8) >> 32, 64);
  for (uint64_t i = 0; i < count; ++i) {
    const size_t entry = headerSize + i * entrySize;
    if (entry + entrySize > bytes.size())
      break;
    const uint64_t offset = wordAt(bytes, entry + nameSize);
    const uint64_t size = wordAt(bytes, entry + nameSize + 8);
    if (offset <= bytes.size() && size <= bytes.size() - offset)
      sections.push_back(
          {bytes.substr(entry, nameSize), bytes.substr(offset, size)});
  }
  return sections;
}

/// `twist` changes one word of the header or the table before it is summed.
std::string bytesOf(const std::vector<Section> &sections, fuzz::Random *twist) {
  std::string table, contents;
  const uint64_t tableEnd = headerSize + sections.size() * entrySize;
  for (const Section &section : sections) {
    contents.resize((tableEnd + contents.size() + 63) / 64 * 64 - tableEnd);
    std::string name = section.name;
    name.resize(nameSize);
    table += name;
    append(table, tableEnd + contents.size());
    append(table, section.contents.size());
    append(table,
           XXH3_64bits(section.contents.data(), section.contents.size()));
    contents += section.contents;
  }
  std::string bytes = "HEDDLE\r\n";
  append(bytes, bundle::formatVersion | uint64_t(sections.size()) << 32);
  append(bytes, tableEnd + contents.size());
  if (twist) {
    std::string &where = fuzz::below(*twist, 4) ? table : bytes;
    where = fuzz::changeBytes(where);
    bytes.resize(24);
  }
  const std::string summed = bytes + table;
  append(bytes, XXH3_64bits(summed.data(), summed.size()));
  return bytes + table + contents;
}

} // namespace

void fuzz::runInput(const std::string &input) {
  Result<bundle::Bundle> read = bundle::Bundle::parse(input, "input");
  if (!read)
    return;
  useManifest(read->manifest());
  for (const bundle::Bundle::SectionInfo &section : read->sections()) {
    require(section.offset <= input.size() &&
                section.size <= input.size() - section.offset,
            "sections are in the file");
    if (section.name.starts_with("code.")) {
      Status status = bundle::checkNativeCode(read->section(section.name));
      use(&status);
    }
  }
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  std::vector<Section> sections = sectionsOf(input);
  if (sections.empty() || below(random, 20) == 0)
    return changeBytes(input);
  Section &section = sections[below(random, sections.size())];
  const size_t choice = below(random, 10);
  if (choice == 0)
    return bytesOf(sections, &random);
  if (choice == 1)
    std::swap(section.contents, sections.front().contents);
  else if (choice == 2)
    section.name = changeBytes(section.name);
  else if (section.name.starts_with("manifest"))
    section.contents = mutatedJson(section.contents, random);
  else if (section.contents.starts_with("\177ELF"))
    section.contents = mutatedElf(section.contents, random);
  else
    section.contents = changeBytes(section.contents);
  return bytesOf(sections, nullptr);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  std::vector<Section> sections = sectionsOf(input), from = sectionsOf(other);
  if (sections.empty() || from.empty())
    return input;
  Section &to = sections[below(random, sections.size())];
  const Section &section = from[below(random, from.size())];
  if (to.name == section.name && section.name.starts_with("manifest"))
    to.contents = crossedJson(to.contents, section.contents, random);
  else if (to.name == section.name)
    to.contents = section.contents;
  else
    sections.push_back(section);
  return bytesOf(sections, nullptr);
}
