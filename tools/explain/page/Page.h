//===- Page.h - An explanation as one HTML page -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_PAGE_PAGE_H
#define HEDDLE_TOOLS_EXPLAIN_PAGE_PAGE_H

#include "tools/explain/Explain.h"

#include <string>

namespace heddle::explain {

/// One page that needs nothing beside it: every number comes from here, the
/// page's script draws. A schedule that cannot be simulated at these lengths
/// gives a page that says why. Seconds at most, below 2 MB whatever the
/// request.
std::string toHtml(const Explanation &explanation);

/// What the page is drawn from: compact JSON.
std::string pageData(const Explanation &explanation);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_PAGE_PAGE_H
