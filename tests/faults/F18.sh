#!/usr/bin/env bash
# Eight jobs on an aggregator with room for four: the others run on the host path at once, and there is room afterwards.
source "$(dirname "$0")/common.sh"
foldcast lab up --name "$lab" --nodes 2 --racks 1 --rate 500mbit --aggregators none >"$work/up" 2>&1 || fail "$(cat "$work/up")"
foldcast lab exec --name "$lab" rack0 -- foldcastd --listen 10.77.255.1:7000 --name rack0 --max-groups 4 \
  --stats-file "$work/stats.json" >"$work/daemon" 2>&1 &
daemon=$!
for _ in $(seq 100); do grep -q "listening" "$work/daemon" && break; sleep 0.05; done
one() {
  mkdir -p "$work/$1"
  (cd "$work/$1" && exec foldcast lab run --name "$lab" -t 120 -- bash -c \
    "export FOLDCAST_AGGREGATORS=rack0=10.77.255.1:7000; exec '$soak' 30" >"$work/$1/said" 2>&1)
}
jobs=()
for number in $(seq 8); do
  one "$number" &
  jobs+=($!)
done
for pid in "${jobs[@]}"; do wait "$pid" || fail "a job failed: $(cat "$work"/*/said)"; done
refused=$(cat "$work"/[1-8]/said | grep -c "no offload")
offloaded=$(grep -l "^tree: .*window" "$work"/[1-8]/soak.0 | wc -l)
[[ $refused -ge 1 && $((refused + offloaded)) -eq 8 ]] || fail "$refused refused, $offloaded offloaded of 8"
one after || fail "the job afterwards: $(cat "$work/after/said")"
grep -q "^tree: .*window" "$work/after/soak.0" || fail "no room afterwards"
pkill -TERM -P "$daemon" 2>/dev/null || kill -TERM "$daemon"
wait "$daemon"
passed "$offloaded jobs on the tree, $refused refused at once"
