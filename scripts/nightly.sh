#!/usr/bin/env bash
# The long campaigns: the gate in its large sizes, and the same programs for longer and from other seeds.
# usage: nightly.sh [SEED]  (default: the date, so that every night tries something new; a failure prints the seed)
set -euo pipefail
cd "$(dirname "$0")/.."
seed=${1:-$(date -u +%Y%m%d)}

step() { printf '\n== %s (seed %s)\n' "$*" "$seed"; }

step "the gate, long"
./scripts/test.sh --long

step "build"
cargo build --release --locked -p codeq -p codeq-tests
bin=target/release
carried=$(nm -C $bin/codeq | grep 'codeq_store::testing' || true)
[ -z "$carried" ] || { echo "the binary carries tests: $carried" >&2; exit 1; }

step "simulation: power loss, failing disks, lost and doubled messages"
$bin/sim --from "$seed" --seeds 20000

step "fuzzing: everything that reads bytes from outside"
$bin/fuzz --seconds 1800 --seed "$seed"

step "real servers, killed under load"
$bin/ledger --server $bin/codeq --seed "$seed" --rounds 300

step "real servers, power lost with every kill"
$bin/ledger --server $bin/codeq --seed "$seed" --rounds 100 --power-loss

step "two replicas over Redis, both killed in turn"
$bin/ledger --server $bin/codeq --seed "$seed" --rounds 60 --storage redis

step "two replicas over Redis, masters killed or stopped, a Sentinel or the cluster promotes"
$bin/ledger --server $bin/codeq --seed "$seed" --rounds 50 --storage sentinel
$bin/ledger --server $bin/codeq --seed "$seed" --rounds 50 --storage cluster

step "memory, handles and disk over twenty minutes"
$bin/codeq bench soak --minutes 20

step "hostile tenants beside an honest one"
$bin/codeq bench hostile

step "the SDKs are as fast as promised"
python3 sdks/bench/run.py --server $bin/codeq --check

step "their reference"
./scripts/sdk-reference.sh

step "the race against other queues"
python3 bench/peers/run.py --server $bin/codeq --seconds 5

printf '\nall campaigns passed\n'
