//===- Bundle.cpp - Layout and verification of the bundle file ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Bundle.h"
#include "bundle/format/File.h"
#include "bundle/program/Printable.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

using namespace heddle;
using namespace heddle::bundle;

static_assert(std::endian::native == std::endian::little,
              "integers are copied as they lie in the file");

namespace {

constexpr std::string_view magic("HEDDLE\r\n", 8);
constexpr uint64_t headerSize = 32;
constexpr uint64_t nameSize = 24;
constexpr uint64_t entrySize = nameSize + 3 * sizeof(uint64_t);
constexpr uint64_t sectionAlignment = 64;
/// Far above any schedule; keeps a damaged size from asking for all memory.
constexpr uint64_t maxFileSize = uint64_t{1} << 30;

/// The first `headerSize` bytes, which are judged before the rest is read.
struct Header {
  uint32_t version = 0;
  uint32_t sections = 0;
  uint64_t fileSize = 0;
  uint64_t checksum = 0;

  uint64_t tableEnd() const { return headerSize + sections * entrySize; }
};

template <typename T> T load(std::string_view bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T> void store(std::string &bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

uint64_t checksumOf(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// The checksum that stands at byte 24: over what is before it and the table.
uint64_t headerChecksum(std::string_view bytes, uint64_t tableEnd) {
  std::string covered(bytes.substr(0, 24));
  covered += bytes.substr(headerSize, tableEnd - headerSize);
  return checksumOf(covered);
}

uint64_t alignUp(uint64_t offset) {
  return (offset + sectionAlignment - 1) / sectionAlignment * sectionAlignment;
}

std::string number(uint64_t value) { return std::to_string(value); }

/// What a file is that begins so, as far as these bytes show, and what to do.
std::string notABundle(std::string_view start) {
  constexpr size_t sizeOfHeader = 8; // before safetensors' JSON
  if (start.size() > sizeOfHeader && start[sizeOfHeader] == '{' &&
      start.substr(0, sizeOfHeader).ends_with(std::string_view("\0\0", 2)))
    return "not a bundle: these are a model's weights (safetensors); expected "
           "the output of heddlec";
  if (start.starts_with("//") ||
      start.find("heddle.schedule") != std::string_view::npos)
    return "not a bundle: this is a schedule's text; compile it with heddlec "
           "FILE -o FILE.hdl";
  return "not a bundle: the file does not start with \"HEDDLE\\r\\n\"; "
         "expected the output of heddlec";
}

/// Judges the first bytes of a file of `fileSize` bytes, without trusting any.
Result<Header> readHeader(std::string_view start, uint64_t fileSize) {
  if (fileSize == 0)
    return Error("the file is empty, expected a bundle as heddlec writes it");
  std::string_view known =
      start.substr(0, std::min(start.size(), magic.size()));
  if (known != magic.substr(0, known.size())) {
    if (start.starts_with("HEDDLE"))
      return Error("the line ending in the bundle's first bytes was changed: "
                   "the file was copied as text; copy it as binary");
    return Error(notABundle(start));
  }
  auto truncated = [&](const std::string &what) {
    return Error("truncated: the file has " + number(fileSize) + " bytes, " +
                 what + "; copy or compile it again");
  };
  if (fileSize < 16 || start.size() < 16)
    return truncated("too few for a bundle's header");

  Header header;
  header.version = load<uint32_t>(start, 8);
  header.sections = load<uint32_t>(start, 12);
  if (header.version != formatVersion)
    return Error("this bundle has format version " + number(header.version) +
                 ", this build reads version " + number(formatVersion) +
                 ": recompile the schedule with this build's heddlec");
  if (fileSize < headerSize || start.size() < headerSize)
    return truncated("too few for a bundle's header");
  header.fileSize = load<uint64_t>(start, 16);
  header.checksum = load<uint64_t>(start, 24);
  if (fileSize < header.fileSize)
    return truncated("its header says " + number(header.fileSize));
  if (fileSize > header.fileSize)
    return Error("the file has " + number(fileSize) +
                 " bytes, its header says " + number(header.fileSize) +
                 ": something was appended; copy or compile it again");
  if (fileSize > maxFileSize)
    return Error("the file has " + number(fileSize) +
                 " bytes, more than any bundle may (" + number(maxFileSize) +
                 ")");
  if (header.tableEnd() > fileSize)
    return Error("damaged: a table of " + number(header.sections) +
                 " sections does not fit in " + number(fileSize) + " bytes");
  return header;
}

/// A section name as the table holds it, or empty if it breaks the rules:
/// printable, zero-padded, not empty.
std::string sectionName(std::string_view field) {
  std::string_view name = field.substr(0, field.find('\0'));
  const bool padded = field.find_last_not_of('\0') + 1 == name.size();
  const bool prints =
      std::ranges::all_of(name, [](char c) { return c > 0x20 && c < 0x7f; });
  return padded && prints ? std::string(name) : "";
}

Status checkZero(std::string_view bytes, uint64_t from, uint64_t to) {
  for (uint64_t i = from; i < to; ++i)
    if (bytes[i] != '\0')
      return Error("damaged: byte " + number(i) +
                   " lies between sections and is not zero");
  return Status::success();
}

/// Reads and checks the table against the bytes of the whole file.
Result<std::vector<Bundle::SectionInfo>> readTable(std::string_view bytes,
                                                   const Header &header) {
  if (headerChecksum(bytes, header.tableEnd()) != header.checksum)
    return Error("damaged: the checksum of the header and section table does "
                 "not match; copy or compile the bundle again");
  std::vector<Bundle::SectionInfo> table;
  uint64_t end = header.tableEnd();
  for (uint32_t i = 0; i < header.sections; ++i) {
    uint64_t entry = headerSize + i * entrySize;
    Bundle::SectionInfo info;
    info.name = sectionName(bytes.substr(entry, nameSize));
    info.offset = load<uint64_t>(bytes, entry + nameSize);
    info.size = load<uint64_t>(bytes, entry + nameSize + 8);
    info.checksum = load<uint64_t>(bytes, entry + nameSize + 16);
    if (info.name.empty())
      return Error("damaged: section " + number(i) +
                   " has no well-formed name (1 to 24 printable characters, "
                   "then zeros)");
    std::string what = "damaged: section \"" + info.name + "\" ";
    if (std::ranges::count(table, info.name, &Bundle::SectionInfo::name))
      return Error(what + "appears twice");
    if (info.offset % sectionAlignment != 0)
      return Error(what + "starts at byte " + number(info.offset) +
                   ", expected a multiple of " + number(sectionAlignment));
    if (info.offset > bytes.size() || info.size > bytes.size() - info.offset)
      return Error(what + "(offset " + number(info.offset) + ", size " +
                   number(info.size) +
                   ") reaches past the end of the file at " +
                   number(bytes.size()));
    if (info.offset < end)
      return Error(what + "starts at byte " + number(info.offset) +
                   ", inside what comes before it and ends at " + number(end));
    if (Status zero = checkZero(bytes, end, info.offset); !zero)
      return zero.takeError();
    if (checksumOf(bytes.substr(info.offset, info.size)) != info.checksum)
      return Error(what + "does not match its checksum; copy or compile the "
                          "bundle again");
    end = info.offset + info.size;
    table.push_back(std::move(info));
  }
  if (end != bytes.size())
    return Error("damaged: the last section ends at byte " + number(end) +
                 ", the file at " + number(bytes.size()));
  return table;
}

} // namespace

std::string heddle::bundle::codeSection(const Target &target, CodeForm form) {
  switch (form) {
  case CodeForm::Native:
    return "code.host";
  case CodeForm::Ptx:
    return "code." + target.cpu + ".ptx";
  case CodeForm::Cubin:
    return "code." + target.cpu + ".cubin";
  }
  return "";
}

Result<std::string> Bundle::readBytes(const std::string &path) {
  return readRegularFile(
      path, headerSize,
      [](std::string_view start, uint64_t fileSize) -> Status {
        Result<Header> header = readHeader(start, fileSize);
        return header ? Status::success() : Status(header.takeError());
      });
}

Result<Bundle> Bundle::read(const std::string &path) {
  Result<std::string> bytes = readBytes(path);
  if (!bytes)
    return bytes.takeError();
  return parse(std::move(*bytes), path);
}

Result<Bundle> Bundle::readSections(const std::string &path) {
  Result<std::string> bytes = readBytes(path);
  if (!bytes)
    return bytes.takeError();
  return parseSections(std::move(*bytes), path);
}

Result<Bundle> Bundle::parseSections(std::string bytes,
                                     const std::string &name) {
  const std::string place = printablePath(name);
  Result<Header> header =
      readHeader(std::string_view(bytes).substr(0, headerSize), bytes.size());
  if (!header)
    return header.takeError().withContext(place);
  Result<std::vector<SectionInfo>> table = readTable(bytes, *header);
  if (!table)
    return table.takeError().withContext(place);

  Bundle bundle;
  bundle.bytes = std::move(bytes);
  bundle.table = std::move(*table);
  return bundle;
}

Result<Bundle> Bundle::parse(std::string bytes, const std::string &name) {
  Result<Bundle> bundle = parseSections(std::move(bytes), name);
  if (!bundle)
    return bundle;
  const std::string place = printablePath(name);
  if (!bundle->find(manifestSection))
    return Error(place + ": the bundle has no \"manifest\" section");
  Result<Manifest> manifest =
      manifestFromJson(std::string(bundle->section(manifestSection)));
  if (!manifest)
    return manifest.takeError().withContext(place);
  bundle->info = std::move(*manifest);
  return bundle;
}

Result<std::string> Bundle::serialize(
    const Manifest &manifest,
    const std::vector<std::pair<std::string, std::string>> &sections) {
  std::vector<std::pair<std::string, std::string>> all;
  all.emplace_back(manifestSection, toJson(manifest));
  all.insert(all.end(), sections.begin(), sections.end());

  uint64_t tableEnd = headerSize + all.size() * entrySize;
  std::string table;
  uint64_t end = tableEnd;
  for (const auto &[name, contents] : all) {
    if (name.empty() || name.size() > nameSize)
      return Error("the section name \"" + printable(name) +
                   "\" has not 1 to " + number(nameSize) + " characters");
    std::string field = name;
    field.resize(nameSize, '\0');
    uint64_t offset = alignUp(end);
    table += field;
    store<uint64_t>(table, offset);
    store<uint64_t>(table, contents.size());
    store<uint64_t>(table, checksumOf(contents));
    end = offset + contents.size();
  }

  std::string bytes(magic);
  bytes.reserve(end);
  store<uint32_t>(bytes, formatVersion);
  store<uint32_t>(bytes, static_cast<uint32_t>(all.size()));
  store<uint64_t>(bytes, end);
  store<uint64_t>(bytes, checksumOf(bytes + table));
  bytes += table;
  for (const auto &[name, contents] : all) {
    bytes.resize(alignUp(bytes.size()), '\0');
    bytes += contents;
  }

  // What a reader would refuse must not leave the compiler.
  Result<Bundle> check = parse(bytes, "the new bundle");
  if (!check)
    return check.takeError();
  return bytes;
}

Status Bundle::write(
    const std::string &path, const Manifest &manifest,
    const std::vector<std::pair<std::string, std::string>> &sections) {
  Result<std::string> bytes = serialize(manifest, sections);
  if (!bytes)
    return bytes.takeError().withContext(printablePath(path));
  return writeFileAtomically(path, *bytes);
}

const Bundle::SectionInfo *Bundle::find(std::string_view name) const {
  const auto found = std::ranges::find(table, name, &SectionInfo::name);
  return found == table.end() ? nullptr : &*found;
}

std::string_view Bundle::section(std::string_view name) const {
  const SectionInfo *found = find(name);
  return found ? std::string_view(bytes).substr(found->offset, found->size)
               : std::string_view();
}
