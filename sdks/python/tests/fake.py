"""A server made of canned answers, for what a real one does not say on request."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx

from codeq import App

Say = Callable[[dict[str, Any]], httpx.Response]


class Fake:
    """Lends its tasks once, keeps every lease, and answers results with what ``results`` says, the last for ever."""

    def __init__(self, *results: Say) -> None:
        self.results = list(results) or [taken]
        self.claims: list[httpx.Response] = []
        self.tasks: list[dict[str, Any]] = []
        self.reported: list[tuple[str, dict[str, Any]]] = []
        #: Ids whose leases are lost.
        self.gone: set[str] = set()
        self._news = asyncio.Event()

    def app(self) -> App:
        return App("http://fake", "token", http=lambda: httpx.MockTransport(self.answer))

    def lend(self, command: str, payload: Any = None) -> None:
        task = {"id": f"task-{len(self.tasks)}", "command": command, "attempts": 1, "payload": json.dumps(payload)}
        self.tasks.append(task)

    async def heard(self, reports: int) -> None:
        while len(self.reported) < reports:
            self._news.clear()
            await self._news.wait()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        match request.url.path.rsplit("/", 1)[-1]:
            case "batch":
                if self.claims:
                    return self.claims.pop(0)
                lent, self.tasks = self.tasks[: body["count"]], self.tasks[body["count"] :]
                return httpx.Response(200, json={"tasks": lent}) if lent else httpx.Response(204)
            case "claim":
                await asyncio.sleep(0.02)
                return httpx.Response(204)
            case "heartbeat" if request.url.path.split("/")[-2] in self.gone:
                return httpx.Response(409, json={"error": "lease-lost", "code": "lease_lost"})
            case "heartbeat":
                return httpx.Response(200, json={"ok": True})
            case verb:
                answer = self.results.pop(0) if len(self.results) > 1 else self.results[0]
                said = answer(body)
                self.reported.append((verb, body))
                self._news.set()
                return said


def taken(body: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json={"results": [{"taskId": one["taskId"], "result": {}} for one in body["results"]]})


def items(code: str) -> Say:
    """Refuses every item."""

    def say(body: dict[str, Any]) -> httpx.Response:
        refused = [{"taskId": one["taskId"], "error": code, "code": code} for one in body["results"]]
        return httpx.Response(200, json={"results": refused})

    return say


def whole(status: int, code: str) -> Say:
    """Refuses the request."""
    return lambda _: httpx.Response(status, json={"error": code, "code": code})
