#!/bin/bash
# Runs a command where there is no network but loopback, since Ray listens on every interface it finds, and where
# whatever it started ends with it.
set -euo pipefail
private=(--net --pid --fork --kill-child --mount-proc)
if ((EUID)); then private+=(--user --map-root-user); fi
exec unshare "${private[@]}" bash -c 'ip link set lo up && exec "$@"' _ "$@"
