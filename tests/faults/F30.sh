#!/usr/bin/env bash
# Few descriptors: set-up ends with an error on all ranks, or works; it never hangs.
source "$(dirname "$0")/common.sh"
# One rank that runs short keeps the others waiting, who must name it when the set-up's time is over.
export FOLDCAST_SETUP_TIMEOUT=6s
failures=0
for limit in 10 12 16 20 24 32; do
  start_t1 12 prlimit --nofile=$limit
  begin=$(now_ms)
  wait "$job"
  code=$?
  [[ $code -ne 124 && $code -ne 137 ]] || fail "$limit descriptors: it hangs"
  took=$(($(now_ms) - begin))
  [[ $took -lt 40000 ]] || fail "$limit descriptors: it took $took ms"
  [[ $code -eq 0 ]] && continue
  failures=$((failures + 1))
  grep -qi "init: .*\(descriptor\|too many open files\|cannot\|waited .* for rank\|no connection\|did not\)" "$work/said" ||
    fail "$limit descriptors: no reason"
  [[ -z $(soak_pids) ]] || fail "$limit descriptors: a process is left"
done
[[ $failures -gt 0 ]] || fail "no limit was too low"
passed "$failures of 6 limits were too low, and said so"
