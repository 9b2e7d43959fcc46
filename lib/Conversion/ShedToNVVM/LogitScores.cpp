//===- LogitScores.cpp - Scores keys by mean logits -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mean of a group's logits for a key is the product of the key with the
// mean of the group's queries. The block's groups have theirs in shared memory
// as f32; a thread takes a key at a time and meets all of them with it, so that
// keys are read once for the groups of a block. A key is always the same
// thread's.
//
//===----------------------------------------------------------------------===//

#include "SelectFrame.h"

#include "bundle/abi/Abi.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;
using arith::CmpIPredicate;

/// The mean of each group's queries over the heads of the list, scaled, to
/// shared memory: [parts][channels].
static void meanQueries(NVVMBuilder &v, const SelectFrame &f, Value head) {
  Value step =
      v.mul(f.field(v, v.i64(), offsetof(abi::SelectArgs, queryStride)),
            f.rowBytes / f.channels);
  Value base = v.at(f.field(v, v.global(), offsetof(abi::SelectArgs, query)),
                    v.mul(v.widen(head), f.rowBytes));
  Value scale = f.field(v, v.f32(), offsetof(abi::SelectArgs, scale));
  const int64_t words = f.rowBytes / 4, each = f.channels / words;
  v.loop(f.thread, v.word(f.parts * words), f.threads, [&](Value item) {
    Value part = v.quotient(item, words);
    Value word = v.sub(item, v.mul(part, words));
    Value row = v.mul(v.add(f.first, part), f.group);
    if (f.ofRange)
      row = v.add(row, f.rowBegin);
    Value end = v.least(v.add(row, f.group), f.rowEnd);
    Values sums =
        v.loop(row, end, 1, Values(each, v.real(0.0f)),
               [&](Value at, ValueRange carried) -> Values {
                 Value from =
                     v.at(v.at(base, v.mul(v.widen(at), step)), v.mul(word, 4));
                 if (f.exact)
                   return {v.addf(carried[0], v.load(v.f32(), from, 4))};
                 auto [low, high] =
                     v.unpack(f.element, v.load(v.i32(), from, 4));
                 return {v.addf(carried[0], low), v.addf(carried[1], high)};
               });
    // None behind the last group.
    Value count = v.mul(v.greatest(v.sub(end, row), v.word(1)), f.headsPerList);
    Value share = v.divf(scale, arith::SIToFPOp::create(v.b, v.f32(), count));
    Value to = v.add(f.shared, v.mul(item, 4 * each));
    for (auto [i, sum] : llvm::enumerate(sums))
      v.storeShared(v.mulf(sum, share), to,
                    f.layout.queries + 4 * static_cast<int64_t>(i));
  });
}

/// Adds the products of all keys with the block's queries to their scores, of a
/// mass at `to`.
static void addLogits(NVVMBuilder &v, const SelectFrame &f, Value to,
                      Value head) {
  Value kvGroup =
      v.narrow(f.field(v, v.i64(), offsetof(abi::SelectArgs, kvGroup)));
  Value base = v.at(f.field(v, v.global(), offsetof(abi::SelectArgs, key)),
                    v.mul(v.widen(v.quotient(head, kvGroup)), f.rowBytes));
  const int64_t each = f.channels / f.chunks; // channels of 16 bytes
  auto floats = VectorType::get(4, v.f32());
  v.loop(f.thread, f.n, f.threads, [&](Value key) {
    Value row = v.at(base, v.mul(v.widen(key), f.keyStride));
    Values sums =
        v.loop(v.word(0), v.word(f.chunks), 1, Values(f.parts, v.real(0.0f)),
               [&](Value chunk, ValueRange carried) -> Values {
                 Value quad = v.load(v.quad(), v.at(row, v.mul(chunk, 16)), 16);
                 Values keys;
                 for (int64_t i = 0; i < 4; ++i) {
                   Value word = v.extract(quad, i);
                   if (f.exact) {
                     keys.push_back(v.bits(v.f32(), word));
                     continue;
                   }
                   auto [low, high] = v.unpack(f.element, word);
                   keys.append({low, high});
                 }
                 Values next(carried);
                 Value queries = v.add(f.shared, v.mul(chunk, 4 * each));
                 for (int64_t part = 0; part < f.parts; ++part)
                   for (int64_t i = 0; i < each; i += 4) {
                     Value four = v.loadShared(
                         floats, queries,
                         f.layout.queries + 4 * (part * f.channels + i), 16);
                     for (int64_t c = 0; c < 4; ++c)
                       next[part] =
                           v.fma(keys[i + c], v.extract(four, c), next[part]);
                   }
                 return next;
               });
    for (int64_t part = 0; part < f.parts; ++part) {
      Value at = v.at(f.scoresOf(v, v.word(part), to), v.mul(key, 4));
      v.store(v.addf(v.load(v.f32(), at, 4), sums[part]), at, 4);
    }
  });
}

/// The least of what all threads have, by way of the shared memory that other
/// kernels have log-sum-exps in.
static Value leastOfBlock(NVVMBuilder &v, const SelectFrame &f, Value x) {
  auto least = [&](Value x, Value y) -> Value {
    return arith::MinNumFOp::create(v.b, x, y);
  };
  Value own = v.reduceLanes(x, 32, least);
  v.barrier(); // the last least one has been read
  v.when(v.compare(CmpIPredicate::eq, f.lane, int64_t(0)), [&] {
    v.storeShared(own, v.add(f.shared, v.mul(f.warp, 4)), f.layout.lse);
  });
  v.barrier();
  Value all = v.loadShared(v.f32(), f.shared, f.layout.lse);
  for (int64_t i = 1; i < f.warps; ++i)
    all = least(all, v.loadShared(v.f32(), f.shared, f.layout.lse + 4 * i));
  return all;
}

namespace {
/// Scores of the groups of the task.
struct LowerLogitMass : FramePattern<shed::LogitMassOp, SelectFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::LogitMassOp, Adaptor adaptor,
                              PatternBuilder &v) const override {
    Value to = Mass::of(adaptor.getMass()).row;
    Value padded = v.both(v.add(f.n, 3), ~int64_t(3));
    auto scoreAt = [&](int64_t part, Value key) {
      return v.at(f.scoresOf(v, v.word(part), to), v.mul(key, 4));
    };
    // The list before has been made of these rows.
    v.barrier();
    v.loop(f.thread, padded, f.threads, [&](Value key) {
      for (int64_t part = 0; part < f.parts; ++part)
        v.store(v.real(0.0f), scoreAt(part, key), 4);
    });
    Value head = v.mul(f.list, f.headsPerList);
    v.loop(head, v.add(head, f.headsPerList), 1, [&](Value each) {
      v.barrier();
      meanQueries(v, f, each);
      v.barrier();
      addLogits(v, f, to, each);
    });
    // No score is negative.
    for (int64_t part = 0; part < f.parts; ++part) {
      Value most = v.real(std::numeric_limits<float>::infinity());
      Value least = leastOfBlock(
          v, f,
          v.loop(f.thread, f.n, f.threads, Values{most},
                 [&](Value key, ValueRange least) -> Values {
                   return {arith::MinNumFOp::create(
                       v.b, least[0], v.load(v.f32(), scoreAt(part, key), 4))};
                 })[0]);
      v.loop(f.thread, f.n, f.threads, [&](Value key) {
        Value at = scoreAt(part, key);
        v.store(v.subf(v.load(v.f32(), at, 4), least), at, 4);
      });
    }
    return {Values(adaptor.getMass())};
  }
};
} // namespace

void mlir::heddle::populateSelectLogits(const TypeConverter &converter,
                                        RewritePatternSet &patterns,
                                        const SelectFrame &frame) {
  patterns.add<LowerLogitMass>(converter, patterns.getContext(), frame);
}
