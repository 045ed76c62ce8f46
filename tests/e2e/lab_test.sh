#!/usr/bin/env bash
# One scenario in an emulated cluster: lab_test.sh SCENARIO DIRECTORY_OF_THE_PROGRAMS. Ends with 77 where no lab can be.
set -uo pipefail

scenario=$1
programs=$2
export PATH="$programs:$PATH"
lab="e2e-${scenario//_/-}-$$"
work=$(mktemp -d)
trap 'foldcast lab down --name "$lab" >/dev/null 2>&1; rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

up() {
  local said
  if ! said=$(foldcast lab up --name "$lab" "$@" 2>&1); then
    # A kernel that allows no namespaces or lacks a part is a reason to skip; anything else is a failure.
    if [[ $said == *"cannot make network namespaces"* || $said == *"the kernel needs"* ]]; then
      echo "SKIPPED: $said"
      exit 77
    fi
    fail "lab up: $said"
  fi
}

run() { foldcast lab run --name "$lab" -t 60 -- "$@"; }

# All records must be right, every second one offloaded as asked, over the number of nodes the lab has.
check_json() {
  python3 - "$work/r.json" "$@" <<'PY'
import json, sys
records = json.load(open(sys.argv[1]))
nodes = int(sys.argv[2])
assert records, "no records"
wrong = [r for r in records if r["wrong"] != 0]
assert not wrong, f"wrong results: {wrong}"
assert all(r["nnodes"] == nodes for r in records), "nodes"
paths = [r["path"] for r in records]
assert paths == ["offload", "host"] * (len(records) // 2), f"paths {paths}"
big = [r for r in records if r["bytes"] >= 1 << 16]
assert big, "no record is large enough to tell the algorithms apart"
for r in big:
    bound = r["bytes"] if r["path"] == "offload" else 2 * (nodes - 1) / nodes * r["bytes"]
    # Not a speed test: the bytes say which algorithm ran.
    assert bound * 0.98 < r["wire_tx_bytes"] < bound * 1.25 + 16384, f"bytes on the wire: {r}"
PY
}

measure() {
  run foldcast perf all_reduce -n 3 -w 1 -c 1 --path offload,host -J "$work/r.json" "$@" >"$work/table" 2>"$work/errors" ||
    fail "perf ended with $?: $(tail -n 5 "$work/errors" "$work/table")"
}

# Every collective, over everything between 8 bytes and 1 MiB, with no result wrong and as many ranks as there should be.
all_collectives() {
  local ranks=$1 collective
  shift
  for collective in all_reduce reduce broadcast reduce_scatter all_gather all_to_all gather scatter send_recv barrier \
    reduce_scatterv all_gatherv all_to_allv gatherv scatterv; do
    run foldcast perf "$collective" -b 8 -e 1M -f 8 -n 3 -w 1 -c 1 -J "$work/r.json" "$@" >"$work/table" 2>"$work/errors" ||
      fail "perf $collective $* ended with $?: $(tail -n 5 "$work/errors" "$work/table")"
    python3 - "$work/r.json" "$collective" "$ranks" <<'PY' || fail "records of $collective $*"
import json, sys
records = json.load(open(sys.argv[1]))
assert records, "no records"
for r in records:
    assert r["wrong"] == 0 and r["collective"] == sys.argv[2] and r["nranks"] == int(sys.argv[3]), r
PY
  done
}

case $scenario in
  both_paths)
    up --nodes 8 --racks 2 --rate 200mbit
    measure -b 8 -e 1M -f 32 -d float32
    check_json 8 || fail "records"
    measure -b 64K -e 64K -d bfloat16 -o avg
    check_json 8 || fail "bfloat16"
    ;;
  ranks_per_node)
    up --nodes 4 --racks 2 --rate 200mbit --ranks-per-node 2
    measure -b 4 -e 1M -f 64 -d int32 -o max
    check_json 4 || fail "records"
    ;;
  odd_nodes)
    up --nodes 5 --racks 2 --rate 200mbit
    measure -b 20 -e 1300K -f 64 -d float64
    check_json 5 || fail "records"
    ;;
  rack_only)
    up --nodes 4 --racks 2 --rate 200mbit --aggregators rack
    measure -b 1K -e 1M -f 32
    check_json 4 || fail "records"
    ;;
  explain)
    up --nodes 2 --racks 2 --rate 200mbit
    run foldcast explain all_reduce -b 16M >"$work/two" || fail "explain"
    grep -q "^chosen: .*path host" "$work/two" || fail "2 nodes, 16 MiB: $(cat "$work/two")"
    foldcast lab down --name "$lab" || fail "down"
    up --nodes 8 --racks 2 --rate 200mbit
    run foldcast explain all_reduce -b 16M >"$work/eight" || fail "explain"
    grep -q "^chosen: .*path offload" "$work/eight" || fail "8 nodes, 16 MiB: $(cat "$work/eight")"
    grep -qE "^ring .*host .*[0-9] (ms|s) " "$work/eight" || fail "no prices: $(cat "$work/eight")"
    ;;
  refused)
    # One aggregator of three is gone before the job starts: everybody takes the host path, and is told why.
    up --nodes 4 --racks 2 --rate 200mbit
    pid=$(foldcast lab status --name "$lab" | sed -n 's/.*rack1.*pid \([0-9]*\).*/\1/p' | head -n 1)
    [[ -n $pid ]] || fail "no pid of rack1 in: $(foldcast lab status --name "$lab")"
    kill -9 "$pid"
    run foldcast explain all_reduce -b 1M >"$work/text" 2>"$work/errors" || fail "explain: $(cat "$work/errors")"
    grep -q "path host" "$work/text" || fail "$(cat "$work/text")"
    grep -q "tree: none (.*rack1" "$work/text" || fail "no reason: $(cat "$work/text")"
    ;;
  killed_rank)
    up --nodes 4 --racks 2 --rate 200mbit
    run foldcast perf all_reduce -b 4M -e 4M -n 400 -w 1 -c 0 --seconds 0 --path host >"$work/table" 2>"$work/errors" &
    job=$!
    for _ in $(seq 100); do
      victim=$(pgrep -f "foldcast perf all_reduce -b 4M -e 4M -n 400" | while read -r p; do
        grep -qz '^FOLDCAST_RANK=2$' "/proc/$p/environ" 2>/dev/null && [[ $(cat "/proc/$p/comm") == foldcast ]] && echo "$p"
      done | head -n 1)
      [[ -n $victim ]] && break
      sleep 0.1
    done
    [[ -n $victim ]] || fail "rank 2 did not start"
    sleep 4
    kill -9 "$victim" || fail "rank 2 ended by itself: $(cat "$work/errors")"
    begin=$(date +%s%N)
    wait "$job"
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    [[ $code -ne 0 ]] || fail "the job succeeded"
    # By then the lab has not signalled anybody: it is the library that ended them.
    [[ $took -lt 2000 ]] || fail "ended only after $took ms"
    logs=$(sed -n 's/.*the output of all ranks is in //p' "$work/errors")
    for rank in 0 1 3; do
      grep -q "^foldcast perf: .*rank 2" "$logs/rank$rank.err" ||
        fail "rank $rank does not name rank 2: $(cat "$logs/rank$rank.err")"
    done
    ;;
  collectives_8_nodes)
    up --nodes 8 --racks 2 --rate 200mbit
    all_collectives 8
    ;;
  collectives_uneven)
    # Nodes of 3, 2 and 1 ranks, roots and values of all kinds, and sizes that divide by nothing.
    up --nodes 3 --racks 2 --rate 500mbit --ranks-per-node 3,2,1
    all_collectives 6 -r 4
    ;;
  rails)
    # Two links of different speed: what moves faster than the faster one carries came over both.
    up --nodes 2 --rails 2 --rail-rates 100mbit,50mbit
    run foldcast perf all_reduce -b 1M -e 1M -n 5 -w 1 -c 1 -J "$work/r.json" >"$work/table" 2>"$work/errors" ||
      fail "perf ended with $?: $(tail -n 5 "$work/errors" "$work/table")"
    python3 - "$work/r.json" <<'PY' || fail "records: $(cat "$work/table")"
import json, sys
(record,) = json.load(open(sys.argv[1]))
assert record["wrong"] == 0 and record["busbw_gbs"] > 1.1 * 100e6 / 8 / 1e9, record
PY
    run foldcast explain all_reduce -b 1M >"$work/text" || fail "explain"
    grep -q "over rails of .* and " "$work/text" || fail "no rails: $(cat "$work/text")"
    FOLDCAST_RAILS=rail0,rail7 run foldcast perf all_reduce >"$work/table" 2>"$work/errors" && fail "rail7 was accepted"
    grep -q "rail7\|rail 1 of FOLDCAST_RAILS" "$work/errors" || fail "no reason: $(cat "$work/errors")"
    foldcast lab down --name "$lab" || fail "down"
    up --nodes 3 --racks 2 --rails 2 --rail-rates 300mbit,200mbit --ranks-per-node 2,1,1
    all_collectives 4 -r 2
    ;;
  *) fail "unknown scenario $scenario" ;;
esac

foldcast lab down --name "$lab" || fail "down"
! foldcast lab status --name "$lab" >/dev/null 2>&1 || fail "the lab is still there"
echo "PASSED: $scenario"
