"""Full cycles a second of every SDK, one process each beside one server that syncs, as a table.

usage: run.py --server BINARY [--tasks N] [--concurrency 64] [--check] [LANGUAGE ...]

Needs what scripts/sdks.sh installs; the server should be a release build. With --check a figure under its bound is an
error.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
TOKEN = "dev-token"
#: How long one of them may take.
PATIENCE = 120
#: What each must reach on two cores that it shares with the server.
BOUNDS = {"go stream": 15_000, "go http": 8_000, "typescript http": 4_000, "python http": 2_000}


def free() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def commands(streams: list[str]) -> dict[str, list[str]]:
    built = REPOSITORY / "target/sdks/bench-go"
    python = REPOSITORY / "target/sdks/python/venv/bin/python"
    return {
        "python http": [str(python), str(HERE / "bench.py")],
        "typescript http": ["node", str(HERE / "bench.mjs")],
        "go http": [str(built)],
        "go stream": [str(built), *streams],
    }


def serve(binary: str, scratch: Path, streams: list[str]) -> tuple[subprocess.Popen[bytes], str]:
    environment = {**os.environ, "WORKER_STREAM_ADDR": streams[0], "PRODUCER_STREAM_ADDR": streams[1]}
    log = scratch / "server.log"
    command = [str(Path(binary).resolve()), "dev", "--port", "0", "--data-dir", str(scratch / "data")]
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=scratch, stdout=output, stderr=output, env=environment)
    for _ in range(600):
        said = log.read_text()
        if "listening on http" in said:
            return server, said.split("listening on ")[1].split()[0]
        assert server.poll() is None, said
        time.sleep(0.05)
    raise AssertionError("the server does not start")


def measure(name: str, tasks: int, options: argparse.Namespace) -> int:
    """A server of its own for each, so that none works beside the upkeep of another."""
    streams = [free(), free()]
    with tempfile.TemporaryDirectory(prefix="codeq-bench-") as scratch:
        server, url = serve(options.server, Path(scratch), streams)
        try:
            program, *more = commands(streams)[name]
            script = more[:1] if name.split()[0] != "go" else []
            arguments = [program, *script, url, TOKEN, str(tasks), str(options.concurrency), *more[len(script) :]]
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert done.returncode == 0, done.stderr
            return int(json.loads(done.stdout)["perSecond"])
        finally:
            server.kill()
            server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=str(REPOSITORY / "target/release/codeq"))
    parser.add_argument("--tasks", type=int, help="instead of what takes each of them a few seconds")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("languages", nargs="*", default=["python", "typescript", "go"])
    options = parser.parse_args()
    subprocess.run(["go", "build", "-o", str(REPOSITORY / "target/sdks/bench-go"), "."], cwd=HERE / "go", check=True)
    slow = []
    print(f"| SDK | cycles/s, concurrency {options.concurrency} | must hold |\n|---|---:|---:|")
    for name, bound in BOUNDS.items():
        if name.split()[0] not in options.languages:
            continue
        reached = measure(name, options.tasks or bound * 4, options)
        print(f"| {name} | {reached:,} | {bound:,} |", flush=True)
        slow += [name] if reached < bound else []
    if options.check and slow:
        sys.exit(f"too slow: {', '.join(slow)}")


main()
