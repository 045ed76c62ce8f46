#!/usr/bin/env bash
# Packets are lost on every link: all calls succeed.
source "$(dirname "$0")/common.sh"
command -v nft >/dev/null || { echo "SKIPPED: $row: nft is not installed"; exit 77; }
lost=0
for percent in 0.1 1 5; do
  up_t3
  for node in node0 node1 node2; do
    foldcast lab exec --name "$lab" "$node" -- nft -f - <<NFT || { echo "SKIPPED: $row: no nftables in a namespace"; exit 77; }
table netdev faults {
  chain lossy {
    type filter hook ingress device eth0 priority 0;
    meta length > 0 numgen random mod 1000 < $(awk "BEGIN{print int($percent * 10)}") counter drop
  }
}
NFT
  done
  start "${FAULTS_CALLS:-36}"
  all_right
  for node in node0 node1 node2; do
    dropped=$(foldcast lab exec --name "$lab" "$node" -- nft list table netdev faults | sed -n 's/.*packets \([0-9]*\) .*/\1/p')
    lost=$((lost + dropped))
  done
  foldcast lab down --name "$lab" >/dev/null
done
[[ $lost -gt 0 ]] || fail "no packet was lost"
passed "$lost packets lost"
