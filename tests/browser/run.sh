#!/usr/bin/env bash
# The dashboard in a real browser against the real binary. Fails rather than skips.
set -euo pipefail
cd "$(dirname "$0")"

need() { # COMMAND PACKAGE: installs what is missing from Debian's packages
  command -v "$1" >/dev/null && return
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq && $sudo apt-get install -y -qq "$2" >/dev/null
}

need node nodejs
need npm npm
need chromium chromium
npm ci --no-audit --no-fund --silent

if [ -z "${CODEQ:-}" ]; then
  (cd ../.. && cargo build --locked -q -p codeq)
  CODEQ=$(cd ../.. && cargo metadata --format-version 1 --no-deps --offline | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/codeq
fi
export CODEQ
# One file at a time: figures of the first paint are worth nothing beside another browser.
[ $# -gt 0 ] || set -- ./*.test.js
exec node --test --test-concurrency=1 "$@"
