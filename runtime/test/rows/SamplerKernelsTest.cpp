//===- SamplerKernelsTest.cpp - The sampler's kernels on a GPU ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each kernel against the host's sampler: the same tokens, confidences within
// 1e-6.
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/Sampler.h"
#include "runtime/test/rows/RowMachine.h"

#include <cmath>
#include <limits>
#include <string>

namespace heddle::rt::cuda::test {
namespace {

using bundle::RowOp;

constexpr int32_t maskToken = 126336;

//===----------------------------------------------------------------------===//
// Draw
//===----------------------------------------------------------------------===//

class DrawTest : public RowTest {
protected:
  struct Case {
    std::string what;
    SampleOptions options = {};
    int64_t vocab = 126464;
    int64_t count = 6; ///< candidates of the launch
    int64_t first = 2; ///< candidates of earlier launches
    int64_t step = 17;
  };

  void check(const Case &c);
  /// Logits with exact ties for the largest value in every other row.
  std::vector<float> logits(const Case &c, int64_t stride);
};

std::vector<float> DrawTest::logits(const Case &c, int64_t stride) {
  std::vector<float> values = random(c.count * stride, 4);
  for (int64_t i = 0; i < c.count; i += 2) {
    float *own = &values[i * stride];
    float most = *std::max_element(own, own + c.vocab);
    own[engine() % c.vocab] = most;
    own[engine() % c.vocab] = most;
  }
  return values;
}

void DrawTest::check(const Case &c) {
  SCOPED_TRACE(c.what);
  const SampleOptions &o = c.options;
  const int64_t stride = (c.vocab + 7) / 8 * 8 + 8;
  const int64_t capacity = c.first + c.count + 1;
  std::vector<float> conditional = logits(c, stride),
                     unconditional = random(c.count * stride, 4);
  // Sequences begin at packed rows 0 and 50; the last candidate is none.
  std::vector<int64_t> sequenceStart = {0, 50}, clock = {c.step, 3};
  std::vector<int32_t> rows(capacity, -1), sequenceOf(capacity, 0);
  for (int64_t i = 0; i < c.first + c.count - 1; ++i) {
    rows[i] = static_cast<int32_t>(i * 17);
    sequenceOf[i] = rows[i] >= 50;
  }
  auto deviceLogits = uploadElements(conditional),
       deviceUnconditional = uploadElements(unconditional);
  auto deviceRows = upload(rows), deviceSequenceOf = upload(sequenceOf);
  auto deviceStart = upload(sequenceStart), deviceClock = upload(clock);
  auto token = upload(std::vector<int32_t>(capacity, -7));
  auto confidence = upload(std::vector<double>(capacity, -7.0));
  auto status = upload(std::vector<int32_t>(1, 0));
  int64_t flags = 0;
  if (o.remasking == Remasking::Random)
    flags |= abi::drawRandomConfidence;
  if (o.logitsEosInf)
    flags |= abi::drawBarEos;
  if (o.confidenceEosEotInf)
    flags |= abi::drawBarConfidence;
  if (o.forbiddenToken >= 0)
    flags |= abi::drawBarEos | abi::drawCountEos;
  launch(RowOp::Draw, c.count,
         abi::DrawArgs{
             .logits = deviceLogits.as<void>(),
             .unconditional =
                 o.cfgScale > 0 ? deviceUnconditional.as<void>() : nullptr,
             .vocab = c.vocab,
             .rowStride = stride,
             .first = c.first,
             .rows = deviceRows.as<int32_t>(),
             .sequenceOf = deviceSequenceOf.as<int32_t>(),
             .sequenceStart = deviceStart.as<int64_t>(),
             .clock = deviceClock.as<int64_t>(),
             .temperature = o.temperature,
             .cfgScale = o.cfgScale,
             .seed = o.seed,
             .flags = flags,
             .eosToken = o.forbiddenToken >= 0 ? o.forbiddenToken : o.eosToken,
             .eotToken = o.eotToken,
             .token = token.as<int32_t>(),
             .confidence = confidence.as<double>(),
             .status = status.as<int32_t>()});
  std::vector<int32_t> gotToken = token.read<int32_t>();
  std::vector<double> gotConfidence = confidence.read<double>();
  EXPECT_EQ(status.read<int32_t>()[0], 0);
  for (int64_t i = 0; i < capacity; ++i) {
    SCOPED_TRACE("candidate " + std::to_string(i));
    if (i < c.first || rows[i] < 0) {
      EXPECT_EQ(gotToken[i], -7) << "not of this launch";
      EXPECT_EQ(gotConfidence[i], -7.0);
      continue;
    }
    const float *own = &conditional[(i - c.first) * stride];
    const float *other = &unconditional[(i - c.first) * stride];
    std::vector<float> l(own, own + c.vocab), u;
    if (o.cfgScale > 0)
      u.assign(other, other + c.vocab);
    Draw expected =
        drawToken(l, u, o, c.step, rows[i] - sequenceStart[sequenceOf[i]]);
    EXPECT_EQ(gotToken[i], expected.token);
    EXPECT_NEAR(gotConfidence[i], expected.confidence,
                1e-6 * expected.confidence);
    if (o.remasking == Remasking::Random) {
      EXPECT_EQ(gotConfidence[i], expected.confidence);
    }
  }
}

TEST_P(DrawTest, Greedy) {
  check({.what = "plain", .options = {}});
  for (int64_t vocab : {1, 5, 8, 100, 4097, 50257})
    check({.what = "vocabulary of " + std::to_string(vocab),
           .options = {},
           .vocab = vocab});
}

TEST_P(DrawTest, Gumbel) {
  for (double temperature : {1e-3, 0.3, 1.0, 10.0}) {
    SampleOptions options;
    options.temperature = temperature;
    options.seed = 0x123456789abcdefull;
    check({.what = "temperature " + std::to_string(temperature),
           .options = options});
    check({.what = "likewise, few tokens", .options = options, .vocab = 37});
  }
}

TEST_P(DrawTest, GumbelOverManySteps) {
  // Rows of equal logits: the noise alone decides.
  SampleOptions options;
  options.temperature = 0.7;
  for (int64_t step = 1; step <= 20; ++step) {
    options.seed = step * 977;
    check({.what = "step " + std::to_string(step),
           .options = options,
           .vocab = 20000,
           .step = step});
  }
}

TEST_P(DrawTest, Guidance) {
  for (double temperature : {0.0, 0.8}) {
    SampleOptions options;
    options.temperature = temperature;
    options.cfgScale = 1.7;
    check({.what = "guided, temperature " + std::to_string(temperature),
           .options = options});
  }
}

TEST_P(DrawTest, RandomConfidence) {
  SampleOptions options;
  options.remasking = Remasking::Random;
  options.seed = 99;
  check({.what = "random", .options = options});
  options.temperature = 0.5;
  check({.what = "random, with noise", .options = options});
}

TEST_P(DrawTest, BarredTokens) {
  for (double temperature : {0.0, 0.6})
    for (int bits = 1; bits < 4; ++bits) {
      SampleOptions options;
      options.temperature = temperature;
      options.logitsEosInf = bits & 1;
      options.confidenceEosEotInf = bits & 2;
      // So few tokens that the barred ones are drawn often.
      for (int32_t eos = 0; eos < 4; ++eos) {
        options.eosToken = eos;
        options.eotToken = 3 - eos;
        check({.what = "options " + std::to_string(bits) + ", temperature " +
                       std::to_string(temperature),
               .options = options,
               .vocab = 4});
      }
      options.eosToken = options.eotToken = -1;
      check({.what = "no such tokens", .options = options, .vocab = 9});
    }
}

TEST_P(DrawTest, ForbiddenTokensCountInConfidences) {
  for (double temperature : {0.0, 0.6})
    for (int32_t token = 0; token < 4; ++token) {
      SampleOptions options;
      options.temperature = temperature;
      options.forbiddenToken = token;
      check({.what = "forbidden " + std::to_string(token),
             .options = options,
             .vocab = 4});
    }
}

TEST_P(DrawTest, NotFinite) {
  const int64_t vocab = 1003, stride = 1008, count = 4;
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = random(count * stride);
  values[0 * stride + 5] = std::nanf("");
  values[1 * stride + 1002] = infinity; // in the ragged end
  values[3 * stride + 640] = -infinity;
  auto logits = uploadElements(values);
  auto rows = upload(std::vector<int32_t>{0, 1, 2, 3});
  auto sequenceOf = upload(std::vector<int32_t>(4, 0));
  auto start = upload(std::vector<int64_t>{0}),
       clock = upload(std::vector<int64_t>{1, 0});
  auto token = room<int32_t>(count);
  auto confidence = room<double>(count);
  auto status = upload(std::vector<int32_t>{0});
  launch(RowOp::Draw, count,
         abi::DrawArgs{.logits = logits.as<void>(),
                       .unconditional = nullptr,
                       .vocab = vocab,
                       .rowStride = stride,
                       .first = 0,
                       .rows = rows.as<int32_t>(),
                       .sequenceOf = sequenceOf.as<int32_t>(),
                       .sequenceStart = start.as<int64_t>(),
                       .clock = clock.as<int64_t>(),
                       .temperature = 0,
                       .cfgScale = 0,
                       .seed = 0,
                       .flags = 0,
                       .eosToken = -1,
                       .eotToken = -1,
                       .token = token.as<int32_t>(),
                       .confidence = confidence.as<double>(),
                       .status = status.as<int32_t>()});
  std::vector<int32_t> tokens = token.read<int32_t>();
  std::vector<double> confidences = confidence.read<double>();
  for (int64_t i : {0, 1, 3}) {
    EXPECT_EQ(tokens[i], -1) << i;
    EXPECT_EQ(confidences[i], 0) << i;
  }
  EXPECT_GE(tokens[2], 0);
  EXPECT_EQ(status.read<int32_t>()[0], 4) << "1 + the last broken candidate";
}

INSTANTIATE_ON_MACHINES_AND_TYPES(DrawTest);

//===----------------------------------------------------------------------===//
// Counting, listing and committing
//===----------------------------------------------------------------------===//

class SamplerKernelsTest : public RowTest {
protected:
  /// Packed sequences of these lengths, each position masked with this chance.
  void pack(const std::vector<int64_t> &lengths, double chance) {
    offsets = {0};
    for (int64_t length : lengths)
      offsets.push_back(offsets.back() + length);
    tokens.assign(offsets.back(), 0);
    for (int32_t &token : tokens)
      token = std::uniform_real_distribution<>()(engine) < chance
                  ? maskToken
                  : static_cast<int32_t>(engine() % 1000);
    // Ranges that begin and end anywhere, the last one empty.
    first.clear();
    end.clear();
    for (size_t s = 0; s < lengths.size(); ++s) {
      int64_t from = offsets[s] + static_cast<int64_t>(engine() % 3);
      first.push_back(std::min(from, offsets[s + 1]));
      end.push_back(s + 1 == lengths.size() ? first.back() : offsets[s + 1]);
    }
  }
  int64_t sequences() const { return static_cast<int64_t>(first.size()); }

  std::vector<int64_t> offsets, first, end;
  std::vector<int32_t> tokens;
};

TEST_P(SamplerKernelsTest, MaskedCount) {
  for (double chance : {0.0, 0.4, 1.0}) {
    pack({1, 7, 2000, 33, 4099, 12}, chance);
    auto deviceTokens = upload(tokens);
    auto deviceFirst = upload(first), deviceEnd = upload(end);
    auto count = room<int32_t>(sequences());
    launch(RowOp::MaskedCount, sequences(),
           abi::MaskedCountArgs{.tokens = deviceTokens.as<int32_t>(),
                                .first = deviceFirst.as<int64_t>(),
                                .end = deviceEnd.as<int64_t>(),
                                .count = count.as<int32_t>(),
                                .maskToken = maskToken});
    std::vector<int32_t> expected;
    for (int64_t s = 0; s < sequences(); ++s)
      expected.push_back(static_cast<int32_t>(std::count(
          tokens.begin() + first[s], tokens.begin() + end[s], maskToken)));
    EXPECT_EQ(count.read<int32_t>(), expected);
  }
}

TEST_P(SamplerKernelsTest, Candidates) {
  for (double chance : {0.0, 0.03, 0.5, 1.0})
    for (int64_t capacity : {1, 900, 10000}) {
      pack({1, 7, 2000, 33, 4099, 12}, chance);
      auto deviceTokens = upload(tokens);
      auto deviceFirst = upload(first), deviceEnd = upload(end);
      auto rows = room<int32_t>(capacity), sequenceOf = room<int32_t>(capacity),
           listOffsets = room<int32_t>(sequences() + 1),
           count = room<int32_t>(1);
      launch(RowOp::Candidates, 1,
             abi::CandidatesArgs{.tokens = deviceTokens.as<int32_t>(),
                                 .first = deviceFirst.as<int64_t>(),
                                 .end = deviceEnd.as<int64_t>(),
                                 .rows = rows.as<int32_t>(),
                                 .sequenceOf = sequenceOf.as<int32_t>(),
                                 .offsets = listOffsets.as<int32_t>(),
                                 .count = count.as<int32_t>(),
                                 .sequences = sequences(),
                                 .capacity = capacity,
                                 .maskToken = maskToken});
      std::vector<int32_t> expected, of, expectedOffsets;
      for (int64_t s = 0; s < sequences(); ++s) {
        expectedOffsets.push_back(
            static_cast<int32_t>(std::min<int64_t>(expected.size(), capacity)));
        for (int64_t i = first[s]; i < end[s]; ++i)
          if (tokens[i] == maskToken) {
            expected.push_back(static_cast<int32_t>(i));
            of.push_back(static_cast<int32_t>(s));
          }
      }
      auto total = static_cast<int32_t>(expected.size());
      expectedOffsets.push_back(
          static_cast<int32_t>(std::min<int64_t>(total, capacity)));
      expected.resize(capacity, -1);
      of.resize(std::min<int64_t>(total, capacity));
      std::vector<int32_t> gotOf = sequenceOf.read<int32_t>();
      gotOf.resize(of.size());
      EXPECT_EQ(rows.read<int32_t>(), expected) << chance << ", " << capacity;
      EXPECT_EQ(gotOf, of);
      EXPECT_EQ(listOffsets.read<int32_t>(), expectedOffsets);
      EXPECT_EQ(count.read<int32_t>()[0], total);
    }
}

TEST_P(SamplerKernelsTest, Commit) {
  const int64_t steps = 8;
  for (int64_t shift : {int64_t(0), int64_t(1000)})
    for (int64_t step : {0, 1, 7})
      for (int32_t status : {0, 3}) {
        // Sequences with 0, 1, 70 and 300 candidates, few distinct confidences.
        std::vector<int32_t> listOffsets = {0, 0, 1, 71, 371}, sequenceOf, rows,
                             drawn, masked = {5, 1, 75, 301};
        const int64_t capacity = 390;
        std::vector<double> confidence;
        for (int32_t s = 0; s < 4; ++s)
          sequenceOf.insert(sequenceOf.end(),
                            listOffsets[s + 1] - listOffsets[s], s);
        sequenceOf.resize(capacity, -1);
        rows.assign(capacity, -1);
        for (int64_t i = 0; i < capacity; ++i) {
          if (i < listOffsets.back())
            rows[i] = static_cast<int32_t>(2 * i + 1);
          drawn.push_back(static_cast<int32_t>(engine() % 5000));
          confidence.push_back(static_cast<double>(engine() % 20) / 19);
        }
        std::vector<int32_t> before(2000, 7);
        std::vector<int64_t> clock = {step + 1, step};
        auto tokens = upload(before);
        auto deviceRows = upload(rows), deviceOf = upload(sequenceOf),
             deviceOffsets = upload(listOffsets), deviceDrawn = upload(drawn),
             deviceMasked = upload(masked),
             deviceStatus = upload(std::vector<int32_t>{status});
        auto deviceConfidence = upload(confidence);
        auto deviceClock = upload(clock);
        auto committed = room<uint8_t>(capacity);
        launch(RowOp::Commit, capacity,
               abi::CommitArgs{.tokens = tokens.as<int32_t>(),
                               .rows = deviceRows.as<int32_t>(),
                               .sequenceOf = deviceOf.as<int32_t>(),
                               .offsets = deviceOffsets.as<int32_t>(),
                               .token = deviceDrawn.as<int32_t>(),
                               .confidence = deviceConfidence.as<double>(),
                               .masked = deviceMasked.as<int32_t>(),
                               .clock = deviceClock.as<int64_t>(),
                               .status = deviceStatus.as<int32_t>(),
                               .committed = committed.as<uint8_t>(),
                               .steps = steps,
                               .shift = shift});
        std::vector<int32_t> expected = before;
        std::vector<uint8_t> flags(capacity, 0);
        for (size_t s = 0; s < 4 && status == 0; ++s) {
          std::span own(confidence.data() + listOffsets[s],
                        listOffsets[s + 1] - listOffsets[s]);
          for (int64_t chosen :
               largestConfidence(own, commitQuotas(masked[s], steps)[step])) {
            int64_t i = listOffsets[s] + chosen;
            flags[i] = 1;
            expected[rows[i]] = drawn[i];
            if (shift > 0)
              expected[rows[i] + shift] = drawn[i];
          }
        }
        EXPECT_EQ(committed.read<uint8_t>(), flags) << step << ", " << status;
        EXPECT_EQ(tokens.read<int32_t>(), expected);
      }
}

INSTANTIATE_ON_MACHINES_AND_TYPES(SamplerKernelsTest);

} // namespace
} // namespace heddle::rt::cuda::test
