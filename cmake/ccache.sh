#!/bin/sh
# ccache COMPILER ARGUMENTS..., as CMake's launcher of compilers in a build folder.
# Two things of a precompiled header hold that folder's path, and what is compiled
# with it would be cached for it alone: an argument, which becomes a relative path,
# and the header's bytes. So it is compiled in each folder, and gets a checksum of
# the files that it was made of, by which ccache knows it (CCACHE_PCH_EXTSUM).
left=$#
while [ $left -gt 0 ]; do
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
*) exec ccache "$@" ;;
esac
"$@" || exit
sed 's/^[^:]*://; s/\\$//' "$files" | xargs cat | sha256sum >"$out.sum"
