//===- HostModule.h - The code section of a bundle, loaded ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODULE_HOSTMODULE_H
#define HEDDLE_RUNTIME_MODULE_HOSTMODULE_H

#include "bundle/Result.h"
#include "bundle/abi/Abi.h"
#include "bundle/format/Bundle.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace heddle::rt {

/// A bundle's host kernels in executable memory. Unloads them on destruction;
/// no pointer obtained from it may be used afterwards.
class HostModule {
public:
  /// Loads the bundle's "code.host" section (whose ABI version the bundle's
  /// reader has checked). Refused, with what to do, when it was compiled for
  /// another machine, when the section is missing or no shared object of this
  /// architecture, when a kernel variant's symbol is no function in it, and
  /// when a trial run of a variant is not what the manifest says
  /// (KernelProbe.h).
  static Result<std::unique_ptr<HostModule>> load(const bundle::Bundle &bundle);

  ~HostModule();
  HostModule(const HostModule &) = delete;
  HostModule &operator=(const HostModule &) = delete;

  /// The entry of a variant of an attention kernel. `symbol` must be one of the
  /// bundle's manifest, all of which were resolved at load.
  abi::AttentionKernel attention(const std::string &symbol) const;

  /// The same for a select kernel.
  abi::SelectKernel select(const std::string &symbol) const;

private:
  HostModule() = default;
  Status open(std::string_view code);

  void *handle = nullptr;
  int descriptor = -1; // open as long as the code is loaded, see open()
  std::string path;
  std::unordered_map<std::string, void *> symbols;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODULE_HOSTMODULE_H
