# `cpack` in a build folder: a .deb for each component, and one .tar.xz of all.
include_guard()
set(CPACK_GENERATOR DEB TXZ)
set(CPACK_PACKAGE_NAME heddle)
set(CPACK_PACKAGE_VENDOR Heddle)
set(CPACK_PACKAGE_CONTACT "The Heddle authors <heddle@heddle.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "Compiler and runtime for sparsity schedules of diffusion language models")
set(CPACK_RESOURCE_FILE_LICENSE ${HEDDLE_ROOT}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
# Files get the modes of a package whatever umask the builder has.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime dev)
if(HEDDLE_BUILD_COMPILER)
  list(APPEND CPACK_COMPONENTS_ALL compiler)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE OFF)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
  "Runs bundles: libheddle.so.1 is the C API, heddle-run generates text with a model folder and a bundle, heddle-bundle
checks bundles, heddle-bench times their kernels.")
set(CPACK_COMPONENT_COMPILER_DESCRIPTION
  "Makes bundles: heddlec compiles schedules, heddle-opt runs single passes,
heddle-lsp-server serves editors.")
set(CPACK_COMPONENT_DEV_DESCRIPTION
  "Libraries and headers for programs in C or C++ that run or make bundles, for CMake's
find_package(Heddle) and pkg-config.")
# It links kernels; ptxas, for machine code of GPUs, is found where it is.
# dpkg-shlibdeps does not find what package libLLVM is of.
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS "libllvm22, lld-22 | lld | binutils")
set(CPACK_DEBIAN_COMPILER_PACKAGE_RECOMMENDS heddle-runtime)
set(CPACK_DEBIAN_COMPILER_PACKAGE_SUGGESTS nvidia-cuda-toolkit)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libtbb-dev, libdnnl-dev, nlohmann-json3-dev, libpcre2-dev, libutf8proc-dev, libgomp1, ocl-icd-opencl-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "libmlir-22-dev, llvm-22-dev")

install(FILES ${HEDDLE_ROOT}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/heddle-runtime
  RENAME copyright COMPONENT runtime)
install(FILES ${HEDDLE_ROOT}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/heddle-compiler
  RENAME copyright COMPONENT compiler)
install(FILES ${HEDDLE_ROOT}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/heddle-dev
  RENAME copyright COMPONENT dev)
include(CPack)
