# Shared by ./quickstart and ./check: install what is missing, configure, build.
# Sourced, never run. Every failure ends with one sentence that says what to do.

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

say() { printf '\n== %s\n' "$*"; }

# packages_of KIND...: the names that debian-packages.txt lists under KIND.
packages_of() {
  for kind in "$@"; do
    sed -n "s/^$kind: *\([^ #]*\).*/\1/p" cmake/debian-packages.txt
  done
}

# ensure_packages KIND...: installs what is missing, saying what before.
ensure_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this script installs Debian packages, and this system has no dpkg. Install the packages that cmake/debian-packages.txt lists by other means, then: cmake --preset release && cmake --build --preset release"
  missing=()
  for package in $(packages_of "$@"); do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
      grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  sudo=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      fail "these packages must be installed by root, and there is no sudo; run as root: apt-get install ${missing[*]}"
    sudo=sudo
  fi
  $sudo apt-get update -qq ||
    fail "'apt-get update' failed: the package lists could not be fetched; check the network and /etc/apt/sources.list"
  log=$(mktemp) || fail "cannot write to ${TMPDIR:-/tmp}"
  # sudo drops variables of the environment; a question would wait unseen.
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "apt-get could not install: ${missing[*]} (log: $log). LLVM 22 comes from Debian 12's security suite: is bookworm-security among the sources?"
  }
  rm -f "$log"
}

# build PRESET [TARGET...]: configures once (with the array configure_options),
# builds what has changed.
configure_options=()
build() {
  preset=$1
  shift
  if [ ! -f "build/$preset/build.ninja" ]; then
    say "Configuring (preset $preset)"
    log=$(mktemp) || fail "cannot write to ${TMPDIR:-/tmp}"
    cmake --preset "$preset" "${configure_options[@]}" >"$log" 2>&1 || {
      tail -n 30 "$log" >&2
      fail "CMake could not configure the preset '$preset' (see above)"
    }
    rm -f "$log"
  fi
  say "Building (preset $preset)"
  if [ $# -gt 0 ]; then
    cmake --build --preset "$preset" --target "$@"
  else
    cmake --build --preset "$preset"
  fi || fail "the build failed (see above)"
}
