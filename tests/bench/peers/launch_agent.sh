#!/bin/sh
# What MPI's launchers call in place of ssh: launch_agent.sh [OPTIONS] ADDRESS COMMAND..., on that node of the lab $PEERS_LAB.
while [ "${1#-}" != "$1" ]; do shift; done
node=node$((${1##*.} - 1))
shift
# As ssh does: the words are one line for the other side's shell.
exec "$PEERS_PROGRAMS/foldcast" lab exec --name "$PEERS_LAB" "$node" -- sh -c "$*"
