#!/usr/bin/env bash
# The SDKs: linters, types, unit tests, generated clients, guides, and the exam of all languages against real servers.
# usage: sdks.sh [--short]. Installs what it needs into target/, fails rather than skips. The tests of the Rust SDK are
# those of its crate. $CODEQ_BIN names a server with the example `exam` beside it (default: both are built here).
# --short leaves out most scenarios over Kvrocks, and the guide for Rust, whose program is compiled with the tests of its crate.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
short=${1:-}
tools=$repository/target/sdks
mkdir -p "$tools"

step() { printf -- '-- %s\n' "$*"; }
for command in python3 node npm go git redis-server; do
  command -v $command >/dev/null || { echo "sdks.sh needs $command" >&2; exit 1; }
done

if [ -z "${CODEQ_BIN:-}" ]; then
  # Both packages at once: alone, one would ask for other features, and everything would be built again.
  cargo build --locked -q -p codeq -p codeq-client --bins --examples
  CODEQ_BIN=$repository/target/debug/codeq
fi
export CODEQ_BIN

step "Python"
python=$tools/python/venv/bin
if [ ! -e "$tools/python/ready-2" ]; then
  [ -x "$python/python" ] || python3 -m venv "$tools/python/venv"
  "$python/pip" -q install -e sdks/python pytest pytest-asyncio mypy==2.4.1 ruff==0.17.5 pydantic opentelemetry-sdk PyYAML
  touch "$tools/python/ready-2"
fi
peers=$repository/bench/peers
"$python/ruff" format -q --check --config sdks/python/pyproject.toml "$peers" sdks/bench sdks/packages
"$python/ruff" check -q --config sdks/python/pyproject.toml "$peers" sdks/bench sdks/packages
(cd sdks/python && "$python/ruff" format -q --check src tests examples && "$python/ruff" check -q src tests examples && "$python/mypy" && "$python/pytest")

step "TypeScript"
(cd sdks/typescript && { [ -d node_modules/typescript ] || npm ci --silent --no-audit --no-fund; } &&
  node_modules/.bin/biome check src test examples scripts && npm test --silent)

step "Go"
# A version of its own folder, so that another one is installed when this changes.
staticcheck=$tools/staticcheck-v0.8.2
[ -x "$staticcheck/staticcheck" ] || GOBIN=$staticcheck go install honnef.co/go/tools/cmd/staticcheck@v0.8.2
for module in sdks/go sdks/go/stream sdks/go/codeqotel sdks/exam/go sdks/bench/go; do
  (cd $module && unformatted=$(gofmt -l .) && [ -z "$unformatted" ] || { echo "gofmt: $unformatted" >&2; exit 1; }
   go vet ./... && "$staticcheck/staticcheck" ./... && go test ./...)
done
unformatted=$(gofmt -l bench/peers/go); [ -z "$unformatted" ] || { echo "gofmt: $unformatted" >&2; exit 1; }
[ ! -e sdks/go/go.sum ] || { echo "sdks/go needs more than the standard library" >&2; exit 1; }

step "clients made of the description"
scratch=$(mktemp -d)
(cd "$scratch" && exec "$CODEQ_BIN" dev --memory --port 0 >"$scratch/log" 2>/dev/null) &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$scratch"' EXIT
touch "$scratch/log"; until grep -q 'listening on' "$scratch/log"; do kill -0 $server; sleep 0.1; done
sdks/openapi/run.sh "$(sed -n 's/.*listening on //p' "$scratch/log")"

step "guides as pasted"
"$python/python" sdks/guides/run.py --server "$CODEQ_BIN" ${short:+python typescript go}

step "examples"
"$python/python" sdks/guides/examples.py --server "$CODEQ_BIN"

step "the bench of the SDKs still runs"
"$python/python" sdks/bench/run.py --server "$CODEQ_BIN" --tasks 500

step "the exam"
(cd sdks/exam/go && go build -o "$tools/exam-go" .)
"$python/python" sdks/exam/exam.py --server "$CODEQ_BIN" $short
# Over the other store the SDKs see the same protocol: the short set tries it with one of them.
"$python/python" sdks/exam/exam.py --server "$CODEQ_BIN" --store kvrocks $short ${short:+--languages go}
