#!/usr/bin/env bash
# An aggregator is alive but silent for ten seconds: its deadline passes, the call goes on without it, and what it says
# afterwards is ignored.
source "$(dirname "$0")/common.sh"
export FOLDCAST_PATH=offload
up_t3
start 600 10000
at_call 20
foldcast lab stop-aggregator --name "$lab" rack0 || fail "cannot stop rack0"
sleep 10
foldcast lab continue-aggregator --name "$lab" rack0 || fail "cannot let rack0 go on"
all_right
grep -q "no result of fragment .* within" "$work/said" || fail "no deadline is reported"
longest=$(sed -n 's/.*took \([0-9]*\) ms$/\1/p' "$work/said")
[[ $longest -ge 2000 && $longest -lt 7000 ]] || fail "the longest call took $longest ms"
passed "the longest call took $longest ms"
