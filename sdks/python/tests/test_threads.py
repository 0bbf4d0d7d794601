"""Plain functions that go on when nobody waits for them any more."""

import asyncio
import threading

import pytest
from fake import Fake, taken, whole

from codeq import App, SyncContext, Worker
from codeq.middleware import Timeout


@pytest.mark.parametrize("why", ["lease lost", "timeout"])
async def test_the_slot_of_a_function_that_goes_on_is_not_free(why: str) -> None:
    fake = Fake(whole(200, "") if why == "timeout" else taken, taken)
    app = fake.app()
    app.middleware += [Timeout(0.1)] if why == "timeout" else []
    left, let_go, second = threading.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task("stubborn")
    def stubborn(number: int, ctx: SyncContext) -> None:
        if number == 1:
            ctx.wait_cancelled(20)
            left.set()
            let_go.wait(20)
        else:
            loop.call_soon_threadsafe(second.set)

    fake.gone |= {"task-0"} if why == "lease lost" else set()
    fake.lend("stubborn", 1)
    fake.lend("stubborn", 2)
    worker = Worker(app, concurrency=1, lease=1)
    running = asyncio.create_task(worker.run(signals=False))
    try:
        assert await asyncio.to_thread(left.wait, 20)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(second.wait(), 0.3)
        # It was not even claimed: nobody else could have it then.
        assert len(fake.tasks) == 1
        let_go.set()
        await asyncio.wait_for(second.wait(), 20)
    finally:
        let_go.set()
        worker.stop()
        await asyncio.wait_for(running, 20)


async def test_a_worker_does_not_wait_for_a_function_whose_lease_is_lost() -> None:
    fake = Fake()
    fake.gone.add("task-0")
    app, left, let_go = fake.app(), threading.Event(), threading.Event()

    @app.task("stubborn")
    def stubborn(_: object, ctx: SyncContext) -> None:
        ctx.wait_cancelled(20)
        left.set()
        let_go.wait(20)

    fake.lend("stubborn")
    worker = Worker(app, concurrency=1, lease=1)
    running = asyncio.create_task(worker.run(signals=False))
    try:
        assert await asyncio.to_thread(left.wait, 20)
        worker.stop()
        await asyncio.wait_for(running, 10)
    finally:
        let_go.set()


async def test_inline_attempts_do_not_wait_for_a_function_that_goes_on() -> None:
    app, let_go = App(middleware=[Timeout(0.1)]), threading.Event()

    @app.task("stubborn")
    def stubborn(_: object, ctx: SyncContext) -> int:
        if ctx.attempt == 1:
            let_go.wait(20)
        return ctx.attempt

    async with app.testing() as queue:
        task = await stubborn.enqueue(1)
        assert await task.result() == {"value": 2}
        let_go.set()
        assert await queue.drain() == 0
