"""What a handler can know and say about the task in its hands."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any

from . import limits, wire

#: Sends a heartbeat that carries something, off the handler's thread.
Say = Callable[[dict[str, Any]], "Coroutine[Any, Any, None]"]


class ContextBase:
    """The task, its attempt, and whether anybody still wants it."""

    def __init__(self, task: Mapping[str, Any], received: float, lease: float) -> None:
        #: Everything as the server sent it.
        self.task = task
        self.id: str = task["id"]
        self.command: str = task["command"]
        #: The number of this delivery, from 1. With ``id`` it only grows: use it for fencing.
        self.attempt: int = task.get("attempts", 1)
        self.headers: Mapping[str, str] = task.get("headers") or {}
        self.lane: str = task.get("lane") or ""
        #: What an earlier attempt saved last, or None.
        self.saved: Any = task.get("checkpoint")
        #: Why the handler is to stop: ``"cancelled"``, ``"lease lost"``, ``"shutdown"``; None while it is not.
        self.stop_reason: str | None = None
        #: Until when what the handler reports counts, after a requested cancel.
        self.cancel_deadline: datetime | None = None
        self.artifacts: list[dict[str, Any]] = []
        self._lease_until = received + lease
        self._stopped = threading.Event()
        #: The call of a plain function in its thread, which goes on when its task is not waited for any more.
        self._call: asyncio.Future[Any] | None = None

    @property
    def cancelled(self) -> bool:
        """Somebody cancelled the task, its lease was lost, or the worker ends: stop as soon as you can."""
        return self._stopped.is_set()

    @property
    def deadline(self) -> float:
        """Seconds until the lease ends if no further heartbeat gets through."""
        return max(0.0, self._lease_until - time.monotonic())

    def artifact(
        self,
        name: str,
        content: bytes | str | None = None,
        *,
        url: str | None = None,
        content_type: str | None = None,
    ) -> None:
        """Adds a file (``content``) or a link (``url``) to the result; it is sent with it."""
        if (content is None) == (url is None):
            raise ValueError("an artifact has either content or a url")
        if len(self.artifacts) == limits.ARTIFACTS:
            raise ValueError(f"a result has at most {limits.ARTIFACTS} artifacts")
        data = content.encode() if isinstance(content, str) else content
        encoded = None if data is None else base64.b64encode(data).decode()
        fields = {"name": name, "url": url, "contentBase64": encoded, "contentType": content_type}
        self.artifacts.append(wire.compact(fields))

    def stop(self, reason: str) -> None:
        """Tells the handler to stop. The first reason counts, but a lost lease outweighs it."""
        if self.stop_reason is None or reason == "lease lost":
            self.stop_reason = reason
        self._stopped.set()


class Context(ContextBase):
    """For async handlers."""

    def __init__(self, task: Mapping[str, Any], received: float, lease: float, say: Say) -> None:
        super().__init__(task, received, lease)
        self._say = say

    async def progress(self, value: Any) -> None:
        """Shows how far the work is, at most 4 KiB of JSON. Advisory: the last value counts."""
        await self._say({"progress": value})

    async def checkpoint(self, value: Any) -> None:
        """Saves where the next attempt can go on, at most 64 KiB of JSON. Durable when this returns."""
        await self._say({"checkpoint": value})
        self.saved = value


class SyncContext(ContextBase):
    """For handlers that are plain functions and run in a thread."""

    def __init__(
        self, task: Mapping[str, Any], received: float, lease: float, say: Callable[[dict[str, Any]], None]
    ) -> None:
        super().__init__(task, received, lease)
        self._say = say

    def progress(self, value: Any) -> None:
        """Shows how far the work is, at most 4 KiB of JSON. Advisory: the last value counts."""
        self._say({"progress": value})

    def checkpoint(self, value: Any) -> None:
        """Saves where the next attempt can go on, at most 64 KiB of JSON. Durable when this returns."""
        self._say({"checkpoint": value})
        self.saved = value

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Waits until the handler is to stop, or for ``timeout`` seconds; whether it is to stop."""
        return self._stopped.wait(timeout)
