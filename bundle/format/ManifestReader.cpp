//===- ManifestReader.cpp - The manifest read from JSON -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/Abi.h"
#include "bundle/format/FieldPlaces.h"
#include "bundle/format/FieldReader.h"
#include "bundle/format/ManifestJson.h"
#include "bundle/format/StrictJson.h"

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::detail;

Result<Manifest> heddle::bundle::manifestFromJson(const std::string &text) {
  constexpr size_t maxDepth = 16, maxKeys = 256; // far more than there are
  if (std::string problem = jsonProblem(text, maxDepth, maxKeys);
      !problem.empty())
    return Error("manifest: " + problem);
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded())
    return Error("manifest: not valid JSON");

  Manifest manifest;
  FieldReader in(manifest, "manifest",
                 "; use the heddle version that wrote the bundle, or compile "
                 "the schedule again",
                 " to this build, which must not skip it; use the heddle "
                 "version that wrote the bundle",
                 placesOfField);
  // Another ABI may have other fields, so it is judged before they are.
  if (json.is_object() && json.contains("abi")) {
    in.read(json["abi"], "abi", manifest.abi, Range{0, UINT32_MAX});
    if (!in.failed() && manifest.abi != abi::abiVersion)
      in.fail("abi", "the kernels follow ABI version " +
                         std::to_string(manifest.abi) +
                         ", this build calls version " +
                         std::to_string(abi::abiVersion) +
                         ": recompile the schedule with this build's heddlec: "
                         "heddle-bundle dump FILE --section=schedule | heddlec "
                         "- -o NEW.hdl");
  }
  in.read(json, "", manifest);
  if (in.failed())
    return in.takeError();
  if (Status status = checkManifest(manifest); !status)
    return status.takeError().withContext("manifest");
  return manifest;
}
