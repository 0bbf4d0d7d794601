#!/usr/bin/env python3
"""Races codeQ against other queues: the same job, the same shapes, one after the other on this machine.

usage: run.py [--server BINARY] [--seconds 5] [--rounds 1] [--only NAME ...] [--out DIRECTORY] [--list]

Installs what is missing (see README.md), measures, and writes table.md, results.json and chart.svg. The server should
be a release build. With several rounds every figure is the median, and rounds alternate between the peers.
"""

import argparse
import contextlib
import datetime
import json
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import report
from field import PLACE, REPOSITORY, Peer, Shape, field
from install import install
from observe import Usage, counted_syncs, machine
from servers import running

#: Jobs that are enqueued one by one while syncs are counted.
COUNTED_JOBS = 200
#: How long one client may take beyond what was asked for.
PATIENCE_SECONDS = 60
#: How long a client may take to end.
END_SECONDS = 10


@contextlib.contextmanager
def started(command: list[str], seconds: float) -> Any:
    """A client that cannot hang: it is killed when its time is up."""
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    alarm = threading.Timer(seconds, client.kill)
    alarm.start()
    try:
        yield client
    finally:
        # It ends its own processes; one that does not is killed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            client.communicate(timeout=END_SECONDS)
        alarm.cancel()
        client.kill()
        client.wait()


def next_line(client: "subprocess.Popen[str]") -> str:
    assert client.stdout is not None
    if said := client.stdout.readline().strip():
        return said
    assert client.stderr is not None
    raise RuntimeError(client.stderr.read().strip()[-300:] or "the client was silent")


def tell(client: "subprocess.Popen[str]") -> None:
    """The line that a client waits for."""
    assert client.stdin is not None
    client.stdin.write("\n")
    client.stdin.flush()


def race(peer: Peer, shape: Shape, seconds: int) -> dict[str, Any]:
    with running(peer.server, PLACE) as server:
        numbers = [str(number) for number in (shape.producers, shape.workers, shape.window, seconds)]
        with started([*peer.client, server.address, *numbers], seconds + PATIENCE_SECONDS) as client:
            expect(next_line(client), "begin")
            usage = Usage(server.pid, client.pid)
            came = json.loads(next_line(client))
            costs = usage.end(came["cycles"])
            tell(client)
    return {"cyclesPerSecond": round(came["cycles"] / came["seconds"], 1), **came, **costs}


def syncs(peer: Peer) -> float:
    """How often the server syncs for one job that is enqueued alone: 1 or more if every answer waits for the disk."""
    with (
        running(peer.server, PLACE) as server,
        started([*peer.client, server.address, "one-by-one", str(COUNTED_JOBS)], 2 * PATIENCE_SECONDS) as client,
    ):
        expect(next_line(client), "ready")
        with counted_syncs(server.pid) as counted:
            tell(client)
            json.loads(next_line(client))
    return round(counted[0] / COUNTED_JOBS, 2)


def expect(said: str, wanted: str) -> None:
    if said != wanted:
        raise RuntimeError(f"the client said {said[:200]!r}, not {wanted!r}")


def version(peer: Peer) -> str:
    done = subprocess.run(peer.server.version, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().split("\n")[0]


def median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    names = rounds[0].keys()
    return {name: round(statistics.median(one[name] for one in rounds), 1) for name in names}


def run(peers: list[Peer], options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    measured: dict[tuple[str, str], list[dict[str, Any]]] = {}
    counted: dict[str, float | None] = {}
    failed = []
    for peer in peers:
        try:
            counted[peer.title] = syncs(peer)
        except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as error:
            counted[peer.title] = None
            failed.append({"title": peer.title, "shape": "counting syncs", "error": str(error)[-300:]})
        print(f"{peer.title}: {counted[peer.title]} syncs per enqueue", file=sys.stderr, flush=True)
    for number in range(options.rounds):
        for peer in peers:
            for shape in peer.shapes:
                try:
                    one = race(peer, shape, options.seconds)
                    measured.setdefault((peer.title, shape.name), []).append(one)
                    said = f"{one['cyclesPerSecond']:,.0f} cycles/s, others took {one['otherCores']} cores"
                except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
                    said = str(error)[-300:]
                    failed.append({"title": peer.title, "shape": shape.name, "error": said})
                print(f"round {number + 1}, {peer.title}, {shape.name}: {said}", file=sys.stderr, flush=True)
    rows = []
    for peer in peers:
        about = {"title": peer.title, "name": peer.name, "language": peer.language, "durability": peer.durability}
        for shape in peer.shapes:
            if rounds := measured.get((peer.title, shape.name)):
                syncing = {"syncsPerEnqueue": counted[peer.title], "version": version(peer)}
                rows.append({**about, "shape": shape.name, **syncing, **median(rounds)})
    return rows, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=str(REPOSITORY / "target/release/codeq"))
    parser.add_argument("--seconds", type=int, default=5, help="how long each shape is measured")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names, as --list prints them")
    parser.add_argument("--out", type=Path, default=PLACE)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    missing = install()
    binary = Path(options.server).resolve()
    if not binary.exists():
        sys.exit(f"run.py: there is no server at {binary} (cargo build --release -p codeq)")
    peers = [peer for peer in field(str(binary), missing) if chosen(peer, options.only)]
    if options.list:
        print("\n".join(peer.title for peer in peers))
        return
    before = machine(PLACE)
    rows, failed = run(peers, options)
    result = {
        "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": before,
        "seconds": options.seconds,
        "rounds": options.rounds,
        "shapes": list(dict.fromkeys(shape.name for peer in peers for shape in peer.shapes)),
        "rows": rows,
        "failed": failed,
        "missing": missing,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    (options.out / "table.md").write_text(report.table(result))
    (options.out / "chart.svg").write_text(report.chart(result))
    print(report.table(result))
    if failed:
        sys.exit(f"{len(failed)} measurements failed")


def chosen(peer: Peer, beginnings: list[str]) -> bool:
    return not beginnings or any(peer.title.lower().startswith(one.lower()) for one in beginnings)


if __name__ == "__main__":
    main()
