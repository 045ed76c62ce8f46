#!/usr/bin/env bash
# A node's link goes down for one second, again and again: all calls succeed, nothing is summed twice.
source "$(dirname "$0")/common.sh"
flaps=${FAULTS_FLAPS:-3}
up_t2
start $((40 * flaps + 40)) 50000
at_call 8
flapped=0
for _ in $(seq "$flaps"); do
  foldcast lab exec --name "$lab" node1 -- ip link set eth0 down || fail "cannot take the link down"
  sleep 1
  foldcast lab exec --name "$lab" node1 -- ip link set eth0 up || fail "cannot take the link up"
  flapped=$((flapped + 1))
  sleep 2
done
all_right
passed "$flapped flaps"
