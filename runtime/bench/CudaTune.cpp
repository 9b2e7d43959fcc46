//===- CudaTune.cpp - Measuring tilings on a GPU --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/CudaTune.h"

#include "bundle/program/Printable.h"
#include "runtime/bench/Asked.h"
#include "runtime/bench/CudaKernels.h"
#include "runtime/bench/CudaTimer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>

using namespace heddle;
using namespace heddle::bench;
using namespace heddle::rt::cuda;

namespace {

/// The candidates on the device. Tensors stay there while their kernel is to be
/// measured again at the same length.
class Tuner {
public:
  Tuner(const CudaRequest &request, const TuneRequest &tune)
      : request(request), tune(tune) {}

  Status load(const std::vector<Candidate> &candidates);
  Result<double> measure(size_t candidate, int64_t n, bool last);
  const Context &device() const { return *context; }

private:
  struct Loaded {
    bundle::Bundle bundle;
    std::unique_ptr<Module> module;
    CudaSubject subject;
    std::vector<KernelAndVariant> kernels; ///< of one name
  };

  Status load(const Candidate &candidate);
  Result<KernelSubject *> prepared(size_t candidate, int64_t n);

  const CudaRequest &request;
  const TuneRequest &tune;
  std::unique_ptr<Context> context;
  std::optional<Stream> stream;
  std::optional<CudaTimer> timer;
  std::vector<std::unique_ptr<Loaded>> loaded;
  std::map<std::pair<size_t, int64_t>, std::unique_ptr<KernelSubject>> subjects;
};

} // namespace

Status Tuner::load(const std::vector<Candidate> &candidates) {
  if (Status s = Context::open(request.ordinal).moveTo(context); !s)
    return s;
  if (Status s = Stream::create(*context).moveTo(stream); !s)
    return s;
  if (Status s = CudaTimer::create(*context, /*flushBytes=*/0).moveTo(timer);
      !s)
    return s;
  for (const Candidate &candidate : candidates)
    if (Status s = load(candidate); !s)
      return s.takeError().withContext(printablePath(candidate.bundle));
  return Status::success();
}

Status Tuner::load(const Candidate &candidate) {
  Result<bundle::Bundle> read = bundle::Bundle::read(candidate.bundle);
  if (!read)
    return read.takeError();
  auto own = std::make_unique<Loaded>(Loaded{std::move(*read), {}, {}, {}});
  auto module = Module::load(*context, own->bundle);
  if (!module)
    return module.takeError();
  own->module = std::move(*module);
  own->subject = {candidate.name, &own->bundle, context.get(),
                  own->module.get(), &*stream};
  if (Status s =
          checkAsked(own->bundle.manifest(), own->module->choice().target,
                     request.dtypes, request.headDims);
      !s)
    return s;
  // A kernel has a form for each encoding of its lists, of which lengths ask
  // for one or the other.
  own->kernels = kernelsAsked(own->subject, request);
  if (own->kernels.empty())
    return Error("no kernel's name starts with '" + request.kernel + "'");
  const bundle::KernelVariant &first = *own->kernels.front().second;
  for (const auto &[kernel, variant] : own->kernels)
    if (kernel != own->kernels.front().first || variant->dtype != first.dtype ||
        variant->headDim != first.headDim)
      return Error("there are kernels " + first.symbol + " and " +
                   variant->symbol +
                   "; say which by --kernel, --dtype and --head-dim");
  loaded.push_back(std::move(own));
  return Status::success();
}

Result<KernelSubject *> Tuner::prepared(size_t candidate, int64_t n) {
  std::unique_ptr<KernelSubject> &known = subjects[{candidate, n}];
  if (known)
    return known.get();
  const Loaded &own = *loaded[candidate];
  const auto which =
      std::ranges::find_if(own.kernels, [&](const KernelAndVariant &each) {
        return takesLength(each, n);
      });
  if (which == own.kernels.end())
    return Error("no kernel has lists for " + std::to_string(n) + " keys");
  auto made = std::make_unique<KernelSubject>(own.subject, *which, n, request);
  if (Status s = made->prepare(); !s)
    return s.takeError();
  known = std::move(made);
  return known.get();
}

Result<double> Tuner::measure(size_t candidate, int64_t n, bool last) {
  const std::string &name = loaded[candidate]->subject.name;
  std::fprintf(stderr, "heddle-bench: %s, n = %lld\n", name.c_str(),
               static_cast<long long>(n));
  Result<KernelSubject *> subject = prepared(candidate, n);
  if (!subject)
    return subject.takeError().withContext(name);
  auto time = [&](int repetitions) {
    return timer->time(
        *stream, repetitions, /*cold=*/false,
        [&](const Stream &on) { return (*subject)->launch(on); });
  };
  constexpr int least = 5, most = 1000;
  Result<Times> few = time(least);
  if (!few)
    return few.takeError().withContext(name);
  const double wanted = 1000 * tune.seconds / std::max(few->median, 1e-3);
  Result<Times> times = time(static_cast<int>(
      std::clamp(std::ceil(wanted), double(least), double(most))));
  if (!times)
    return times.takeError().withContext(name);
  const double rate = (*subject)->operations() / times->median * 1e-9;
  if (last)
    subjects.erase({candidate, n});
  return rate;
}

Result<TuneResult>
heddle::bench::runTuning(const CudaRequest &request, const TuneRequest &tune,
                         const std::vector<Candidate> &candidates,
                         std::string &device) {
  Tuner tuner(request, tune);
  if (Status s = tuner.load(candidates); !s)
    return s.takeError();
  device = tuner.device().device().describe();
  return chooseTiling(candidates, request.lengths, tune,
                      [&](size_t candidate, int64_t length, bool last) {
                        return tuner.measure(candidate, length, last);
                      });
}
