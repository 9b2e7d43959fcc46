//===- Bundles.cpp - Bundles as the options have them read ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bundles.h"

#include "Interrupt.h"
#include "bundle/program/Printable.h"
#include "tools/trust/Digest.h"
#include "tools/trust/Rebuild.h"

namespace heddle::run {

Result<bundle::Bundle> readBundle(const std::string &path,
                                  const std::vector<std::string> &digests,
                                  bool rebuild) {
  Result<trust::ReadBundle> read = trust::readBundle(path, digests);
  if (!read)
    return read.takeError();
  if (!rebuild)
    return std::move(read->bundle);
  Result<std::string> bytes = trust::rebuild(read->bundle, interrupted);
  if (!bytes)
    return bytes.takeError().withContext(printablePath(path));
  return bundle::Bundle::parse(std::move(*bytes), path);
}

} // namespace heddle::run
