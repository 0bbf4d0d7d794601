"""The Python SDK over HTTP; the address is "HTTP,PRODUCERS,WORKERS", of which the streams are not used."""

import asyncio

from codeq import App, SyncClient, Worker

TOKEN = "dev-token"


def producer(address: str):
    client = SyncClient(address.split(",")[0], TOKEN)

    def enqueue(jobs):
        if len(jobs) == 1:
            client.create("send", jobs[0])
        else:
            client.create_many("send", jobs)

    return enqueue


def work(address: str, slots: int, finished) -> None:
    app = App(address.split(",")[0], TOKEN)

    @app.task("send")
    async def send(_: dict[str, str]) -> dict[str, bool]:
        # Counted when the handler returns, as for the other libraries: reports follow in batches.
        with finished.get_lock():
            finished.value += 1
        return {"ok": True}

    asyncio.run(Worker(app, concurrency=slots).run(signals=False))
