//===- Safetensors.h - Reading safetensors files ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file is
//   0      u64 little-endian: H, bytes of the header
//   8      the header: a JSON object, perhaps with trailing spaces:
//          { "name": {"dtype": "BF16", "shape": [2, 3],
//                     "data_offsets": [begin, end]}, ...,
//            "__metadata__": {"key": "text"} }
//   8 + H  the data; offsets count from here. The tensors tile it: no overlap,
//          no byte that belongs to none, nothing behind the last.
//
// The header is read, the data mapped where it can be: tensors are converted
// and packed straight out of the system's file cache.
//
// A large model is several such files with an index that names each tensor's
// file. Everything in the files is checked before anything is used; nothing of
// them is trusted.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_SAFETENSORS_H
#define HEDDLE_RUNTIME_MODEL_SAFETENSORS_H

#include "bundle/Result.h"
#include "runtime/base/File.h"
#include "runtime/model/MappedFile.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle::rt {

/// One tensor of a checkpoint.
struct TensorInfo {
  std::string dtypeName;      ///< as the file spells it: "BF16", "I64"
  std::optional<DType> dtype; ///< none: a type that weights cannot have
  std::vector<int64_t> shape;
  int64_t elements = 0; ///< product of the shape
  int file = 0;         ///< index of the file
  int64_t offset = 0;   ///< in that file, in bytes
};

/// The tensors of a model folder.
class Checkpoint {
public:
  /// Opens folder/model.safetensors or, when there is none, the shards that
  /// folder/model.safetensors.index.json names.
  static Result<Checkpoint> open(const std::string &folder);

  /// One file.
  static Result<Checkpoint> openFile(const std::string &path);

  const std::map<std::string, TensorInfo> &tensors() const { return table; }

  /// The path of the file that holds a tensor.
  const std::string &pathOf(const TensorInfo &tensor) const {
    return sources[tensor.file].file->path();
  }

  /// Reads elements [first, first + count) of a tensor, as stored, into `out`.
  /// The range must lie in the tensor and its dtype be known. From any thread.
  Status read(const TensorInfo &tensor, int64_t first, int64_t count,
              void *out) const;

  /// The same elements where they lie in the mapped file, aligned for their
  /// type; null when the file is not mapped or the tensor not aligned, and only
  /// read() will do. Ask intact() before anything made of them is used.
  const std::byte *view(const TensorInfo &tensor, int64_t first,
                        int64_t count) const;

  /// Whether everything seen through view() was the files' (MappedFile.h), and
  /// the files are as they were when they were opened. Ask when all is read.
  Status intact() const;

  /// Hints: elements that view() is asked for soon, or not again.
  void prefetch(const TensorInfo &tensor, int64_t first, int64_t count) const;
  void release(const TensorInfo &tensor, int64_t first, int64_t count) const;

private:
  struct Source {
    std::unique_ptr<File> file;
    std::unique_ptr<MappedFile> mapping; ///< may be null; gone before the file
  };

  Status addFile(const std::string &path);

  std::vector<Source> sources;
  std::map<std::string, TensorInfo> table;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_SAFETENSORS_H
