//===- CpuFeatures.cpp - What this machine can execute --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/module/CpuFeatures.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

using namespace heddle;
using namespace heddle::rt;

#if defined(__x86_64__)
namespace {

enum Register : uint8_t { EAX, EBX, ECX, EDX };

/// Register state that the operating system must save on a context switch:
/// bits of XCR0.
enum XState : uint32_t {
  None = 0,
  Avx = 0x6,     // SSE and YMM
  Avx512 = 0xe6, // + opmask, upper ZMM, ZMM16-31
  Amx = 0x60000, // tile configuration and data
};

struct FeatureBit {
  std::string_view name;
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  uint8_t bit;
  XState state;
};

constexpr uint32_t ext1 = 0x80000001;
constexpr uint32_t ext8 = 0x80000008;

/// LLVM's feature names (llvm/TargetParser/X86TargetParser.def) and where cpuid
/// says them.
constexpr FeatureBit featureBits[] = {
    {"cx8", 1, 0, EDX, 8, None},
    {"cmov", 1, 0, EDX, 15, None},
    {"mmx", 1, 0, EDX, 23, None},
    {"fxsr", 1, 0, EDX, 24, None},
    {"sse", 1, 0, EDX, 25, None},
    {"sse2", 1, 0, EDX, 26, None},
    {"sse3", 1, 0, ECX, 0, None},
    {"pclmul", 1, 0, ECX, 1, None},
    {"ssse3", 1, 0, ECX, 9, None},
    {"fma", 1, 0, ECX, 12, Avx},
    {"cx16", 1, 0, ECX, 13, None},
    {"sse4.1", 1, 0, ECX, 19, None},
    {"sse4.2", 1, 0, ECX, 20, None},
    {"crc32", 1, 0, ECX, 20, None},
    {"movbe", 1, 0, ECX, 22, None},
    {"popcnt", 1, 0, ECX, 23, None},
    {"aes", 1, 0, ECX, 25, None},
    {"xsave", 1, 0, ECX, 26, None},
    {"avx", 1, 0, ECX, 28, Avx},
    {"f16c", 1, 0, ECX, 29, Avx},
    {"rdrnd", 1, 0, ECX, 30, None},
    {"fsgsbase", 7, 0, EBX, 0, None},
    {"bmi", 7, 0, EBX, 3, None},
    {"avx2", 7, 0, EBX, 5, Avx},
    {"bmi2", 7, 0, EBX, 8, None},
    {"invpcid", 7, 0, EBX, 10, None},
    {"avx512f", 7, 0, EBX, 16, Avx512},
    {"avx512dq", 7, 0, EBX, 17, Avx512},
    {"rdseed", 7, 0, EBX, 18, None},
    {"adx", 7, 0, EBX, 19, None},
    {"avx512ifma", 7, 0, EBX, 21, Avx512},
    {"clflushopt", 7, 0, EBX, 23, None},
    {"clwb", 7, 0, EBX, 24, None},
    {"avx512cd", 7, 0, EBX, 28, Avx512},
    {"sha", 7, 0, EBX, 29, None},
    {"avx512bw", 7, 0, EBX, 30, Avx512},
    {"avx512vl", 7, 0, EBX, 31, Avx512},
    {"avx512vbmi", 7, 0, ECX, 1, Avx512},
    {"pku", 7, 0, ECX, 4, None},
    {"waitpkg", 7, 0, ECX, 5, None},
    {"avx512vbmi2", 7, 0, ECX, 6, Avx512},
    {"shstk", 7, 0, ECX, 7, None},
    {"gfni", 7, 0, ECX, 8, None},
    {"vaes", 7, 0, ECX, 9, Avx},
    {"vpclmulqdq", 7, 0, ECX, 10, Avx},
    {"avx512vnni", 7, 0, ECX, 11, Avx512},
    {"avx512bitalg", 7, 0, ECX, 12, Avx512},
    {"avx512vpopcntdq", 7, 0, ECX, 14, Avx512},
    {"rdpid", 7, 0, ECX, 22, None},
    {"cldemote", 7, 0, ECX, 25, None},
    {"movdiri", 7, 0, ECX, 27, None},
    {"movdir64b", 7, 0, ECX, 28, None},
    {"enqcmd", 7, 0, ECX, 29, None},
    {"uintr", 7, 0, EDX, 5, None},
    {"avx512vp2intersect", 7, 0, EDX, 8, Avx512},
    {"serialize", 7, 0, EDX, 14, None},
    {"tsxldtrk", 7, 0, EDX, 16, None},
    {"pconfig", 7, 0, EDX, 18, None},
    {"amx-bf16", 7, 0, EDX, 22, Amx},
    {"avx512fp16", 7, 0, EDX, 23, Avx512},
    {"amx-tile", 7, 0, EDX, 24, Amx},
    {"amx-int8", 7, 0, EDX, 25, Amx},
    {"sha512", 7, 1, EAX, 0, Avx},
    {"sm3", 7, 1, EAX, 1, Avx},
    {"sm4", 7, 1, EAX, 2, Avx},
    {"avxvnni", 7, 1, EAX, 4, Avx},
    {"avx512bf16", 7, 1, EAX, 5, Avx512},
    {"cmpccxadd", 7, 1, EAX, 7, None},
    {"amx-fp16", 7, 1, EAX, 21, Amx},
    {"avxifma", 7, 1, EAX, 23, Avx},
    {"avxvnniint8", 7, 1, EDX, 4, Avx},
    {"avxneconvert", 7, 1, EDX, 5, Avx},
    {"amx-complex", 7, 1, EDX, 8, Amx},
    {"avxvnniint16", 7, 1, EDX, 10, Avx},
    {"prefetchi", 7, 1, EDX, 14, None},
    {"xsaveopt", 0xd, 1, EAX, 0, None},
    {"xsavec", 0xd, 1, EAX, 1, None},
    {"xsaves", 0xd, 1, EAX, 3, None},
    {"ptwrite", 0x14, 0, EBX, 4, None},
    {"sahf", ext1, 0, ECX, 0, None},
    {"lzcnt", ext1, 0, ECX, 5, None},
    {"sse4a", ext1, 0, ECX, 6, None},
    {"prfchw", ext1, 0, ECX, 8, None},
    {"xop", ext1, 0, ECX, 11, Avx},
    {"fma4", ext1, 0, ECX, 16, Avx},
    {"tbm", ext1, 0, ECX, 21, None},
    {"mwaitx", ext1, 0, ECX, 29, None},
    {"64bit", ext1, 0, EDX, 29, None},
    {"clzero", ext8, 0, EBX, 0, None},
    {"rdpru", ext8, 0, EBX, 4, None},
    {"wbnoinvd", ext8, 0, EBX, 9, None},
};

uint64_t savedState() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned osxsave = 1u << 27;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & osxsave))
    return 0;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

/// Since Linux 5.16 a process must ask before its first tile instruction.
bool requestTiles() {
  constexpr int archReqXcompPerm = 0x1023;
  constexpr int xfeatureTileData = 18;
  static const bool granted =
      syscall(SYS_arch_prctl, archReqXcompPerm, xfeatureTileData) == 0;
  return granted;
}

} // namespace

FeatureState heddle::rt::cpuFeature(std::string_view name) {
  const FeatureBit *feature = std::find_if(
      std::begin(featureBits), std::end(featureBits),
      [&](const FeatureBit &candidate) { return candidate.name == name; });
  if (feature == std::end(featureBits))
    return FeatureState::Unknown;
  unsigned regs[4] = {};
  if (!__get_cpuid_count(feature->leaf, feature->subleaf, &regs[EAX],
                         &regs[EBX], &regs[ECX], &regs[EDX]))
    return FeatureState::Missing;
  if (!((regs[feature->reg] >> feature->bit) & 1))
    return FeatureState::Missing;
  if ((savedState() & feature->state) != feature->state)
    return FeatureState::Missing;
  if (feature->state == Amx && !requestTiles())
    return FeatureState::NotPermitted;
  return FeatureState::Usable;
}

std::string_view heddle::rt::hostArchitecture() { return "x86_64"; }

#else

FeatureState heddle::rt::cpuFeature(std::string_view name) {
#if defined(__aarch64__)
  // Part of the base architecture of every 64-bit Arm CPU that runs Linux.
  if (name == "neon" || name == "fp-armv8")
    return FeatureState::Usable;
#endif
  return FeatureState::Unknown;
}

std::string_view heddle::rt::hostArchitecture() {
#if defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

#endif

/// The part of a triple before the first dash, and whether it names Linux.
static std::string_view architectureOf(std::string_view triple) {
  return triple.substr(0, triple.find('-'));
}

Status heddle::rt::checkTarget(const bundle::Target &target) {
  static const std::string remedy =
      "compile the schedule again on this machine with `heddlec --target=host`";
  if (architectureOf(target.triple) != hostArchitecture() ||
      target.triple.find("linux") == std::string::npos)
    return Error("the bundle holds code for " + target.triple +
                 ", this machine is " + std::string(hostArchitecture()) +
                 "-linux; " + remedy);

  std::string missing, unknown, refused;
  auto append = [](std::string &list, const std::string &name) {
    list += (list.empty() ? "" : ", ") + name;
  };
  for (const std::string &name : target.features) {
    switch (cpuFeature(name)) {
    case FeatureState::Usable:
      break;
    case FeatureState::Missing:
      append(missing, name);
      break;
    case FeatureState::Unknown:
      append(unknown, name);
      break;
    case FeatureState::NotPermitted:
      append(refused, name);
      break;
    }
  }
  std::string reasons;
  auto addReason = [&](const std::string &names, const std::string &text) {
    if (!names.empty())
      reasons += (reasons.empty() ? "" : "; ") + text + names;
  };
  addReason(missing, "this CPU lacks ");
  addReason(unknown, "this runtime does not know how to look for ");
  addReason(refused, "the operating system does not let this process use ");
  if (reasons.empty())
    return Status::success();
  return Error("the bundle was compiled for " +
               (target.cpu.empty() ? "another CPU" : "the CPU " + target.cpu) +
               ": " + reasons + "; " + remedy);
}
