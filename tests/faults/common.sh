# What every row of the fault matrix has: a lab, the soak in it, and the questions asked afterwards. Sourced by rows.
set -uo pipefail
row=$(basename "$0" .sh)
lab=test-${row,,}-$$
work=$(mktemp -d)
export PATH=$FAULTS_PROGRAMS:$PATH FOLDCAST_CALIBRATION=off
soak=${FAULTS_SOAK:-$FAULTS_PROGRAMS/../tests/faults/soak}
job=""

clean_up() {
  foldcast lab down --name "$lab" >/dev/null 2>&1
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
  echo "FAILED: $row: $*" >&2
  tail -n 20 "$work/said" "$work"/soak.* 2>/dev/null | cut -c1-400 >&2
  exit 1
}

# T2 of the matrix with a rack switch and a spine, and T3: 3 nodes of 3/2/1 ranks, two leaf aggregators and a root.
up_t2() { foldcast lab up --name "$lab" --nodes 2 --racks 1 --ranks-per-node 2 --rate 500mbit "$@" >"$work/up" 2>&1 || fail "$(cat "$work/up")"; }
up_t3() { foldcast lab up --name "$lab" --nodes 3 --racks 2 --ranks-per-node 3,2,1 --rate 500mbit "$@" >"$work/up" 2>&1 || fail "$(cat "$work/up")"; }

# start CALLS [PAUSE_US]: the soak as every rank, in the background.
start() {
  rm -f "$work"/soak.*
  (cd "$work" && exec foldcast lab run --name "$lab" -t 120 -- "$soak" "$@" >"$work/said" 2>&1) &
  job=$!
}
# at_call N: waits until rank 0 is at call N.
at_call() {
  for _ in $(seq 600); do
    [[ $(sed -n 's/^call //p' "$work/soak.0" 2>/dev/null | tail -n 1) -ge $1 ]] 2>/dev/null && return
    kill -0 "$job" 2>/dev/null || fail "the soak ended before call $1"
    sleep 0.05
  done
  fail "the soak does not come to call $1"
}
# The pid of a rank.
rank_pid() {
  local pid
  for pid in $(pgrep -x soak); do
    grep -qz "^FOLDCAST_RANK=$1\$" "/proc/$pid/environ" 2>/dev/null &&
      [[ $(readlink "/proc/$pid/cwd") == "$work" ]] && echo "$pid" && return
  done
  fail "rank $1 does not run"
}
ends_with() {
  wait "$job"
  local code=$?
  [[ $code -eq $1 ]] || fail "the soak ended with $code, not $1"
}
all_right() {
  ends_with 0
  grep -q "calls right" "$work/said" || fail "no word that all is right"
}
# The rows of ranks that ended with an error, each of which must say so.
errors_of() {
  local logs
  logs=$(sed -n 's/.*the output of all ranks is in //p' "$work/said")
  cat "$logs"/rank*.out
}
nothing_left() {
  foldcast lab down --name "$lab" >/dev/null || fail "the lab does not come down"
  ! pgrep -x soak -a | grep -q "$work" || fail "a process is left"
}
passed() {
  ! foldcast lab status --name "$lab" >/dev/null 2>&1 || nothing_left
  echo "PASSED: $row: $*"
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }
# T1: four ranks on this machine alone, each started by the words before the soak.
start_t1() {
  local calls=$1
  shift
  rm -f "$work"/soak.*
  (cd "$work" && exec timeout -k 5 100 foldcast run -n 4 -- "$@" "$soak" "$calls" >"$work/said" 2>&1) &
  job=$!
}
soak_pids() {
  local pid
  for pid in $(pgrep -x soak); do [[ $(readlink "/proc/$pid/cwd") == "$work" ]] && echo "$pid"; done
}
