"""What a worker makes of the answers to its claims."""

import asyncio
from typing import Any

import httpx
import pytest
from fake import Fake, taken

from codeq import Worker


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
