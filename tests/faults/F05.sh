#!/usr/bin/env bash
# A node vanishes without a word: the others report it, by name, within the time-out and two seconds.
source "$(dirname "$0")/common.sh"
up_t2
start 100000
at_call 10
begin=$(now_ms)
foldcast lab exec --name "$lab" node1 -- ip link set eth0 down || fail "cannot take the link down"
wait "$job"
code=$?
took=$(($(now_ms) - begin))
[[ $code -ne 0 ]] || fail "the job succeeded without node1"
[[ $took -lt 9000 ]] || fail "it took $took ms"
named=$(errors_of | grep "failed after" | grep -c "(node1)\|(node0)")
[[ $named -ge 2 ]] || fail "the host is not named: $(errors_of)"
passed "reported after $took ms"
