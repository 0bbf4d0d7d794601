"""Heartbeats and claims, in a thread of their own, so that a handler that blocks cannot keep them back."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import quote

from . import limits, wire
from .errors import CodeqError, Refused
from .job import Job
from .transport import Absent, Transport

log = logging.getLogger("codeq")
T = TypeVar("T")

#: Refusals of a report that mean: the task has moved on, drop it.
GONE = frozenset({"task_not_found", "lease_lost", "not_in_progress", "cancelled", "not_owner"})


class Keeper:
    """Extends the leases of jobs after a third of their length, and tells jobs that lost theirs."""

    def __init__(self, transport: Transport, lease: float) -> None:
        self._transport = transport
        self._tick = lease / 12
        self._jobs: dict[Job, None] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="codeq-heartbeats", daemon=True)
        self._ended = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def add(self, job: Job) -> None:
        self._jobs[job] = None

    def remove(self, job: Job) -> None:
        self._jobs.pop(job, None)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs something on the thread of the heartbeats."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def set(self, event: asyncio.Event) -> None:
        """Sets an event that something on the thread of the heartbeats waits for."""
        self._loop.call_soon_threadsafe(event.set)

    async def say(self, job: Job, fields: dict[str, Any]) -> None:
        """A heartbeat that carries something. Repeated while the lease lives."""
        give_up = max(0.1, job.lease_until - time.monotonic())
        sent = time.monotonic()
        try:
            answer = await self._transport.call("POST", _path(job), _body(job, fields), give_up=give_up)
        except Refused as error:
            if error.code in GONE:
                job.lose()
            raise
        self._kept(job, sent, answer.body)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._keep())
        self._loop.close()

    async def _keep(self) -> None:
        at_once = asyncio.Semaphore(limits.HEARTBEATS_AT_ONCE)
        under_way: set[asyncio.Task[None]] = set()
        while not self._ended.is_set():
            now = time.monotonic()
            for job in list(self._jobs):
                if now >= job.lease_until:
                    log.warning("lease of task %s ended before a heartbeat got through", job.id)
                    self.remove(job)
                    job.lose()
                elif now >= job.next_beat and not job.is_beating:
                    job.is_beating = True
                    beat = asyncio.create_task(self._beat(job, at_once))
                    under_way.add(beat)
                    beat.add_done_callback(under_way.discard)
            await asyncio.sleep(self._tick)
        await self._transport.close()

    async def _beat(self, job: Job, at_once: asyncio.Semaphore) -> None:
        try:
            async with at_once:
                if job not in self._jobs:
                    return
                sent = time.monotonic()
                # One that hangs must leave time for another.
                timeout = min(limits.REQUEST_SECONDS, max(1.0, job.lease / 3))
                answer = await self._transport.once("POST", _path(job), _body(job, {}), timeout=timeout)
                self._kept(job, sent, answer.body)
        except Absent as absent:
            job.next_beat = time.monotonic() + min(self._tick, absent.retry_after or self._tick)
        except Refused as error:
            self._refused(job, error)
        except CodeqError as error:
            log.warning("heartbeat of task %s: %s", job.id, error)
        finally:
            job.is_beating = False

    def _kept(self, job: Job, sent: float, body: Any) -> None:
        job.extended(sent)
        cancel = body.get("cancel") if isinstance(body, dict) else None
        if isinstance(cancel, dict):
            job.request_cancel(cancel)

    def _refused(self, job: Job, error: Refused) -> None:
        if error.code in GONE:
            if job in self._jobs:
                log.info("task %s is not ours any more: %s", job.id, error)
                self.remove(job)
                job.lose()
        else:
            # A token may be replaced, a scope granted, before the lease is over.
            log.error("heartbeat of task %s: %s", job.id, error)
            job.next_beat = time.monotonic() + self._tick


def _path(job: Job) -> str:
    return f"/v1/codeq/tasks/{quote(job.id, safe='')}/heartbeat"


def _body(job: Job, fields: dict[str, Any]) -> str:
    return wire.dumps({"extendSeconds": wire.whole_seconds(job.lease, 1), "attempt": job.attempt, **fields})
