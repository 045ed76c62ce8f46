#!/usr/bin/env bash
# A rank is killed in the middle of a call: the others say so, and whom, within two seconds.
source "$(dirname "$0")/common.sh"
rounds=${FAULTS_ROUNDS:-3}
for round in $(seq "$rounds"); do
  up_t2
  start 100000
  at_call $((5 + RANDOM % 40))
  victim=$(rank_pid $((1 + RANDOM % 3))) || exit 1
  number=$(tr '\0' '\n' <"/proc/$victim/environ" | sed -n 's/^FOLDCAST_RANK=//p')
  begin=$(now_ms)
  kill -9 "$victim"
  wait "$job"
  code=$?
  took=$(($(now_ms) - begin))
  [[ $code -ne 0 ]] || fail "round $round: the job succeeded without rank $number"
  [[ $took -lt 2000 ]] || fail "round $round: it took $took ms"
  named=$(errors_of | grep -c "failed after.*rank $number")
  [[ $named -eq 3 ]] || fail "round $round: $named of 3 survivors name rank $number: $(errors_of)"
  nothing_left
done
passed "$rounds rounds; the last ended $took ms after rank $number was killed"
