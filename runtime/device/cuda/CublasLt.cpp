//===- CublasLt.cpp - cuBLASLt, opened at run time ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/CublasLt.h"

#include "runtime/device/cuda/Driver.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <dlfcn.h>

namespace heddle::rt::cuda {

namespace fs = std::filesystem;

namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Entries of a folder whose names start with `prefix`, the last name first
/// (later versions first). None when it cannot be read.
std::vector<fs::path> children(const fs::path &folder,
                               std::string_view prefix = "") {
  std::vector<fs::path> result;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().string().starts_with(prefix))
      result.push_back(at->path());
  std::sort(result.rbegin(), result.rend());
  return result;
}

/// Adds the lib folders of NVIDIA's wheels below a Python's `lib`:
/// lib/python3.12/site-packages/nvidia/{cu13,cublas}/lib.
void addWheels(std::vector<fs::path> &folders, const fs::path &lib) {
  for (const fs::path &python : children(lib, "python3"))
    for (const char *packages : {"site-packages", "dist-packages"})
      for (const fs::path &wheel : children(python / packages / "nvidia"))
        folders.push_back(wheel / "lib");
}

/// Folders in which cuBLASLt may lie, the likeliest first.
std::vector<fs::path> searchFolders() {
  std::vector<fs::path> folders;
  for (const char *name : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string home = variable(name); !home.empty())
      for (const char *lib : {"lib64", "lib"})
        folders.push_back(fs::path(home) / lib);
  for (const fs::path &toolkit : children("/usr/local", "cuda"))
    for (const char *lib : {"lib64", "lib"})
      folders.push_back(toolkit / lib);
  for (const char *name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string prefix = variable(name); !prefix.empty()) {
      folders.push_back(fs::path(prefix) / "lib");
      addWheels(folders, fs::path(prefix) / "lib");
    }
  // The Python that a user would start; not resolved, since the python3 of a
  // virtual environment is a link out of it.
  std::string path = variable("PATH");
  for (size_t begin = 0; begin < path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    fs::path folder = path.substr(begin, end - begin);
    begin = end + 1;
    std::error_code error;
    if (folder.is_absolute() && fs::exists(folder / "python3", error))
      addWheels(folders, folder.parent_path() / "lib");
  }
  if (std::string home = variable("HOME"); !home.empty())
    addWheels(folders, fs::path(home) / ".local" / "lib");
  addWheels(folders, "/usr/local/lib");
  addWheels(folders, "/usr/lib");
  return folders;
}

/// Library names that fit a driver, the best first. cuBLASLt 13 refuses drivers
/// of CUDA 12; cuBLASLt 12 runs on later ones.
std::vector<std::string> libraryNames(int driverVersion) {
  std::vector<std::string> names;
  if (driverVersion >= 13000)
    names.push_back("libcublasLt.so.13");
  names.push_back("libcublasLt.so.12");
  return names;
}

} // namespace

std::vector<std::string> cublasLtCandidates(int driverVersion) {
  std::vector<std::string> names = libraryNames(driverVersion);
  std::vector<std::string> result;
  std::error_code error;
  if (std::string given = variable("HEDDLE_CUBLASLT_PATH"); !given.empty()) {
    if (!fs::is_directory(given, error))
      return {given};
    for (const std::string &name : names)
      result.push_back((fs::path(given) / name).string());
    return result;
  }
  std::vector<fs::path> folders = searchFolders();
  for (const std::string &name : names) {
    result.push_back(name);
    for (const fs::path &folder : folders) {
      fs::path file = folder / name;
      if (fs::exists(file, error) && std::find(result.begin(), result.end(),
                                               file.string()) == result.end())
        result.push_back(file.string());
    }
  }
  return result;
}

Result<std::shared_ptr<const CublasLt>>
CublasLt::openFile(const std::string &path) {
  std::shared_ptr<CublasLt> library(new CublasLt());
  // Never unloaded: it holds a CUDA runtime with exit handlers.
  library->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library->handle) {
    const char *reason = dlerror();
    return Error(reason ? reason : path + " cannot be opened");
  }
  const char *missing = nullptr;
  auto find = [&](auto &entry) {
    using Function = decltype(entry.function);
    entry.function =
        reinterpret_cast<Function>(dlsym(library->handle, entry.name));
    if (!entry.function && !missing)
      missing = entry.name;
  };
#define HEDDLE_FIND(member, symbol, result, parameters)                        \
  find(library->entries.member);
  HEDDLE_CUBLASLT_ENTRY_POINTS(HEDDLE_FIND)
#undef HEDDLE_FIND
  if (missing)
    return Error(path + " has no entry point " + missing +
                 "; expected cuBLASLt 12 or 13");
  library->libraryVersion = library->entries.getVersion.function();
  library->file = path;
  return std::shared_ptr<const CublasLt>(std::move(library));
}

Result<std::shared_ptr<const CublasLt>> CublasLt::open(int driverVersion) {
  std::string reasons;
  for (const std::string &path : cublasLtCandidates(driverVersion)) {
    Result<std::shared_ptr<const CublasLt>> library = openFile(path);
    if (library)
      return library;
    reasons += "\n  " + library.error().text();
  }
  return Error(
      "cuBLASLt, NVIDIA's library for matrix products, was not found. It comes "
      "with the CUDA toolkit and with PyTorch (`pip install nvidia-cublas" +
      std::string(driverVersion >= 13000 ? "" : "-cu12") +
      "`); name its file or folder in HEDDLE_CUBLASLT_PATH if it lies where "
      "nobody looks. This driver serves CUDA " +
      formatVersion(driverVersion) + "; tried:" + reasons);
}

CublasLt::~CublasLt() {
  if (handle)
    dlclose(handle);
}

std::string CublasLt::description() const {
  // 12.3.4 is 120304.
  return "cuBLASLt " + std::to_string(libraryVersion / 10000) + "." +
         std::to_string(libraryVersion / 100 % 100) + "." +
         std::to_string(libraryVersion % 100) + " (" + file + ")";
}

Error CublasLt::describe(const char *call, lt::cublasStatus_t code) const {
  const char *name = entries.getStatusName.function(code);
  const char *text = entries.getStatusString.function(code);
  return Error(std::string(call) +
               " failed: " + (name ? name : "an error without a name") + " (" +
               std::to_string(code) + ", " + (text ? text : "no description") +
               ")");
}

} // namespace heddle::rt::cuda
