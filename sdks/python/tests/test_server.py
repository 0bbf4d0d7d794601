"""Producer and worker against a real server."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from codeq import (
    App,
    Client,
    Context,
    Fail,
    Middleware,
    Refused,
    Retry,
    SyncClient,
    SyncContext,
    Task,
    TaskFailed,
    Unique,
    Worker,
)
from codeq.errors import InvalidCommand, PayloadTooLarge
from codeq.middleware import OpenTelemetry, Timeout
from codeq.testing import DevServer


@asynccontextmanager
async def working(app: App, **settings: Any) -> AsyncIterator[Worker]:
    worker = Worker(app, **settings)
    running = asyncio.create_task(worker.run(signals=False))
    try:
        yield worker
    finally:
        worker.stop()
        await running
        await app.close()


async def until_delayed(task: Task) -> None:
    for _ in range(1000):
        if (await task.refresh()).raw.get("lastKnownLocation") == "DELAYED_ZSET":
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"task {task.id} is not delayed")


async def test_task_from_start_to_end(codeq_server: DevServer) -> None:
    app = App(codeq_server.url, codeq_server.token)

    @app.task("py-echo")
    async def echo(payload: dict[str, Any], ctx: Context) -> dict[str, Any]:
        ctx.artifact("häufig.txt", "grüße")
        return payload

    async with working(app):
        payload = {"text": "größe 🎉", "number": 2**60 + 1, "none": None}
        task = await echo.enqueue(payload, headers={"a": "b"}, priority=3)
        assert await task.result(30) == payload
        assert await app.client.artifact(task.id, "häufig.txt") == "grüße".encode()
        assert (await task.refresh()).status == "COMPLETED"


async def test_sync_handlers_run_in_threads_and_keep_the_loop_free(codeq_server: DevServer) -> None:
    app = App(codeq_server.url, codeq_server.token)
    both = threading.Barrier(2)

    @app.task("py-sync")
    def sync(payload: int, ctx: SyncContext) -> int:
        both.wait(20)
        return payload + ctx.attempt

    async with working(app):
        tasks = [await sync.enqueue(n) for n in (1, 2)]
        assert [await task.result(30) for task in tasks] == [{"value": 2}, {"value": 3}]


async def test_fail_retry_and_exceptions_reach_the_server(codeq_server: DevServer) -> None:
    app = App(codeq_server.url, codeq_server.token)

    @app.task("py-outcomes", max_attempts=1)
    async def outcomes(what: str) -> object:
        if what == "fail":
            raise Fail("for good")
        if what == "retry":
            raise Retry("later")
        if what == "nan":
            return {"n": float("nan")}
        raise RuntimeError("oops")

    async with working(app):
        texts = {}
        for what in ("fail", "retry", "raise", "nan"):
            task = await outcomes.enqueue(what)
            with pytest.raises(TaskFailed) as failed:
                await task.result(30)
            texts[what] = (failed.value.error, failed.value.reason)
    assert texts["fail"] == ("for good", None)
    assert texts["retry"] == ("later", "MAX_ATTEMPTS")
    assert texts["raise"] == ("RuntimeError: oops", "MAX_ATTEMPTS")
    assert texts["nan"][0].startswith("the result was not taken: the result cannot be written as JSON")


async def test_blocked_loop_keeps_its_lease(codeq_server: DevServer) -> None:
    app = App(codeq_server.url, codeq_server.token)

    @app.task("py-blocking")
    async def blocking(_: object, ctx: Context) -> int:
        time.sleep(2.5)  # noqa: ASYNC251 what a careless handler does
        return ctx.attempt

    async with working(app, lease=1):
        task = await blocking.enqueue(1)
        assert await task.result(30) == {"value": 1}


async def test_lost_lease_cancels_the_handler_and_drops_its_result(codeq_server: DevServer) -> None:
    app = App(codeq_server.url, codeq_server.token)
    started, cancelled = asyncio.Event(), asyncio.Event()

    @app.task("py-lost")
    async def lost(_: object, ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert ctx.cancelled
            assert ctx.stop_reason == "lease lost"
            cancelled.set()

    async with working(app, lease=1):
        task = await lost.enqueue(1)
        await asyncio.wait_for(started.wait(), 10)
        await task.cancel()
        await asyncio.wait_for(cancelled.wait(), 10)
        assert (await task.wait(10)).failure_reason == "CANCELLED"


async def test_requested_cancel_reaches_the_handler_and_what_it_says_then_counts(codeq_server: DevServer) -> None:
    app = App(codeq_server.url, codeq_server.token)
    both = threading.Barrier(3)

    @app.task("py-heed")
    async def heed(_: object, ctx: Context) -> object:
        await asyncio.to_thread(both.wait, 20)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await ctx.checkpoint({"at": 7})
            return {"why": ctx.stop_reason, "has_deadline": ctx.cancel_deadline is not None}
        return None

    @app.task("py-heed-sync")
    def heed_sync(_: object, ctx: SyncContext) -> object:
        both.wait(20)
        return {"cancelled": ctx.wait_cancelled(60)}

    async with working(app, lease=3):
        tasks = [await heed.enqueue(1), await heed_sync.enqueue(1)]
        await asyncio.to_thread(both.wait, 20)
        for task in tasks:
            await task.cancel(grace=30, reason="enough")
        assert await tasks[0].result(30) == {"why": "cancelled", "has_deadline": True}
        assert await tasks[1].result(30) == {"cancelled": True}


async def test_next_attempt_finds_what_the_last_one_saved(codeq_clock_server: DevServer) -> None:
    app = App(codeq_clock_server.url, codeq_clock_server.token)

    @app.task("py-resume", lane="customer-1")
    async def resume(_: object, ctx: Context) -> object:
        await ctx.progress({"attempt": ctx.attempt})
        if ctx.saved is None:
            await ctx.checkpoint({"at": 2**60 + 1})
            raise Retry("once more", delay=600)
        return {"from": ctx.saved["at"], "lane": ctx.lane}

    async with working(app):
        task = await resume.enqueue(1)
        await until_delayed(task)
        # No further than the delay: the lease of the next attempt must not run out.
        codeq_clock_server.advance(600)
        assert await task.result(30) == {"from": 2**60 + 1, "lane": "customer-1"}


async def test_schedule_fires_when_the_clock_is_moved(codeq_clock_server: DevServer) -> None:
    async with Client(codeq_clock_server.url, codeq_clock_server.token) as client:
        made = await client.put_schedule("hourly", "py-tick", {"n": 1}, every=3600, overlap="allow")
        assert made["everySeconds"] == 3600
        assert [plan["name"] async for plan in client.schedules()] == ["hourly"]
        codeq_clock_server.advance(3600)
        first = (await client.get_schedule("hourly"))["lastTaskId"]
        assert (await client.get(first)).payload == {"n": 1}
        assert (await client.trigger_schedule("hourly")).id != first
        await client.pause_schedule("hourly", "for now")
        codeq_clock_server.advance(7200)
        assert (await client.get_schedule("hourly"))["lastTaskId"] == first
        await client.delete_schedule("hourly")


async def test_unique_creates_are_answered_with_the_holder(codeq_server: DevServer) -> None:
    async with Client(codeq_server.url, codeq_server.token) as client:
        first = await client.create("py-unique", 1, unique=Unique("page-7"), tags=["a"], expires_in=600)
        second = await client.create("py-unique", 2, unique=Unique("page-7", on_conflict="replace"))
        assert (second.id, first.replayed, second.replayed) == (first.id, False, True)
        assert (await client.get(first.id)).payload == 2


async def test_stop_gives_back_what_does_not_end_in_time(codeq_server: DevServer) -> None:
    app, started = App(codeq_server.url, codeq_server.token), asyncio.Event()

    @app.task("py-stop")
    async def slow(_: object) -> None:
        started.set()
        await asyncio.sleep(60)

    async with working(app, grace=0.1):
        task = await slow.enqueue(1)
        await asyncio.wait_for(started.wait(), 10)
    async with Client(codeq_server.url, codeq_server.token) as client:
        raw = (await client.get(task.id)).raw
        assert (raw["status"], raw["attempts"], raw["refunds"]) == ("PENDING", 1, 1)


async def test_middleware_times_out_and_traces(codeq_server: DevServer) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    layers: list[Middleware] = [OpenTelemetry(provider.get_tracer("test")), Timeout(0.1)]
    app = App(codeq_server.url, codeq_server.token, middleware=layers)

    @app.task("py-layers", max_attempts=1)
    async def layered(_: object) -> None:
        await asyncio.sleep(60)

    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with working(app):
        task = await layered.enqueue(1, headers={"traceparent": parent})
        assert (await task.wait(30)).error == "no end after 0.1 s"
    (span,) = spans.get_finished_spans()
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_sync_producer_creates_many_and_tells_refusals_by_type(codeq_server: DevServer) -> None:
    with SyncClient(codeq_server.url, codeq_server.token) as client:
        made = client.create_many("py-many", range(250), key="batch")
        again = client.create_many("py-many", range(250), key="batch")
        ids = [task.id for task in made if not isinstance(task, Refused)]
        assert len(set(ids)) == 250
        assert ids == [task.id for task in again if not isinstance(task, Refused)]
        with pytest.raises(InvalidCommand) as refused:
            client.create("größe", 1)
        assert (refused.value.status, refused.value.code) == (400, "invalid_command")
        assert refused.value.request_id
        mixed = client.create_many("py-many", ["x" * 1_100_000, "small"])
        assert isinstance(mixed[0], PayloadTooLarge)
        assert not isinstance(mixed[1], Refused)


class Flaky(httpx.AsyncBaseTransport):
    """Loses answers: every request is sent, the first ``losses`` answers never arrive."""

    def __init__(self, losses: int) -> None:
        self.inner, self.losses, self.bodies = httpx.AsyncHTTPTransport(), losses, []  # type: ignore[var-annotated]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content) if request.content else None)
        response = await self.inner.handle_async_request(request)
        if self.losses:
            self.losses -= 1
            await response.aclose()
            raise httpx.ReadError("cut")
        return response


async def test_create_without_an_answer_is_repeated_and_makes_one_task(codeq_server: DevServer) -> None:
    flaky = Flaky(2)
    app = App(codeq_server.url, codeq_server.token, http=lambda: flaky)
    task: Task = await app.client.create("py-cut", {"n": 1})
    assert not task.replayed
    keys = {body["idempotencyKey"] for body in flaky.bodies}
    assert (len(flaky.bodies), len(keys)) == (3, 1)
    await app.close()


async def test_token_is_renewed_when_the_server_refuses_it(codeq_server: DevServer) -> None:
    given = iter(["expired", codeq_server.token])

    async def token() -> str:
        return next(given)

    async with Client(codeq_server.url, token) as client:
        assert (await client.create("py-token", 1)).status == "PENDING"
        assert (await client.create("py-token", 2)).status == "PENDING"


async def test_worker_with_a_token_that_is_refused_ends_with_the_error(codeq_server: DevServer) -> None:
    app = App(codeq_server.url, "wrong")

    @app.task("py-refused")
    async def never(_: object) -> None: ...

    with pytest.raises(Refused) as refused:
        await Worker(app).run(signals=False)
    assert refused.value.status == 401
