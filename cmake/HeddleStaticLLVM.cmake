# HEDDLE_STATIC_LLVM: heddlec holds LLVM, MLIR and lld instead of finding them as
# shared libraries; for wheels (docs/Decisions/PythonPackage.md). Included by
# HeddleMLIR after find_package(MLIR).
include_guard()

find_package(LLD CONFIG HINTS ${LLVM_DIR}/../lld)
if(NOT LLD_FOUND)
  message(FATAL_ERROR "HEDDLE_STATIC_LLVM needs lld as a library, which was not found. "
    "Install liblld-22-dev, or give -DLLD_DIR=<prefix>/lib/cmake/lld.")
endif()
find_library(HEDDLE_ZSTD NAMES libzstd.a REQUIRED)
find_library(HEDDLE_ZLIB NAMES libz.a REQUIRED)

# What Debian's packages name is their shared libraries: one such entry, be it in a
# target that is only passed through, and there are two LLVMs in the process, which
# aborts when both register the same option. So no target keeps any.
add_library(HeddleStaticLLVM INTERFACE)
set(llvm_components
  X86CodeGen X86Info X86Desc X86AsmParser NVPTXCodeGen NVPTXInfo NVPTXDesc
  Passes Extensions Plugins LTO DTLTO Linker FrontendOpenMP FrontendAtomic IRReader
  AsmParser BitReader BitWriter Option Remarks DebugInfoDWARF Object MC MCParser
  ProfileData Support TargetParser BinaryFormat Core Analysis Demangle)
list(TRANSFORM llvm_components PREPEND LLVM)
target_link_libraries(HeddleStaticLLVM INTERFACE ${llvm_components})

get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${imported})
  get_target_property(needs ${target} INTERFACE_LINK_LIBRARIES)
  if(NOT target MATCHES "^(LLVM|MLIR|lld)" OR NOT needs)
    continue()
  endif()
  set(named_llvm ${needs})
  list(FILTER named_llvm INCLUDE REGEX "^(\\$<LINK_ONLY:)?(LLVM|MLIR)>?$")
  list(FILTER needs EXCLUDE REGEX "^(\\$<LINK_ONLY:)?(LLVM|MLIR|Polly)>?$")
  list(FILTER needs EXCLUDE REGEX "libz3|LibXml2|CURL|LibEdit")
  list(TRANSFORM needs REPLACE "zstd::libzstd_shared" "${HEDDLE_ZSTD}")
  list(TRANSFORM needs REPLACE "ZLIB::ZLIB" "${HEDDLE_ZLIB}")
  if(named_llvm AND NOT target MATCHES "^LLVM")
    list(APPEND needs HeddleStaticLLVM)
  endif()
  set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${needs}")
endforeach()

# Functions that nobody calls are most of LLVM. Never --icf: it gives two TypeIDs of
# MLIR, which are told apart by address, the same one. Symbols stay inside.
target_link_options(HeddleStaticLLVM INTERFACE
  -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--exclude-libs,ALL)
