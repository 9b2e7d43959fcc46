//===- Bundles.cpp - The C API: compiling, reading, writing ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include "bundle/format/File.h"
#include "tools/trust/Compiler.h"

#include <string_view>

#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::embed;
using namespace heddle::embed::c;

namespace {

/// What is larger is another file that was named by mistake.
constexpr uint64_t mostBytes = uint64_t(1) << 30;

heddle_bundle *open(std::string bytes, const std::string &name) {
  bundle::Bundle parsed = orFail(bundle::Bundle::parse(bytes, name));
  nlohmann::json about = {
      {"schedule", parsed.manifest().schedule},
      {"producer", parsed.manifest().producer},
      {"targets", nlohmann::json::array()},
      {"source", std::string(parsed.section(bundle::scheduleSection))}};
  for (const bundle::Target &target : parsed.manifest().targets)
    about["targets"].push_back(toString(target));
  return bundles().add(std::make_shared<BundleObject>(BundleObject{
      std::move(parsed), std::move(bytes),
      about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)}));
}

/// With the text's own name in place of "<stdin>".
std::string named(std::string messages, const std::string &name) {
  constexpr std::string_view stdinName = "<stdin>";
  for (size_t at = 0;
       (at = messages.find(stdinName, at)) != std::string::npos;) {
    messages.replace(at, stdinName.size(), name);
    at += name.size();
  }
  while (!messages.empty() && messages.back() == '\n')
    messages.pop_back();
  return messages;
}

std::string compile(const char *text, const heddle_compile_options &options) {
  lastWarnings().clear();
  std::string compiler = orFail(trust::findCompiler(options.compiler));
  if (compiler.empty())
    throw Failure{HEDDLE_NO_COMPILER,
                  "there is no compiler: heddlec is neither beside "
                  "libheddle.so (../bin) nor on PATH; name one in "
                  "heddle_compile_options or HEDDLEC, or open a bundle that "
                  "was compiled elsewhere"};
  std::vector<std::string> arguments = {"-", "-o", "-"};
  for (auto [name, value] : {std::pair("--schedule=", options.schedule),
                             std::pair("--target=", options.targets),
                             std::pair("--dtype=", options.dtypes),
                             std::pair("--head-dim=", options.head_dims)})
    if (value)
      arguments.push_back(std::string(name) + value);
  if (options.cache)
    arguments.push_back(*options.cache
                            ? std::string("--cache-dir=") + options.cache
                            : "--no-cache");
  for (const char *const *at = options.parameters; at && *at; ++at)
    arguments.push_back(std::string("--set=") + *at);

  trust::Ended ended = orFail(trust::runProgram(compiler, arguments, text));
  bool located = ended.status.value_or(1) == 1 &&
                 ended.messages.find("<stdin>:") != std::string::npos;
  std::string said = named(std::move(ended.messages),
                           options.name ? options.name : "schedule");
  if (ended.succeeded()) {
    lastWarnings() = std::move(said);
    return std::move(ended.output);
  }
  if (said.empty())
    said =
        compiler +
        (!ended.status       ? " wrote nothing"
         : *ended.status < 0 ? " ended by a signal"
                             : " ended with " + std::to_string(*ended.status)) +
        " and said nothing";
  throw Failure{located ? HEDDLE_SCHEDULE_ERROR : HEDDLE_FAILED,
                std::move(said)};
}

} // namespace

heddle_status heddle_compile(const char *text,
                             const heddle_compile_options *options,
                             heddle_bundle **result) {
  return answer([&] {
    place(result, "bundle");
    *result = open(
        compile(given(text, "text"), read(options, "heddle_compile_options")),
        "what heddlec wrote");
  });
}

heddle_status heddle_bundle_open(const char *path, heddle_bundle **result) {
  return answer([&] {
    place(result, "bundle");
    given(path, "path"); // before it is a string: arguments have no order
    *result =
        open(orFail(bundle::readRegularFile(
                 path, 1,
                 [&](std::string_view, uint64_t size) {
                   return size <= mostBytes
                              ? Status::success()
                              : Status(Error(std::string(path) + " has " +
                                             std::to_string(size) +
                                             " bytes, more than any bundle"));
                 })),
             path);
  });
}

heddle_status heddle_bundle_parse(const void *bytes, size_t size,
                                  heddle_bundle **result) {
  return answer([&] {
    place(result, "bundle");
    *result = open(
        std::string(static_cast<const char *>(given(bytes, "bytes")), size),
        "the bundle in memory");
  });
}

heddle_status heddle_bundle_bytes(heddle_bundle *handle, const void **bytes,
                                  size_t *size) {
  return answer([&] {
    place(bytes, "bytes");
    place(size, "size");
    std::shared_ptr<BundleObject> object = bundles().get(handle);
    *bytes = object->bytes.data();
    *size = object->bytes.size();
  });
}

heddle_status heddle_bundle_write(heddle_bundle *handle, const char *path) {
  return answer([&] {
    std::shared_ptr<BundleObject> object = bundles().get(handle);
    orFail(bundle::writeFileAtomically(given(path, "path"), object->bytes));
  });
}

heddle_status heddle_bundle_describe(heddle_bundle *handle, const char **json) {
  return answer([&] {
    place(json, "json");
    *json = bundles().get(handle)->about.c_str();
  });
}

heddle_status heddle_bundle_destroy(heddle_bundle *handle) {
  return answer([&] {
    if (handle)
      bundles().take(handle);
  });
}
