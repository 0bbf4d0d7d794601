"""The worker: claims for free slots, runs handlers under a lease, reports, and ends gracefully."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import limits, outcome, wire
from ._version import __version__
from .backoff import Backoff
from .context import Context, ContextBase, SyncContext
from .errors import CodeqError, Refused
from .job import Job
from .keeper import GONE, Keeper
from .outcome import Fail, Report, Retry
from .reporter import Reporter, instead, is_final
from .threads import DaemonThreads
from .transport import Absent
from .wire import Seconds

if TYPE_CHECKING:
    from .app import App, TaskDefinition

log = logging.getLogger("codeq")


def default_name() -> str:
    """Host and process, so that an operator finds the process that holds a task."""
    name = re.sub(r"[^!-~]", "-", f"{socket.gethostname()}-{os.getpid()}")
    return name[-limits.WORKER_NAME_CHARACTERS :]


class Worker:
    """Runs the handlers of an :class:`~codeq.App`.

    ``concurrency`` handlers run at once. A task is lent for ``lease`` seconds and kept by heartbeats. ``weights``
    say how often a command is asked for first, relative to the others. At the end handlers have ``grace`` seconds.
    """

    def __init__(
        self,
        app: App,
        *,
        concurrency: int = 16,
        lease: Seconds = 60,
        grace: Seconds = limits.GRACE_SECONDS,
        weights: Mapping[str, int] | None = None,
        name: str | None = None,
        commands: list[str] | None = None,
    ) -> None:
        if not 1 <= concurrency <= limits.CONCURRENCY:
            raise ValueError(f"concurrency is 1 to {limits.CONCURRENCY}")
        if not app.handlers:
            raise ValueError("the app has no task")
        self._app = app
        self._handlers = {key: task for key, task in app.handlers.items() if not commands or task.command in commands}
        self._free = self._concurrency = concurrency
        self._lease = min(max(wire.seconds(lease), limits.LEASE_SECONDS[0]), limits.LEASE_SECONDS[1])
        self._grace = wire.seconds(grace)
        self.name = name or default_name()
        self._claim_body = self._make_claim_body(dict(weights) if weights else None)
        self._jobs: set[Job] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._error: Exception | None = None
        self._signals = 0

    def _make_claim_body(self, weights: dict[str, int] | None) -> dict[str, Any]:
        identity = {
            "host": socket.gethostname()[:128],
            "pid": os.getpid(),
            "sdk": "python",
            "version": __version__,
            "slots": self._concurrency,
        }
        body = {
            "commands": [task.command for task in self._handlers.values()],
            "leaseSeconds": wire.whole_seconds(self._lease, 1),
            "order": "fair",
            "weights": weights,
            "worker": identity,
        }
        return wire.compact(body)

    async def run(self, *, signals: bool = True) -> None:
        """Works until :meth:`stop` is called, or SIGTERM or SIGINT comes. Raises what ends it otherwise."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._slot = asyncio.Event()
        self._transport = self._app.transport(self.name, connections=16)
        self._keeper = Keeper(self._app.transport(self.name, connections=limits.HEARTBEATS_AT_ONCE), self._lease)
        self._claims = self._app.transport(self.name, connections=1)
        self._claims_stop = asyncio.Event()
        self._reporter = Reporter(self._transport)
        self._threads = DaemonThreads()
        if signals:
            self._listen_to_signals()
        self._keeper.start()
        try:
            claims = asyncio.create_task(self._claim_until_stop())
            await self._stop.wait()
            self._keeper.set(self._claims_stop)
            await self._finish(claims)
        finally:
            await asyncio.wrap_future(self._keeper.run(self._claims.close()))
            self._keeper.stop()
            self._threads.stop()
            await self._transport.close()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Claims nothing more and lets :meth:`run` end once the handlers have. Call it on the worker's loop."""
        self._stop.set()

    # -- claims

    async def _claim_until_stop(self) -> None:
        backoff = Backoff()
        while not self._stop.is_set():
            await self._wait_for_slot()
            if self._stop.is_set():
                return
            try:
                count = min(self._free, limits.BATCH_ITEMS)
                jobs = await asyncio.wrap_future(self._keeper.run(self._claim(count)))
                backoff.reset()
            except Absent as absent:
                log.warning("cannot claim, trying again: %s", absent)
                await self._pause(backoff.pause(absent.retry_after))
            except Exception as error:
                # Also what nobody expected: nothing would claim any more, and nobody would know.
                self._error = error
                self._stop.set()
            else:
                for job in jobs:
                    self._start(job)

    async def _wait_for_slot(self) -> None:
        while self._free == 0 and not self._stop.is_set():
            self._slot.clear()
            await _first(self._slot.wait(), self._stop.wait())
        # Slots that get free in the same turn of the loop are claimed for together.
        await asyncio.sleep(0)

    async def _claim(self, count: int) -> list[Job]:
        """What is there now, up to ``count``; if there is nothing, waits a while for one task, or for the stop.

        Runs on the thread of the heartbeats: what comes is kept from then on, also while a handler blocks ours.
        Only the wait is interrupted, and then the server lends nothing to it. The first request is always seen
        through: what it brings must be given back, and not be left to the end of its lease.
        """
        sent = time.monotonic()
        body = wire.dumps({**self._claim_body, "count": count})
        answer = await self._claims.once("POST", "/v1/codeq/tasks/claim/batch", body)
        if answer.status != 204:
            tasks = answer.body.get("tasks") if isinstance(answer.body, dict) else None
            return self._kept(tasks, sent)
        # At most half of a lease, so that one counted from here has the other half left.
        wait, sent = max(1, min(limits.CLAIM_WAIT_SECONDS, int(self._lease / 2))), time.monotonic()
        body = wire.dumps({**self._claim_body, "waitSeconds": wait})
        poll = asyncio.ensure_future(self._claims.once("POST", "/v1/codeq/tasks/claim", body, wait=wait))
        stop = asyncio.ensure_future(self._claims_stop.wait())
        await asyncio.wait({poll, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not poll.done():
            poll.cancel()
            with suppress(asyncio.CancelledError, CodeqError):
                await poll
            return []
        answer = poll.result()
        # Waits are whole seconds: a lease of less than two cannot be counted from before all of it.
        lent = sent if wait <= self._lease / 2 else max(sent, time.monotonic() - self._lease / 2)
        return [] if answer.status == 204 else self._kept([answer.body], lent)

    def _kept(self, tasks: Any, lent: float) -> list[Job]:
        """Jobs of the tasks of an answer. One that is not ours, such as the page of a proxy, is no answer."""
        try:
            jobs = [Job(task, lent, self._lease, self._loop) for task in tasks]
        except (AttributeError, KeyError, TypeError) as error:
            raise Absent("an answer that is not understood") from error
        for job in jobs:
            self._keeper.add(job)
        return jobs

    async def _pause(self, seconds: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    # -- jobs

    def _start(self, job: Job) -> None:
        self._free -= 1
        self._jobs.add(job)
        running = asyncio.create_task(self._work(job))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _work(self, job: Job) -> None:
        try:
            if job.lost.is_set():
                return
            definition = self._handlers.get(job.command.lower())
            if definition is None or self._stop.is_set():
                report = outcome.given_back(job.id, job.attempt)
            else:
                report = await self._run_handler(job, definition)
            if not job.is_lost:
                await self._deliver(report, job)
            _tell(job, report)
        finally:
            self._keeper.remove(job)
            self._jobs.discard(job)
            self._free_slot_of(job)

    def _free_slot_of(self, job: Job) -> None:
        """At once, or when a plain function that nobody waits for any more has returned."""
        call = job.ctx._call if job.ctx else None
        if call is not None and not call.done():
            log.warning("the handler of task %s goes on; its slot is taken until it returns", job.id)
            call.add_done_callback(lambda _: self._free_slot())
        else:
            self._free_slot()

    def _free_slot(self) -> None:
        self._free += 1
        self._slot.set()

    async def _run_handler(self, job: Job, definition: TaskDefinition[Any, Any]) -> Report:
        ctx = self._context(job, definition)
        job.started = time.monotonic()
        handler = asyncio.create_task(self._app.call(definition, ctx, self._threads))
        job.begin(ctx, handler)
        ended = asyncio.create_task(handled(job.id, job.attempt, ctx, handler))
        await _first(ended, job.cut.wait())
        if not ended.done() or ctx.stop_reason == "shutdown":
            return outcome.given_back(job.id, job.attempt)
        return ended.result()

    def _context(self, job: Job, definition: TaskDefinition[Any, Any]) -> ContextBase:
        received = job.lease_until - job.lease
        if definition.is_async:

            async def say(fields: dict[str, Any]) -> None:
                await asyncio.wrap_future(self._keeper.run(self._keeper.say(job, fields)))

            return Context(job.task, received, job.lease, say)

        def say_and_wait(fields: dict[str, Any]) -> None:
            self._keeper.run(self._keeper.say(job, fields)).result()

        return SyncContext(job.task, received, job.lease, say_and_wait)

    async def _deliver(self, report: Report, job: Job) -> None:
        """Reports until there is an answer, or until the lease is lost and it cannot matter any more."""
        backoff, is_unsure = Backoff(), False
        while not job.lost.is_set():
            try:
                return await self._reporter.send(report)
            except Absent as absent:
                log.debug("the report of task %s has no answer yet: %s", report.task_id, absent)
                is_unsure = True
                await _lost_within(job, backoff.pause(absent.retry_after))
            except Refused as error:
                if error.code in GONE:
                    # After an unknown outcome this is our own report that got through.
                    level = logging.DEBUG if is_unsure else logging.INFO
                    return log.log(level, "the report of task %s came too late: %s", report.task_id, error)
                if not is_final(error):
                    log.warning("the report of task %s is not taken, trying again: %s", report.task_id, error)
                    await _lost_within(job, backoff.pause())
                    continue
                other = instead(report, error)
                if other is None:
                    return log.error("the report of task %s was refused: %s", report.task_id, error)
                report = other
        return log.warning("the report of task %s was not answered in time", job.id)

    # -- the end

    def _listen_to_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._loop.add_signal_handler(number, self._on_signal, number)
            except (NotImplementedError, RuntimeError, ValueError):
                with suppress(ValueError):
                    signal.signal(number, lambda n, _: self._loop.call_soon_threadsafe(self._on_signal, n))

    def _on_signal(self, number: int) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)
        log.info("stopping: %d tasks in hand", len(self._jobs))
        self.stop()

    async def _finish(self, claims: asyncio.Task[None]) -> None:
        """Handlers have the grace; then they are cancelled, and what is left is given back at no cost.

        The last claim is seen through, but a server that does not answer it takes nothing of the grace.
        """
        end = time.monotonic() + self._grace
        await asyncio.wait({claims}, timeout=self._grace)
        claims.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=max(0.0, end - time.monotonic()))
        for job in list(self._jobs):
            job.shut_down()
        if self._running:
            await asyncio.wait(self._running, timeout=limits.CANCEL_SECONDS + limits.LAST_REPORTS_SECONDS)
        for running in self._running:
            running.cancel()


async def handled(task_id: str, attempt: int, ctx: ContextBase, handler: asyncio.Future[Any]) -> Report:
    """What the end of a handler means."""
    try:
        await asyncio.wait({handler})
        value = handler.result()
        return outcome.completed(task_id, attempt, value, ctx.artifacts)
    except Fail as fail:
        return outcome.failed(task_id, attempt, str(fail) or "failed", ctx.artifacts)
    except Retry as retry:
        return outcome.retried(task_id, attempt, retry)
    except asyncio.CancelledError as error:
        if not handler.cancelled():
            raise
        return outcome.raised(task_id, attempt, error)
    except BaseException as error:
        log.warning("task %s raised", task_id, exc_info=error)
        return outcome.raised(task_id, attempt, error)


async def _lost_within(job: Job, seconds: float) -> None:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(job.lost.wait(), seconds)


def _tell(job: Job, report: Report) -> None:
    """One line per outcome."""
    if not log.isEnabledFor(logging.INFO):
        return
    how = "dropped" if job.is_lost else report.outcome
    took = time.monotonic() - job.started
    fields = {"task": job.id, "command": job.command, "attempt": job.attempt, "outcome": how, "seconds": took}
    log.info(
        "%s %s attempt %d %s after %.3f s",
        job.command,
        job.id,
        job.attempt,
        how,
        took,
        extra={"codeq": fields},
    )


async def _first(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
