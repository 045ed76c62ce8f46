#!/usr/bin/env bash
# An aggregator is killed and started again at its address: it is used again within ten seconds.
source "$(dirname "$0")/common.sh"
export FOLDCAST_PATH=offload
up_t3
start 600 10000
at_call 20
foldcast lab kill-aggregator --name "$lab" rack0 || fail "cannot kill rack0"
sleep 1
foldcast lab start-aggregator --name "$lab" rack0 || fail "cannot start rack0"
begin=$(now_ms)
until grep -q "joined again" "$work/said"; do
  [[ $(($(now_ms) - begin)) -lt 10000 ]] || fail "not in use again after 10 s"
  kill -0 "$job" 2>/dev/null || fail "the soak ended first"
  sleep 0.05
done
took=$(($(now_ms) - begin))
all_right
grep -q "back on the tree" "$work/soak.0" || fail "explain does not say so"
passed "in use again after $took ms"
