//===- Safetensors.cpp - Reading safetensors files ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Safetensors.h"

#include "bundle/program/Printable.h"
#include "runtime/base/Json.h"
#include "runtime/base/Machine.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

namespace heddle::rt {

using nlohmann::json;

namespace {

/// The format's own limit on the header.
constexpr int64_t maxHeaderBytes = 100'000'000;

/// Every element type of the format that is made of whole bytes.
struct ElementType {
  std::string_view name;
  int64_t bytes;
  std::optional<DType> dtype;
};
constexpr ElementType elementTypes[] = {
    {"F32", 4, DType::F32},      {"BF16", 2, DType::BF16},
    {"F16", 2, DType::F16},      {"F64", 8, std::nullopt},
    {"I64", 8, std::nullopt},    {"U64", 8, std::nullopt},
    {"I32", 4, std::nullopt},    {"U32", 4, std::nullopt},
    {"I16", 2, std::nullopt},    {"U16", 2, std::nullopt},
    {"I8", 1, std::nullopt},     {"U8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt},   {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt}};

Error tensorError(const std::string &name, const std::string &text) {
  return Error("tensor '" + printable(name) + "': " + text);
}

/// A JSON number that is an integer in [0, 2^63).
std::optional<int64_t> asCount(const json &value) {
  // Non-negative literals are parsed as unsigned.
  if (!value.is_number_unsigned())
    return std::nullopt;
  uint64_t number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(INT64_MAX))
    return std::nullopt;
  return static_cast<int64_t>(number);
}

/// A tensor's place in the data area: [begin, end).
struct Range {
  int64_t begin, end;
  const std::string *name;
};

/// Parses one entry of the header. `dataBytes`: size of the data area.
Result<std::pair<TensorInfo, Range>>
parseTensor(const std::string &name, const json &entry, int64_t dataBytes) {
  if (!entry.is_object())
    return tensorError(name, "expected an object with dtype, shape and "
                             "data_offsets, found " +
                                 std::string(entry.type_name()));
  for (const auto &[key, value] : entry.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return tensorError(name, "unknown field '" + printable(key) +
                                   "' (expected dtype, shape, data_offsets)");
  for (const char *key : {"dtype", "shape", "data_offsets"})
    if (!entry.contains(key))
      return tensorError(name,
                         std::string("the field '") + key + "' is missing");

  TensorInfo info;
  if (!entry["dtype"].is_string())
    return tensorError(name, "dtype: expected a string");
  info.dtypeName = entry["dtype"].get<std::string>();
  const ElementType *type = std::find_if(
      std::begin(elementTypes), std::end(elementTypes),
      [&](const ElementType &t) { return t.name == info.dtypeName; });
  if (type == std::end(elementTypes))
    return tensorError(name,
                       "unknown dtype '" + printable(info.dtypeName) + "'");
  info.dtype = type->dtype;

  if (!entry["shape"].is_array())
    return tensorError(name, "shape: expected an array");
  info.elements = 1;
  bool overflow = false;
  for (const json &value : entry["shape"]) {
    std::optional<int64_t> extent = asCount(value);
    if (!extent)
      return tensorError(name,
                         "shape: expected integers of at least 0, found " +
                             printable(value.dump()));
    info.shape.push_back(*extent);
    overflow |= __builtin_mul_overflow(info.elements, *extent, &info.elements);
  }
  int64_t bytes = 0;
  overflow |= __builtin_mul_overflow(info.elements, type->bytes, &bytes);
  // A zero extent does not excuse the others: their product is still refused.
  if (overflow)
    return tensorError(name, "shape " + entry["shape"].dump() +
                                 " has more than 2^63 bytes");

  const json &offsets = entry["data_offsets"];
  std::optional<int64_t> begin, end;
  if (offsets.is_array() && offsets.size() == 2) {
    begin = asCount(offsets[0]);
    end = asCount(offsets[1]);
  }
  if (!begin || !end || *begin > *end)
    return tensorError(name, "data_offsets: expected [begin, end] with 0 <= "
                             "begin <= end, found " +
                                 printable(offsets.dump()));
  if (*end > dataBytes)
    return tensorError(name, "data_offsets " + offsets.dump() +
                                 " reach past the data, which has " +
                                 std::to_string(dataBytes) +
                                 " bytes (is the file cut off?)");
  if (*end - *begin != bytes)
    return tensorError(name, "data_offsets " + offsets.dump() + " hold " +
                                 std::to_string(*end - *begin) +
                                 " bytes, but " + info.dtypeName +
                                 " of shape " + entry["shape"].dump() +
                                 " needs " + std::to_string(bytes));
  info.offset = *begin;
  return std::pair(std::move(info), Range{*begin, *end, &name});
}

/// Checks that the ranges tile [0, dataBytes).
Status checkTiling(std::vector<Range> ranges, int64_t dataBytes) {
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t covered = 0;
  const std::string *previous = nullptr;
  for (const Range &range : ranges) {
    if (range.begin < covered)
      return tensorError(*range.name,
                         "overlaps tensor '" + printable(*previous) + "'");
    if (range.begin > covered)
      return tensorError(*range.name,
                         "bytes " + std::to_string(covered) + " to " +
                             std::to_string(range.begin) +
                             " in front of it belong to no tensor");
    covered = range.end;
    previous = range.name;
  }
  if (covered != dataBytes)
    return Error("the last " + std::to_string(dataBytes - covered) +
                 " bytes of the file belong to no tensor");
  return Status::success();
}

Status checkMetadata(const json &metadata) {
  if (!metadata.is_object())
    return Error("__metadata__: expected an object of texts");
  for (const auto &[key, value] : metadata.items())
    if (!value.is_string())
      return Error("__metadata__: '" + printable(key) + "' is not a text");
  return Status::success();
}

/// Reads and checks a file's header. `tensors` gets entries whose offset
/// counts from the start of the file.
Status readHeader(const File &file,
                  std::map<std::string, TensorInfo> &tensors) {
  std::array<unsigned char, 8> prefix;
  if (file.size() < static_cast<int64_t>(prefix.size()))
    return Error("the file has " + std::to_string(file.size()) +
                 " bytes; a safetensors file has at least 8");
  if (Status status = file.read(0, prefix.size(), prefix.data()); !status)
    return status;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | prefix[i];
  int64_t rest = file.size() - static_cast<int64_t>(prefix.size());
  if (length > maxHeaderBytes)
    return Error("the header claims " + std::to_string(length) +
                 " bytes, at most " + std::to_string(maxHeaderBytes) +
                 " are allowed: is this a safetensors file?");
  int64_t headerBytes = static_cast<int64_t>(length);
  if (headerBytes > rest)
    return Error("the header claims " + std::to_string(length) +
                 " bytes, the file has " + std::to_string(rest) +
                 " behind its length: the file is cut off, or not a "
                 "safetensors file");
  std::string text(length, '\0');
  if (Status status = file.read(prefix.size(), headerBytes, text.data());
      !status)
    return status;
  if (text.empty() || text.front() != '{')
    return Error("the header does not start with '{': not a safetensors file");
  Result<json> header = parseJsonObject(text);
  if (!header)
    return header.takeError().withContext("header");

  int64_t dataBytes = rest - headerBytes;
  std::vector<Range> ranges;
  for (auto entry = header->begin(); entry != header->end(); ++entry) {
    if (entry.key() == "__metadata__") {
      if (Status status = checkMetadata(entry.value()); !status)
        return status;
      continue;
    }
    Result<std::pair<TensorInfo, Range>> tensor =
        parseTensor(entry.key(), entry.value(), dataBytes);
    if (!tensor)
      return tensor.takeError();
    tensor->first.offset += static_cast<int64_t>(prefix.size()) + headerBytes;
    ranges.push_back(tensor->second);
    tensors.emplace(entry.key(), std::move(tensor->first));
  }
  return checkTiling(std::move(ranges), dataBytes);
}

/// The weight_map of an index: tensor name to shard name.
Result<std::map<std::string, std::string>> readIndex(const std::string &path) {
  Result<std::string> text = readTextFile(path, maxHeaderBytes);
  if (!text)
    return text.takeError();
  Result<json> index = parseJsonObject(*text);
  if (!index)
    return index.takeError().withContext(printablePath(path));
  auto found = index->find("weight_map");
  if (found == index->end() || !found->is_object() || found->empty())
    return Error(printablePath(path) +
                 ": expected an object 'weight_map' that names the file of "
                 "each tensor");
  std::map<std::string, std::string> shards;
  for (const auto &[tensor, shard] : found->items()) {
    if (!shard.is_string())
      return Error(printablePath(path) + ": weight_map: '" + printable(tensor) +
                   "' is not mapped to a file name");
    std::string file = shard.get<std::string>();
    // A downloaded index must not make us read elsewhere on the disk.
    if (file.empty() || file == "." || file == ".." ||
        file.find_first_of("/\\") != std::string::npos ||
        file.find('\0') != std::string::npos)
      return Error(printablePath(path) + ": weight_map: the file of '" +
                   printable(tensor) + "', '" + printable(file) +
                   "', is not a plain file name in the same folder");
    shards.emplace(tensor, std::move(file));
  }
  return shards;
}

} // namespace

Status Checkpoint::addFile(const std::string &path) {
  Result<File> file = File::open(path);
  if (!file)
    return file.takeError();
  std::map<std::string, TensorInfo> tensors;
  if (Status status = readHeader(*file, tensors); !status)
    return status.takeError().withContext(printablePath(path));
  for (auto &[name, info] : tensors) {
    info.file = static_cast<int>(sources.size());
    auto [place, isNew] = table.emplace(name, std::move(info));
    if (!isNew)
      return Error(printablePath(path) + ": tensor '" + printable(name) +
                   "' is also in " + printablePath(pathOf(place->second)));
  }
  Source &source = sources.emplace_back();
  source.file = std::make_unique<File>(std::move(*file));
  source.mapping = MappedFile::map(*source.file);
  return Status::success();
}

Result<Checkpoint> Checkpoint::openFile(const std::string &path) {
  Checkpoint checkpoint;
  if (Status status = checkpoint.addFile(path); !status)
    return status.takeError();
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open(const std::string &folder) {
  std::string single = folder + "/model.safetensors";
  std::string indexPath = single + ".index.json";
  if (isThere(single))
    return openFile(single);
  if (!isThere(indexPath)) {
    bool pickled = isThere(folder + "/pytorch_model.bin") ||
                   isThere(folder + "/pytorch_model.bin.index.json");
    return Error(
        printablePath(folder) +
        ": found neither model.safetensors nor "
        "model.safetensors.index.json" +
        (pickled ? "; convert pytorch_model.bin to safetensors first" : ""));
  }
  Result<std::map<std::string, std::string>> index = readIndex(indexPath);
  if (!index)
    return index.takeError();
  std::set<std::string> shards;
  for (const auto &[tensor, shard] : *index)
    shards.insert(shard);
  Checkpoint checkpoint;
  for (const std::string &shard : shards)
    if (Status status = checkpoint.addFile(folder + "/" + shard); !status)
      return status.takeError();
  for (const auto &[tensor, shard] : *index) {
    auto found = checkpoint.table.find(tensor);
    std::string path = folder + "/" + shard;
    if (found == checkpoint.table.end() ||
        checkpoint.pathOf(found->second) != path)
      return Error(printablePath(indexPath) + ": weight_map places tensor '" +
                   printable(tensor) + "' in '" + printable(shard) +
                   "', which lacks it");
  }
  for (const auto &[name, info] : checkpoint.table)
    if (!index->contains(name))
      return Error(printablePath(checkpoint.pathOf(info)) + ": holds tensor '" +
                   printable(name) + "', which " + printablePath(indexPath) +
                   " does not name");
  return checkpoint;
}

Status Checkpoint::read(const TensorInfo &tensor, int64_t first, int64_t count,
                        void *out) const {
  assert(tensor.dtype && first >= 0 && first + count <= tensor.elements);
  int64_t bytes = byteSize(*tensor.dtype);
  return sources[tensor.file].file->read(tensor.offset + first * bytes,
                                         count * bytes, out);
}

const std::byte *Checkpoint::view(const TensorInfo &tensor, int64_t first,
                                  int64_t count) const {
  assert(tensor.dtype && first >= 0 && first + count <= tensor.elements);
  int64_t bytes = byteSize(*tensor.dtype);
  const MappedFile *mapping = sources[tensor.file].mapping.get();
  // The data starts behind a header of any length.
  if (!mapping || tensor.offset % bytes != 0)
    return nullptr;
  return mapping->data() + tensor.offset + first * bytes;
}

Status Checkpoint::intact() const {
  for (const Source &source : sources) {
    if (source.mapping)
      if (Status status = source.mapping->intact(); !status)
        return status;
    if (Status status = source.file->unchanged(); !status)
      return status;
  }
  return Status::success();
}

void Checkpoint::prefetch(const TensorInfo &tensor, int64_t first,
                          int64_t count) const {
  int64_t bytes = byteSize(*tensor.dtype);
  if (const auto &mapping = sources[tensor.file].mapping)
    mapping->prefetch(tensor.offset + first * bytes, count * bytes);
}

void Checkpoint::release(const TensorInfo &tensor, int64_t first,
                         int64_t count) const {
  int64_t bytes = byteSize(*tensor.dtype);
  if (const auto &mapping = sources[tensor.file].mapping)
    mapping->release(tensor.offset + first * bytes, count * bytes);
}

} // namespace heddle::rt
