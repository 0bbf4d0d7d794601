#!/usr/bin/env bash
# Sends generated requests, sound and unsound, to a server of our own and compares every answer with
# /openapi.json: no 5xx, no undocumented status, no answer that does not fit its schema. $CODEQ_BIN names the server
# (default: built here); EXAMPLES how many requests are made for each route, SEED which.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/schemathesis
[ -x $venv/bin/schemathesis ] || { python3 -m venv $venv && $venv/bin/pip -q install 'schemathesis==4.32.5'; }

[ -n "${CODEQ_BIN:-}" ] || { cargo build --locked -q -p codeq; CODEQ_BIN=$PWD/target/debug/codeq; }
repository=$PWD
scratch=$(mktemp -d)
log=$scratch/log
(cd "$scratch" && exec "$CODEQ_BIN" dev --memory --port 0 >"$log" 2>/dev/null) &
server=$!
trap 'kill $server; rm -rf "$scratch"' EXIT
touch "$log"; until grep -q 'listening on' "$log"; do kill -0 $server; sleep 0.1; done
url=$(sed -n 's/.*listening on //p' "$log")

checks=not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance
checks=$checks,response_schema_conformance,unsupported_method,allow_header_conformance
cp tests/schemathesis/hooks.py "$scratch" && cd "$scratch"
# The stream of events has no end; lines of an import are not what it can make.
SCHEMATHESIS_HOOKS=hooks.py "$repository/$venv/bin/schemathesis" run "$url/openapi.json" \
  -H 'Authorization: Bearer dev-token' -c $checks --max-examples "${EXAMPLES:-$([ -n "${CODEQ_LONG:-}" ] && echo 50 || echo 10)}" --seed "${SEED:-1}" --no-color \
  --exclude-path /v1/codeq/events --exclude-path /v1/codeq/admin/import
