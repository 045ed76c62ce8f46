#!/usr/bin/env bash
# Forked children that end, execute something or call in: the parent goes on, the child's call is refused.
source "$(dirname "$0")/common.sh"
export SOAK_FORK=1
start_t1 40
all_right
up_t2
start 40
all_right
passed "on one node and between nodes"
