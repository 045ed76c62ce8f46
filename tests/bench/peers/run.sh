#!/usr/bin/env bash
# Foldcast beside Open MPI and MPICH, each with its own defaults, in one run: see docs/perf.md, "Beside other libraries".
#
#   run.sh [--quick] [--programs DIRECTORY] [--out DIRECTORY] [--scenarios node,link,slow]
#
# node: 2 ranks on this machine, bound to a core each. link: 2 nodes joined by unshaped links. slow: 8 nodes at 200 Mbit/s.
# The libraries take turns, round after round, and the least of a size's medians counts. Installs nothing; a library that
# is not there is left out by name. Ends by itself: in under 2 minutes with --quick, else in under 10.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=$(cd "$here/../../.." && pwd)/build/release/bin
out=$PWD/peers
scenarios=node,link,slow
quick=0
while [[ $# -gt 0 ]]; do
  case $1 in
    --quick) quick=1 ;;
    --programs) programs=$2; shift ;;
    --out) out=$2; shift ;;
    --scenarios) scenarios=$2; shift ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done

export PEERS_PROGRAMS PEERS_LAB
PEERS_PROGRAMS=$(cd "$programs" 2>/dev/null && pwd) && [[ -x $PEERS_PROGRAMS/foldcast ]] || {
  echo "run.sh: there is no foldcast in $programs: build it, or say where with --programs" >&2
  exit 2
}
PEERS_LAB=""
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
foldcast=$PEERS_PROGRAMS/foldcast
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
rm -f "$out"/*.json
work=$(mktemp -d)
clean_up() {
  [[ -n $PEERS_LAB ]] && "$foldcast" lab down --name "$PEERS_LAB" >/dev/null 2>&1
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

limit=570 patience=90
[[ $quick -eq 1 ]] && limit=110 patience=25
left() { echo $((limit - SECONDS)); }

libraries=(foldcast)
for library in openmpi mpich; do
  if command -v "mpicc.$library" >/dev/null && command -v "mpirun.$library" >/dev/null; then
    if "mpicc.$library" -O2 -std=c11 -o "$work/peer.$library" "$here/mpi_peer.c" 2>"$work/errors"; then
      libraries+=("$library")
    else
      echo "left out: $library (its compiler failed: $(head -n 1 "$work/errors"))"
    fi
  else
    packages="openmpi-bin libopenmpi-dev"
    [[ $library == mpich ]] && packages="mpich libmpich-dev"
    echo "left out: $library (not installed; Debian: $packages)"
  fi
done

# The command that runs one library's part of a scenario: collective first last factor seconds file.
command_of() {
  local library=$1 scenario=$2
  shift 2
  local perf=(foldcast perf "$1" -b "$2" -e "$3" -f "$4" -n 10000 -w 5 -c 0 --seconds "$5" -J "$6")
  local peer=("$work/peer.$library" "$@")
  local nodes=2 inside=("$foldcast" lab exec --name "$PEERS_LAB" node0 --)
  [[ $scenario == slow ]] && nodes=8
  local hosts
  hosts=$(seq -s, -f '10.77.0.%g' 1 "$nodes")
  case $library-$scenario in
    foldcast-node) command=("$foldcast" run -n 2 --bind-to core -- "${perf[@]}") ;;
    foldcast-link) command=("$foldcast" lab run --name "$PEERS_LAB" --bind-to core -- "${perf[@]}") ;;
    foldcast-slow) command=("$foldcast" lab run --name "$PEERS_LAB" -- "${perf[@]}") ;;
    openmpi-node) command=(mpirun.openmpi -n 2 --bind-to core "${peer[@]}") ;;
    mpich-node) command=(mpirun.mpich -n 2 -bind-to core "${peer[@]}") ;;
    openmpi-*) command=("${inside[@]}" mpirun.openmpi -n "$nodes" --host "$hosts" --map-by node --bind-to none
      --mca plm_rsh_agent "$here/launch_agent.sh" --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0
      "${peer[@]}") ;;
    # Its UCX sees that the lab's nodes share one memory, as real ones do not, and would leave the links unused.
    mpich-*) command=("${inside[@]}" mpirun.mpich -n "$nodes" -hosts "$hosts" -ppn 1 -iface eth0 -launcher rsh
      -launcher-exec "$here/launch_agent.sh" -env UCX_TLS tcp,self "${peer[@]}") ;;
  esac
}

# measure SCENARIO COLLECTIVE FIRST LAST FACTOR SECONDS ROUNDS
measure() {
  local scenario=$1 collective=$2 rounds=$7 round library file command
  for round in $(seq "$rounds"); do
    for library in "${libraries[@]}"; do
      if [[ $(left) -lt 10 ]]; then
        echo "out of time before round $round of $collective, $scenario"
        return
      fi
      file=$out/$scenario-$collective-$library-$round.json
      command_of "$library" "$scenario" "$collective" "$3" "$4" "$5" "$6" "$file"
      # Another way than "-k" would leave what the launchers started; they end it when they are told to.
      timeout -k 5 "$(($(left) < patience ? $(left) : patience))" "${command[@]}" >"$work/said" 2>&1 </dev/null && continue
      echo "$library failed (or took over $patience s) in $scenario, $collective: $(grep -v '^$' "$work/said" | tail -n 1)"
      rm -f "$file"
    done
  done
}

lab_up() {
  PEERS_LAB=peers-$1-$$
  "$foldcast" lab up --name "$PEERS_LAB" --aggregators none "${@:2}" >"$work/said" 2>&1 && return
  echo "left out: $1 (no lab: $(tail -n 1 "$work/said"))"
  PEERS_LAB=""
  return 1
}
lab_down() {
  "$foldcast" lab down --name "$PEERS_LAB" >/dev/null
  PEERS_LAB=""
}

others="reduce broadcast reduce_scatter all_gather all_to_all gather scatter send_recv barrier"
if [[ ,$scenarios, == *,node,* ]]; then
  if [[ $quick -eq 1 ]]; then
    measure node all_reduce 8 67108864 8 0.1 2
  else
    measure node all_reduce 8 67108864 2 0.2 4
    for collective in $others; do measure node "$collective" 64 4194304 16 0.1 2; done
  fi
fi
if [[ ,$scenarios, == *,link,* ]] && lab_up link --nodes 2 --racks 1 --rate unshaped; then
  if [[ $quick -eq 1 ]]; then
    measure link all_reduce 8 16777216 8 0.1 2
  else
    measure link all_reduce 8 67108864 2 0.2 3
  fi
  lab_down
fi
if [[ ,$scenarios, == *,slow,* ]] && lab_up slow --nodes 8 --racks 2 --rate 200mbit; then
  if [[ $quick -eq 1 ]]; then
    measure slow all_reduce 64 262144 16 0.1 1
  else
    measure slow all_reduce 8 1048576 4 0.2 3
  fi
  lab_down
fi

python3 "$here/compare.py" "$out"
