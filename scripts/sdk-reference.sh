#!/usr/bin/env bash
# The reference of every SDK, made of its sources, in target/sdks/reference. usage: sdk-reference.sh [LANGUAGE ...]
# Needs what sdks.sh installs.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/sdks/reference
python=$PWD/target/sdks/python/venv/bin
[ $# -gt 0 ] || set -- python typescript go rust
mkdir -p "$out"

for language in "$@"; do
  rm -rf "${out:?}/$language"
  case $language in
    python)
      [ -x "$python/pdoc" ] || "$python/pip" -q install pdoc
      "$python/pdoc" --output-directory "$out/python" codeq codeq.errors codeq.middleware codeq.testing
      ;;
    typescript)
      tools=$PWD/target/sdks/typedoc
      [ -d "$tools/node_modules/typedoc" ] || npm install --silent --no-audit --no-fund --prefix "$tools" typedoc@0.28 typescript@5.9
      (cd sdks/typescript && "$tools/node_modules/.bin/typedoc" --logLevel Warn --readme README.md --out "$out/typescript" \
        src/index.ts src/testing.ts src/otel.ts)
      ;;
    go)
      mkdir -p "$out/go"
      for package in . codeqtest stream codeqotel; do
        (cd "sdks/go/$package" && go doc -all .) >"$out/go/$(basename "$(realpath "sdks/go/$package")").txt"
      done
      ;;
    rust)
      cargo doc --locked -q -p codeq-client --no-deps
      cp -r target/doc "$out/rust"
      ;;
    *)
      echo "sdk-reference.sh: no SDK in $language" >&2
      exit 1
      ;;
  esac
  printf -- '-- %s: %s\n' "$language" "$out/$language"
done
