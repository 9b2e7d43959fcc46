#!/usr/bin/env bash
# accuracy.sh MODEL: runs schedules of a model under models/ on its tasks, and ends with
# status 1 if fewer answers are right than ./check requires. Needs the installed package.
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
heddle-4m) options=(--schedule=dense,pulsecol --set=keep=1/2 --require=dense=0.9,pulsecol=0.9) ;;
heddle-dream-5m) options=(--schedule=dense --require=dense=0.8) ;;
*)
  sed -n '2,3s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
exec "${PYTHON:-build/venv/bin/python}" -m heddle.evaluation.command --model "models/$1" \
  --examples=4 --dtype=f32 "${options[@]}"
