"""One HTTP connection pool: tokens, timeouts, and what is tried again.

Nothing here knows what a task is. A call is repeated when there was no answer, or when the answer was 429, 502,
503 or 504, with growing pauses that respect ``Retry-After``, until ``give_up`` seconds have passed. To a worker any
5xx says to come back: what a handler has done must not be thrown away for a fault of the server.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from . import limits
from ._version import __version__
from .backoff import Backoff
from .errors import CodeqError, Refused, Unavailable, refusal

#: A token, or something that is asked for one: at first, and again whenever the server no longer takes it.
Token = str | Callable[[], "str | Awaitable[str]"]

_COME_BACK = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: httpx.Headers
    #: The call had been sent before without an answer: what it asks for may have been done by that.
    is_repeat: bool = False


class Absent(CodeqError):
    """No answer to one request."""

    def __init__(
        self,
        text: str,
        retry_after: float | None = None,
        was_sent: bool = True,
        refusal: Refused | None = None,
    ) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        self.was_sent = was_sent
        self.refusal = refusal


class Transport:
    """The server at ``url``, as whoever ``token`` says."""

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        worker: str | None = None,
        connections: int = 32,
        http: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._source = token
        self._token = token if isinstance(token, str) else None
        self._renewal: asyncio.Lock | None = None
        self._is_worker = worker is not None
        headers = {"User-Agent": f"codeq-python/{__version__}", "Content-Type": "application/json"}
        if worker is not None:
            headers["Codeq-Worker"] = worker
        pool = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._http = httpx.AsyncClient(base_url=self.url, headers=headers, limits=pool, transport=http)

    async def close(self) -> None:
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        query: dict[str, Any] | None = None,
        wait: float = 0.0,
        give_up: float = limits.GIVE_UP_SECONDS,
        is_safe: bool = True,
        headers: dict[str, str] | None = None,
        raw: bool = False,
    ) -> Answer:
        """Calls until there is an answer. Raises :class:`Refused` for 4xx, and for 500 unless a worker
        calls, :class:`Unavailable` at the end.

        What is not ``is_safe`` to repeat is repeated only when it cannot have been done.
        """
        backoff, end, was_sent = Backoff(), time.monotonic() + give_up, False
        while True:
            try:
                answer = await self.once(method, path, body, query=query, wait=wait, headers=headers, raw=raw)
            except Absent as absent:
                was_sent = was_sent or absent.was_sent
                pause = backoff.pause(absent.retry_after)
                if (absent.was_sent and not is_safe) or time.monotonic() + pause > end:
                    raise Unavailable(f"{method} {path}: {absent}", absent.refusal) from absent
                await asyncio.sleep(pause)
            except Refused as error:
                error.is_repeat = was_sent
                raise
            else:
                return Answer(answer.status, answer.body, answer.headers, was_sent)

    async def once(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        query: dict[str, Any] | None = None,
        wait: float = 0.0,
        headers: dict[str, str] | None = None,
        raw: bool = False,
        timeout: float = limits.REQUEST_SECONDS,
    ) -> Answer:
        """One request, and a second one with a new token if the first was refused for its token.

        An answer comes within ``wait`` and ``timeout``, or there is none.
        """
        token = await self._current_token()
        response = await self._send(method, path, body, query, wait + timeout, headers, token)
        if response.status_code == 401 and not isinstance(self._source, str):
            token = await self._current_token(refused=token)
            response = await self._send(method, path, body, query, wait + timeout, headers, token)
        return _answer(response, raw, self._is_worker)

    async def _send(
        self,
        method: str,
        path: str,
        body: str | None,
        query: dict[str, Any] | None,
        timeout: float,
        headers: dict[str, str] | None,
        token: str,
    ) -> httpx.Response:
        sent = {**(headers or {}), "Authorization": f"Bearer {token}"}
        content = None if body is None else body.encode()
        try:
            return await self._http.request(method, path, content=content, params=query, headers=sent, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Absent(str(error) or type(error).__name__, was_sent=False) from error
        except httpx.TransportError as error:
            raise Absent(str(error) or type(error).__name__) from error

    async def _current_token(self, refused: str | None = None) -> str:
        """The token; a new one if nobody has renewed the refused one yet."""
        if self._token is not None and self._token != refused:
            return self._token
        if isinstance(self._source, str):
            return self._source
        self._renewal = self._renewal or asyncio.Lock()
        async with self._renewal:
            if self._token is None or self._token == refused:
                try:
                    given = self._source()
                    self._token = await given if inspect.isawaitable(given) else given
                except Exception as error:
                    raise Absent(f"no token: {error}", was_sent=False) from error
            return self._token


def _answer(response: httpx.Response, raw: bool, is_worker: bool) -> Answer:
    status = response.status_code
    if status < 300:
        body = response.content if raw else _json(response)
        if body is None and response.content.strip() not in (b"", b"null"):
            raise Absent("an answer that is not JSON")
        return Answer(status, body, response.headers)
    refused = refusal(status, _json(response), response.headers.get("x-request-id"))
    if status in _COME_BACK or (is_worker and status >= 500):
        raise Absent(f"{status} {refused}", _retry_after(response), status != 429, refused)
    raise refused


def _json(response: httpx.Response) -> Any:
    if not response.content:
        return None
    try:
        return json.loads(response.content)
    except ValueError:
        return None


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None
