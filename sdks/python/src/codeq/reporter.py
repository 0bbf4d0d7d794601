"""Reports: what is ready together goes as one batch, and everything is repeated until it is answered."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any
from urllib.parse import quote

from . import limits, outcome
from .errors import CodeqError, Refused, refusal
from .outcome import Report
from .transport import Absent, Transport

#: What the server says about a report that it will never take. Anything else may pass: a token is replaced, a scope
#: granted, a proxy mended. 0 are items of a batch that was answered.
_FINAL = frozenset({0, 400, 413, 422})
#: Codes of items that say nothing about the report.
_COME_BACK = frozenset({"internal", "storage_unavailable", "shutting_down"})

_Waiting = tuple[Report, str, "asyncio.Future[None]"]


class Reporter:
    """Sends reports. :meth:`send` is one try; whoever calls it decides about the next."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: deque[_Waiting] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def send(self, report: Report) -> None:
        """Raises :class:`Absent` when the outcome is unknown and :class:`Refused` when it is not taken."""
        if report.verb != "result":
            path = f"/v1/codeq/tasks/{quote(report.task_id, safe='')}/{report.verb}"
            await self._transport.once("POST", path, report.text())
            return
        try:
            text = report.item_text()
            text.encode()
        except (TypeError, ValueError) as error:
            raise Refused(0, "", f"the result cannot be written as JSON: {error}") from error
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((report, text, answered))
        if len(self._under_way) < limits.RESULT_BATCHES_AT_ONCE:
            sending = asyncio.create_task(self._drain())
            self._under_way.add(sending)
            sending.add_done_callback(self._under_way.discard)
        await answered

    async def _drain(self) -> None:
        # Handlers that end in the same turn of the loop are reported together.
        await asyncio.sleep(0)
        while self._waiting:
            await self._send_batch(self._next_batch())

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < limits.BATCH_ITEMS:
            length = len(self._waiting[0][1])
            if batch and size + length > limits.RESULT_BATCH_BYTES:
                break
            batch.append(self._waiting.popleft())
            size += length
        return batch

    async def _send_batch(self, batch: list[_Waiting]) -> None:
        text = '{"results":[' + ",".join(item for _, item, _ in batch) + "]}"
        try:
            answer = await self._transport.once("POST", "/v1/codeq/tasks/batch/results", text)
            items: list[Any] = answer.body["results"]
            if len(items) != len(batch):
                raise Absent("an answer of another length")
        except Refused as error:
            if is_final(error) and len(batch) > 1:
                # One of them is to blame, and must not take the others with it.
                for one in batch:
                    await self._send_batch([one])
                return
            for _, _, answered in batch:
                _fail(answered, error)
            return
        except Exception as error:
            known = error if isinstance(error, CodeqError) else Absent(str(error))
            for _, _, answered in batch:
                _fail(answered, known)
            return
        for (_, _, answered), item in zip(batch, items, strict=True):
            _settle(answered, item)


def _settle(answered: asyncio.Future[None], item: Any) -> None:
    if isinstance(item, dict) and "result" in item:
        if not answered.done():
            answered.set_result(None)
        return
    refused = refusal(0, item)
    _fail(answered, Absent(refused.text, refusal=refused) if refused.code in _COME_BACK else refused)


def _fail(answered: asyncio.Future[None], error: CodeqError) -> None:
    if not answered.done():
        answered.set_exception(error)


def is_final(error: Refused) -> bool:
    """Whether sending the same report again is of no use."""
    return error.status in _FINAL


def instead(report: Report, error: Refused) -> Report | None:
    """What to say instead of a result that the server does not take."""
    if report.verb != "result" or report.outcome != "completed":
        return None
    text = f"the result was not taken: {error}"
    return outcome.failed(report.task_id, report.attempt, text)
