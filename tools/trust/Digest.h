//===- Digest.h - Bundles by their SHA-256 ----------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_TRUST_DIGEST_H
#define HEDDLE_TOOLS_TRUST_DIGEST_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"

#include <string>
#include <string_view>
#include <vector>

namespace heddle::trust {

/// SHA-256 of the bytes (FIPS 180-4), 64 lower-case hexadecimal digits.
std::string sha256(std::string_view bytes);

/// Refuses what is no SHA-256 in hexadecimal digits of either case.
Status checkDigest(std::string_view digest);

/// A bundle and the digest of its file, both of the same bytes.
struct ReadBundle {
  bundle::Bundle bundle;
  std::string sha256;
};

/// Reads and verifies a bundle. With digests, it must have one of them: nothing
/// in a file that has none is looked at.
Result<ReadBundle> readBundle(const std::string &path,
                              const std::vector<std::string> &digests = {});

} // namespace heddle::trust

#endif // HEDDLE_TOOLS_TRUST_DIGEST_H
