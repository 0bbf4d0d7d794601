#!/usr/bin/env bash
# Makes clients of crates/api/openapi.json with openapi-python-client and openapi-typescript, checks a program
# over each of them as strictly as its language can, and runs both. usage: run.sh SERVER_URL
set -euo pipefail
url=$1
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
work=$repository/target/sdks/openapi
description=$repository/crates/api/openapi.json
mkdir -p "$work" && cd "$work"

if [ ! -e tools-1 ]; then
  python3 -m venv python
  python/bin/pip -q install openapi-python-client==0.29.1 mypy==2.4.1 types-python-dateutil ruff==0.17.5
  npm install --silent --no-audit --no-fund --prefix . openapi-typescript@7.13.0 openapi-fetch@0.17.0 \
    typescript@5.9 @types/node@20
  touch tools-1
fi

# A warning is a call or a field that a client would not have.
PATH=$work/python/bin:$PATH python/bin/openapi-python-client generate --path "$description" \
  --output-path codeq_api --meta none --overwrite --fail-on-warning
cp "$here/program.py" .
# What the generator itself writes into client.py does not meet --strict; everything made of the description does.
printf '[mypy]\nstrict = true\n[mypy-codeq_api.client]\nignore_errors = true\n' >mypy.ini
python/bin/mypy --config-file mypy.ini program.py codeq_api
python/bin/python program.py "$url"

node_modules/.bin/openapi-typescript "$description" -o api.d.ts
cp "$here/program.ts" .
node_modules/.bin/tsc --strict --target es2022 --module commonjs --skipLibCheck program.ts
node program.js "$url"
echo "generated clients: a program over each compiled and ran"
