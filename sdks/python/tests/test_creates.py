"""What a producer makes of the answers to its creates, and of none."""

import json
import time
from typing import Any

import httpx
import pytest

from codeq import Client, Refused, Task, Unavailable
from codeq.transport import Transport


class Server:
    """Creates tasks. A batch with a payload ``"bad"`` is refused as a whole."""

    def __init__(self, lost: int = 0) -> None:
        self.lost = lost
        self.asked: list[list[dict[str, Any]]] = []
        self.made: dict[str, str] = {}

    def client(self) -> Client:
        return Client(
            "http://fake", "t", transport=Transport("http://fake", "t", http=httpx.MockTransport(self.answer))
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        tasks = json.loads(request.content)["tasks"]
        self.asked.append(tasks)
        if any(task["payload"] == "bad" for task in tasks):
            return httpx.Response(413, json={"error": "payload too large", "code": "payload_too_large"})
        items = [self.item(task) for task in tasks]
        if self.lost > 0:
            self.lost -= 1
            raise httpx.ReadError("cut")
        return httpx.Response(200, json={"results": items})

    def item(self, task: dict[str, Any]) -> dict[str, Any]:
        replayed = task["idempotencyKey"] in self.made
        made = self.made.setdefault(task["idempotencyKey"], f"task-{len(self.made)}")
        return {"task": {"id": made, "command": task["command"], "status": "PENDING"}, "replayed": replayed}


async def test_a_batch_whose_answer_was_lost_is_sent_again_with_the_same_keys() -> None:
    server = Server(lost=2)
    made = await server.client().create_many("mail", range(5))
    first, second, third = server.asked
    assert first == second == third
    assert len(server.made) == 5
    # They are there already, because we made them.
    assert [isinstance(one, Task) and not one.replayed for one in made] == [True] * 5


async def test_a_create_that_spoils_its_batch_takes_no_other_with_it() -> None:
    made = await Server().client().create_many("mail", ["a", "bad", "b"])
    assert [type(one).__name__ for one in made] == ["Task", "PayloadTooLarge", "Task"]
    assert isinstance(made[1], Refused)


async def test_a_wait_ends_with_its_timeout_when_the_server_is_away() -> None:
    def away(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    transport = Transport("http://fake", "t", http=httpx.MockTransport(away))
    started = time.monotonic()
    with pytest.raises(Unavailable):
        await Client("http://fake", "t", transport=transport).wait("task-1", 0.2)
    assert time.monotonic() - started < 10
