"""The servers: each in a directory of its own on loopback, with what it needs to sync before it answers, or without."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 40
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@dataclass
class Server:
    """How to start one: a command in which `{data}` and `{port}` stand for what is known then."""

    command: list[str]
    #: What its clients are given.
    address: str = "127.0.0.1:{port}"
    environment: dict[str, str] = field(default_factory=dict)
    #: Makes files before the start.
    prepare: Callable[[Path, int], None] = lambda _data, _port: None
    stop: int = signal.SIGTERM
    #: A user of its own, because PostgreSQL refuses to run as root.
    owner: str | None = None
    version: list[str] = field(default_factory=list)
    #: Succeeds when the server takes requests, for those that listen before they do.
    ready: list[str] = field(default_factory=list)


@dataclass
class Running:
    pid: int
    address: str


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def find(name: str, *places: Path) -> str | None:
    """The path of a program, also outside of PATH."""
    for place in places:
        if (place / name).exists():
            return str(place / name)
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")


@contextlib.contextmanager
def running(server: Server, place: Path) -> Iterator[Running]:
    data = Path(tempfile.mkdtemp(prefix="data-", dir=place))
    port = free_port()
    owner = server.owner if os.geteuid() == 0 else None
    if owner:
        shutil.chown(data, owner, owner)
    server.prepare(data, port)
    known = {"data": str(data), "port": str(port)}
    ports = {name: str(free_port()) for name in ("second", "third")}
    command = [part.format(**known, **ports) for part in server.command]
    environment = {name: value.format(**known, **ports) for name, value in server.environment.items()}
    with (place / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=data, stdout=log, stderr=log, user=owner, env={**os.environ, **environment}
        )
        try:
            wait_listening(process, port, place / "server.log")
            wait_ready(process, [part.format(**known, **ports) for part in server.ready])
            yield Running(process.pid, server.address.format(**known, **ports))
        finally:
            process.send_signal(server.stop)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            shutil.rmtree(data, ignore_errors=True)


def wait_listening(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not listen: {log.read_text(errors='replace')[-500:]}")


def wait_ready(process: "subprocess.Popen[bytes]", command: list[str]) -> None:
    end = time.monotonic() + START_SECONDS
    while command and subprocess.run(command, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{command} does not succeed")
        time.sleep(0.05)


def codeq(binary: str, durability: str) -> Server:
    streams = {"PRODUCER_STREAM_ADDR": "127.0.0.1:{second}", "WORKER_STREAM_ADDR": "127.0.0.1:{third}"}
    command = [binary, "dev", "--port", "{port}", "--data-dir", "{data}/store"]
    address = "http://127.0.0.1:{port},127.0.0.1:{second},127.0.0.1:{third}"
    return Server(command, address, {**streams, "CODEQ_DURABILITY": durability}, version=[binary, "--version"])


def redis(program: str, fsync: str) -> Server:
    address = ["--bind", "127.0.0.1", "--port", "{port}", "--dir", "{data}"]
    kept = ["--save", "", "--appendonly", "yes", "--appendfsync", fsync, "--maxmemory-policy", "noeviction"]
    return Server([program, *address, *kept], version=[program, "--version"])


def beanstalkd(program: str, *flags: str) -> Server:
    return Server([program, "-l", "127.0.0.1", "-p", "{port}", "-b", "{data}", *flags], version=[program, "-v"])


def nats(program: str, sync: str) -> Server:
    def prepare(data: Path, port: int) -> None:
        streams = f'jetstream {{ store_dir: "{data}/streams"\n{sync}\n}}\n'
        (data / "nats.conf").write_text(f'listen: "127.0.0.1:{port}"\n{streams}')

    return Server([program, "-c", "{data}/nats.conf"], prepare=prepare, version=[program, "--version"])


def rabbitmq(program: str) -> Server:
    def prepare(data: Path, port: int) -> None:
        (data / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
        (data / "plugins").write_text("[].\n")

    environment = {
        "RABBITMQ_NODENAME": "peers@localhost",
        "RABBITMQ_MNESIA_BASE": "{data}/mnesia",
        "RABBITMQ_LOG_BASE": "{data}/log",
        "RABBITMQ_CONFIG_FILE": "{data}/rabbitmq.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": "{data}/plugins",
        "RABBITMQ_DIST_PORT": "{second}",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "HOME": "{data}",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {{127,0,0,1}}",
    }
    version = ["dpkg-query", "-W", "-f", "rabbitmq-server ${Version}", "rabbitmq-server"]
    return Server([program], environment=environment, prepare=prepare, version=version)


def postgres(place: Path, commit: str) -> Server:
    def prepare(data: Path, _port: int) -> None:
        make = [str(place / "initdb"), "-D", f"{data}/db", "-A", "trust", "-U", "postgres"]
        owner = "postgres" if os.geteuid() == 0 else None
        subprocess.run(make, cwd=data, user=owner, check=True, capture_output=True)

    settings = ["-c", f"synchronous_commit={commit}", "-c", "max_connections=200"]
    command = [str(place / "postgres"), "-D", "{data}/db", "-h", "127.0.0.1", "-p", "{port}", "-k", "{data}", *settings]
    version = [str(place / "postgres"), "--version"]
    ready = [str(place / "pg_isready"), "-h", "127.0.0.1", "-p", "{port}", "-q"]
    return Server(command, prepare=prepare, stop=signal.SIGINT, owner="postgres", version=version, ready=ready)
