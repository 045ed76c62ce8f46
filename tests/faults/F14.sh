#!/usr/bin/env bash
# An aggregator is killed in the middle of a call: that call succeeds, and so do the later ones, on the host path.
source "$(dirname "$0")/common.sh"
export FOLDCAST_PATH=offload
for switch in rack0 spine; do
  up_t3
  start 90
  at_call $((17 + RANDOM % 12))
  foldcast lab kill-aggregator --name "$lab" "$switch" || fail "cannot kill $switch"
  all_right
  grep -q "is gone\|left\|lost" "$work/said" || fail "$switch: no reason is reported"
  grep -q "lost 1 times.*calls took the host path" "$work/soak.0" || fail "$switch: explain does not say so"
  longest=$(sed -n 's/.*took \([0-9]*\) ms$/\1/p' "$work/said")
  [[ $longest -lt 2000 ]] || fail "$switch: a call took $longest ms"
  nothing_left
done
passed "the longest call took $longest ms"
