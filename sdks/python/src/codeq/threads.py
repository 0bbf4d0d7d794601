"""Threads for handlers that are plain functions.

They are daemons: a handler that does not end cannot keep the process from ending. The executor of the standard
library waits for its threads at exit.

A thread cannot be stopped. Whoever gives up a call, because its lease is lost or its time is up, leaves it running,
and its slot is taken until it has ended: otherwise there would be more handlers at once than slots.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

_Work = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop, contextvars.Context]


class DaemonThreads:
    """As many threads as there are calls at once, kept for the next ones."""

    def __init__(self) -> None:
        self._started = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()

    def run(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """What the call returns or raises. Cancelling it does not end the call: shield it to know when that ends."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._work.put((call, future, loop, contextvars.copy_context()))
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._started += 1
                threading.Thread(target=self._serve, name=f"codeq-handler-{self._started}", daemon=True).start()
        return future

    def stop(self) -> None:
        """Ends the threads that have nothing to do."""
        for _ in range(self._started):
            self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            call, future, loop, context = work
            try:
                value, error = context.run(call), None
            except BaseException as raised:
                value, error = None, raised
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(_answer, future, value, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more


def _answer(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration):
        future.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        future.set_exception(error)
