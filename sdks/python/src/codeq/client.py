"""The producer: creates tasks, waits for results, and looks after schedules and batches."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from . import limits, wire
from .backoff import Backoff
from .errors import NotFinished, Refused, ResultNotFound, StorageUnavailable, TaskFailed, refusal
from .options import CreateOptions, create_body
from .transport import Answer, Token, Transport
from .wire import Seconds

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


@dataclass(frozen=True)
class Artifact:
    """A file or a link that belongs to a result."""

    name: str
    url: str


@dataclass(frozen=True)
class Result:
    """How a task ended."""

    task_id: str
    status: Literal["COMPLETED", "FAILED"]
    #: What the handler returned.
    value: dict[str, Any] | None
    error: str
    #: Why it failed if no worker failed it.
    failure_reason: str | None
    artifacts: tuple[Artifact, ...]
    completed_at: datetime | None
    #: Everything as the server sent it.
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Result:
        artifacts = tuple(Artifact(one["name"], one["url"]) for one in raw.get("artifacts") or ())
        return cls(
            task_id=raw["taskId"],
            status=raw["status"],
            value=raw.get("result"),
            error=raw.get("error", ""),
            failure_reason=raw.get("failureReason"),
            artifacts=artifacts,
            completed_at=wire.parse_timestamp(raw.get("completedAt")),
            raw=raw,
        )


@dataclass(frozen=True)
class Task:
    """A task as the server knew it when it was read."""

    id: str
    command: str
    #: PENDING, IN_PROGRESS, COMPLETED or FAILED.
    status: str
    #: Deliveries so far.
    attempts: int
    #: The idempotency key, or the key of ``unique``, named a task that was there already: this one.
    replayed: bool
    #: Everything as the server sent it.
    raw: Mapping[str, Any] = field(repr=False)
    _client: Client = field(repr=False, compare=False)

    @classmethod
    def of(cls, client: Client, raw: Mapping[str, Any], replayed: bool = False) -> Task:
        attempts = raw.get("attempts", 0)
        return cls(raw["id"], raw["command"], raw["status"], attempts, replayed, raw, client)

    @property
    def payload(self) -> Any:
        """What the task carries, as plain JSON values."""
        text = self.raw.get("payload")
        return None if text is None else json.loads(text)

    async def wait(self, timeout: Seconds = 60) -> Result:
        """Waits for the end of the task, whatever it is. Raises :class:`NotFinished` when the time is up."""
        return await self._client.wait(self.id, timeout)

    async def result(self, timeout: Seconds = 60) -> dict[str, Any]:
        """Waits for what the handler returned. Raises :class:`TaskFailed` if the task did not complete."""
        result = await self.wait(timeout)
        if result.status != "COMPLETED":
            raise TaskFailed(self.id, result.error, result.failure_reason)
        return result.value or {}

    async def refresh(self) -> Task:
        return await self._client.get(self.id)

    async def cancel(self, *, grace: Seconds = 0, reason: str | None = None) -> Task:
        return await self._client.cancel(self.id, grace=grace, reason=reason)


@dataclass(frozen=True)
class Batch:
    """Tasks that end together. What shall happen then is a task created with ``after=[batch]``."""

    id: str
    #: Everything as the server sent it.
    raw: Mapping[str, Any] = field(repr=False)
    _client: Client = field(repr=False, compare=False)

    async def close(self) -> None:
        """No task joins any more."""
        await self._client._call("POST", f"/batches/{_segment(self.id)}/close", {})

    async def refresh(self) -> Batch:
        return await self._client.get_batch(self.id)

    async def cancel(self) -> None:
        """Cancels all members that live."""
        await self._client._call("DELETE", f"/batches/{_segment(self.id)}")

    async def members(self) -> AsyncIterator[Task]:
        cursor: str | None = None
        while True:
            query = {} if cursor is None else {"cursor": cursor}
            answer = await self._client._call("GET", f"/batches/{_segment(self.id)}/members", query=query)
            for raw in answer.body.get("items") or ():
                yield Task.of(self._client, raw)
            cursor = answer.body.get("next")
            if not cursor:
                return


class Client:
    """Creates tasks and reads what became of them.

    ``token`` is a string, or a function (async or not) that is asked for one whenever the last one was refused.
    Every call is repeated until it is answered, for at most ``give_up`` seconds; creates carry an idempotency key,
    so that cannot make a second task.
    """

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        give_up: Seconds = limits.GIVE_UP_SECONDS,
        transport: Transport | None = None,
    ) -> None:
        self._give_up = wire.seconds(give_up)
        self._transport = transport or Transport(url, token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def create(self, command: str, payload: Any, **options: Unpack[CreateOptions]) -> Task:
        """Creates a task. When this returns it is on the server's disk."""
        body = create_body(command, payload, options)
        answer = await self._call("POST", "/tasks", body)
        replayed = "idempotent-replayed" in answer.headers and not answer.is_repeat
        return Task.of(self, answer.body, replayed or "codeq-deduplicated" in answer.headers)

    async def create_many(
        self, command: str, payloads: Iterable[Any], **options: Unpack[CreateOptions]
    ) -> list[Task | Refused]:
        """Creates a task per payload, all with the same options, in as few requests as possible.

        The answers are in the order of the payloads. An item that the server refuses is a :class:`Refused` in its
        place; the others are created. With ``key`` each item gets the key followed by ``:`` and its number.
        """
        key = options.get("key")
        bodies = []
        for number, payload in enumerate(payloads):
            own: CreateOptions = options if key is None else {**options, "key": f"{key}:{number}"}
            bodies.append(create_body(command, payload, own))
        return await self.create_all(bodies)

    async def create_all(self, bodies: Sequence[Mapping[str, Any]]) -> list[Task | Refused]:
        """Creates tasks from bodies that :func:`codeq.new_task` made."""
        at_once = asyncio.Semaphore(limits.CREATE_BATCHES_AT_ONCE)

        async def send(batch: list[str]) -> list[Task | Refused]:
            async with at_once:
                return await self._create_batch(batch)

        batches = list(_batches(wire.dumps(body) for body in bodies))
        return [item for batch in await asyncio.gather(*map(send, batches)) for item in batch]

    async def _create_batch(self, batch: list[str]) -> list[Task | Refused]:
        """Sends the batch, and again what the store could not take, until the call is given up."""
        answers: list[Task | Refused] = []
        open_items, places = batch, list(range(len(batch)))
        backoff, end = Backoff(), time.monotonic() + self._give_up
        while True:
            created = await self._send_creates(open_items)
            answers = answers or list(created)
            for place, item in zip(places, created, strict=True):
                answers[place] = item
            places = [place for place, item in enumerate(answers) if isinstance(item, StorageUnavailable)]
            pause = backoff.pause()
            if not places or time.monotonic() + pause > end:
                return answers
            open_items = [batch[place] for place in places]
            await asyncio.sleep(pause)

    async def _send_creates(self, texts: list[str]) -> list[Task | Refused]:
        text = '{"tasks":[' + ",".join(texts) + "]}"
        try:
            answer = await self._call("POST", "/tasks/batch", text=text)
        except Refused as error:
            if error.status not in (400, 413):
                raise
            if len(texts) == 1:
                return [error]
            # One of them spoils the whole body, and must not take the others with it.
            return [one for text in texts for one in await self._send_creates([text])]
        return [self._created(item, answer.is_repeat) for item in answer.body["results"]]

    def _created(self, item: Mapping[str, Any], is_repeat: bool) -> Task | Refused:
        if "task" in item:
            replayed = bool(item.get("replayed")) and not is_repeat
            return Task.of(self, item["task"], replayed or bool(item.get("deduplicated")))
        return refusal(0, item)

    async def get(self, task_id: str) -> Task:
        answer = await self._call("GET", f"/tasks/{_segment(task_id)}")
        return Task.of(self, answer.body)

    async def wait(self, task_id: str, timeout: Seconds = 60) -> Result:
        """Waits for the end of a task. Raises :class:`NotFinished` when the time is up."""
        end = time.monotonic() + wire.seconds(timeout)
        while True:
            left = max(0.0, end - time.monotonic())
            step = min(limits.RESULT_WAIT_SECONDS, int(left) + 1 if left else 0)
            try:
                answer = await self._result(task_id, step, left)
            except ResultNotFound:
                if time.monotonic() >= end:
                    raise NotFinished(f"task {task_id} has not ended") from None
            else:
                return Result.of(answer.body["result"])

    async def _result(self, task_id: str, wait: int, left: float) -> Answer:
        path = f"/tasks/{_segment(task_id)}/result"
        return await self._call("GET", path, query={"waitSeconds": wait}, wait=wait, give_up=min(left, self._give_up))

    async def artifact(self, task_id: str, name: str) -> bytes:
        """The bytes of an artifact that the server keeps."""
        path = f"/v1/codeq/tasks/{_segment(task_id)}/artifacts/{_segment(name)}"
        answer = await self._transport.call("GET", path, give_up=self._give_up, raw=True)
        assert isinstance(answer.body, bytes)
        return answer.body

    async def cancel(self, task_id: str, *, grace: Seconds = 0, reason: str | None = None) -> Task:
        """Ends a task that nobody wants any more; a running one gets ``grace`` to end by itself.

        An admin's token is needed on servers that do not have the producer's route yet.
        """
        body = wire.compact({"graceSeconds": wire.whole_seconds(grace), "reason": reason})
        try:
            answer = await self._call("POST", f"/tasks/{_segment(task_id)}/cancel", body)
        except Refused as error:
            if error.code not in {"route_not_found", "method_not_allowed"}:
                raise
            answer = await self._call("POST", f"/admin/tasks/{_segment(task_id)}/cancel", body)
        return Task.of(self, answer.body.get("task", answer.body))

    async def put_schedule(
        self,
        name: str,
        command: str,
        payload: Any,
        *,
        cron: str | None = None,
        every: Seconds | None = None,
        anchor: datetime | None = None,
        timezone: str | None = None,
        overlap: Literal["skip", "allow", "cancel"] | None = None,
        catch_up: Literal["none", "one", "all"] | None = None,
        catch_up_window: Seconds | None = None,
        jitter: Seconds | None = None,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        paused: bool | None = None,
        **options: Unpack[CreateOptions],
    ) -> dict[str, Any]:
        """Creates or replaces a schedule: ``cron`` or ``every``, exactly one of both."""
        task = create_body(command, payload, options)
        del task["idempotencyKey"]
        body = wire.compact(
            {
                "cron": cron,
                "everySeconds": None if every is None else wire.whole_seconds(every, 1),
                "anchor": None if anchor is None else wire.timestamp(anchor),
                "timezone": timezone,
                "task": task,
                "overlap": overlap,
                "catchUp": catch_up,
                "catchUpWindowSeconds": None if catch_up_window is None else wire.whole_seconds(catch_up_window),
                "jitterSeconds": None if jitter is None else wire.whole_seconds(jitter),
                "startAt": None if start_at is None else wire.timestamp(start_at),
                "endAt": None if end_at is None else wire.timestamp(end_at),
                "paused": paused,
            }
        )
        return await self._object("PUT", f"/schedules/{_segment(name)}", body)

    async def get_schedule(self, name: str) -> dict[str, Any]:
        return await self._object("GET", f"/schedules/{_segment(name)}")

    async def schedules(self) -> AsyncIterator[dict[str, Any]]:
        """All schedules of the tenant."""
        cursor: str | None = None
        while True:
            page = await self._object("GET", "/schedules", query={} if cursor is None else {"cursor": cursor})
            for schedule in page.get("items") or ():
                yield schedule
            cursor = page.get("next")
            if not cursor:
                return

    async def delete_schedule(self, name: str) -> None:
        await self._call("DELETE", f"/schedules/{_segment(name)}")

    async def trigger_schedule(self, name: str) -> Task:
        """Makes the task of a schedule now, besides its plan. Not repeated once it may have been done."""
        answer = await self._call("POST", f"/schedules/{_segment(name)}/trigger", {}, is_safe=False)
        return Task.of(self, answer.body)

    async def pause_schedule(self, name: str, note: str | None = None) -> None:
        await self._call("POST", f"/schedules/{_segment(name)}/pause", wire.compact({"note": note}))

    async def resume_schedule(self, name: str) -> None:
        await self._call("POST", f"/schedules/{_segment(name)}/resume", {})

    async def next_ticks(self, name: str, count: int = 10) -> dict[str, Any]:
        return await self._object("GET", f"/schedules/{_segment(name)}/next", query={"count": count})

    async def backfill_schedule(self, name: str, start: datetime, end: datetime) -> dict[str, Any]:
        """Makes the tasks of the ticks from ``start`` up to but without ``end``."""
        body = {"from": wire.timestamp(start), "to": wire.timestamp(end)}
        return await self._object("POST", f"/schedules/{_segment(name)}/backfill", body, is_safe=False)

    async def create_batch(
        self,
        name: str | None = None,
        *,
        close_after: Seconds | None = None,
        then: Sequence[Mapping[str, Any]] = (),
        on_failure: Literal["run", "skip"] | None = None,
    ) -> Batch:
        """Opens a batch; creates join it with ``batch=``. ``then`` are bodies that :func:`codeq.new_task` made; with
        them the call is not repeated once it may have been done.
        """
        body = wire.compact(
            {
                "name": name,
                "closeAfterSeconds": None if close_after is None else wire.whole_seconds(close_after, 1),
                "then": [dict(task) for task in then] or None,
                "onFailure": on_failure,
            }
        )
        answer = await self._call("POST", "/batches", body, is_safe=not then)
        return Batch(answer.body["id"], answer.body, self)

    async def get_batch(self, batch_id: str) -> Batch:
        answer = await self._call("GET", f"/batches/{_segment(batch_id)}")
        return Batch(batch_id, answer.body, self)

    async def _object(self, method: str, path: str, body: Any = None, **how: Any) -> dict[str, Any]:
        answer = await self._call(method, path, body, **how)
        return answer.body if isinstance(answer.body, dict) else {}

    async def _call(self, method: str, path: str, body: Any = None, *, text: str | None = None, **how: Any) -> Answer:
        if text is None and body is not None:
            text = wire.dumps(body)
        return await self._transport.call(method, f"/v1/codeq{path}", text, **{"give_up": self._give_up, **how})


def new_task(command: str, payload: Any, **options: Unpack[CreateOptions]) -> dict[str, Any]:
    """The body of a create, for :meth:`Client.create_all` and ``then`` of a batch."""
    return create_body(command, payload, options)


def _segment(text: str) -> str:
    return quote(text, safe="")


def _batches(items: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    size = 0
    for item in items:
        length = len(item.encode())
        if batch and (len(batch) == limits.BATCH_ITEMS or size + length > limits.CREATE_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


__all__ = ["Artifact", "Batch", "Client", "Result", "Task", "new_task"]
