//===- Digest.cpp - Bundles by their SHA-256 ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/trust/Digest.h"

#include "bundle/format/File.h"
#include "bundle/program/Printable.h"

#include <algorithm>
#include <cctype>

#include <nettle/sha2.h>

namespace heddle::trust {

std::string sha256(std::string_view bytes) {
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, bytes.size(),
                reinterpret_cast<const uint8_t *>(bytes.data()));
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_digest(&context, sizeof(digest), digest);
  std::string text;
  for (uint8_t byte : digest)
    for (int half : {byte >> 4, byte & 15})
      text += "0123456789abcdef"[half];
  return text;
}

Status checkDigest(std::string_view digest) {
  bool good = digest.size() == 2 * SHA256_DIGEST_SIZE &&
              std::ranges::all_of(digest, [](unsigned char c) {
                return std::isxdigit(c) != 0;
              });
  return good ? Status::success()
              : Error("'" + printable(digest) +
                      "' is no SHA-256: expected 64 hexadecimal digits, as "
                      "'heddle-bundle verify' prints them");
}

Result<ReadBundle> readBundle(const std::string &path,
                              const std::vector<std::string> &digests) {
  Result<std::string> bytes = bundle::Bundle::readBytes(path);
  if (!bytes)
    return bytes.takeError();
  std::string found = sha256(*bytes);
  auto isFound = [&](const std::string &digest) {
    return std::ranges::equal(digest, found, [](unsigned char a, char b) {
      return std::tolower(a) == b;
    });
  };
  if (!digests.empty() && std::ranges::none_of(digests, isFound))
    return Error(printablePath(path) + ": its SHA-256 is " + found +
                 ", which is not what --require-sha256 asks for: this is "
                 "another file, or it was changed");
  Result<bundle::Bundle> bundle =
      bundle::Bundle::parse(std::move(*bytes), path);
  if (!bundle)
    return bundle.takeError();
  return ReadBundle{std::move(*bundle), std::move(found)};
}

} // namespace heddle::trust
