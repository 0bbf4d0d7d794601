#!/usr/bin/env bash
# Everything that is checked, here and in CI: formatting, lints, all tests. Fails rather than skips.
# usage: test.sh [--long]   (--long: campaigns in their large sizes, and the SDKs' whole exam, as every night)
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  --long) export CODEQ_LONG=1; short= ;;
  "") unset CODEQ_LONG; short=--short ;;
  *) echo "usage: test.sh [--long]" >&2; exit 2 ;;
esac

step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

. scripts/need.sh
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
need chromium chromium
python3 -c 'import ensurepip' 2>/dev/null || need ensurepip python3-venv
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

step "formatting"
cargo fmt --all -- --check

# A build from nothing pays for incremental pieces and debug information and gains nothing by them.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0

# One build with one set of features: the tests, the binary and the examples. Whatever follows takes these.
step "build"
cargo test --workspace --locked --no-run
CODEQ_BIN=$(realpath "${CARGO_TARGET_DIR:-target}")/debug/codeq
export CODEQ_BIN
[ -x "$CODEQ_BIN" ] && [ -x "${CODEQ_BIN%/*}/examples/exam" ]

# The exam and the doubles are built with the same features and must not come along. Planted bugs are in no build
# without debug assertions (scripts/nightly.sh looks at a release).
carries_no_tests() {
  local carried
  carried=$(nm -C "$CODEQ_BIN" | grep 'codeq_store::testing::' | grep -v '::planted::' || true)
  [ -z "$carried" ] || { echo "the binary carries tests: $carried" >&2; return 1; }
}

lints() {
  step "lints"
  cargo clippy --workspace --all-targets --locked -- -D warnings
}

prints() { # WORD ARGUMENT...: what codeq prints with these arguments has the word
  local word=$1 printed
  shift
  printed=$("$CODEQ_BIN" "$@")
  [[ $printed == *"$word"* ]] || { printf '%s\ncodeq %s: no %s\n' "$printed" "$*" "$word" >&2; return 1; }
}

benches() {
  step "benches still run"
  prints '"name":"wake"' bench http --seconds 0.4 --connections 4 --json
  prints '"name":"wake"' bench grpc --seconds 0.3 --streams 2 --json
  prints '"name":"retention"' bench soak --minutes 0.1 --json
  prints '"name":"after"' bench overload --seconds 3 --json
  prints strangers bench hostile --print-only --seconds 2 --connections 500
  prints '"name":"local-fsync"' bench store --seconds 0.2 --in-flight 8 --json
  prints '"name":"restart"' bench store --restart 2000 --json
}

# What only needs the binary. It often waits for a network, a timer or a browser, as the tests do, so that both
# together keep the processors busy.
others() {
  carries_no_tests
  benches
  lints
  step "generated requests against /openapi.json"
  ./scripts/schemathesis.sh
  step "the SDKs"
  ./scripts/sdks.sh $short
  step "packages, installed from local files"
  ./scripts/packages.sh
  step "the dashboard in a browser"
  ./tests/browser/run.sh
}

log=$(mktemp)
set -m # A process group of its own, to be ended as a whole.
(set -e; others) >"$log" 2>&1 </dev/null &
beside=$!
set +m
trap 'kill -- -$beside 2>/dev/null || true; rm -f "$log"' EXIT

# Most tests wait for timers, disks and other processes: more of them at once than there are processors.
RUST_TEST_THREADS=$(($(nproc) + 1))
export RUST_TEST_THREADS

failed=()
step "tests; lints, SDKs, packages and browser run beside them and are shown below"
cargo test --workspace --locked --no-fail-fast || failed+=("tests")
step "waiting for what runs beside the tests"
wait "$beside" || failed+=("beside the tests, after: $(grep '^== ' "$log" | tail -1)")
cat "$log"

[ ${#failed[@]} = 0 ] || { printf '\nfailed: %s\n' "${failed[@]}"; exit 1; }
printf '\nall checks passed in %s s\n' "$SECONDS"
