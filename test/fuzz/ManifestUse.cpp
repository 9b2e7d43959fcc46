//===- ManifestUse.cpp - What is done with a manifest ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ManifestUse.h"
#include "test/fuzz/Target.h"

#include "tools/explain/Explain.h"

using namespace heddle;

void fuzz::useManifest(const bundle::Manifest &manifest) {
  const std::string written = bundle::toJson(manifest);
  Result<bundle::Manifest> again = bundle::manifestFromJson(written);
  require(bool(again), "a manifest that was accepted is accepted again");
  require(bundle::toJson(*again) == written,
          "a manifest that is read again is the same");

  explain::ExplainRequest request;
  request.shape.heads = request.shape.kvHeads = 2;
  request.shape.headDim = 64;
  for (int64_t steps : {1, 12}) {
    request.run.steps = steps;
    request.run.length = 90;
    request.run.prompt = 30;
    request.run.blockLength = steps == 1 ? 0 : 20;
    request.shape.layers = 4;
    auto explanation = explain::explainRun(manifest, request);
    if (!explanation)
      continue;
    require(!explain::toText(*explanation).empty() &&
                !explain::toJson(*explanation).empty(),
            "an explanation says something");
  }
}
