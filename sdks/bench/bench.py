"""Full cycles a second of the Python SDK: create, claim, run a handler that does nothing, report.

usage: bench.py URL TOKEN TASKS CONCURRENCY. Prints one line of JSON.
"""

import asyncio
import json
import sys
import time

from codeq import App, Worker


async def main(url: str, token: str, tasks: int, concurrency: int) -> None:
    app = App(url, token)
    left = tasks
    ended = asyncio.Event()

    @app.task("bench-python")
    async def nothing(_: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            ended.set()

    worker = Worker(app, concurrency=concurrency)
    started = time.monotonic()
    running = asyncio.create_task(worker.run(signals=False))
    creating = asyncio.create_task(app.client.create_many(nothing.command, range(tasks)))
    await ended.wait()
    await creating
    worker.stop()
    await running  # until the last report is answered
    seconds = time.monotonic() - started
    await app.close()
    print(json.dumps({"sdk": "python", "transport": "http", "cycles": tasks, "perSecond": round(tasks / seconds)}))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
