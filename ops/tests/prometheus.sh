#!/usr/bin/env bash
# Prints the path of a Prometheus server; gets Debian's package if there is none.
#
# The package is unpacked into the folder given, not installed: installing it starts a server on every network
# interface.
set -euo pipefail
cache=$1

if command -v prometheus; then
    exit
fi
unpacked=$cache/prometheus
if [[ ! -x $unpacked/usr/bin/prometheus ]] && command -v apt-get >/dev/null; then
    mkdir -p "$unpacked"
    download=$(mktemp -d)
    trap 'rm -rf "$download"' EXIT
    {
        [[ $(id -u) != 0 ]] || apt-get -qq update
        cd "$download"
        apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg-deb -x prometheus_*.deb "$unpacked"
    } >&2 || true
fi
if [[ ! -x $unpacked/usr/bin/prometheus ]]; then
    echo "The dashboard test needs Prometheus: install it with 'sudo apt-get install prometheus'," \
        "or put the program 'prometheus' on the PATH." >&2
    exit 1
fi
echo "$unpacked/usr/bin/prometheus"
