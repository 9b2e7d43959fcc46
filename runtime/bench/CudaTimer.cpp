//===- CudaTimer.cpp - Times of work on a GPU ----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/CudaTimer.h"

using namespace heddle;
using namespace heddle::bench;
using namespace heddle::rt::cuda;

Result<CudaTimer> CudaTimer::create(const Context &context,
                                    int64_t flushBytes) {
  CudaTimer timer;
  timer.context = &context;
  timer.flushBytes = flushBytes;
  ArenaPlan plan;
  plan.add("flush", flushBytes);
  if (Status s = Arena::allocate(context, std::move(plan)).moveTo(timer.memory);
      !s)
    return s.takeError();
  return timer;
}

Result<Times> CudaTimer::time(const Stream &stream, int repetitions, bool cold,
                              const Work &work) const {
  Result<Event> start = Event::create(*context, /*timed=*/true);
  if (!start)
    return start.takeError();
  Result<Event> end = Event::create(*context, /*timed=*/true);
  if (!end)
    return end.takeError();
  std::vector<double> measured;
  for (int i = -1; i < repetitions; ++i) {
    if (cold)
      if (Status s = stream.fillBytes(memory[0], uint8_t(i), flushBytes); !s)
        return s.takeError();
    if (Status s = stream.record(*start); !s)
      return s.takeError();
    if (Status s = work(stream); !s)
      return s.takeError();
    if (Status s = stream.record(*end); !s)
      return s.takeError();
    if (Status s = end->synchronize(); !s)
      return s.takeError();
    Result<double> elapsed = Event::elapsed(*start, *end);
    if (!elapsed)
      return elapsed.takeError();
    if (i >= 0)
      measured.push_back(*elapsed);
  }
  return timesOf(std::move(measured));
}
