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
  request.heads = request.kvHeads = 2;
  request.headDim = 64;
  for (int64_t steps : {1, 12}) {
    request.steps = steps;
    request.length = 90;
    request.prompt = 30;
    request.blockLength = steps == 1 ? 0 : 20;
    request.layers = 4;
    auto explanation = explain::explainRun(manifest, request);
    if (!explanation)
      continue;
    require(!explain::toText(*explanation).empty() &&
                !explain::toJson(*explanation).empty(),
            "an explanation says something");
  }
}
