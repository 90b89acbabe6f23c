#!/usr/bin/env bash
# Prints a folder that has a Redis server; gets Debian's packages if there is none. Prints nothing if that fails.
#
# The packages are unpacked into the folder given, not installed: installing them starts a server.
set -euo pipefail
unpacked=$1/redis

if command -v redis-server >/dev/null; then
    dirname "$(command -v redis-server)"
    exit
fi
if [[ ! -x $unpacked/bin/redis-server ]] && command -v apt-get >/dev/null; then
    mkdir -p "$unpacked/bin"
    download=$(mktemp -d)
    trap 'rm -rf "$download"' EXIT
    {
        [[ $(id -u) != 0 ]] || apt-get -qq update
        cd "$download"
        apt-get -qq -o APT::Sandbox::User=root download redis-tools liblzf1 libjemalloc2 &&
            for package in *.deb; do dpkg-deb -x "$package" "$unpacked"; done
        # The server and its checker are one program, which goes by the name that it is called by.
        printf '#!/bin/bash\nLD_LIBRARY_PATH=%s exec -a redis-server %s "$@"\n' \
            "$(echo "$unpacked"/usr/lib/*-linux-gnu*)" "$unpacked/usr/bin/redis-check-rdb" >"$unpacked/bin/redis-server"
        chmod +x "$unpacked/bin/redis-server"
    } >&2 || true
fi
[[ ! -x $unpacked/usr/bin/redis-check-rdb ]] || echo "$unpacked/bin"
