#!/usr/bin/env bash
# An S3-compatible server on the given port of this machine, for the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/moto
[ -x $venv/bin/moto_server ] || { python3 -m venv $venv && $venv/bin/pip -q install 'moto[s3,server]==5.1.22'; }
exec $venv/bin/moto_server -H 127.0.0.1 -p "$1"
