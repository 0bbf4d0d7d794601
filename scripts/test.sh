#!/usr/bin/env bash
# Everything that is checked, here and in CI: formatting, lints, all tests. Fails rather than skips.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

need() { # COMMAND PACKAGE: installs what is missing from Debian's packages
  command -v "$1" >/dev/null && return
  step "installing $2"
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  # Waits for another installation instead of failing beside it.
  $sudo apt-get update -qq && $sudo apt-get install -y -qq -o DPkg::Lock::Timeout=300 "$2" >/dev/null
}

need cargo cargo
need cc gcc
need curl curl
need python3 python3
need openssl openssl
need node nodejs
need npm npm
need go golang-go
need redis-cli redis-tools
need tmux tmux
if ! command -v redis-server >/dev/null; then
  need redis-server redis-server
  # The package starts a service; the tests start servers of their own.
  service redis-server stop >/dev/null 2>&1 || true
fi
need promtool prometheus
need faketime faketime
python3 -c 'import ensurepip' 2>/dev/null || need ensurepip python3-venv
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

step "formatting"
cargo fmt --all -- --check

step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

step "tests"
cargo test --workspace --locked

step "benches still run"
cargo run --locked -q -p codeq -- bench http --seconds 0.4 --connections 4 --json | grep -q '"name":"wake"'
cargo run --locked -q -p codeq -- bench grpc --seconds 0.3 --streams 2 --json | grep -q '"name":"wake"'
cargo run --locked -q -p codeq -- bench soak --minutes 0.1 --json | grep -q '"name":"retention"'
cargo run --locked -q -p codeq -- bench overload --seconds 3 --json | grep -q '"name":"after"'
# Prints what an honest tenant sees beside a hostile one and beside strangers.
cargo run --locked -q -p codeq -- bench hostile --seconds 2 --connections 500 | tee /dev/stderr | grep -q '^strangers'
cargo run --locked -q -p codeq -- bench store --seconds 0.2 --in-flight 8 --json | grep -q '"name":"local-fsync"'
cargo run --locked -q -p codeq -- bench store --restart 2000 --json | grep -q '"name":"restart"'

step "generated requests against /openapi.json"
./scripts/schemathesis.sh

step "the SDKs"
./scripts/sdks.sh --short

step "packages, installed from local files"
./scripts/packages.sh

step "the dashboard in a browser"
./tests/browser/run.sh

printf '\nall checks passed\n'
