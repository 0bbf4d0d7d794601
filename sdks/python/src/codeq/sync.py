"""The producer for code without an event loop: the async one, on a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from . import limits
from .client import Client, Result, Task
from .errors import Refused
from .options import CreateOptions
from .transport import Token
from .wire import Seconds

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")


class SyncTask:
    """A task as the server knew it when it was read."""

    def __init__(self, client: SyncClient, task: Task) -> None:
        self._client = client
        self._task = task
        self.id = task.id
        self.command = task.command
        self.status = task.status
        self.attempts = task.attempts
        self.replayed = task.replayed
        self.raw = task.raw

    @property
    def payload(self) -> Any:
        return self._task.payload

    def wait(self, timeout: Seconds = 60) -> Result:
        """Waits for the end of the task, whatever it is. Raises :class:`NotFinished` when the time is up."""
        return self._client.wait(self.id, timeout)

    def result(self, timeout: Seconds = 60) -> dict[str, Any]:
        """Waits for what the handler returned. Raises :class:`TaskFailed` if the task did not complete."""
        return self._client.run(lambda _: self._task.result(timeout))

    def refresh(self) -> SyncTask:
        return self._client.get(self.id)

    def cancel(self, *, grace: Seconds = 0, reason: str | None = None) -> SyncTask:
        return self._client.cancel(self.id, grace=grace, reason=reason)


class SyncClient:
    """As :class:`~codeq.Client`, but its calls block. Safe to use from many threads and after a fork."""

    def __init__(self, url: str, token: Token, *, give_up: Seconds = limits.GIVE_UP_SECONDS) -> None:
        self._make: Callable[[], Client] = lambda: Client(url, token, give_up=give_up)
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Anything that the async client can do: ``client.run(lambda c: c.get_schedule("nightly"))``."""
        loop, client = self._started()
        return asyncio.run_coroutine_threadsafe(call(client), loop).result()

    def create(self, command: str, payload: Any, **options: Unpack[CreateOptions]) -> SyncTask:
        """Creates a task. When this returns it is on the server's disk."""
        return SyncTask(self, self.run(lambda client: client.create(command, payload, **options)))

    def create_many(
        self, command: str, payloads: Iterable[Any], **options: Unpack[CreateOptions]
    ) -> list[SyncTask | Refused]:
        """Creates a task per payload, in as few requests as possible; see :meth:`Client.create_many`."""
        made = self.run(lambda client: client.create_many(command, payloads, **options))
        return [one if isinstance(one, Refused) else SyncTask(self, one) for one in made]

    def get(self, task_id: str) -> SyncTask:
        return SyncTask(self, self.run(lambda client: client.get(task_id)))

    def wait(self, task_id: str, timeout: Seconds = 60) -> Result:
        """Waits for the end of a task. Raises :class:`NotFinished` when the time is up."""
        return self.run(lambda client: client.wait(task_id, timeout))

    def cancel(self, task_id: str, *, grace: Seconds = 0, reason: str | None = None) -> SyncTask:
        return SyncTask(self, self.run(lambda client: client.cancel(task_id, grace=grace, reason=reason)))

    def artifact(self, task_id: str, name: str) -> bytes:
        """The bytes of an artifact that the server keeps."""
        return self.run(lambda client: client.artifact(task_id, name))

    def close(self) -> None:
        with self._lock:
            loop, client, self._loop, self._client = self._loop, self._client, None, None
        if loop is not None and client is not None and self._pid == os.getpid():
            asyncio.run_coroutine_threadsafe(client.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def _started(self) -> tuple[asyncio.AbstractEventLoop, Client]:
        with self._lock:
            # A forked process has the loop of its parent, but not the thread.
            if self._loop is None or self._client is None or self._pid != os.getpid():
                self._loop, self._client, self._pid = asyncio.new_event_loop(), self._make(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="codeq-producer", daemon=True).start()
            return self._loop, self._client
