"""What a worker makes of the answers to its reports."""

import asyncio
from typing import Any

import httpx
import pytest
from fake import Fake, Say, items, taken, whole

from codeq import Worker


async def statuses(*answers: Say, tasks: int = 1, until: int | None = None) -> list[list[str]]:
    """What a worker reports for handlers that complete, request by request, when it is answered like that."""
    fake = Fake(*answers)
    app = fake.app()

    @app.task("done")
    async def done(_: object) -> None: ...

    for _ in range(tasks):
        fake.lend("done")
    worker = Worker(app, lease=2)
    running = asyncio.create_task(worker.run(signals=False))
    await asyncio.wait_for(fake.heard(until or len(answers)), 20)
    worker.stop()
    await asyncio.wait_for(running, 20)
    return [[one["status"] for one in body["results"]] for _, body in fake.reported]


@pytest.mark.parametrize(
    "answer",
    [
        whole(500, "internal"),
        whole(501, ""),
        whole(401, "invalid_token"),
        whole(403, "missing_scope"),
        whole(404, "route_not_found"),
        lambda _: httpx.Response(200, text="<html>"),
        lambda _: httpx.Response(200, json={"results": []}),
        items("internal"),
        items("storage_unavailable"),
    ],
)
async def test_finished_work_is_reported_again_when_the_answer_says_nothing_about_it(answer: Say) -> None:
    assert await statuses(answer, answer, taken) == [["COMPLETED"]] * 3


@pytest.mark.parametrize(
    "answer", [whole(400, "invalid_body"), whole(413, "body_too_large"), items("invalid_artifact")]
)
async def test_a_result_that_is_never_taken_becomes_a_failure(answer: Say) -> None:
    assert await statuses(answer, taken) == [["COMPLETED"], ["FAILED"]]


async def test_a_result_that_is_never_taken_takes_no_other_with_it() -> None:
    def one_is_bad(body: dict[str, Any]) -> httpx.Response:
        bad = any(one["taskId"] == "task-1" and one["status"] == "COMPLETED" for one in body["results"])
        return whole(400, "invalid_body")(body) if bad else taken(body)

    said = await statuses(one_is_bad, tasks=3, until=5)
    assert said == [["COMPLETED"] * 3, ["COMPLETED"], ["COMPLETED"], ["COMPLETED"], ["FAILED"]]
