#!/bin/sh
# CCACHE COMPILER ARGUMENTS..., as CMake's launcher of compilers in a build folder.
# Two things of a precompiled header hold that folder's path, and what is compiled
# with it would be cached for it alone: an argument, which becomes a relative path,
# and the header's bytes. So it is compiled in each folder, and gets a checksum of
# the files that it was made of, by which ccache knows it (CCACHE_PCH_EXTSUM).
# Without one, where anything fails, it goes by the bytes.
ccache=$1
shift
before='' out='' files='' left=$#
while [ "$left" -gt 0 ]; do
  argument=${1#"$PWD"/}
  case $before in
  -o) out=$argument ;;
  -MF) files=$argument ;;
  esac
  before=$argument
  shift
  set -- "$@" "$argument"
  left=$((left - 1))
done
case $out in
*.pch) rm -f "$out.sum" ;;
*) exec "$ccache" "$@" ;;
esac
"$@" || exit
# What the compiler says that it has read, as Make writes it: "target: a b \".
sed '1s/^[^:]*://; s/\\$//; s/\$\$/$/g' "$files" | xargs -r cat >"$out.text" &&
  [ -s "$out.text" ] && sha256sum <"$out.text" >"$out.sum"
rm -f "$out.text"
