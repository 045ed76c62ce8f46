#!/usr/bin/env bash
# Jobs are killed before they say farewell: afterwards the aggregator has no slot, descriptor or memory more than before.
source "$(dirname "$0")/common.sh"
export FOLDCAST_PATH=offload
jobs=${FAULTS_JOBS:-8}
up_t2
daemon=$(foldcast lab status --name "$lab" | sed -n 's/^rack0.*pid \([0-9]*\)$/\1/p')
descriptors() { ls "/proc/$daemon/fd" | wc -l; }
memory_kib() { sed -n 's/^VmRSS: *\([0-9]*\) kB/\1/p' "/proc/$daemon/status"; }
one() {
  start 100000
  at_call 4
  pkill -9 -P "$(pgrep -P "$job" foldcast | head -n 1 || echo "$job")" 2>/dev/null
  for pid in $(pgrep -x soak); do [[ $(readlink "/proc/$pid/cwd") == "$work" ]] && kill -9 "$pid"; done
  wait "$job"
  rm -f "$work"/soak.*
}
one
sleep 1
before=$(descriptors) memory=$(memory_kib)
for _ in $(seq "$jobs"); do one; done
for _ in $(seq 100); do
  [[ $(descriptors) -le $before ]] && break
  sleep 0.1
done
[[ $(descriptors) -le $before ]] || fail "$before descriptors before, $(descriptors) afterwards"
grown=$(($(memory_kib) - memory))
[[ $grown -lt 16384 ]] || fail "the aggregator has grown by $grown KiB"
start 12
all_right
passed "$jobs jobs killed; descriptors $before, memory +$grown KiB"
