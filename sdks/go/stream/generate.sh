#!/usr/bin/env bash
# Makes the messages anew after proto/ has changed. Needs python3 and go.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(cd ../../.. && pwd)/target/sdks/protoc
module=github.com/codeq/codeq/sdks/go/stream
[ -x "$tools/venv/bin/python" ] || { python3 -m venv "$tools/venv" && "$tools/venv/bin/pip" -q install grpcio-tools setuptools; }
GOBIN=$tools go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
GOBIN=$tools go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
where=module=$module,Mproducer.proto=$module/internal/producerpb,Mworker.proto=$module/internal/workerpb
PATH=$tools:$PATH "$tools/venv/bin/python" -m grpc_tools.protoc -I ../../../proto --go_out=. --go_opt="$where" \
  --go-grpc_out=. --go-grpc_opt="$where" producer.proto worker.proto
