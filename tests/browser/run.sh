#!/usr/bin/env bash
# The dashboard in a real browser against the real binary. Fails rather than skips.
set -euo pipefail
cd "$(dirname "$0")"

. ../../scripts/need.sh
need node nodejs
need npm npm
need chromium chromium
npm ci --no-audit --no-fund --silent

CODEQ=${CODEQ:-${CODEQ_BIN:-}}
if [ -z "$CODEQ" ]; then
  (cd ../.. && cargo build --locked -q -p codeq)
  CODEQ=$(cd ../.. && cargo metadata --format-version 1 --no-deps --offline | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/codeq
fi
export CODEQ
# One file at a time: figures of the first paint are worth nothing beside another browser.
if [ $# -gt 0 ]; then
  exec node --test --test-concurrency=1 "$@"
fi
node --test --test-concurrency=1 ./*.test.js

# The pictures of the documentation can be taken.
pictures=$(mktemp -d)
trap 'rm -rf "$pictures"' EXIT
env SECONDS=5 BUSY=60 TO="$pictures" node screenshots.js
for picture in ../../docs/images/*-*-*.png; do
  [ -s "$pictures/$(basename "$picture")" ] || { echo "there is no picture $(basename "$picture")" >&2; exit 1; }
done
