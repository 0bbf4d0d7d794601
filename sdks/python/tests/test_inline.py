"""Handlers in this process, without a server."""

from dataclasses import dataclass

import pytest

from codeq import App, Context, Fail, NotFinished, Retry, SyncContext, TaskFailed


@dataclass
class Mail:
    to: str


def make() -> App:
    return App("http://nowhere.invalid", "none")


async def test_result_of_a_handler_is_the_result_of_its_task() -> None:
    app = make()

    @app.task("mail", max_attempts=2)
    async def mail(job: Mail, ctx: Context) -> dict[str, object]:
        await ctx.progress(50)
        ctx.artifact("log.txt", "sent")
        return {"to": job.to, "attempt": ctx.attempt}

    async with app.testing() as queue:
        task = await mail.enqueue(Mail("ä@b"), key="one")
        again = await mail.enqueue(Mail("other"), key="one")
        assert (again.id, again.replayed) == (task.id, True)
        assert await task.result() == {"to": "ä@b", "attempt": 1}
        done = queue.completed("mail")[0]
        assert (done.progress, done.artifacts[0]["name"]) == ([50], "log.txt")


async def test_values_that_are_no_objects_are_wrapped() -> None:
    app = make()
    given: list[object] = [None, 5, "x", [1], {"a": 1}, Mail("y")]

    @app.task("give")
    def give(index: int) -> object:
        return given[index]

    async with app.testing():
        tasks = [await give.enqueue(index) for index in range(len(given))]
        wanted = [{}, {"value": 5}, {"value": "x"}, {"value": [1]}, {"a": 1}, {"to": "y"}]
        assert [await task.result() for task in tasks] == wanted


async def test_exceptions_are_tried_again_until_the_attempts_run_out() -> None:
    app = make()

    @app.task("flaky", max_attempts=3)
    def flaky(until: int, ctx: SyncContext) -> dict[str, int]:
        ctx.checkpoint(ctx.attempt)
        if ctx.attempt < until:
            raise RuntimeError("not yet")
        return {"saved": ctx.saved}

    async with app.testing() as queue:
        good, bad = await flaky.enqueue(3), await flaky.enqueue(9)
        assert await good.result() == {"saved": 3}
        with pytest.raises(TaskFailed, match="RuntimeError: not yet") as failed:
            await bad.result()
        assert failed.value.reason == "MAX_ATTEMPTS"
        assert queue.failed()[0].attempts == 3


async def test_fail_is_final_and_retry_waits_for_its_delay() -> None:
    app = make()

    @app.task("choose")
    async def choose(what: str, ctx: Context) -> None:
        if what == "fail":
            raise Fail("no such image")
        if ctx.attempt == 1:
            raise Retry("busy", delay=30)

    async with app.testing() as queue:
        failed, later = await choose.enqueue("fail"), await choose.enqueue("retry")
        assert await queue.drain() == 2
        assert queue.failed()[0].error == "no such image"
        with pytest.raises(NotFinished):
            await later.wait()
        assert await queue.advance(29) == 0
        assert await queue.advance(1) == 1
        assert await later.result() == {}
        assert (await failed.wait()).status == "FAILED"


async def test_a_payload_of_another_shape_is_tried_again() -> None:
    app = make()

    @app.task("mail", max_attempts=2)
    async def mail(job: Mail) -> None: ...

    async with app.testing() as queue:
        task = await app.client.create("mail", {"from": 1}, max_attempts=2)
        with pytest.raises(TaskFailed, match=r"the payload cannot be read: payload\.to is missing") as failed:
            await task.result()
        assert (failed.value.reason, queue.failed()[0].attempts) == ("MAX_ATTEMPTS", 2)


async def test_a_payload_of_another_shape_fails_at_once_if_the_app_says_so() -> None:
    app = App("http://nowhere.invalid", "none", fail_unreadable=True)

    @app.task("mail")
    async def mail(job: Mail) -> None: ...

    async with app.testing() as queue:
        task = await app.client.create("mail", {"from": 1})
        with pytest.raises(TaskFailed, match=r"payload\.to is missing") as failed:
            await task.result()
        assert (failed.value.reason, queue.failed()[0].attempts) == (None, 1)


async def test_order_is_by_time_then_priority() -> None:
    app, seen = make(), []

    @app.task("note")
    async def note(name: str) -> None:
        seen.append(name)

    async with app.testing() as queue:
        await note.enqueue("low")
        await note.enqueue("later", delay=5)
        await note.enqueue("high", priority=9)
        await queue.advance(10)
    assert seen == ["high", "low", "later"]


async def test_middleware_runs_around_the_handler_in_order() -> None:
    seen: list[str] = []

    def layer(name: str):  # type: ignore[no-untyped-def]
        async def run(ctx, call_next):  # type: ignore[no-untyped-def]
            seen.append(f"{name} before")
            value = await call_next()
            seen.append(f"{name} after")
            return value

        return run

    app = App("http://nowhere.invalid", "none", middleware=[layer("outer"), layer("inner")])

    @app.task("note")
    async def note(_: object) -> None:
        seen.append("handler")

    async with app.testing() as queue:
        await note.enqueue(1)
        await queue.drain()
    assert seen == ["outer before", "inner before", "handler", "inner after", "outer after"]


def test_two_handlers_of_one_command_are_refused() -> None:
    app = make()
    app.task("Mail")(lambda payload: None)
    with pytest.raises(ValueError, match="has a handler already"):
        app.task("mail")(lambda payload: None)
