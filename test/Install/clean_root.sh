#!/usr/bin/env bash
# Installs a build's packages into a new Debian 12 root folder that has nothing
# else, and runs what they hold as a user of no rights: the .deb files by apt, the
# .tar.xz on the same libraries, and examples/embed against the installed tree.
# Nothing is left afterwards. Needs mmdebstrap, network, 3 GB and some minutes.
set -euo pipefail
case "${1:-}" in
"" | -h | --help)
  sed -n '2,5s/^# \{0,1\}//p' "$0"
  echo "usage: clean_root.sh BUILD_DIR"
  [ $# -gt 0 ] && exit 0
  exit 2
  ;;
esac
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
command -v mmdebstrap >/dev/null || {
  echo "clean_root.sh: there is no mmdebstrap; install the package of that name" >&2
  exit 1
}

packages=$build/packages
rm -rf "$packages"
(cd "$build" && cpack >/dev/null)
ls -l "$packages"/*.deb "$packages"/*.tar.xz

# The steps inside, each in a shell of its own. `user` has no rights.
step() { printf -- '--customize-hook=echo "== %s" >&2; chroot "$1" %s' "$1" "$2"; }
root() { step "$1" "sh -euc '$2'"; }
user() { step "$1" "setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp/home sh -euc 'cd /tmp; $2'"; }
run='heddlec /usr/share/heddle/examples/pulsecol.mlir -o p.hdl --cache-verbose;
  heddlec /usr/share/heddle/examples/pulsecol.mlir -o q.hdl --cache-verbose; cmp p.hdl q.hdl;
  heddle-bundle verify p.hdl; heddle-opt --version; heddle-lsp-server --help >/dev/null;
  heddle-run -m /tmp/model -b p.hdl "Sort 52 17 90 33." | tee text; test "$(cat text)" = "17 33 52 90"; rm *.hdl'
apt='apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io'

mmdebstrap --variant=minbase --format=null \
  --customize-hook="copy-in $packages /tmp" \
  --customize-hook="copy-in $source/models/heddle-4m /tmp" \
  "$(root "the folder" "mv /tmp/heddle-4m /tmp/model; mkdir -m 777 /tmp/home; ! command -v heddlec")" \
  "$(root "apt install runtime, compiler" "$apt /tmp/packages/heddle-runtime_*.deb /tmp/packages/heddle-compiler_*.deb")" \
  "$(user "the programs" "$run")" \
  "$(root "apt install dev, a compiler" "$apt /tmp/packages/heddle-dev_*.deb cmake g++ ninja-build libmlir-22-dev llvm-22-dev mlir-22-tools zlib1g-dev libzstd-dev libxml2-dev")" \
  "$(user "examples/embed" "cmake -S /usr/share/heddle/examples/embed -B embed -G Ninja >/dev/null; cmake --build embed; embed/compile /usr/share/heddle/examples/pulsecol.mlir e.hdl; embed/generate /tmp/model e.hdl \"Sort 52 17 90 33.\" | tee text; test \"\$(cat text)\" = \"17 33 52 90\"")" \
  "$(root "dpkg --purge" "dpkg --purge heddle-dev heddle-compiler heddle-runtime; ! command -v heddlec; ! ls -d /usr/share/heddle /usr/include/heddle /usr/lib/cmake/Heddle 2>/dev/null")" \
  "$(root "the .tar.xz" "apt-get install -y -qq xz-utils; mkdir /opt/heddle; tar -C /opt/heddle --strip-components=1 -xf /tmp/packages/heddle-*.tar.xz; ln -s /opt/heddle/share/heddle /usr/share/heddle")" \
  "$(user "its programs" "PATH=/opt/heddle/bin:\$PATH; $run")" \
  bookworm /dev/null \
  "deb http://deb.debian.org/debian bookworm main" \
  "deb http://deb.debian.org/debian-security bookworm-security main"
echo "clean_root.sh: all of it works"
