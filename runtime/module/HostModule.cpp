//===- HostModule.cpp - The code section of a bundle, loaded --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/module/HostModule.h"

#include "bundle/format/NativeCode.h"
#include "runtime/module/CpuFeatures.h"
#include "runtime/module/KernelProbe.h"

#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

namespace {

#if defined(__x86_64__)
constexpr uint16_t hostElfMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t hostElfMachine = EM_AARCH64;
#else
constexpr uint16_t hostElfMachine = EM_NONE;
#endif

/// The dynamic loader's messages about a broken file are hard to read, some old
/// loaders crash on one, and all run its initialisers; look first.
Status checkCode(std::string_view code) {
  if (Status status = bundle::checkNativeCode(code); !status)
    return status;
  Elf64_Ehdr header;
  std::memcpy(&header, code.data(), sizeof(header));
  if (header.e_machine != hostElfMachine)
    return Error("the shared object is for ELF machine " +
                 std::to_string(header.e_machine) + ", this one is " +
                 std::to_string(hostElfMachine));
  return Status::success();
}

/// A file without a name in any folder, or -1. Falls back to an unlinked
/// temporary file where memfd_create is forbidden (some sandboxes).
int anonymousFile() {
  int fd = memfd_create("heddle-kernels", MFD_CLOEXEC);
  if (fd >= 0)
    return fd;
  const char *folder = std::getenv("TMPDIR");
  std::string pattern =
      std::string(folder && *folder ? folder : "/tmp") + "/heddle-XXXXXX";
  fd = mkostemp(pattern.data(), O_CLOEXEC); // mode 0600
  if (fd >= 0)
    unlink(pattern.c_str());
  return fd;
}

Status writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return Error(std::string("could not store the code: ") +
                   std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status::success();
}

/// Whether a symbol that was found in `handle` is a function of that object:
/// the loader also finds those of the libraries that the object asks for.
bool isOwnFunction(void *handle, void *address) {
  link_map *object = nullptr, *owner = nullptr;
  const ElfW(Sym) *symbol = nullptr;
  Dl_info info;
  return dlinfo(handle, RTLD_DI_LINKMAP, &object) == 0 &&
         dladdr1(address, &info, reinterpret_cast<void **>(&owner),
                 RTLD_DL_LINKMAP) != 0 &&
         owner == object &&
         dladdr1(address, &info,
                 reinterpret_cast<void **>(const_cast<ElfW(Sym) **>(&symbol)),
                 RTLD_DL_SYMENT) != 0 &&
         symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
}

} // namespace

Status HostModule::open(std::string_view code) {
  descriptor = anonymousFile();
  if (descriptor < 0)
    return Error(std::string("no file for the code could be made: ") +
                 std::strerror(errno));
  if (Status status = writeAll(descriptor, code); !status)
    return status;
  // The loader takes an object of the same path for the same object, so the
  // descriptor, whose number is the path, must not be reused while this object
  // is loaded.
  path = "/proc/self/fd/" + std::to_string(descriptor);
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return Error(std::string("the dynamic loader refused the code: ") +
                 (reason ? reason : "no reason given"));
  }
  return Status::success();
}

Result<std::unique_ptr<HostModule>>
HostModule::load(const bundle::Bundle &bundle) {
  const bundle::Manifest &manifest = bundle.manifest();
  int64_t host = bundle::hostTarget(manifest);
  if (host < 0)
    return Error("the bundle has code for " +
                 bundle::toString(manifest.targets) +
                 " only; run it with --device=cuda or compile it with "
                 "`heddlec --target=host`");
  const bundle::Target &target = manifest.targets[static_cast<size_t>(host)];
  if (Status status = checkTarget(target); !status)
    return status.takeError();

  std::string section = bundle::codeSection(target, bundle::CodeForm::Native);
  std::string_view code = bundle.section(section);
  if (code.empty())
    return Error("the bundle has no section '" + section +
                 "', so nothing in it runs on a CPU; compile the schedule with "
                 "`heddlec --target=host`");
  std::string where = "section " + section;
  if (Status status = checkCode(code); !status)
    return status.takeError().withContext(where);

  std::unique_ptr<HostModule> module(new HostModule());
  if (Status status = module->open(code); !status)
    return status.takeError().withContext(where);

  for (const bundle::Kernel &kernel : manifest.kernels) {
    for (const bundle::KernelVariant &variant : kernel.variants) {
      if (variant.target != host)
        continue;
      void *address = dlsym(module->handle, variant.symbol.c_str());
      if (!address || !isOwnFunction(module->handle, address))
        return Error("kernel '" + kernel.name + "' should be at the symbol '" +
                     variant.symbol +
                     "', which is no function that the code exports; the "
                     "bundle is inconsistent, compile the schedule again")
            .withContext(where);
      module->symbols.emplace(variant.symbol, address);
      Status status =
          kernel.kind == bundle::Kernel::Kind::Select
              ? probeSelect(kernel, variant, module->select(variant.symbol))
              : probeAttention(kernel, variant, manifest.groupsOf(kernel),
                               module->attention(variant.symbol));
      if (!status)
        return Error("a trial run of '" + variant.symbol +
                     "': " + status.error().text() +
                     "; the bundle is inconsistent, compile the schedule again")
            .withContext(where);
    }
  }
  return module;
}

HostModule::~HostModule() {
  bool resident = false;
  if (handle) {
    dlclose(handle);
    // Code that cannot be unloaded keeps its path taken, see open().
    if (void *again = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
      dlclose(again);
      resident = true;
    }
  }
  if (descriptor >= 0 && !resident)
    close(descriptor);
}

abi::AttentionKernel HostModule::attention(const std::string &symbol) const {
  auto found = symbols.find(symbol);
  assert(found != symbols.end() && "not a symbol of the manifest");
  return reinterpret_cast<abi::AttentionKernel>(found->second);
}

abi::SelectKernel HostModule::select(const std::string &symbol) const {
  auto found = symbols.find(symbol);
  assert(found != symbols.end() && "not a symbol of the manifest");
  return reinterpret_cast<abi::SelectKernel>(found->second);
}
