# What an installed tree holds beside the programs, which install themselves:
# libraries and headers for find_package(Heddle), man pages and completions,
# examples. Components: runtime (runs bundles), compiler (makes them), dev.
include_guard()
include(CMakePackageConfigHelpers)

set(HEDDLE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Heddle)
# Headers are included by their path from the root ("bundle/format/Bundle.h",
# "heddle/Pipelines/Compiler.h"), so they get a root of their own.
set(HEDDLE_HEADERS_DIR ${CMAKE_INSTALL_INCLUDEDIR}/heddle)

# heddle_install_libraries(export TARGETS...): as Heddle::<name without Heddle>.
function(heddle_install_libraries export)
  foreach(target ${ARGN})
    string(SUBSTRING ${target} 6 -1 name) # without Heddle
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    add_library(Heddle::${name} ALIAS ${target})
  endforeach()
  install(TARGETS ${ARGN} EXPORT ${export}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
    INCLUDES DESTINATION ${HEDDLE_HEADERS_DIR})
  install(EXPORT ${export} NAMESPACE Heddle:: DESTINATION ${HEDDLE_PACKAGE_DIR}
    COMPONENT dev)
endfunction()

function(heddle_install_headers from to)
  install(DIRECTORY ${from}/ DESTINATION ${HEDDLE_HEADERS_DIR}/${to} COMPONENT dev
    FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.h.inc"
    PATTERN test EXCLUDE PATTERN bench EXCLUDE PATTERN reference EXCLUDE
    PATTERN CMakeFiles EXCLUDE)
endfunction()

# Heddle::Runtime: all that reads a model and a bundle and generates.
add_library(HeddleRuntime INTERFACE)
target_link_libraries(HeddleRuntime INTERFACE HeddleRtEngine HeddleRtText)
heddle_install_libraries(HeddleRuntimeTargets
  HeddleRuntime HeddleBundle HeddleRtBase HeddleRtTensor HeddleRtDevice
  HeddleRtCuda HeddleRtModule HeddleRtText HeddleRtModel HeddleRtCache
  HeddleRtSchedule HeddleRtSample HeddleRtDenoise HeddleRtEngine)
heddle_install_headers(${HEDDLE_ROOT}/bundle bundle)
heddle_install_headers(${HEDDLE_ROOT}/runtime runtime)

if(HEDDLE_BUILD_COMPILER)
  # Heddle::Compiler: from a schedule's text to a bundle. All of lib/ is below it.
  set(libraries)
  function(collect_libraries directory)
    get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      if(type STREQUAL STATIC_LIBRARY)
        list(APPEND libraries ${target})
      endif()
    endforeach()
    get_property(components DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
    foreach(component ${components})
      collect_libraries(${component})
    endforeach()
    set(libraries ${libraries} PARENT_SCOPE)
  endfunction()
  collect_libraries(${HEDDLE_ROOT}/lib)
  add_library(HeddleCompiler INTERFACE)
  target_link_libraries(HeddleCompiler INTERFACE HeddlePipelines)
  heddle_install_libraries(HeddleCompilerTargets HeddleCompiler ${libraries})
  heddle_install_headers(${HEDDLE_ROOT}/include/heddle heddle)
  heddle_install_headers(${PROJECT_BINARY_DIR}/include/heddle heddle)
endif()

# Man pages and completions, from the programs' own --help. A folder of the
# shells' own below share/, where they look without being told.
set(programs)
foreach(program heddlec heddle-run heddle-bundle heddle-opt heddle-lsp-server
        heddle-bench heddle-conformance)
  if(TARGET ${program})
    list(APPEND programs ${program})
  endif()
endforeach()
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT HEDDLE_SANITIZE)
  set(pages ${PROJECT_BINARY_DIR}/help-pages)
  set(stamps)
  foreach(program ${programs})
    set(stamp ${pages}/man/man1/${program}.1)
    add_custom_command(OUTPUT ${stamp}
      COMMAND ${Python3_EXECUTABLE} ${HEDDLE_ROOT}/cmake/help_pages.py
        $<TARGET_FILE:${program}> ${pages}
      DEPENDS ${program} ${HEDDLE_ROOT}/cmake/help_pages.py
      COMMENT "Man page and completions of ${program}" VERBATIM)
    list(APPEND stamps ${stamp})
    set(component runtime)
    if(program MATCHES "heddlec|heddle-opt|heddle-lsp-server")
      set(component compiler)
    endif()
    foreach(file man/man1/${program}.1 bash-completion/completions/${program}
            zsh/vendor-completions/_${program} fish/vendor_completions.d/${program}.fish)
      get_filename_component(folder ${file} DIRECTORY)
      install(FILES ${pages}/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder}
        COMPONENT ${component})
    endforeach()
  endforeach()
  add_custom_target(help-pages ALL DEPENDS ${stamps})
endif()

configure_package_config_file(${HEDDLE_ROOT}/cmake/HeddleConfig.cmake.in
  ${PROJECT_BINARY_DIR}/HeddleConfig.cmake
  INSTALL_DESTINATION ${HEDDLE_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/HeddleConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/HeddleConfig.cmake
              ${PROJECT_BINARY_DIR}/HeddleConfigVersion.cmake
  DESTINATION ${HEDDLE_PACKAGE_DIR} COMPONENT dev)

install(DIRECTORY ${HEDDLE_ROOT}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/heddle
  COMPONENT compiler FILES_MATCHING PATTERN "*.mlir")
install(DIRECTORY ${HEDDLE_ROOT}/examples/embed
  DESTINATION ${CMAKE_INSTALL_DATADIR}/heddle/examples COMPONENT dev)

if(CMAKE_SOURCE_DIR STREQUAL HEDDLE_ROOT)
  include(HeddlePackage)
endif()
