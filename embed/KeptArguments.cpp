//===- KeptArguments.cpp - Arguments that a GPU has already ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KeptArguments.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>

namespace heddle::embed {

using namespace rt::cuda;

namespace {

/// Lets this thread allocate and free while another stream is captured, which
/// is else an error of the capture. None of it belongs to a captured stream.
class RelaxedCapture {
public:
  explicit RelaxedCapture(const api::EntryPoints &entries) : entries(entries) {
    exchange();
  }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture &) = delete;
  RelaxedCapture &operator=(const RelaxedCapture &) = delete;

private:
  void exchange() {
    if (auto function = entries.exchangeCaptureMode.function)
      (void)function(&mode);
  }

  const api::EntryPoints &entries;
  api::CUstreamCaptureMode mode = api::CU_STREAM_CAPTURE_MODE_RELAXED;
};

} // namespace

/// By memcmp(), as == goes byte by byte.
bool KeptArguments::Place::has(const std::vector<std::byte> &arguments) const {
  return content.size() == arguments.size() &&
         std::memcmp(content.data(), arguments.data(), content.size()) == 0;
}

KeptArguments::~KeptArguments() {
  RelaxedCapture relaxed(context.api());
  for (auto &[stream, memory] : streams) {
    for (Place &place : memory.all)
      place.graph.reset();
    if (memory.block)
      context.release(context.api().memFree, memory.block);
  }
  recorder.reset();
}

std::optional<uint64_t>
KeptArguments::streamNumber(api::CUstream stream) const {
  const api::EntryPoints &entries = context.api();
  int capturing = 0;
  unsigned long long number = 0;
  if (bytes > mostBytes || !entries.streamGetId.function || !context.enter() ||
      entries.streamIsCapturing.function(stream, &capturing) !=
          api::CUDA_SUCCESS ||
      capturing != 0 ||
      entries.streamGetId.function(stream, &number) != api::CUDA_SUCCESS ||
      ((std::ssize(streams) + 1) * int64_t(places) * bytes > mostTotal &&
       !streams.count(number)))
    return std::nullopt;
  return number;
}

Result<KeptArguments::Place *>
KeptArguments::find(uint64_t stream, const std::vector<std::byte> &arguments) {
  assert(static_cast<int64_t>(arguments.size()) <= bytes);
  Memory &memory = streams[stream];
  if (!memory.block) {
    RelaxedCapture relaxed(context.api());
    if (Status status = context.call(context.api().memAlloc, &memory.block,
                                     places * static_cast<size_t>(bytes));
        !status)
      return status.takeError();
    for (size_t i = 0; i < places; ++i)
      memory.all[i].address = memory.block + i * static_cast<size_t>(bytes);
  }
  Place *found =
      std::find_if(memory.all.begin(), memory.all.end(),
                   [&](const Place &place) { return place.has(arguments); });
  if (found == memory.all.end()) {
    found = std::min_element(
        memory.all.begin(), memory.all.end(),
        [](const Place &a, const Place &b) { return a.lastUse < b.lastUse; });
    found->content.clear();
    found->work.clear();
    forget(*found);
  }
  found->lastUse = ++uses;
  return found;
}

/// A graph whose launch is under way goes when that is done.
void KeptArguments::forget(Place &place) {
  if (!place.graph)
    return;
  RelaxedCapture relaxed(context.api());
  place.graph.reset();
}

const Graph *KeptArguments::graphOf(Place &place, std::vector<std::byte> work,
                                    const Graph::Recorder &record) {
  if (place.work != work) {
    forget(place);
    place.work = std::move(work);
    return nullptr;
  }
  if (place.graph || !records)
    return place.graph ? &*place.graph : nullptr;
  // What fails here is launched one by one, and says then what is wrong.
  records = false;
  RelaxedCapture relaxed(context.api());
  if (!recorder)
    if (Result<Stream> made = Stream::create(context))
      recorder = std::move(*made);
  if (!recorder)
    return nullptr;
  Result<Graph> graph = Graph::capture(*recorder, record);
  if (!graph)
    return nullptr;
  records = true;
  place.graph = std::move(*graph);
  return &*place.graph;
}

} // namespace heddle::embed
