#!/usr/bin/env bash
# A rank is stopped for three seconds: all calls succeed.
source "$(dirname "$0")/common.sh"
up_t2
start 60
at_call 10
victim=$(rank_pid 3) || exit 1
kill -STOP "$victim"
sleep 3
kill -CONT "$victim"
all_right
longest=$(sed -n 's/.*took \([0-9]*\) ms$/\1/p' "$work/said")
[[ $longest -ge 2500 ]] || fail "no call was held up: the longest took $longest ms"
passed "the longest call took $longest ms"
