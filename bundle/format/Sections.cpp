//===- Sections.cpp - What stands in the sections of a bundle -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Sections.h"

#include "bundle/format/NativeCode.h"
#include "bundle/format/Tilings.h"

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
  if (std::string_view table = bundle.section(tuningSection); !table.empty())
    if (auto rules = tilingsFromJson(table); !rules)
      return rules.takeError().withContext("section " +
                                           std::string(tuningSection));
  return Status::success();
}
