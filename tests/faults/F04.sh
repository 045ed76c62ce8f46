#!/usr/bin/env bash
# A rank is stopped for ever: the others time out after 5 to 7 s; woken, it hears that the communicator is broken.
source "$(dirname "$0")/common.sh"
up_t2
start 100000
at_call 10
victim=$(rank_pid 3) || exit 1
begin=$(now_ms)
kill -STOP "$victim"
while pid=$(pgrep -x soak | while read -r p; do [[ $p != "$victim" && $(readlink "/proc/$p/cwd") == "$work" ]] && echo "$p"; done); [[ -n $pid ]]; do
  [[ $(($(now_ms) - begin)) -lt 20000 ]] || fail "the others still wait"
  sleep 0.05
done
took=$(($(now_ms) - begin))
kill -CONT "$victim" 2>/dev/null
wait "$job"
[[ $took -ge 4500 && $took -lt 7500 ]] || fail "the others ended after $took ms"
wrong=$(errors_of | grep -c "is wrong")
[[ $wrong -eq 0 ]] || fail "a stale result: $(errors_of)"
[[ $(errors_of | grep -c "failed after") -ge 3 ]] || fail "not all say why: $(errors_of)"
passed "the others ended after $took ms"
