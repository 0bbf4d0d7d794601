"""Who takes part: each peer with its server, its client and the shapes that it can run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import servers
from servers import POSTGRES, Server, find

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
#: Everything that is installed or built for the race, and what comes out of it.
PLACE = REPOSITORY / "target/peers"


@dataclass(frozen=True)
class Shape:
    name: str
    producers: int
    workers: int
    window: int


#: How most programs use a queue: one job per request, the next one when the answer is there.
ONE = Shape("16 + 16 x 1", 16, 16, 1)
#: Many jobs under way: each connection sends, takes and finishes 64 together, as its client offers it.
MANY = Shape("4 + 4 x 64", 4, 4, 64)
BOTH = (ONE, MANY)


@dataclass(frozen=True)
class Peer:
    name: str
    #: What was asked of the server, in its own words.
    durability: str
    server: Server
    client: list[str]
    language: str
    shapes: tuple[Shape, ...]

    @property
    def title(self) -> str:
        return f"{self.name} ({self.language}, {self.durability})"


#: Packages of the clients; those in Go are in go/go.mod.
NODE = {
    "bullmq": ("bullmq@6.7.0", "ioredis@5"),
    "graphile-worker": ("graphile-worker@0.18.0",),
    "pg-boss": ("pg-boss@11",),
}
PYTHON = {"dramatiq": "dramatiq[redis]==2.2.1", "celery": "celery[redis]==5.7.0"}


def go(name: str) -> list[str]:
    return [str(PLACE / "go-peers"), name]


def node(name: str) -> list[str]:
    return ["node", str(PLACE / "node" / name / "bench.mjs"), name]


def python(name: str) -> list[str]:
    return [str(PLACE / "python/bin/python"), str(HERE / "python/bench.py"), name]


def field(binary: str, missing: dict[str, str]) -> Iterator[Peer]:
    """All that this machine can run. What it lacks is named in `missing`, with the reason."""
    yield from codeq(binary, missing)
    yield from over_redis(missing)
    yield from others(missing)
    yield from over_postgres(missing)


def codeq(binary: str, missing: dict[str, str]) -> Iterator[Peer]:
    fsync, os_only = servers.codeq(binary, "fsync"), servers.codeq(binary, "os")
    if "go" not in missing:
        yield Peer("codeQ", "fsync", fsync, go("codeq"), "Go streams", BOTH)
        yield Peer("codeQ", "durability: os", os_only, go("codeq"), "Go streams", BOTH)
    if "node" not in missing:
        yield Peer("codeQ", "fsync", fsync, node("codeq"), "Node HTTP", BOTH)
    if "python" not in missing:
        yield Peer("codeQ", "fsync", fsync, python("codeq"), "Python HTTP", (ONE,))


def over_redis(missing: dict[str, str]) -> Iterator[Peer]:
    program = find("redis-server")
    if not program:
        missing.update(
            dict.fromkeys(("redis-lists", "asynq", "bullmq", "dramatiq", "celery"), "redis-server is not installed")
        )
        return
    always, second = servers.redis(program, "always"), servers.redis(program, "everysec")
    for kept, server in (("appendfsync always", always), ("appendfsync everysec", second)):
        if "go" not in missing:
            yield Peer("Redis lists", kept, server, go("redis-lists"), "Go", BOTH)
            yield Peer("Asynq", kept, server, go("asynq"), "Go", BOTH)
        if "bullmq" not in missing:
            yield Peer("BullMQ", kept, server, node("bullmq"), "Node", BOTH)
    for name in PYTHON:
        if name not in missing:
            yield Peer(name.capitalize(), "appendfsync always", always, python(name), "Python", (ONE,))


def others(missing: dict[str, str]) -> Iterator[Peer]:
    if "go" in missing:
        return
    rabbit = find("rabbitmq-server", Path("/usr/lib/rabbitmq/bin"))
    if rabbit:
        yield Peer("RabbitMQ", "quorum queue", servers.rabbitmq(rabbit), go("rabbitmq"), "Go", BOTH)
    else:
        missing["rabbitmq"] = "rabbitmq-server is not installed"
    nats = find("nats-server", PLACE / "bin")
    if nats:
        for kept, sync in (("sync_interval: always", "sync_interval: always"), ("default sync_interval", "")):
            yield Peer("NATS JetStream", kept, servers.nats(nats, sync), go("nats"), "Go", BOTH)
    else:
        missing["nats"] = "nats-server could not be built"
    beans = find("beanstalkd")
    if beans:
        yield Peer("beanstalkd", "-b -f 0", servers.beanstalkd(beans, "-f", "0"), go("beanstalkd"), "Go", BOTH)
    else:
        missing["beanstalkd"] = "beanstalkd is not installed"


def over_postgres(missing: dict[str, str]) -> Iterator[Peer]:
    names = ("skip-locked", "river", "graphile-worker", "pg-boss")
    if not POSTGRES:
        missing.update(dict.fromkeys(names, "PostgreSQL is not installed"))
        return
    server = servers.postgres(POSTGRES[-1], "on")
    kept = "synchronous_commit on"
    if "go" not in missing:
        yield Peer("Postgres SKIP LOCKED", kept, server, go("skip-locked"), "Go", BOTH)
        yield Peer("River", kept, server, go("river"), "Go", BOTH)
    for name in ("graphile-worker", "pg-boss"):
        if name not in missing:
            yield Peer(name, kept, server, node(name), "Node", BOTH)
