"""What servers and clients cost, read from /proc, and how often a server syncs, counted with strace."""

import contextlib
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
SYNC_CALLS = ("fsync", "fdatasync", "msync", "sync_file_range")
WRITE_CALLS = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
#: How long strace may take to attach to every thread.
ATTACH_SECONDS = 20


def stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def tree(root: int) -> list[int]:
    """A process and everything that it started: PostgreSQL and RabbitMQ are trees."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(stat(int(entry.name))[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """Processor time of a tree, with that of children which have ended."""
    ticks = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, stat(pid)[11:15]))
    return ticks / TICKS


def memory_mib(root: int) -> float:
    """What a tree holds; pages that several processes share count once."""
    kilobytes = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
            kilobytes += int(found[1]) if found else 0
    return kilobytes / 1024


def busy_seconds() -> float:
    """Processor time of the whole machine."""
    fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]))
    return (sum(fields[:8]) - fields[3] - fields[4]) / TICKS


def fdatasync_us(place: Path) -> float:
    """The median of writing and syncing 4 KiB, which every durable answer waits for."""
    waits = []
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(200):
            begun = time.perf_counter()
            os.write(file.fileno(), b"x" * 4096)
            os.fdatasync(file.fileno())
            waits.append(time.perf_counter() - begun)
    return round(statistics.median(waits) * 1e6, 1)


def machine(place: Path) -> dict[str, object]:
    about = Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*:\s*(.*)", about, re.MULTILINE)
    total = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(place)], capture_output=True, text=True, check=False)
    return {
        "processor": name[1] if name else "unknown",
        "cores": os.cpu_count(),
        "memoryGib": round(int(total[1]) / 1024**2) if total else None,
        "kernel": os.uname().release,
        "filesystem": kind.stdout.strip(),
        "fdatasyncUs": fdatasync_us(place),
        "load": round(os.getloadavg()[0], 2),
    }


class Usage:
    """Processor time between two moments: of the server, the clients, and whoever else was there."""

    def __init__(self, server: int, clients: int) -> None:
        self.roots = (server, clients)
        self.begun, self.busy, self.used = time.monotonic(), busy_seconds(), self.read()

    def read(self) -> tuple[float, float]:
        return cpu_seconds(self.roots[0]), cpu_seconds(self.roots[1])

    def end(self, cycles: int) -> dict[str, float]:
        server, clients = (now - then for now, then in zip(self.read(), self.used, strict=True))
        elapsed = time.monotonic() - self.begun
        others = (busy_seconds() - self.busy - server - clients) / elapsed
        return {
            "serverUsPerCycle": round(server / max(cycles, 1) * 1e6, 1),
            "clientUsPerCycle": round(clients / max(cycles, 1) * 1e6, 1),
            "otherCores": round(max(others, 0.0), 2),
            "memoryMib": round(memory_mib(self.roots[0]), 1),
        }


def synced_paths(pids: list[int]) -> set[str]:
    """Files whose every write is synced because they were opened so."""
    found = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().splitlines()
                flags = int(next(line for line in lines if line.startswith("flags:")).split()[1], 8)
                if flags & os.O_DSYNC:
                    found.add(os.readlink(entry))
    return found


@contextlib.contextmanager
def counted_syncs(server: int) -> Iterator[list[int]]:
    """Counts the syncs of a server while the body runs; the list holds the number afterwards."""
    answer: list[int] = []
    with tempfile.NamedTemporaryFile("r", suffix=".strace") as log:
        pids = tree(server)
        attach = [argument for pid in pids for argument in ("-p", str(pid))]
        calls = ",".join((*SYNC_CALLS, *WRITE_CALLS))
        command = ["strace", "-f", "-y", "-s", "0", "-e", f"trace={calls}", "-o", log.name, *attach]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            wait_attached(tracer, pids)
            paths = synced_paths(pids)
            begun = len(log.read())
            yield answer
        finally:
            tracer.terminate()
            tracer.wait()
        log.seek(begun)
        answer.append(sum(is_sync(line, paths) for line in log))


def wait_attached(tracer: "subprocess.Popen[str]", pids: list[int]) -> None:
    end = time.monotonic() + ATTACH_SECONDS
    threads = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    for task in threads:
        while True:
            assert tracer.poll() is None, f"strace ended: {tracer.stderr.read() if tracer.stderr else ''}"
            try:
                status = (task / "status").read_text()
            except OSError:  # a thread that has ended
                break
            if f"TracerPid:\t{tracer.pid}" in status or time.monotonic() > end:
                break
            time.sleep(0.02)


def is_sync(line: str, synced: set[str]) -> bool:
    """One line of strace: a call that syncs, or a write to a file whose writes are synced. Resumed calls count once."""
    found = re.match(r"\d+\s+(\w+)\(\d*(?:<([^>]*)>)?", line)
    if not found:
        return False
    return found[1] in SYNC_CALLS or (found[1] in WRITE_CALLS and found[2] in synced)
