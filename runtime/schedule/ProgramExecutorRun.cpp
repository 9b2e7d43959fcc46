//===- ProgramExecutorRun.cpp - Runs and steps of an executor -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "runtime/base/Machine.h"
#include "runtime/schedule/ProgramExecutor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Pass;
using bundle::Reuse;
using bundle::Selection;

ProgramExecutor::ProgramExecutor(bundle::Manifest manifest,
                                 const ModelConfig &config, DType dtype,
                                 std::unique_ptr<RowMemory> rows)
    : schedule(std::move(manifest)), layers(config.layers),
      hidden(config.hidden), queryHeads(config.queryHeads),
      kvHeads(config.kvHeads), headDim(config.headDim),
      shifted(config.shiftedLogits), dtype(dtype),
      memory(rows ? std::move(rows) : std::make_unique<HostRowMemory>(dtype)) {}

/// What a pass with rows that are not exact takes from caches.
static Status checkPass(const Pass &pass, const Reuse &reuse) {
  if (pass.exact == Pass::Exact::All)
    return Status::success();
  bool salient = pass.comparesContexts();
  std::string name = salient ? "salient" : "least similar";
  if (!reuse.kv || reuse.attention == Reuse::Attention::None)
    return Error("the schedule recomputes " + name +
                 " rows, so it must reuse kv and context or output");
  if (salient && reuse.attention == Reuse::Attention::Output)
    return Error("the schedule finds salient rows by their context, so it must "
                 "reuse context, not output");
  return Status::success();
}

/// Fits what layers compute and keep to their number.
Status ProgramExecutor::fitPasses() {
  bool someLayers = false, chooses = false;
  for (const Pass &pass : schedule.passes) {
    someLayers |= !pass.layers.empty();
    chooses |= pass.exact == Pass::Exact::LeastSimilar;
    needsGather |= pass.exact == Pass::Exact::Salient;
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    reuses.push_back(bundle::reuseOf(schedule, layer, layers));
    needsEnds |= (someLayers || chooses) && !reuses.back().carries();
  }
  needsGather |= someLayers || chooses || schedule.reuse.refreshed >= 0;
  if (!someLayers && schedule.layeredReuses.empty() && !needsEnds) {
    for (const Pass &pass : schedule.passes)
      if (Status status = checkPass(pass, schedule.reuse); !status)
        return status;
    return Status::success();
  }
  std::optional<bundle::ProgramProblem> problem =
      bundle::checkLayers(schedule, layers);
  if (!problem)
    return Status::success();
  std::string what = "a reuse of the schedule";
  if (problem->at == bundle::ProgramProblem::At::Pass)
    what = "the schedule's recompute " +
           bundle::toString(schedule, schedule.passes[problem->index].rows);
  return Error(what + " " + problem->what);
}

Status ProgramExecutor::fit() {
  if (layers < 1 || kvHeads < 1 || headDim < 1 || queryHeads < 1 ||
      queryHeads % kvHeads != 0)
    return Error("a model with " + std::to_string(layers) + " layers, " +
                 std::to_string(queryHeads) + " query heads, " +
                 std::to_string(kvHeads) + " key/value heads of " +
                 std::to_string(headDim) +
                 " elements cannot be scheduled: all must be positive and the "
                 "query heads a multiple of the key/value heads");
  if (Status status = StepProgram::create(schedule, layers).moveTo(program);
      !status)
    return status;
  if (Status status = fitPasses(); !status)
    return status;
  for (size_t k = 0; k < schedule.kernels.size(); ++k) {
    const bundle::Kernel &kernel = schedule.kernels[k];
    needsLse |= program.uses(k) && kernel.writesLse;
    listsOf.push_back(kernel.selections());
    groupsOf.push_back(schedule.groupsOf(kernel));
  }
  needsMoves = bundle::visibleMoves(schedule);
  needsScoring = program.scores();
  driftLayers = bundle::DriftWatch(schedule, layers).layers();
  weighs = program.weighs();
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// Rows of all responses.
static int64_t responseRows(const std::vector<SequenceShape> &shapes) {
  int64_t rows = 0;
  for (const SequenceShape &shape : shapes)
    rows += shape.length - shape.promptLength;
  return rows;
}

Status
ProgramExecutor::checkShapes(const std::vector<SequenceShape> &shapes) const {
  if (shapes.empty())
    return Error("a run needs at least one sequence");
  __int128 pairs = 0, rows = 0;
  for (size_t s = 0; s < shapes.size(); ++s) {
    int64_t n = shapes[s].length, prompt = shapes[s].promptLength;
    if (n < 1 || n > std::numeric_limits<int32_t>::max())
      return Error("sequence " + std::to_string(s) + " has " +
                   std::to_string(n) + " tokens; 1 to " +
                   std::to_string(std::numeric_limits<int32_t>::max()) +
                   " are possible, since index lists hold 32-bit positions");
    if (prompt < 0 || prompt > n)
      return Error("sequence " + std::to_string(s) + " of " +
                   std::to_string(n) + " tokens has a prompt of " +
                   std::to_string(prompt));
    pairs += static_cast<__int128>(n) * n * queryHeads * layers;
    rows += n;
  }
  if (rows > std::numeric_limits<int32_t>::max())
    return Error(
        "the sequences have " + std::to_string(static_cast<int64_t>(rows)) +
        " tokens in all; at most " +
        std::to_string(std::numeric_limits<int32_t>::max()) + " run together");
  if (pairs > std::numeric_limits<int64_t>::max() / 4)
    return Error("the sequences have more (query, key) pairs than a 64-bit "
                 "counter holds; split the batch");
  return Status::success();
}

/// The most places of each sequence.
std::vector<int64_t>
ProgramExecutor::placesOf(const std::vector<SequenceShape> &shapes) const {
  std::vector<int64_t> places;
  for (const SequenceShape &shape : shapes)
    places.push_back(
        std::max<int64_t>(1, SequenceRows::mostPlaces(schedule, shape)));
  return places;
}

IndexListShape
ProgramExecutor::listShape(const std::vector<SequenceShape> &shapes,
                           const std::vector<int64_t> &places) const {
  IndexListShape shape = {
      schedule.selections,
      program.listSources(),
      places,
      queryHeads,
      runner->encoding(*std::max_element(places.begin(), places.end())),
      kvHeads};
  for (const SequenceShape &each : shapes)
    shape.owners.push_back(each.readsAs < 0 ? std::ssize(shape.owners)
                                            : each.readsAs);
  return shape;
}

int64_t
ProgramExecutor::listBytes(const std::vector<SequenceShape> &shapes) const {
  return checkShapes(shapes)
             ? IndexLists::bytesFor(listShape(shapes, placesOf(shapes)))
             : 0;
}

int64_t
ProgramExecutor::runBytes(const std::vector<SequenceShape> &shapes) const {
  if (!checkShapes(shapes))
    return 0; // beginRun refuses them before it allocates
  const std::vector<int64_t> places = placesOf(shapes);
  __int128 bytes =
      runner->bytes(*std::max_element(places.begin(), places.end()));
  for (const Kept &each : keptStores())
    bytes += each.bytes(places);
  for (const Needed &each : neededMemory(shapes, places))
    bytes += each.bytes;
  return static_cast<int64_t>(
      std::min<__int128>(bytes, std::numeric_limits<int64_t>::max()));
}

/// What is kept of rows, by the stores in which it is.
std::vector<ProgramExecutor::Kept> ProgramExecutor::keptStores() const {
  const std::vector<bool> inAll(static_cast<size_t>(layers), true);
  const int64_t size = byteSize(dtype);
  std::vector<Kept> stores;
  auto add = [&](RowStore ProgramExecutor::*store, std::vector<bool> kept,
                 int64_t rowBytes, const char *what) {
    if (std::count(kept.begin(), kept.end(), true) > 0)
      stores.push_back({store, std::move(kept), rowBytes, what});
  };
  if (schedule.reuse.kv) {
    add(&ProgramExecutor::keyStore, inAll, kvWidth() * size, "cached keys");
    add(&ProgramExecutor::valueStore, inAll, kvWidth() * size, "cached values");
  }
  add(&ProgramExecutor::contextStore,
      layersThat([](const Reuse &reuse) { return reuse.keepsContext(); }),
      attentionWidth() * size, "cached attention contexts");
  add(&ProgramExecutor::outputStore, layersThat([](const Reuse &reuse) {
    return reuse.attention == Reuse::Attention::Output;
  }),
      hidden * size, "cached attention outputs");
  add(&ProgramExecutor::ffnStore,
      layersThat([](const Reuse &reuse) { return reuse.ffn; }), hidden * size,
      "cached FFN outputs");
  if (keepsOutside()) {
    add(&ProgramExecutor::outsideStore, inAll, attentionWidth() * size,
        "cached attention over keys outside");
    add(&ProgramExecutor::outsideLseStore, inAll,
        queryHeads * static_cast<int64_t>(sizeof(float)),
        "cached log-sum-exps of keys outside");
  }
  // Of one layer at a time.
  add(&ProgramExecutor::delta, {propagatesSomewhere()}, kvWidth() * size,
      "changes of values");
  add(&ProgramExecutor::ends, {needsEnds}, hidden * size, "outputs of a layer");
  return stores;
}

/// What a run needs beside its stores, in the order that it is allocated.
std::vector<ProgramExecutor::Needed>
ProgramExecutor::neededMemory(const std::vector<SequenceShape> &shapes,
                              const std::vector<int64_t> &places) const {
  const int64_t rows =
      std::accumulate(places.begin(), places.end(), int64_t(0));
  const int64_t size = byteSize(dtype);
  const int64_t attentionRow = attentionWidth() * size;
  const int64_t kvRow = kvWidth() * size;
  const int64_t lseRow = queryHeads * static_cast<int64_t>(sizeof(float));
  const char *const scratch = "scratch memory of the schedule";
  const char *const drift = "what drift is measured from";
  const char *const attention = "what attention is added up from";
  std::vector<Needed> all = {{&ProgramExecutor::listMemory,
                              IndexLists::bytesFor(listShape(shapes, places)),
                              "index lists"}};
  auto add = [&](std::shared_ptr<std::byte> ProgramExecutor::*buffer,
                 bool needed, int64_t count, int64_t rowBytes,
                 const char *what) {
    if (needed)
      all.push_back({buffer, count * rowBytes, what});
  };
  using Self = ProgramExecutor;
  const bool rolls = program.rollsOut();
  add(&Self::lse, needsLse, rolls ? layers * rows : rows, lseRow, scratch);
  add(&Self::beforeLse, keepsOutside(), rows, lseRow, scratch);
  add(&Self::gatherQ, needsGather, rows, attentionRow, scratch);
  add(&Self::gatherO, needsGather, rows, attentionRow, scratch);
  add(&Self::scoringO, needsScoring || weighs, rows, attentionRow, scratch);
  add(&Self::scoringL, needsScoring, rows, 2 * lseRow, scratch);
  add(&Self::keyClasses, weighs, rows, kvRow, scratch);
  add(&Self::moved, needsMoves, rows, widestRow() * size, scratch);
  add(&Self::rolloutQ, rolls, layers * rows, attentionRow, attention);
  add(&Self::rolloutLse, rolls, rows, lseRow, attention);
  add(&Self::rolloutScores, rolls, rows, lseRow, attention);
  if (rolls) {
    const bundle::Encoding encoding = listShape(shapes, places).encoding;
    int64_t bytes = 0;
    for (int64_t n : places)
      bytes += rolloutListBytes(encoding, n);
    add(&Self::rolloutLists, true, 1, bytes, attention);
  }
  add(&Self::reference, !driftLayers.empty(),
      std::ssize(driftLayers) * responseRows(shapes), driftWidth() * size,
      drift);
  add(&Self::classes, weighs, headDim, kvRow, drift);
  return all;
}

/// Elements of the widest row that the schedule keeps.
int64_t ProgramExecutor::widestRow() const {
  int64_t widest = 0;
  for (const Kept &each : keptStores())
    widest = std::max(widest, each.rowBytes / byteSize(dtype));
  return widest;
}

void ProgramExecutor::endRun() {
  running = underWay = false;
  sequences.clear();
  lists = IndexLists();
  listMemory.reset();
  for (RowStore *store :
       {&keyStore, &valueStore, &contextStore, &outputStore, &ffnStore,
        &outsideStore, &outsideLseStore, &delta, &ends})
    *store = RowStore();
  for (std::shared_ptr<std::byte> *buffer :
       {&lse, &beforeLse, &gatherQ, &gatherO, &scoringO, &scoringL, &rolloutQ,
        &rolloutLse, &rolloutScores, &rolloutLists, &moved, &reference,
        &classes, &keyClasses})
    buffer->reset();
}

Status ProgramExecutor::beginRun(std::vector<SequenceShape> shapes,
                                 int64_t totalSteps, int64_t blockSteps) {
  endRun();
  counted = {};
  traced.clear();
  mapped.clear();
  if (Status status = checkShapes(shapes); !status)
    return status;
  if (Status status = program.beginRun(totalSteps, blockSteps); !status)
    return status;
  if (Status status = memory->check(
          runBytes(shapes),
          "the index lists, caches and scratch memory of this run",
          "use shorter or fewer sequences, keep fewer columns or take larger "
          "groups");
      !status)
    return status;

  std::vector<int64_t> places = placesOf(shapes);
  starts.assign(1, 0);
  for (int64_t n : places)
    starts.push_back(starts.back() + n);
  auto allocate = [&](std::shared_ptr<std::byte> &to, int64_t bytes,
                      const char *what) -> Status {
    if (Status status = memory->allocate(bytes).moveTo(to); !status)
      return status.takeError().withContext(what);
    return Status::success();
  };
  const std::vector<Needed> needed = neededMemory(shapes, places);
  for (const Needed &each : needed)
    if (Status status = allocate(this->*each.buffer, each.bytes, each.what);
        !status)
      return status;
  const IndexListShape shape = listShape(shapes, places);
  // Bits of bitmaps behind the last key are zero.
  if (const int64_t bytes = needed.front().bytes;
      bytes > 0 && shape.encoding == bundle::Encoding::Bitmap)
    if (Status status = memory->clear(listMemory.get(), bytes); !status)
      return status;
  lists = IndexLists::at(shape, listMemory.get());
  encodedBy = shape.encoding;
  for (const Kept &each : keptStores()) {
    const int64_t bytes = each.bytes(places);
    std::shared_ptr<std::byte> kept;
    if (Status status = allocate(kept, bytes, each.what); !status)
      return status;
    // clearDelta() leaves changes so; and no row is made of what nobody wrote.
    if (each.store == &ProgramExecutor::delta ||
        each.store == &ProgramExecutor::ends)
      if (Status status = memory->clear(kept.get(), bytes); !status)
        return status;
    this->*each.store =
        RowStore(places, each.rowBytes, std::move(kept), each.kept);
  }
  if (weighs)
    if (Status status = makeClasses(); !status)
      return status;
  // What drift finds waits for the next step, behind what a layer asks for.
  if (Status status =
          memory->reserve(starts.back() * (1 + std::ssize(driftLayers)));
      !status)
    return status;
  if (Status status =
          runner->reserve(*std::max_element(places.begin(), places.end()));
      !status)
    return status;

  referenceStarts.assign(1, 0);
  for (const SequenceShape &shape : shapes) {
    sequences.push_back(
        std::make_unique<Sequence>(schedule, shifted, layers, shape));
    Sequence &sequence = *sequences.back();
    const int64_t response = shape.length - shape.promptLength;
    sequence.drifting.resize(driftLayers.size());
    for (Sequence::Drifting &each : sequence.drifting)
      each.referenced.assign(static_cast<size_t>(response), 0);
    referenceStarts.push_back(referenceStarts.back() + response);
  }
  knownPairs.assign(layers * sequences.size() * schedule.kernels.size(), {});
  refreshedNow.assign(sequences.size(), {});
  batch = {};
  layerNow = layers; // no step has begun
  stageNow = Stage::Values;
  running = true;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Result<const PackedBatch *>
ProgramExecutor::beginStep(std::span<const SequenceState> states) {
  counted = {};
  traced.clear();
  mapped.clear();
  layerNow = layers;
  stageNow = Stage::Values;
  if (!running)
    return Error("a step was begun outside of a run: call beginRun");
  if (underWay)
    return Error("the step before did not run through all layers, so that what "
                 "it keeps for later ones is not whole: call beginRun");
  if (states.size() != sequences.size())
    return Error("the states of " + std::to_string(states.size()) +
                 " sequences were given, the run has " +
                 std::to_string(sequences.size()));
  if (Status status = readDrift(); !status)
    return status.takeError();
  batch.offsets.assign(1, 0);
  batch.positions.clear();
  keptRow.clear();
  computing.clear();
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (Status status = beginSequence(static_cast<int64_t>(s), states[s]);
        !status)
      return status.takeError().withContext(
          "step " + std::to_string(states[s].place.step) + " of sequence " +
          std::to_string(s));
    const SequenceRows &rows = sequences[s]->rows;
    if (rows.rows() > 0)
      computing.push_back(static_cast<int64_t>(s));
    for (int32_t place : rows.activePlaces()) {
      batch.positions.push_back(rows.rowPosition(place));
      keptRow.push_back(static_cast<int32_t>(starts[s] + place));
    }
    batch.offsets.push_back(static_cast<int64_t>(batch.positions.size()));
  }
  counted.activeRows = batch.rows();
  layerNow = 0;
  return &batch;
}

Status ProgramExecutor::beginSequence(int64_t s, const SequenceState &state) {
  Sequence &sequence = *sequences[s];
  SequenceState known = state;
  known.place = sequence.drift.at(state.place);
  if (program.rollsOut())
    known.attention = attention(s);
  if (Status status = sequence.rows.beginStep(known); !status)
    return status;
  for (std::vector<int32_t> &places : sequence.computedPlaces)
    places.clear();
  if (!sequence.rows.inStep())
    return Status::success();
  const SequenceRows &rows = sequence.rows;
  if (rows.n() == 0)
    return Error("no position is visible");
  if (rows.visibleChanged()) {
    lists.see(s, rows.n(), rows.promptPlaces());
    sequence.classed = false;
    for (int64_t layer = 0; layer < layers; ++layer)
      std::ranges::fill(knownPairsOf(layer, s), std::vector<int64_t>());
  }
  sequence.phases = program.phasesAt(known.place);
  if (Status status = checkRefreshes(s); !status)
    return status;
  return rows.movedFrom().empty() ? Status::success() : moveRows(s);
}

/// Brings what is kept of a sequence to the places that its positions now have.
Status ProgramExecutor::moveRows(int64_t s) {
  const SequenceRows &rows = sequences[s]->rows;
  std::vector<int32_t> from, between, to;
  for (size_t i = 0; i < rows.movedFrom().size(); ++i) {
    from.push_back(static_cast<int32_t>(starts[s] + rows.movedFrom()[i]));
    between.push_back(static_cast<int32_t>(i));
    to.push_back(static_cast<int32_t>(starts[s] + rows.movedTo()[i]));
  }
  for (const RowStore *store :
       {&keyStore, &valueStore, &contextStore, &outputStore, &ffnStore}) {
    if (store->empty())
      continue;
    const int64_t width = store->rowBytes() / byteSize(dtype);
    const RowTable waiting{moved.get(), width, between};
    // Rows may go where others still stand: all leave before any arrives.
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (!store->keeps(layer))
        continue;
      if (Status status =
              memory->copy(tableOf(*store, layer, from), waiting, width);
          !status)
        return status;
      if (Status status =
              memory->copy(waiting, tableOf(*store, layer, to), width);
          !status)
        return status;
    }
  }
  return Status::success();
}

/// Selections are scored from the queries and keys of all visible rows, into
/// lists that are the sequence's own.
Status ProgramExecutor::checkRefreshes(int64_t s) const {
  const Sequence &sequence = *sequences[s];
  const int64_t reads = sequence.rows.shape().readsAs;
  if ((sequence.rows.whole() && reads < 0) || sequence.rows.rows() == 0)
    return Status::success();
  for (int64_t layer = 0; layer < layers; ++layer)
    for (const bundle::Phase::Refresh &refresh :
         program.due(phaseOf(layer, sequence), sequence.rows.place())) {
      const std::string what = "selection '" +
                               schedule.selections[refresh.selection].name +
                               "' is refreshed";
      if (reads >= 0)
        return Error(what +
                     " at a step that was drafted, which reads the "
                     "lists of sequence " +
                     std::to_string(reads));
      return Error(what + ", which takes all " +
                   std::to_string(sequence.rows.n()) +
                   " visible rows, but the pass computes " +
                   std::to_string(sequence.rows.rows()) +
                   " of them, or not exactly; recompute all on its cadence");
    }
  return Status::success();
}

bool ProgramExecutor::inCommitSet(int64_t sequence, int64_t position) const {
  return sequences[sequence]->rows.inCommitSet(position);
}

Result<std::vector<SelectionView>>
ProgramExecutor::selections(int64_t layer, int64_t sequence) const {
  std::vector<SelectionView> views;
  if (!running || layer < 0 || layer >= layers || sequence < 0 ||
      sequence >= static_cast<int64_t>(sequences.size()))
    return views;
  viewed.resize(schedule.selections.size());
  for (size_t s = 0; s < schedule.selections.size(); ++s) {
    if (program.source(layer, static_cast<int64_t>(s)) != layer)
      continue;
    abi::IndexList list = lists.list(layer, sequence, static_cast<int64_t>(s));
    const int64_t heads = queryHeads / list.headsPerList;
    SelectionView &view = views.emplace_back(
        SelectionView{static_cast<int64_t>(s), schedule.selections[s].group,
                      heads, list.groups, list.keep, nullptr});
    if (!lists.filled(layer, sequence, static_cast<int64_t>(s)))
      continue;
    if (Status status =
            runner->read(schedule.selections[s], sequences[sequence]->rows.n(),
                         heads, {0, list.groups}, list, viewed[s]);
        !status)
      return status.takeError();
    view.indices = static_cast<const int32_t *>(list.indices);
  }
  return views;
}
