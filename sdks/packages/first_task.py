"""Creates a task and works on it, with nothing but the installed package. Prints "done"."""

import asyncio

from codeq import App, Worker

app = App()


@app.task("first")
async def first(payload: dict[str, int]) -> dict[str, int]:
    return {"twice": 2 * payload["n"]}


async def main() -> None:
    worker = Worker(app)
    running = asyncio.create_task(worker.run(signals=False))
    task = await first.enqueue({"n": 21})
    assert await task.result(timeout=30) == {"twice": 42}
    worker.stop()
    await running
    await app.close()
    print("done")


asyncio.run(main())
