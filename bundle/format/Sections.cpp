//===- Sections.cpp - What stands in the sections of a bundle -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Sections.h"

#include "bundle/format/Crossovers.h"
#include "bundle/format/NativeCode.h"
#include "bundle/format/Tilings.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::bundle;

Status heddle::bundle::checkSections(const Bundle &bundle) {
  const Manifest &manifest = bundle.manifest();
  if (int64_t host = hostTarget(manifest); host >= 0) {
    const std::string name = codeSection(
        manifest.targets[static_cast<size_t>(host)], CodeForm::Native);
    if (Status status = checkNativeCode(bundle.section(name)); !status)
      return status.takeError().withContext("section " + name);
  }
  return checkTables(bundle);
}

Status heddle::bundle::checkTables(const Bundle &bundle) {
  // One without a byte is there, too.
  auto check = [&](std::string_view name, auto &&read) {
    if (!bundle.find(name))
      return Status::success();
    if (auto table = read(bundle.section(name)); !table)
      return Status(
          table.takeError().withContext("section " + std::string(name)));
    return Status::success();
  };
  if (Status status = check(tuningSection, tilingsFromJson); !status)
    return status;
  return check(crossoversSection, crossoversFromJson);
}
