//===- RowMemory.h - Memory of kept rows, and work on it --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an executor does with the rows that it keeps between steps, in the
// memory that the model's tensors lie in: the host's here, a device's
// elsewhere. The executor itself sees addresses, never what they hold.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_ROWMEMORY_H
#define HEDDLE_RUNTIME_SCHEDULE_ROWMEMORY_H

#include "bundle/Result.h"
#include "runtime/tensor/DType.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heddle::rt {

/// Some rows of a tensor: the i-th begins at base + index[i] * stride elements.
///
/// Worked example: base at element 0, stride 8, index {2, 0}: the rows at
/// elements 16 and 0.
struct RowTable {
  const void *base = nullptr;
  int64_t stride = 0; ///< elements from row to row
  std::span<const int32_t> index;
};

/// How rows of a tensor differ from kept ones. With x and c the i-th rows of
/// `now` and `kept`, in fp32, and t = adds ? x + c : x:
///   the similarity of i is the cosine of t and c (rt::cosine);
///   then, if `writes`, the row of `output`, if there is one, and that of
///   `kept` become t, rounded to the element type.
struct RowComparison {
  RowTable now;
  RowTable kept;
  RowTable output; ///< base null: none
  bool adds = false;
  bool writes = false;
};

/// Attention over the keys of two sets that share none, of what it is over each
/// (abi::MergeArgs). Row i of `now` has for head h the log-sum-exp
/// lse[lseAt[i] + h * lseStride[i]]; row i of `kept` has keptLse[kept.index[i]
/// * heads + h]: null, nothing is kept of it yet. The result goes to `output`,
/// or to `kept` where that has none; its log-sum-exps go to newLse, by the rows
/// of `kept`, unless that is null. keptLse and newLse are apart.
struct RowMerge {
  RowTable now;
  const float *lse = nullptr;
  std::span<const int64_t> lseAt;
  std::span<const int32_t> lseStride;
  RowTable kept;
  const float *keptLse = nullptr;
  float *newLse = nullptr;
  RowTable output; ///< base null: none; may be `now`'s rows
};

/// Rows have elements of one type, which the memory was made for. Calls are
/// made by one thread and may return before their work is done; work is done in
/// the order of the calls. Indices are read before a call returns.
class RowMemory {
public:
  virtual ~RowMemory() = default;

  /// Refuses a need that the memory does not cover: "`what` needs 16.1 GB, 7.9
  /// GB are available: `advice`".
  virtual Status check(int64_t bytes, const std::string &what,
                       const std::string &advice) const = 0;

  /// Memory of undefined contents, aligned for every kernel; freed with the
  /// last reference, after the work on it. Null for no bytes.
  virtual Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) = 0;

  /// Makes ready to compare up to `rows` rows before similarities() is asked.
  virtual Status reserve(int64_t rows) = 0;

  /// Makes `bytes` bytes zero.
  virtual Status clear(void *memory, int64_t bytes) = 0;

  /// Makes rows zero.
  virtual Status clear(const RowTable &rows, int64_t width) = 0;

  /// Copies rows, `to`'s distinct and none of them in `from`.
  virtual Status copy(const RowTable &from, const RowTable &to,
                      int64_t width) = 0;

  /// Copies rows, and puts what they differ by from those that were there into
  /// the rows of `change` at the same indices as `to`'s (and of its stride):
  /// change = from - to, then to = from.
  virtual Status replace(const RowTable &from, const RowTable &to, void *change,
                         int64_t width) = 0;

  /// Copies `bytes` bytes from `host`; waits for them.
  virtual Status put(void *memory, const void *host, int64_t bytes) = 0;

  /// Copies rows, one after the other, to `host`; waits for them.
  virtual Status fetch(const RowTable &rows, int64_t width, void *host) = 0;

  /// Compares rows; their similarities take the places from `first` on of those
  /// that similarities() gives.
  virtual Status compare(const RowComparison &rows, int64_t width,
                         int64_t first) = 0;

  /// Merges rows of `heads` heads of `headDim` elements.
  virtual Status merge(const RowMerge &rows, int64_t heads,
                       int64_t headDim) = 0;

  /// `count` similarities from the `first` on; waits for the work that computes
  /// them. To be used before the next call.
  virtual Result<std::span<const float>> similarities(int64_t first,
                                                      int64_t count) = 0;
};

/// This machine's memory, worked on by all of parallelFor's threads.
class HostRowMemory final : public RowMemory {
public:
  explicit HostRowMemory(DType dtype) : dtype(dtype) {}

  Status check(int64_t bytes, const std::string &what,
               const std::string &advice) const override;
  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) override;
  Status reserve(int64_t rows) override;
  Status clear(void *memory, int64_t bytes) override;
  Status clear(const RowTable &rows, int64_t width) override;
  Status copy(const RowTable &from, const RowTable &to, int64_t width) override;
  Status replace(const RowTable &from, const RowTable &to, void *change,
                 int64_t width) override;
  Status put(void *memory, const void *host, int64_t bytes) override;
  Status fetch(const RowTable &rows, int64_t width, void *host) override;
  Status compare(const RowComparison &rows, int64_t width,
                 int64_t first) override;
  Status merge(const RowMerge &rows, int64_t heads, int64_t headDim) override;
  Result<std::span<const float>> similarities(int64_t first,
                                              int64_t count) override;

private:
  std::byte *row(const RowTable &table, size_t i) const;

  DType dtype;
  std::vector<float> similarity;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_ROWMEMORY_H
