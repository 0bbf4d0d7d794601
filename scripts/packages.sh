#!/usr/bin/env bash
# Installs every package from local files into a fresh environment and finishes a task with it, within 60 seconds each.
# usage: packages.sh [BINARY]   (default: $CODEQ_BIN, or the debug binary; a release passes the one that it publishes)
# With CODEQ_REVISION set, the server must say that it was built from it.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:-${CODEQ_BIN:-target/debug/codeq}}
[ -x "$binary" ] || { echo "packages.sh: there is no binary at $binary" >&2; exit 1; }
binary=$(realpath "$binary")

seconds_max=60
scratch=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$scratch"' EXIT

python3 sdks/packages/test_npm.py 2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }

# What symbols cost in the debug binary would only be time for the compressor.
cp "$binary" "$scratch/codeq"
strip "$scratch/codeq"
triple=$(uname -m)-unknown-linux-gnu
./scripts/package.sh --out "$scratch/packages" "$triple=$scratch/codeq" >"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
(cd "$scratch/packages" && sha256sum --quiet --check SHA256SUMS)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

# COMMAND [PROGRAM ...]: a server of the installed command and its worker, or that program, finish a task
finish_a_task() {
  local place id worker command=$1
  place=$(mktemp -d -p "$scratch")
  shift
  (cd "$place" && exec "$command" dev --memory --port 0 >"$place/log" 2>&1) &
  server=$!
  until grep -q 'listening on' "$place/log" 2>/dev/null; do
    kill -0 "$server" || { cat "$place/log" >&2; return 1; }
    sleep 0.1
  done
  (
    export HOME=$place CODEQ_BASE_URL
    CODEQ_BASE_URL=$(sed -n 's/.*listening on //p' "$place/log" | head -1)
    if [ -n "${CODEQ_REVISION:-}" ]; then
      # Reads to the end: with -q curl would fail for a pipe that nobody reads.
      curl -s "$CODEQ_BASE_URL/metrics" | grep "^codeq_build_info.*revision=\"$CODEQ_REVISION\"" >/dev/null ||
        { echo "codeq_build_info does not carry the revision $CODEQ_REVISION" >&2; exit 1; }
    fi
    if [ $# -gt 0 ]; then
      CODEQ_URL=$CODEQ_BASE_URL timeout "$seconds_max" "$@" | grep '^done$' >/dev/null || { echo "$* finished no task" >&2; exit 1; }
      exit
    fi
    "$command" worker run --command packed --exec 'echo "{\"done\":true}"' >"$place/worker" 2>&1 &
    worker=$!
    trap 'kill $worker 2>/dev/null' EXIT
    id=$("$command" task create --command packed --payload '{"n":1}' | awk '{ print $NF }')
    "$command" task result "$id" --wait 30 | grep -q done || { cat "$place/worker" >&2; exit 1; }
  )
  # It ends in order, through the launcher of npm, too.
  kill "$server"
  wait "$server" || { echo "$command dev ended with $?" >&2; return 1; }
  server=
  ! curl -s --max-time 5 "$(sed -n 's/.*listening on //p' "$place/log" | head -1)/livez" >/dev/null ||
    { echo "the server of $command goes on after its end" >&2; return 1; }
}

# NAME INSTALL COMMAND [PROGRAM ...]: INSTALL is a function
check() {
  local name=$1 begun=$SECONDS took
  $2
  shift 2
  [ "$("$1" --version)" = "codeq $version" ] || { echo "$name: $("$1" --version) is not codeq $version" >&2; exit 1; }
  finish_a_task "$@"
  took=$((SECONDS - begun))
  printf -- '-- %s: a task is finished %s s after the install began\n' "$name" "$took"
  [ "$took" -le "$seconds_max" ] || { echo "$name took longer than $seconds_max s" >&2; exit 1; }
}

with_pip() {
  python3 -m venv "$scratch/venv"
  "$scratch/venv/bin/pip" -q --disable-pip-version-check install --no-index --find-links "$scratch/packages" codeq-cli
}
with_npm() {
  mkdir "$scratch/npm"
  (cd "$scratch/npm" && npm init -y >/dev/null 2>&1 &&
    npm install --silent --no-audit --no-fund --ignore-scripts \
      "$scratch/packages/codeq-cli-$version.tgz" "$scratch/packages"/codeq-cli-linux-*-"$version".tgz)
}
# The SDKs as their users install them, beside the server.
with_pip_client() {
  cp sdks/packages/first_task.py "$scratch/venv/"
  "$scratch/venv/bin/pip" -q --disable-pip-version-check install --find-links "$scratch/packages" "codeq-client==$version"
}
with_npm_client() {
  cp sdks/packages/first-task.mjs "$scratch/npm/"
  (cd "$scratch/npm" && npm install --silent --no-audit --no-fund --ignore-scripts "$scratch/packages/codeq-client-$version.tgz")
}
with_installer() {
  sh "$scratch/packages/install.sh" --from "$scratch/packages" --dir "$scratch/bin" >/dev/null
}

check "wheel (pip)" with_pip "$scratch/venv/bin/codeq"
check "SDK (pip)" with_pip_client "$scratch/venv/bin/codeq" "$scratch/venv/bin/python" "$scratch/venv/first_task.py"
check "npm package" with_npm "$scratch/npm/node_modules/.bin/codeq"
check "SDK (npm)" with_npm_client "$scratch/npm/node_modules/.bin/codeq" node "$scratch/npm/first-task.mjs"
check "archive (install.sh)" with_installer "$scratch/bin/codeq"

# An archive that was changed on its way is refused.
archive=$(ls "$scratch/packages"/*.tar.gz)
printf x >>"$archive"
if sh "$scratch/packages/install.sh" --from "$scratch/packages" --dir "$scratch/changed" >"$scratch/log" 2>&1; then
  echo "install.sh installed a changed archive" >&2; exit 1
fi
grep -q 'is damaged' "$scratch/log" && [ ! -e "$scratch/changed/codeq" ]

# The packages that the README names are those that were made.
for line in 'pip install codeq-cli' 'npx codeq-cli dev'; do
  grep -qF "$line" README.md || { echo "README.md does not say: $line" >&2; exit 1; }
done
printf 'packages: all of them install and finish a task\n'
