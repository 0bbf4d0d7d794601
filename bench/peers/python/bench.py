"""Drives one Python queue: producers in this process, two worker processes beside it.

usage: bench.py SYSTEM ADDRESS PRODUCERS WORKERS WINDOW SECONDS   the race
       bench.py SYSTEM ADDRESS one-by-one JOBS                    only a producer: one job after the other

Prints what the Go program beside it prints, and waits for a line in the same places.
"""

import importlib
import json
import multiprocessing
import os
import sys
import threading
import time
from multiprocessing.sharedctypes import Synchronized

#: How many jobs may wait: producers pause beyond it, so rates are steady states and not bursts.
BACKLOG_MAX = 4_000
WARM_UP_SECONDS = 4.0
WORKER_PROCESSES = 2


def job(number: int) -> dict[str, str]:
    """What is enqueued everywhere: about 300 bytes of JSON."""
    to = f"user-{number:08d}@example.com"
    return {"id": f"{number:016x}", "command": "email.send", "to": to, "template": "welcome", "pad": "x" * 178}


def work_aside(work, *arguments) -> None:
    """What a library says to its users must not be taken for ours."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    work(*arguments)


class Race:
    """Producers in threads, as a web server has them: each waits for its answer before it goes on."""

    def __init__(self, system: str, address: str) -> None:
        self.peer = importlib.import_module(f"{system}_peer")
        self.address = address
        self.finished: Synchronized[int] = multiprocessing.Value("q", 0)
        self.lock = threading.Lock()
        self.enqueued = 0
        self.waits: list[float] = []
        self.is_measuring = False

    def run(self, producers: int, workers: int, window: int, seconds: int) -> None:
        slots = workers * window // WORKER_PROCESSES
        arguments = (self.peer.work, self.address, slots, self.finished)
        crews = [multiprocessing.Process(target=work_aside, args=arguments) for _ in range(WORKER_PROCESSES)]
        for crew in crews:
            crew.start()
        enqueue = self.peer.producer(self.address)
        for number in range(producers):
            threading.Thread(target=self.produce, args=(enqueue, window, number), daemon=True).start()
        time.sleep(WARM_UP_SECONDS)
        print("begin", flush=True)
        before, begun = self.finished.value, time.monotonic()
        self.is_measuring = True
        time.sleep(seconds)
        self.is_measuring = False
        cycles, length = self.finished.value - before, time.monotonic() - begun
        assert all(crew.is_alive() for crew in crews), "a worker ended"
        with self.lock:
            waits = sorted(self.waits) or [0.0]
        p50, p99 = (round(waits[int((len(waits) - 1) * share)] * 1e6) for share in (0.5, 0.99))
        came = {"cycles": cycles, "seconds": length, "enqueueP50Us": p50, "enqueueP99Us": p99}
        print(json.dumps(came), flush=True)
        # Whoever measures looks at the processes before they end.
        sys.stdin.readline()
        for crew in crews:
            crew.kill()
            crew.join()

    def produce(self, enqueue, window: int, number: int) -> None:
        at = number * 10_000_000
        while True:
            while self.enqueued - self.finished.value >= BACKLOG_MAX:
                time.sleep(0.002)
            jobs = [job(at + offset) for offset in range(window)]
            at += window
            begun = time.monotonic()
            enqueue(jobs)
            took = time.monotonic() - begun
            with self.lock:
                self.enqueued += window
                if self.is_measuring:
                    self.waits.append(took)


def one_by_one(system: str, address: str, jobs: int) -> None:
    enqueue = importlib.import_module(f"{system}_peer").producer(address)
    enqueue([job(0)])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(1, jobs + 1):
        enqueue([job(number)])
    print(json.dumps({"enqueued": jobs}), flush=True)


def main() -> None:
    system, address, *rest = sys.argv[1:]
    if rest[0] == "one-by-one":
        one_by_one(system, address, int(rest[1]))
    else:
        Race(system, address).run(*map(int, rest))


if __name__ == "__main__":
    main()
