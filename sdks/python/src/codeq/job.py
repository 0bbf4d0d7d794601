"""One attempt in the hands of a worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from . import limits, wire
from .context import Context, ContextBase


class Job:
    """A claimed task, its context, and what runs for it."""

    def __init__(self, task: Mapping[str, Any], received: float, lease: float, loop: asyncio.AbstractEventLoop) -> None:
        self.task = task
        self.id: str = task["id"]
        self.attempt: int = task.get("attempts", 1)
        self.command: str = task["command"]
        self.lease = lease
        self.lease_until = received + lease
        self.next_beat = received + lease / 3
        self.is_beating = False
        self.ctx: ContextBase | None = None
        self.started = time.monotonic()
        #: Set, on the worker's loop, when the task is no longer ours.
        self.lost = asyncio.Event()
        self.handler: asyncio.Task[Any] | None = None
        #: Set, on the worker's loop, when the worker ends without waiting for the handler any longer.
        self.cut = asyncio.Event()
        self.is_lost = False
        self._loop = loop

    def begin(self, ctx: ContextBase, handler: asyncio.Task[Any]) -> None:
        """The handler runs from now on."""
        self.ctx, self.handler = ctx, handler
        # Of a lease that was lost a moment before, nobody told it.
        if self.is_lost:
            ctx.stop("lease lost")
            handler.cancel()

    def extended(self, sent: float) -> None:
        """A heartbeat sent at that time got through."""
        self.lease_until = sent + self.lease
        self.next_beat = sent + self.lease / 3
        if self.ctx is not None:
            self.ctx._lease_until = self.lease_until

    def lose(self) -> None:
        """From any thread: the lease is over, or the task is somebody else's."""
        self.is_lost = True
        self._stop("lease lost")
        self._loop.call_soon_threadsafe(self.lost.set)

    def request_cancel(self, cancel: Mapping[str, Any]) -> None:
        """From any thread: somebody asks the handler to stop."""
        if self.ctx is not None and self.ctx.stop_reason is None:
            self.ctx.cancel_deadline = wire.parse_timestamp(cancel.get("deadline"))
            self._stop("cancelled")

    def shut_down(self) -> None:
        """On the worker's loop: the handler has a moment to end, and then nobody waits for it."""
        self._stop("shutdown")
        self._loop.call_later(limits.CANCEL_SECONDS, self.cut.set)

    def _stop(self, reason: str) -> None:
        if self.ctx is not None:
            self.ctx.stop(reason)
        if isinstance(self.ctx, Context) or reason != "cancelled":
            self._loop.call_soon_threadsafe(self._cancel_handler)

    def _cancel_handler(self) -> None:
        if self.handler is not None and not self.handler.done():
            self.handler.cancel()
