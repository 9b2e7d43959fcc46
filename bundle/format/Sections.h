//===- Sections.h - What stands in the sections of a bundle -*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_SECTIONS_H
#define HEDDLE_BUNDLE_FORMAT_SECTIONS_H

#include "bundle/format/Bundle.h"

namespace heddle::bundle {

/// Refuses what Bundle::read() does not look at and a later use would refuse:
/// code for the host that runs something when it is loaded, and what
/// checkTables() does.
Status checkSections(const Bundle &bundle);

/// Refuses a section with a table, of tilings or of crossovers, that none is.
Status checkTables(const Bundle &bundle);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_SECTIONS_H
