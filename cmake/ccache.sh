#!/bin/sh
# ccache COMPILER ARGUMENTS..., as CMake's launcher of compilers. Beside a
# precompiled header goes a checksum of the files that it was made of. By that
# ccache knows it (CCACHE_PCH_EXTSUM): its own bytes hold the path of the build
# folder, and all that is compiled with it would be cached for that folder alone.
ccache "$@" || exit
for word; do
  case $before in
  -o) out=$word ;;
  -MF) files=$word ;;
  esac
  before=$word
done
case $out in
*.pch) sed 's/^[^:]*://; s/\\$//' "$files" | xargs cat | sha256sum >"$out.sum" ;;
esac
