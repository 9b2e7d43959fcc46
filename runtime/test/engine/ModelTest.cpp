//===- ModelTest.cpp - A GPU's passes against the host's ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same executor, which keeps everything and computes random rows, with the
// host's model and with a GPU's. The fake GPU's memory is the host's, so that
// the executor reads and writes there, once the stream has been waited for.
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Model.h"
#include "runtime/engine/cuda/Drain.h"
#include "runtime/tensor/Convert.h"
#include "runtime/test/engine/EngineFixture.h"
#include "runtime/test/model/Reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;
using rt::test::TinyShape;

namespace {

/// Which rows a pass computes.
enum class Pass {
  Whole,   ///< every row, nothing is kept
  Keeping, ///< every row, all is kept
  Some,    ///< random ones, the others as they were kept
  Dropping ///< likewise, but some layers' attention adds nothing to the others
};

/// Keeps heads, projections and FFNs of every position of some sequences.
class KeepingExecutor : public rt::test::NaiveAttention {
public:
  KeepingExecutor(const ModelConfig &config, DType dtype,
                  std::vector<int64_t> lengths, unsigned seed)
      : config(config), size(byteSize(dtype)), lengths(std::move(lengths)),
        random(seed) {
    starts = {0};
    for (int64_t length : this->lengths)
      starts.push_back(starts.back() + length);
    rowBytes = (config.queryHeads + 2 * config.kvHeads) * config.headDim * size;
    cacheBytes = (config.hidden + 8) * size; // a row and something between
    for (Memory *memory : {&heads, &outputs, &ffns})
      memory->resize(config.layers);
    for (int64_t l = 0; l < config.layers; ++l) {
      heads[l].resize(starts.back() * rowBytes);
      outputs[l].resize(starts.back() * cacheBytes);
      ffns[l].resize(starts.back() * cacheBytes);
    }
  }

  /// Called before memory of the model is read or written.
  std::function<Status()> wait = [] { return Status::success(); };
  /// Computes none of the rows.
  bool idle = false;

  void begin(const PackedBatch &batch, Pass kind) {
    pass = kind;
    places.clear();
    for (int64_t s = 0; s < batch.sequences(); ++s)
      for (int64_t row = batch.offsets[s]; row < batch.offsets[s + 1]; ++row)
        places.push_back(
            static_cast<int32_t>(starts[s] + batch.positions[row]));
  }

  Result<RowSet> values(int64_t layer) override {
    valueRows = draw();
    alike = !choosesByValues(layer) && random() % 3 == 0;
    return view(valueRows);
  }
  bool choosesByValues(int64_t layer) const override { return layer % 2 == 1; }
  Result<Exact> queriesAndKeys(int64_t layer, const PackedBatch &,
                               const AttentionTensors &tensors) override {
    queryRows = alike ? valueRows : draw();
    keyRows = alike ? valueRows : draw();
    if (choosesByValues(layer)) {
      if (Status s = wait(); !s)
        return s.takeError();
      // Of the rows whose V there is, those with a positive first element.
      auto positive = [&](int32_t row) {
        float value = 0;
        convert(tensors.dtype,
                static_cast<const std::byte *>(tensors.value) +
                    row * tensors.valueStride * size,
                DType::F32, &value, 1);
        return value > 0;
      };
      chosen.clear();
      for (int32_t row : valueRows)
        if (positive(row))
          chosen.push_back(row);
      if (partial())
        queryRows = chosen;
    }
    return Exact{view(queryRows), view(keyRows)};
  }

  Status attend(int64_t layer, const PackedBatch &,
                const AttentionTensors &t) override {
    if (Status s = wait(); !s)
      return s;
    const int64_t query = config.queryHeads * config.headDim * size;
    const int64_t kv = config.kvHeads * config.headDim * size;
    std::byte *rows = heads[layer].data();
    auto remember = [&](const std::vector<int32_t> &from, const void *tensor,
                        int64_t stride, int64_t bytes, int64_t offset) {
      for (int32_t row : from)
        std::memcpy(rows + places[row] * rowBytes + offset,
                    static_cast<const std::byte *>(tensor) +
                        row * stride * size,
                    bytes);
    };
    remember(queryRows, t.query, t.queryStride, query, 0);
    remember(keyRows, t.key, t.keyStride, kv, query);
    remember(valueRows, t.value, t.valueStride, kv, query + kv);
    AttentionTensors all = t;
    std::vector<std::byte> attended(starts.back() * query);
    all.query = rows;
    all.key = rows + query;
    all.value = rows + query + kv;
    all.output = attended.data();
    all.queryStride = all.keyStride = all.valueStride = rowBytes / size;
    all.outputStride = query / size;
    if (Status s =
            NaiveAttention::attend(layer, PackedBatch::whole(lengths), all);
        !s)
      return s;
    for (int32_t row : queryRows)
      std::memcpy(static_cast<std::byte *>(t.output) +
                      row * t.outputStride * size,
                  attended.data() + places[row] * query, query);
    return Status::success();
  }

  Result<Cached> projected(int64_t layer) override {
    Cached result = cached(view(queryRows), outputs[layer]);
    if (pass == Pass::Whole || (pass == Pass::Dropping && layer % 2 == 0))
      result.cache = nullptr;
    return result;
  }
  Result<Cached> ffn(int64_t layer) override {
    ffnRows = draw();
    if (pass == Pass::Whole || layer == 1) // the FFN of one layer is not kept
      return Cached();
    return cached(view(ffnRows), ffns[layer]);
  }

private:
  using Memory = std::vector<std::vector<std::byte>>;

  bool partial() const { return pass == Pass::Some || pass == Pass::Dropping; }

  /// All rows, none, or some.
  std::vector<int32_t> draw() {
    std::vector<int32_t> rows;
    const auto kind = partial() ? random() % 6 : 0;
    for (size_t row = 0; row < places.size(); ++row)
      if (!idle && (kind == 0 || (kind != 1 && random() % 3 != 0)))
        rows.push_back(static_cast<int32_t>(row));
    return rows;
  }
  RowSet view(const std::vector<int32_t> &rows) const {
    return partial() ? RowSet{false, rows} : RowSet();
  }
  Cached cached(RowSet rows, std::vector<std::byte> &memory) const {
    return {rows, memory.data(), cacheBytes, places};
  }

  const ModelConfig config;
  const int64_t size;
  const std::vector<int64_t> lengths;
  std::vector<int64_t> starts;
  int64_t rowBytes = 0, cacheBytes = 0;
  std::mt19937 random;
  Pass pass = Pass::Whole;
  bool alike = false;
  std::vector<int32_t> places, valueRows, keyRows, queryRows, ffnRows, chosen;
  Memory heads, outputs, ffns; ///< [layer]: of all positions
};

class ModelTest : public EngineTest {
protected:
  void TearDown() override {
    model.reset();
    uploads = RowUploads();
    module.reset();
    stream = Stream();
    EngineTest::TearDown();
  }

  static TinyShape tiny(bool dream = false) {
    return {.layers = 3,
            .hidden = 32,
            .queryHeads = 4,
            .kvHeads = dream ? 2 : 4,
            .mlpHidden = 40,
            .vocab = 61,
            .dream = dream};
  }

  /// The model on the GPU, in memory that is poisoned before it is written.
  void open(const TinyShape &shape, DType dtype,
            CudaModelOptions options = {}) {
    model.reset();
    makeModel(shape);
    bundle::Manifest manifest = gpuManifest();
    installKernels(manifest);
    LoadOptions load;
    load.dtype = dtype;
    Result<DeviceWeights> loaded =
        DeviceWeights::load(device(), config, folder->path, load);
    ASSERT_OK(loaded);
    weights = std::move(*loaded);
    Result<std::unique_ptr<Module>> code =
        Module::load(device(), gpuBundle(manifest));
    ASSERT_OK(code);
    module = std::move(*code);
    Result<RowKernels> bound = RowKernels::bind(manifest, *module, dtype);
    ASSERT_OK(bound);
    rows = *bound;
    Result<Stream> queue = Stream::create(device());
    ASSERT_OK(queue);
    stream = std::move(*queue);
    uploads = RowUploads(device());
    // All proposals are tried out in the midst of passes.
    options.products = {.proposals = 2, .usesBeforeChoice = 2};
    options.memory.poison = true;
    model = std::make_unique<CudaModel>(device(), stream, weights, rows,
                                        uploads, config, dtype, options);
  }

  std::unique_ptr<Model> host(DType dtype) const {
    LoadOptions load;
    load.dtype = dtype;
    Result<std::unique_ptr<Model>> loaded = Model::load(folder->path, load);
    EXPECT_OK(loaded);
    return std::move(*loaded);
  }

  KeepingExecutor onDevice(DType dtype, const std::vector<int64_t> &lengths,
                           unsigned seed) {
    KeepingExecutor executor(config, dtype, lengths, seed);
    executor.wait = [this] { return stream.synchronize(); };
    return executor;
  }

  /// The token at a position of a sequence.
  int32_t token(int64_t sequence, int64_t position) const {
    return static_cast<int32_t>((sequence * 31 + position * 17 + position / 9) %
                                config.vocabSize);
  }

  std::vector<int32_t> tokensOf(const PackedBatch &batch) const {
    std::vector<int32_t> tokens;
    for (int64_t s = 0; s < batch.sequences(); ++s)
      for (int64_t row = batch.offsets[s]; row < batch.offsets[s + 1]; ++row)
        tokens.push_back(token(s, batch.positions[row]));
    return tokens;
  }

  /// Random positions of sequences, `of` twelfths of them; at least one.
  static PackedBatch someOf(const std::vector<int64_t> &lengths, unsigned of,
                            std::mt19937 &random) {
    PackedBatch batch;
    batch.offsets = {0};
    for (int64_t length : lengths) {
      for (int32_t position = 0; position < length; ++position)
        if (random() % 12 < of)
          batch.positions.push_back(position);
      batch.offsets.push_back(static_cast<int64_t>(batch.positions.size()));
    }
    return batch.rows() > 0 ? batch : someOf(lengths, of + 1, random);
  }

  /// Logits [rows x vocab] of all rows.
  std::vector<float> run(Model &on, const PackedBatch &batch,
                         LayerExecutor &executor) {
    const int64_t vocab = config.vocabSize;
    std::vector<int64_t> wanted(batch.rows());
    std::iota(wanted.begin(), wanted.end(), 0);
    std::vector<float> logits(wanted.size() * vocab, NAN);
    LogitRequest request{
        wanted, 1, [&](int64_t first, int64_t count, const float *values) {
          std::memcpy(&logits[first * vocab], values,
                      count * vocab * sizeof(float));
        }};
    EXPECT_OK(on.forward(batch, tokensOf(batch), executor, request));
    return logits;
  }

  static double relativeError(const std::vector<float> &a,
                              const std::vector<float> &b) {
    EXPECT_EQ(a.size(), b.size());
    double difference = 0, largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
        return INFINITY;
      difference = std::max(difference, std::abs(double(a[i]) - b[i]));
      largest = std::max(largest, std::abs(double(b[i])));
    }
    return difference / largest;
  }

  std::unique_ptr<Module> module;
  RowKernels rows;
  Stream stream;
  RowUploads uploads;
  std::unique_ptr<CudaModel> model;
};

const std::vector<int64_t> lengths = {37, 130, 1};

TEST_F(ModelTest, IsTheHosts) {
  for (bool dream : {false, true})
    for (auto [dtype, tolerance] :
         {std::pair(DType::F32, 1e-5), std::pair(DType::BF16, 3e-2)}) {
      SCOPED_TRACE(std::string(dream ? "Dream " : "LLaDA ") +
                   std::string(name(dtype)));
      open(tiny(dream), dtype);
      ASSERT_EQ(config.qkvBias, dream);
      ASSERT_EQ(config.fullPrecisionRope, !dream);
      std::unique_ptr<Model> onHost = host(dtype);
      KeepingExecutor there = onDevice(dtype, lengths, 5);
      KeepingExecutor here(config, dtype, lengths, 5);
      std::mt19937 random(3);
      auto expectSame = [&](const PackedBatch &batch, Pass pass) {
        there.begin(batch, pass);
        here.begin(batch, pass);
        EXPECT_LT(
            relativeError(run(*model, batch, there), run(*onHost, batch, here)),
            tolerance);
      };
      expectSame(PackedBatch::whole(lengths), Pass::Whole);
      expectSame(PackedBatch::whole(lengths), Pass::Keeping);
      // In bf16 a rounding that falls otherwise changes which rows are chosen.
      for (unsigned trial = 0; dtype == DType::F32 && trial < 10; ++trial) {
        SCOPED_TRACE(trial);
        expectSame(someOf(lengths, 1 + trial, random),
                   trial % 3 == 2 ? Pass::Dropping : Pass::Some);
      }
    }
}

// With the same tokens, what a pass does not compute is what an earlier one
// computed, whatever rows lie beside a row in its products.
TEST_F(ModelTest, WhatIsNotComputedIsRemembered) {
  for (bool dream : {false, true})
    for (DType dtype : {DType::F32, DType::BF16}) {
      SCOPED_TRACE(std::string(dream ? "Dream " : "LLaDA ") +
                   std::string(name(dtype)));
      open(tiny(dream), dtype);
      // Heads by themselves would be multiplied otherwise than all at once.
      fakeCublasLt().fewOutputs = 60;
      KeepingExecutor executor = onDevice(dtype, lengths, 17);
      const PackedBatch all = PackedBatch::whole(lengths);
      executor.begin(all, Pass::Keeping);
      const std::vector<float> expected = run(*model, all, executor);
      const int64_t vocab = config.vocabSize;
      std::mt19937 random(4);
      for (unsigned trial = 0; trial < 8; ++trial) {
        PackedBatch batch = someOf(lengths, 1 + trial, random);
        executor.begin(batch, Pass::Some);
        std::vector<float> logits = run(*model, batch, executor);
        int64_t start = 0;
        for (int64_t s = 0; s < batch.sequences(); ++s) {
          for (int64_t row = batch.offsets[s]; row < batch.offsets[s + 1];
               ++row)
            ASSERT_EQ(
                std::memcmp(&logits[row * vocab],
                            &expected[(start + batch.positions[row]) * vocab],
                            vocab * sizeof(float)),
                0)
                << "trial " << trial << ", sequence " << s << ", position "
                << batch.positions[row];
          start += lengths[s];
        }
      }
    }
}

TEST_F(ModelTest, RowsThatAreNotComputedAreNotLaunched) {
  open(tiny(), DType::F32);
  KeepingExecutor executor = onDevice(DType::F32, lengths, 17);
  const PackedBatch all = PackedBatch::whole(lengths);
  executor.begin(all, Pass::Keeping);
  const std::vector<float> expected = run(*model, all, executor);
  auto launches = [&](bundle::RowOp op) {
    return fakeDriver().launches[rowSymbol(op, "f32")];
  };
  executor.idle = true;
  executor.begin(all, Pass::Some);
  // The FFN of layer 1 is not kept: its two products, and the LM head's.
  auto products = fakeCublasLt().products;
  int64_t norms = launches(bundle::RowOp::RmsNorm),
          rotations = launches(bundle::RowOp::Rotate),
          copies = launches(bundle::RowOp::Copy);
  EXPECT_EQ(run(*model, all, executor), expected);
  int64_t made = 0;
  for (auto [id, count] : fakeCublasLt().products)
    made += count - products[id];
  EXPECT_EQ(made, 3);
  EXPECT_EQ(launches(bundle::RowOp::RmsNorm) - norms, 7 * all.rows());
  EXPECT_EQ(launches(bundle::RowOp::Rotate) - rotations, 0);
  EXPECT_EQ(launches(bundle::RowOp::Copy) - copies, 5 * all.rows());
}

// Waves of 126 rows (128, in whole units) in pieces of 9.
TEST_F(ModelTest, LogitsComeInWavesPiecesAndUnits) {
  CudaModelOptions options;
  options.logitBytes = 1;
  options.pieceBytes = 10 * 64 * 4 + 5;
  open(tiny(), DType::F32, options);
  KeepingExecutor executor = onDevice(DType::F32, lengths, 1);
  const PackedBatch all = PackedBatch::whole(lengths);
  executor.begin(all, Pass::Whole);
  const std::vector<float> expected = run(*model, all, executor);
  const int64_t vocab = config.vocabSize, unit = 3;
  std::mt19937 random(9);
  std::vector<int64_t> wanted(133 * unit);
  for (int64_t &row : wanted)
    row = static_cast<int64_t>(random() % all.rows());
  std::vector<float> logits(wanted.size() * vocab, NAN);
  std::vector<std::atomic<int>> delivered(wanted.size());
  std::atomic<bool> unitsWhole = true;
  LogitRequest request{wanted, unit,
                       [&](int64_t first, int64_t count, const float *values) {
                         if (first % unit != 0 || count % unit != 0)
                           unitsWhole = false;
                         for (int64_t i = 0; i < count; ++i)
                           ++delivered[first + i];
                         std::memcpy(&logits[first * vocab], values,
                                     count * vocab * sizeof(float));
                       }};
  ASSERT_OK(model->forward(all, tokensOf(all), executor, request));
  EXPECT_TRUE(unitsWhole);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(delivered[i], 1);
    ASSERT_EQ(std::memcmp(&logits[i * vocab], &expected[wanted[i] * vocab],
                          vocab * sizeof(float)),
              0)
        << i;
  }
  // None at all.
  ASSERT_OK(model->forward(all, tokensOf(all), executor, {}));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_F(ModelTest, TakesWhatItSays) {
  open(tiny(), DType::BF16);
  const int64_t before = fakeDriver().allocated;
  EXPECT_EQ(model->weightBytes(), weights.bytes());
  for (int64_t rowCount : {1, 128, 129, 700}) {
    ASSERT_OK(model->reserve(rowCount));
    EXPECT_EQ(fakeDriver().allocated - before,
              model->activationBytes(rowCount));
  }
  // Fewer rows fit; only indices come.
  KeepingExecutor executor = onDevice(DType::BF16, lengths, 1);
  const PackedBatch all = PackedBatch::whole(lengths);
  executor.begin(all, Pass::Keeping);
  run(*model, all, executor);
  EXPECT_EQ(fakeDriver().allocated - before,
            model->activationBytes(700) + uploads.bytes());
  EXPECT_EQ(uploads.bytes(), RowUploads::firstBytes);
  int allocations = fakeDriver().calls["cuMemAlloc_v2"] +
                    fakeDriver().calls["cuMemHostAlloc"];
  executor.begin(all, Pass::Some);
  run(*model, all, executor);
  EXPECT_EQ(fakeDriver().calls["cuMemAlloc_v2"] +
                fakeDriver().calls["cuMemHostAlloc"],
            allocations);
  model.reset();
  uploads = RowUploads();
  EXPECT_EQ(fakeDriver().allocated, before);
  EXPECT_EQ(fakeDriver().pinned, 0);
}

TEST_F(ModelTest, GrowsWithRowsAndPositions) {
  open(tiny(), DType::F32);
  KeepingExecutor executor = onDevice(DType::F32, lengths, 2);
  KeepingExecutor whole = onDevice(DType::F32, lengths, 2);
  const PackedBatch all = PackedBatch::whole(lengths);
  PackedBatch first{{0, 3, 3, 3}, {0, 1, 2}}, late{{0, 0, 2, 2}, {1, 129}};
  executor.begin(first, Pass::Keeping);
  run(*model, first, executor);
  executor.begin(late, Pass::Keeping);
  run(*model, late, executor);
  executor.begin(all, Pass::Keeping);
  const std::vector<float> logits = run(*model, all, executor);
  CudaModel other(device(), stream, weights, rows, uploads, config, DType::F32,
                  {.products = {.proposals = 2, .usesBeforeChoice = 2},
                   .memory = {.poison = true}});
  whole.begin(all, Pass::Keeping);
  EXPECT_EQ(logits, run(other, all, whole));
}

TEST_F(ModelTest, SaysWhatMemoryIsMissing) {
  open(tiny(), DType::BF16);
  const PackedBatch all = PackedBatch::whole(lengths);
  KeepingExecutor executor = onDevice(DType::BF16, lengths, 1);
  executor.begin(all, Pass::Whole);
  const int64_t needed = model->activationBytes(all.rows());
  const int64_t reserve = ArenaOptions().reserve;
  fakeDriver().freeBytes = reserve + Gemm::workspaceBytes + 100000;
  EXPECT_ERROR(model->checkMemory(needed, "this run", "use fewer prompts"),
               "this run needs 67.3 MB of GPU memory, 67.2 MB of the 4.3 GB of "
               "Fake GPU (device 0, compute capability 9.0) are available: use "
               "fewer prompts, or end other programs");
  Status status = model->forward(all, tokensOf(all), executor, {});
  EXPECT_ERROR(status, "a forward pass over 256 rows: this run needs ");
  fakeDriver().freeBytes = reserve + (int64_t(1) << 30);
  EXPECT_OK(model->checkMemory(needed, "this run", "use fewer prompts"));
  run(*model, all, executor);
  // What the model holds is there for the next run.
  fakeDriver().freeBytes = fakeDriver().allocated + reserve + 1000;
  EXPECT_OK(model->checkMemory(needed, "this run", "use fewer prompts"));
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST_F(ModelTest, AnyCallThatFailsEndsThePassCleanly) {
  open(tiny(), DType::F32);
  const std::vector<int64_t> lengths = {5, 9};
  const PackedBatch all = PackedBatch::whole(lengths);
  const std::vector<int64_t> wanted = {3, 5};
  LogitRequest request{wanted, 1, [](int64_t, int64_t, const float *) {}};
  auto pass = [&] {
    // As if for the first time.
    model = std::make_unique<CudaModel>(
        device(), stream, weights, rows, uploads, config, DType::F32,
        CudaModelOptions{.products = {.proposals = 2}});
    uploads = RowUploads(device());
    KeepingExecutor executor = onDevice(DType::F32, lengths, 1);
    const Drain drain(stream); // copies to what the executor keeps
    executor.begin(all, Pass::Keeping);
    if (Status s = model->forward(all, tokensOf(all), executor, request); !s)
      return s;
    executor.begin(all, Pass::Some);
    return model->forward(all, tokensOf(all), executor, request);
  };
  ASSERT_OK(pass());
  for (const char *entry :
       {"cuMemAlloc_v2", "cuMemHostAlloc", "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2", "cuLaunchKernel", "cuMemGetInfo_v2",
        "cuEventCreate", "cuEventRecord", "cuEventSynchronize"}) {
    SCOPED_TRACE(entry);
    int before = fakeDriver().calls[entry];
    ASSERT_OK(pass());
    int made = fakeDriver().calls[entry] - before;
    ASSERT_GT(made, 0);
    for (int after = 0; after < made; after += std::max(1, made / 5)) {
      fakeDriver().failures[entry] = {api::CUDA_ERROR_INVALID_VALUE,
                                      fakeDriver().calls[entry] + after};
      EXPECT_ERROR(pass(), entry);
      fakeDriver().failures.clear();
      ASSERT_OK(stream.synchronize());
    }
  }
  ASSERT_OK(pass());
}

TEST_F(ModelTest, RefusesWhatTheHostRefuses) {
  open(tiny(), DType::F32);
  KeepingExecutor executor = onDevice(DType::F32, lengths, 1);
  PackedBatch batch = PackedBatch::whole(lengths);
  executor.begin(batch, Pass::Whole);
  std::vector<int32_t> tokens = tokensOf(batch);
  tokens[7] = 61;
  EXPECT_ERROR(model->forward(batch, tokens, executor, {}),
               "row 7: token id 61 is not in the vocabulary, 0 to 60");
  tokens[7] = 0;
  batch.positions[2] = 300;
  EXPECT_ERROR(model->forward(batch, tokens, executor, {}),
               "a row stands at position 300 of its sequence");
  batch.positions[2] = 2;
  EXPECT_ERROR(model->forward(batch, tokens, executor, {{168}, 1, {}}),
               "logits of row 168 were asked for, the batch has 168 rows");
  int layers = 0;
  executor.wait = [&] {
    return layers++ == 1 ? Status(Error("no more")) : Status::success();
  };
  EXPECT_ERROR(model->forward(batch, tokens, executor, {}), "layer 1: no more");
  weights = DeviceWeights();
  EXPECT_ERROR(model->forward(batch, tokens, executor, {}),
               "before the model was loaded");
}

//===----------------------------------------------------------------------===//
// Uploads
//===----------------------------------------------------------------------===//

TEST_F(ModelTest, UploadsStayUntilTheNextStep) {
  open(tiny(), DType::F32);
  RowUploads some(device(), 256);
  auto put = [&](std::vector<int32_t> values) {
    Result<DevicePtr> there = some.put(stream, values);
    EXPECT_OK(there);
    return *there; // `values` go; the copy may not have been made
  };
  auto at = [&](DevicePtr there, int64_t i) {
    return reinterpret_cast<const int32_t *>(there)[i];
  };
  for (int step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    int allocated = fakeDriver().blocks;
    std::vector<int32_t> few(10, 3 + step), many(60, 4 + step);
    DevicePtr a = put(few), b = put(many);
    EXPECT_EQ(put({}), 0u);
    int copies = fakeDriver().calls["cuMemcpyHtoDAsync_v2"];
    EXPECT_EQ(put(few), a);
    EXPECT_EQ(put(many), b);
    EXPECT_EQ(fakeDriver().calls["cuMemcpyHtoDAsync_v2"], copies);
    few.back() = 9;
    DevicePtr c = put(few);
    EXPECT_NE(c, a);
    few.pop_back();
    DevicePtr d = put(few);
    for (DevicePtr there : {a, b, c, d})
      EXPECT_EQ(there % 64, 0u);
    ASSERT_OK(stream.synchronize());
    EXPECT_EQ(at(a, 9), 3 + step);
    EXPECT_EQ(at(b, 0), 4 + step);
    EXPECT_EQ(at(b, 59), 4 + step);
    EXPECT_EQ(at(c, 8), 3 + step);
    EXPECT_EQ(at(c, 9), 9);
    EXPECT_EQ(at(d, 8), 3 + step);
    // Two chunks at first, then one of both their sizes.
    EXPECT_EQ(fakeDriver().blocks - allocated, step == 0   ? 2
                                               : step == 1 ? 1
                                                           : 0);
    EXPECT_EQ(some.bytes(), 256 + 512);
    ASSERT_OK(some.reset(stream));
  }
}

TEST_F(ModelTest, UploadsOfEarlierStepsServeAsLongAsThereIsRoom) {
  open(tiny(), DType::F32);
  RowUploads some(device(), 256);
  auto put = [&](std::vector<int32_t> values) {
    Result<DevicePtr> there = some.put(stream, values);
    EXPECT_OK(there);
    EXPECT_OK(stream.synchronize());
    EXPECT_EQ(std::memcmp(reinterpret_cast<const void *>(*there), values.data(),
                          values.size() * 4),
              0);
    return *there;
  };
  auto copies = [] { return fakeDriver().calls["cuMemcpyHtoDAsync_v2"]; };
  const int before = copies();
  // 64 bytes each: the second fills the half, the third more than it.
  const DevicePtr a = put({1, 2, 3});
  ASSERT_OK(some.reset(stream));
  EXPECT_EQ(put({1, 2, 3}), a);
  put({4, 5});
  ASSERT_OK(some.reset(stream));
  EXPECT_EQ(put({1, 2, 3}), a);
  EXPECT_EQ(copies() - before, 2);
  put({6});
  ASSERT_OK(some.reset(stream));
  EXPECT_EQ(put({6}), a); // from the start again
  EXPECT_EQ(copies() - before, 4);
  EXPECT_EQ(some.bytes(), 256);
}

TEST_F(ModelTest, GatheredUploadsAreOneCopy) {
  open(tiny(), DType::F32);
  RowUploads some(device(), 256);
  auto put = [&](std::vector<int32_t> values) {
    Result<DevicePtr> there = some.put(stream, values);
    EXPECT_OK(there);
    return *there;
  };
  auto first = [&](DevicePtr there) {
    EXPECT_OK(stream.synchronize());
    return *reinterpret_cast<const int32_t *>(there);
  };
  auto copies = [] { return fakeDriver().calls["cuMemcpyHtoDAsync_v2"]; };
  int before = copies();
  some.gather();
  const DevicePtr a = put({1}), b = put({2, 3}), again = put({1});
  EXPECT_EQ(copies(), before);
  ASSERT_OK(some.send(stream));
  EXPECT_EQ(copies() - before, 1);
  EXPECT_EQ(again, a);
  EXPECT_EQ(first(a), 1);
  EXPECT_EQ(first(b), 2);
  some.gather();
  EXPECT_EQ(put({2, 3}), b);
  ASSERT_OK(some.send(stream)); // nothing
  EXPECT_EQ(copies() - before, 1);
  // Over the end of a chunk: one of each.
  some.gather();
  const DevicePtr c = put({4}), d = put(std::vector<int32_t>(100, 5));
  ASSERT_OK(some.send(stream));
  EXPECT_EQ(copies() - before, 3);
  EXPECT_EQ(first(c), 4);
  EXPECT_EQ(first(d), 5);
  ASSERT_OK(some.reset(stream));
  // What was not sent, since a step failed, is not there in the next one.
  some.gather();
  put({6});
  ASSERT_OK(some.reset(stream));
  before = copies();
  EXPECT_EQ(first(put({6})), 6);
  EXPECT_EQ(copies() - before, 1);
}

} // namespace
