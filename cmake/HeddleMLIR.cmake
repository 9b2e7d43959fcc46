# The only place that knows the quirks of the LLVM/MLIR 22 packages.
include_guard()

set(CMAKE_PREFIX_PATH ${CMAKE_PREFIX_PATH} /usr/lib/llvm-22)
find_package(MLIR 22.1 CONFIG)
if(NOT MLIR_FOUND)
  message(FATAL_ERROR
    "LLVM/MLIR 22.1 was not found. Install libmlir-22-dev, mlir-22-tools and "
    "llvm-22-dev, or give -DMLIR_DIR=<prefix>/lib/cmake/mlir; the runtime alone "
    "builds with -DHEDDLE_BUILD_COMPILER=OFF.")
endif()

# The package does not say that its MLIR is one shared library. Linking the
# static archives beside it would put two MLIRs into one process.
set(MLIR_LINK_MLIR_DYLIB ON)
if(HEDDLE_STATIC_LLVM)
  include(HeddleStaticLLVM)
  set(MLIR_LINK_MLIR_DYLIB OFF)
  set(LLVM_LINK_LLVM_DYLIB OFF)
endif()
# add_mlir_library would install every static library of lib/.
set(LLVM_INSTALL_TOOLCHAIN_ONLY ON)
# Where add_mlir_doc writes; unset, it would be /docs.
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
# LLVMConfig sets a normal variable that hides the cache entry.
set(LLVM_ENABLE_ASSERTIONS ${HEDDLE_ENABLE_ASSERTIONS})
find_program(LLVM_EXTERNAL_LIT NAMES lit llvm-lit HINTS ${LLVM_TOOLS_BINARY_DIR})

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)
# HandleLLVMOptions may lower the standard that HeddleOptions chose.
set(CMAKE_CXX_STANDARD 20)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                    ${PROJECT_BINARY_DIR}/include)
separate_arguments(HEDDLE_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${HEDDLE_LLVM_DEFINITIONS})

set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
if(NOT HEDDLE_STATIC_LLVM)
  set(CMAKE_BUILD_RPATH ${LLVM_LIBRARY_DIRS})
  set(CMAKE_INSTALL_RPATH ${LLVM_LIBRARY_DIRS})
endif()
