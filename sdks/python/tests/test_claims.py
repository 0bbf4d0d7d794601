"""What a worker makes of the answers to its claims."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from fake import Fake, taken, whole

from codeq import Context, Worker
from codeq.job import Job


@pytest.mark.parametrize(
    "claim",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={}),
        httpx.Response(200, json={"tasks": [{}]}),
        httpx.Response(500, json={"error": "internal error", "code": "internal"}),
    ],
)
async def test_a_claim_whose_answer_is_not_understood_is_repeated(claim: httpx.Response) -> None:
    fake = Fake(taken)
    fake.claims.append(claim)
    app = fake.app()

    @app.task("done")
    async def done(_: object) -> None: ...

    fake.lend("done")
    worker = Worker(app)
    running = asyncio.create_task(worker.run(signals=False))
    await asyncio.wait_for(fake.heard(1), 20)
    worker.stop()
    await asyncio.wait_for(running, 20)


async def test_a_fault_of_the_claims_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Fake().app()

    @app.task("done")
    async def done(_: object) -> None: ...

    worker = Worker(app)

    async def broken(_: int) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(worker, "_claim", broken)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(worker.run(signals=False), 20)


async def test_a_lease_begins_when_it_is_asked_for() -> None:
    """Also one that a waiting claim brought: its answer may have been long on its way."""
    waits: list[int] = []

    class Slow(Fake):
        async def answer(self, request: httpx.Request) -> httpx.Response:
            if not request.url.path.endswith("/claim") or waits:
                return await super().answer(request)
            waits.append(json.loads(request.content)["waitSeconds"])
            await asyncio.sleep(0.5)
            return httpx.Response(200, json={"id": "a", "command": "look", "attempts": 1, "payload": "1"})

    app, left = Slow(taken).app(), asyncio.Queue[float]()

    @app.task("look")
    async def look(_: object, ctx: Context) -> None:
        left.put_nowait(ctx.deadline)

    worker = Worker(app, lease=10)
    running = asyncio.create_task(worker.run(signals=False))
    assert await asyncio.wait_for(left.get(), 20) <= 9.5
    assert waits == [5]
    worker.stop()
    await asyncio.wait_for(running, 20)


async def test_a_claim_without_an_answer_takes_nothing_of_the_grace() -> None:
    class Silent(Fake):
        async def answer(self, request: httpx.Request) -> httpx.Response:
            # Claims are on a thread of their own.
            loop.call_soon_threadsafe(asked.set)
            return await asyncio.Future()

    loop, asked, app = asyncio.get_running_loop(), asyncio.Event(), Silent().app()

    @app.task("done")
    async def done(_: object) -> None: ...

    worker = Worker(app, grace=0.1)
    running = asyncio.create_task(worker.run(signals=False))
    await asyncio.wait_for(asked.wait(), 20)
    worker.stop()
    await asyncio.wait_for(running, 20)


async def test_a_handler_that_does_not_heed_a_shutdown_is_given_back() -> None:
    fake = Fake(whole(200, ""))
    app, started, let_go = fake.app(), asyncio.Event(), asyncio.Event()

    @app.task("stubborn")
    async def stubborn(_: object) -> None:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    fake.lend("stubborn")
    worker = Worker(app, grace=0.1)
    running = asyncio.create_task(worker.run(signals=False))
    await asyncio.wait_for(started.wait(), 20)
    worker.stop()
    try:
        await asyncio.wait_for(running, 20)
        assert fake.reported == [("abandon", {"refund": True, "attempt": 1})]
    finally:
        let_go.set()


async def test_a_lease_that_was_lost_before_the_handler_began_ends_it() -> None:
    task = {"id": "a", "command": "look", "attempts": 1}
    job = Job(task, time.monotonic(), 10, asyncio.get_running_loop())
    job.lose()

    async def say(_: dict[str, Any]) -> None: ...

    ctx = Context(task, time.monotonic(), 10, say)
    handler: asyncio.Task[Any] = asyncio.create_task(asyncio.Event().wait())
    job.begin(ctx, handler)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(handler, 20)
    assert (ctx.stop_reason, job.is_lost) == ("lease lost", True)


async def test_a_heartbeat_that_hangs_leaves_time_for_another() -> None:
    class Beaten(Fake):
        async def answer(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/heartbeat"):
                loop.call_soon_threadsafe(patience.put_nowait, request.extensions["timeout"]["read"])
            return await super().answer(request)

    loop, patience = asyncio.get_running_loop(), asyncio.Queue[float]()
    fake = Beaten(taken)
    app, let_go = fake.app(), asyncio.Event()

    @app.task("long")
    async def long(_: object) -> None:
        await let_go.wait()

    fake.lend("long")
    worker = Worker(app, lease=6)
    running = asyncio.create_task(worker.run(signals=False))
    assert await asyncio.wait_for(patience.get(), 20) == 2
    let_go.set()
    worker.stop()
    await asyncio.wait_for(running, 20)
