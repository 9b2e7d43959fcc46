//===- Refusal.h - Manifests that are refused -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_TEST_REFUSAL_H
#define HEDDLE_BUNDLE_TEST_REFUSAL_H

#include "bundle/format/ManifestJson.h"
#include "bundle/test/Says.h"
#include "bundle/test/TestManifest.h"

#include "nlohmann/json.hpp"

#include <functional>
#include <gtest/gtest.h>

namespace heddle::bundle::test {

using Json = nlohmann::ordered_json;

/// The manifest as it is read from its text, which it has again.
inline Manifest readBack(const Manifest &whole) {
  Result<Manifest> back = manifestFromJson(toJson(whole));
  EXPECT_TRUE(back) << back.error().text();
  if (!back)
    return {};
  EXPECT_EQ(toJson(*back), toJson(whole));
  return std::move(*back);
}

/// The error of a manifest after `change`, or "" if it is accepted.
inline std::string refusal(const Manifest &whole,
                           const std::function<void(Json &)> &change) {
  Json json = Json::parse(toJson(whole));
  change(json);
  Result<Manifest> manifest = manifestFromJson(json.dump());
  return manifest ? "" : manifest.error().text();
}
/// The same of a change of what it is written from.
inline std::string refusalAfter(Manifest manifest,
                                const std::function<void(Manifest &)> &change) {
  change(manifest);
  return refusal(manifest, [](Json &) {});
}
inline std::string refusal(const std::function<void(Json &)> &change) {
  return refusal(testManifest(), change);
}
inline std::string cudaRefusal(const std::function<void(Json &)> &change) {
  return refusal(testCudaManifest(), change);
}

/// A term of a share.
inline Json sinksOf(const Json &share) {
  Json term;
  term["kind"] = "sinks";
  term["share"] = share;
  return term;
}

inline Json fourSinks() { return {{"kind", "sinks"}, {"size", 4}}; }

#define EXPECT_REFUSED(change, text)                                           \
  EXPECT_TRUE(says(refusal([](Json &json) { change; }), text))
#define EXPECT_CUDA_REFUSED(change, text)                                      \
  EXPECT_TRUE(says(cudaRefusal([](Json &json) { change; }), text))

} // namespace heddle::bundle::test

#endif // HEDDLE_BUNDLE_TEST_REFUSAL_H
