# Settings that every component shares: C++20, hidden assertions, sanitizers, one
# folder for programs. Knows nothing of LLVM.
include_guard()
include(CTest)
include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
get_filename_component(HEDDLE_ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

# Files that include precompiled headers are cached too: ccache asks for the first
# two. Paths below the root are cached as relative ones, so that all checkouts and
# builds of a machine share what any of them has compiled with the same flags.
find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE)
  set(HEDDLE_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${HEDDLE_ROOT} CCACHE_NOHASHDIR=1
      CCACHE_PCH_EXTSUM=1 ${HEDDLE_ROOT}/cmake/ccache.sh ${HEDDLE_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${HEDDLE_LAUNCHER})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HEDDLE_LAUNCHER})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  # Programs and libraries, compiled alike, share precompiled headers.
  set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)
else()
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

add_compile_options(-Wall -Wextra -Wno-unused-parameter)
if(HEDDLE_SANITIZE)
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
endif()
if(HEDDLE_ENABLE_ASSERTIONS)
  add_compile_options(-UNDEBUG)
endif()

# What -fsanitize=fuzzer-no-link counts, spelt so that files that are counted and
# files that are not may share precompiled headers.
if(HEDDLE_BUILD_FUZZERS)
  set(HEDDLE_COVERAGE
    -fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp,indirect-calls,stack-depth)
endif()

# heddle_add_library(name SOURCES... LINK ...): a plain static library of bundle/ or
# runtime/. Headers are included by their path from the root ("bundle/abi/Abi.h").
function(heddle_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${HEDDLE_ROOT}>)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  target_compile_options(${name} PRIVATE ${HEDDLE_COVERAGE})
endfunction()

# heddle_precompile(name HEADERS... LINK ...): a target that reads headers once for
# all targets that reuse it (target_precompile_headers' REUSE_FROM) and have its
# compiler flags. A file still includes what it uses: GCC builds read none ahead.
function(heddle_precompile name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
endfunction()

# heddle_add_gtest(name SOURCES... LINK ... [HEADERS target]): a GoogleTest program,
# each of its tests known to ctest. HEADERS: what holds its precompiled headers, if
# not the one that most tests share.
function(heddle_add_gtest name)
  cmake_parse_arguments(ARG "" "HEADERS" "LINK" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS HeddleTestHeaders)
    if(NOT TARGET HeddleTestHeaders)
      find_package(nlohmann_json 3.11 REQUIRED)
      heddle_precompile(HeddleTestHeaders <gtest/gtest.h> <nlohmann/json.hpp>
                        LINK GTest::gtest nlohmann_json::nlohmann_json)
    endif()
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${HEDDLE_ROOT})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()
