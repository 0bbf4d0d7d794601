"""Tasks as decorated functions: one definition for who creates them and who works on them."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, get_type_hints, overload

import httpx

from .client import Client, Task
from .context import ContextBase, SyncContext
from .errors import Refused
from .options import CreateOptions
from .outcome import Fail, Retry
from .payload import PayloadError, decoder
from .sync import SyncClient, SyncTask
from .transport import Token, Transport
from .wire import Seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .testing import InlineQueue
    from .threads import DaemonThreads

log = logging.getLogger("codeq")
P = TypeVar("P")
R = TypeVar("R")

#: Runs around every handler: does something, awaits ``call_next()``, does something, and returns what it returned.
Middleware = Callable[[ContextBase, Callable[[], Awaitable[Any]]], Awaitable[Any]]


class TaskDefinition(Generic[P, R]):
    """A command, its handler, and the defaults of its creates. Calling it calls the handler."""

    def __init__(self, app: App, command: str, handler: Callable[..., Any], defaults: CreateOptions) -> None:
        self.app = app
        self.command = command
        self.handler = handler
        self.defaults = defaults
        self.is_async = inspect.iscoroutinefunction(handler)
        self.__doc__ = handler.__doc__
        self.__name__ = getattr(handler, "__name__", command)
        parameters = list(inspect.signature(handler).parameters.values())
        if not 1 <= len(parameters) <= 2:
            raise TypeError(f"{self.__name__} takes a payload, and a context if it likes")
        hints = get_type_hints(handler)
        self._decode = decoder(hints.get(parameters[0].name, Any))
        self.takes_context = len(parameters) == 2

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.handler(*args, **named)

    def decode(self, task: Mapping[str, Any]) -> P:
        """The payload, as the type of the handler's first parameter says."""
        text = task.get("payload", "null")
        try:
            payload: P = self._decode(json.loads(text))
        except PayloadError:
            raise
        except (ValueError, RecursionError) as error:
            raise PayloadError(str(error)) from error
        return payload

    def _merged(self, options: CreateOptions) -> CreateOptions:
        merged: CreateOptions = {**self.defaults, **options}
        return merged

    async def enqueue(self, payload: P, **options: Unpack[CreateOptions]) -> Task:
        """Creates a task for this handler. When this returns it is on the server's disk."""
        return await self.app.client.create(self.command, payload, **self._merged(options))

    async def enqueue_many(self, payloads: Iterable[P], **options: Unpack[CreateOptions]) -> list[Task | Refused]:
        """Creates a task per payload, in as few requests as possible; see :meth:`Client.create_many`."""
        return await self.app.client.create_many(self.command, payloads, **self._merged(options))

    def enqueue_sync(self, payload: P, **options: Unpack[CreateOptions]) -> SyncTask:
        """As :meth:`enqueue`, for code without an event loop."""
        return self.app.sync.create(self.command, payload, **self._merged(options))


class Define(Protocol):
    """Makes a function a task."""

    @overload
    def __call__(self, handler: Callable[[P, Any], R]) -> TaskDefinition[P, R]: ...
    @overload
    def __call__(self, handler: Callable[[P], R]) -> TaskDefinition[P, R]: ...


class App:
    """The tasks of one program.

    Without arguments the server is ``CODEQ_URL`` (or ``http://127.0.0.1:8080``) and the token ``CODEQ_TOKEN``
    (or ``dev-token``, which is what ``codeq dev`` takes).

    A payload that is not what the handler's type says is tried again like any error: a worker of the next release may
    read it. With ``fail_unreadable`` its task fails at once.
    """

    def __init__(
        self,
        url: str | None = None,
        token: Token | None = None,
        *,
        middleware: Iterable[Middleware] = (),
        give_up: Seconds | None = None,
        fail_unreadable: bool = False,
        http: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        self.url = url or os.environ.get("CODEQ_URL", "http://127.0.0.1:8080")
        self.token: Token = token or os.environ.get("CODEQ_TOKEN", "dev-token")
        self.middleware: list[Middleware] = list(middleware)
        self.fail_unreadable = fail_unreadable
        #: By lower-case command, as the server compares them.
        self.handlers: dict[str, TaskDefinition[Any, Any]] = {}
        self._options: dict[str, Any] = {} if give_up is None else {"give_up": give_up}
        self._http = http
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = weakref.WeakKeyDictionary()
        self._sync: SyncClient | None = None
        self._inline: InlineQueue | None = None

    def task(self, command: str, **defaults: Unpack[CreateOptions]) -> Define:
        """Makes a function the handler of a command. The first parameter is the payload, a second one the context.

        ``defaults`` are the options of its creates: ``@app.task("send_email", max_attempts=5)``.
        """

        def define(handler: Callable[..., Any]) -> TaskDefinition[Any, Any]:
            definition: TaskDefinition[Any, Any] = TaskDefinition(self, command.strip(), handler, defaults)
            if self.handlers.setdefault(definition.command.lower(), definition) is not definition:
                raise ValueError(f"{command} has a handler already")
            return definition

        return define

    @property
    def client(self) -> Client:
        """The producer of the running event loop."""
        if self._inline is not None:
            return self._inline
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = Client(self.url, self.token, transport=self.transport(), **self._options)
        return self._clients[loop]

    @property
    def sync(self) -> SyncClient:
        """The producer for code without an event loop."""
        if self._sync is None:
            self._sync = SyncClient(self.url, self.token, **self._options)
        return self._sync

    async def close(self) -> None:
        """Closes the connections of the running event loop's producer."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def transport(self, worker: str | None = None, connections: int = 32) -> Transport:
        http = self._http() if self._http else None
        return Transport(self.url, self.token, worker=worker, connections=connections, http=http)

    async def call(self, definition: TaskDefinition[Any, Any], ctx: ContextBase, threads: DaemonThreads) -> Any:
        """Runs the handler inside of the middleware."""
        try:
            payload = definition.decode(ctx.task)
        except PayloadError as error:
            text = f"the payload cannot be read: {error}"
            log.warning("task %s: %s", ctx.id, text)
            raise Fail(text) if self.fail_unreadable else Retry(text) from error
        arguments = (payload, ctx) if definition.takes_context else (payload,)

        async def handler() -> Any:
            if definition.is_async:
                return await definition.handler(*arguments)
            ctx._call = threads.run(lambda: definition.handler(*arguments))
            return await asyncio.shield(ctx._call)

        return await self._around(handler, ctx)

    def _around(self, handler: Callable[[], Awaitable[Any]], ctx: ContextBase) -> Awaitable[Any]:
        call = handler
        for layer in reversed(self.middleware):
            call = _wrapped(layer, ctx, call)
        return call()

    def run(self, **settings: Any) -> None:
        """Works until SIGTERM or SIGINT. The settings are those of :class:`~codeq.Worker`."""
        from .worker import Worker

        asyncio.run(Worker(self, **settings).run())

    def testing(self) -> InlineQueue:
        """Runs tasks in this process, without a server: ``async with app.testing() as queue``."""
        from .testing import InlineQueue

        return InlineQueue(self)


def _wrapped(layer: Middleware, ctx: ContextBase, call: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    return lambda: layer(ctx, call)


__all__ = ["App", "Middleware", "SyncContext", "TaskDefinition"]
