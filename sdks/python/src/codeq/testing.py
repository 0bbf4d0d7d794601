"""Tests without a server, and tests with one.

:class:`InlineQueue` runs the handlers of an app in this process. :class:`DevServer` starts ``codeq dev`` on a free
port; its clock can be moved if the server knows ``--test-clock``. ``pytest`` users have both as fixtures:
``codeq_server`` and ``codeq_clock_server``.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import os
import shutil
import subprocess
import sysconfig
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from . import wire
from .client import Client, Result, Task
from .context import Context, ContextBase, SyncContext
from .errors import CodeqError, NotFinished, Refused, TaskNotFound
from .outcome import Report
from .threads import DaemonThreads
from .wire import Seconds
from .worker import handled

if TYPE_CHECKING:
    from typing_extensions import Self

    from .app import App

#: What the server does if a create does not say.
_MAX_ATTEMPTS = 5
#: How long a server may take to start or to end.
_START_SECONDS = 30.0


@dataclass
class InlineTask:
    """A task of an inline queue and what became of it."""

    id: str
    command: str
    payload: Any
    options: Mapping[str, Any]
    status: str = "PENDING"
    attempts: int = 0
    refunds: int = 0
    result: dict[str, Any] | None = None
    error: str = ""
    failure_reason: str | None = None
    progress: list[Any] = field(default_factory=list)
    checkpoint: Any = None
    artifacts: list[dict[str, Any]] = field(default_factory=list)

    def raw(self) -> dict[str, Any]:
        fields = {"id": self.id, "command": self.command, "status": self.status, "attempts": self.attempts}
        more = {name: self.options.get(name) for name in ("headers", "lane", "priority")}
        return wire.compact({**fields, **more, "payload": wire.dumps(self.payload), "checkpoint": self.checkpoint})


class InlineQueue(Client):
    """The handlers of an app, run in this process by :meth:`drain`. Time stands still unless :meth:`advance` moves it.

    While it is entered, the app's creates go to it. Retries wait for the delay that the handler asked for, others
    for nothing, so ``drain`` sees a task through to its end.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._now = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, int, InlineTask]] = []
        self._keys: dict[tuple[str, str], InlineTask] = {}
        self.tasks: dict[str, InlineTask] = {}

    async def __aenter__(self) -> Self:
        self._app._inline = self
        self._threads = DaemonThreads()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app._inline = None
        self._threads.stop()

    async def create_all(self, bodies: Sequence[Mapping[str, Any]]) -> list[Task | Refused]:
        return [self._create(body) for body in bodies]

    async def create(self, command: str, payload: Any, **options: Any) -> Task:
        made = await self.create_many(command, [payload], **options)
        if isinstance(made[0], Refused):
            raise made[0]
        return made[0]

    def _create(self, body: Mapping[str, Any]) -> Task:
        key = (body["command"].lower(), body["idempotencyKey"])
        held = self._keys.get(key)
        if held is None:
            payload = json.loads(wire.dumps(body["payload"]))
            held = InlineTask(str(uuid.uuid4()), body["command"], payload, body)
            self._keys[key] = self.tasks[held.id] = held
            self._put(held, self._delay(body))
            return Task.of(self, held.raw())
        return Task.of(self, held.raw(), True)

    def _delay(self, body: Mapping[str, Any]) -> float:
        run_at = wire.parse_timestamp(body.get("runAt"))
        if run_at is not None:
            return max(0.0, (run_at - datetime.now(timezone.utc)).total_seconds())
        return float(body.get("delaySeconds", 0))

    def _put(self, task: InlineTask, delay: float) -> None:
        heapq.heappush(self._due, (self._now + delay, -int(task.options.get("priority", 0)), next(self._order), task))

    async def drain(self) -> int:
        """Runs everything that is due, also what that creates, until nothing is left. How many attempts that was."""
        count = 0
        while self._due and self._due[0][0] <= self._now:
            task = heapq.heappop(self._due)[3]
            if task.status == "PENDING":
                await self._attempt(task)
                count += 1
        return count

    async def advance(self, span: Seconds) -> int:
        """Moves the clock and runs what falls due, in order of time."""
        end, count = self._now + wire.seconds(span), 0
        while self._due and self._due[0][0] <= end:
            self._now = max(self._now, self._due[0][0])
            count += await self.drain()
        self._now = end
        return count

    async def _attempt(self, task: InlineTask) -> None:
        definition = self._app.handlers.get(task.command.lower())
        if definition is None:
            raise CodeqError(f"{task.command} has no handler")
        task.attempts += 1
        ctx = self._context(task, definition.is_async)
        call = asyncio.ensure_future(self._app.call(definition, ctx, self._threads))
        self._end(task, await handled(task.id, task.attempts, ctx, call))

    def _context(self, task: InlineTask, is_async: bool) -> ContextBase:
        def note(fields: dict[str, Any]) -> None:
            task.checkpoint = fields.get("checkpoint", task.checkpoint)
            task.progress += [fields["progress"]] if "progress" in fields else []

        async def say(fields: dict[str, Any]) -> None:
            note(fields)

        now = time.monotonic()
        return Context(task.raw(), now, 60.0, say) if is_async else SyncContext(task.raw(), now, 60.0, note)

    def _end(self, task: InlineTask, report: Report) -> None:
        if report.verb == "result":
            # What JSON cannot say is a failure here as it is on a server.
            body = json.loads(wire.dumps(report.body))
            task.status, task.result = body["status"], body.get("result")
            task.error, task.artifacts = body.get("error", ""), list(body.get("artifacts", ()))
            return
        task.error = str(report.body.get("reason", ""))
        task.refunds += 1 if "hold" in report.body else 0
        limit = int(task.options.get("maxAttempts") or _MAX_ATTEMPTS)
        if task.attempts - task.refunds >= limit:
            task.status, task.failure_reason = "FAILED", "MAX_ATTEMPTS"
        else:
            self._put(task, float(report.body.get("delaySeconds", 0)))

    async def get(self, task_id: str) -> Task:
        return Task.of(self, self._known(task_id).raw())

    async def wait(self, task_id: str, timeout: Seconds = 60) -> Result:
        """Runs what is due and answers if that ended the task."""
        await self.drain()
        task = self._known(task_id)
        if task.status == "PENDING":
            raise NotFinished(f"task {task_id} has not ended")
        raw = {"taskId": task.id, "status": task.status, "result": task.result, "error": task.error}
        return Result.of({**raw, "failureReason": task.failure_reason})

    async def cancel(self, task_id: str, *, grace: Seconds = 0, reason: str | None = None) -> Task:
        task = self._known(task_id)
        if task.status == "PENDING":
            task.status, task.failure_reason = "FAILED", "CANCELLED"
            task.error = f"CANCELLED: {reason}" if reason else "CANCELLED"
        return Task.of(self, task.raw())

    async def close(self) -> None:
        pass

    def completed(self, command: str | None = None) -> list[InlineTask]:
        return self._with("COMPLETED", command)

    def failed(self, command: str | None = None) -> list[InlineTask]:
        return self._with("FAILED", command)

    def pending(self, command: str | None = None) -> list[InlineTask]:
        return self._with("PENDING", command)

    def _with(self, status: str, command: str | None) -> list[InlineTask]:
        return [task for task in self.tasks.values() if task.status == status and command in (None, task.command)]

    def _known(self, task_id: str) -> InlineTask:
        if task_id not in self.tasks:
            raise TaskNotFound(404, "task_not_found", "not found")
        return self.tasks[task_id]


def find_binary() -> str:
    """The server: ``CODEQ_BIN``, the package ``codeq-cli`` beside this Python, or ``codeq`` on the PATH."""
    # A virtual environment need not be activated, and then its scripts are not on the PATH.
    beside = shutil.which("codeq", path=sysconfig.get_path("scripts"))
    found = os.environ.get("CODEQ_BIN") or beside or shutil.which("codeq")
    if not found:
        raise CodeqError("no codeq binary: pip install codeq-cli, or set CODEQ_BIN")
    return found


class DevServer:
    """``codeq dev`` on a free port, for the length of a ``with`` block. Keeps nothing unless ``data_dir`` is given."""

    token = "dev-token"

    def __init__(self, *, test_clock: bool = False, data_dir: str | Path | None = None) -> None:
        self._arguments = ["dev", "--port", "0"]
        self._arguments += ["--test-clock"] if test_clock else [] if data_dir else ["--memory"]
        self._arguments += [] if data_dir is None else ["--data-dir", str(data_dir)]
        self.url = ""

    def __enter__(self) -> Self:
        self._scratch = TemporaryDirectory(prefix="codeq-")
        command = [find_binary(), *self._arguments]
        self._process = subprocess.Popen(
            command, cwd=self._scratch.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:
            said.append(line)
            if "listening on " in line:
                self.url = line.split("listening on ")[1].strip()
                # Whatever it says from now on must not fill the pipe.
                threading.Thread(target=self._process.stdout.read, daemon=True).start()
                return self
        self._process.wait(_START_SECONDS)
        self._scratch.cleanup()
        raise CodeqError("codeq dev did not start: " + "".join(said[-20:]))

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._scratch.cleanup()

    def advance(self, span: Seconds) -> None:
        """Moves the clock of a server with ``test_clock`` and waits until everything that fell due has happened."""
        answer = httpx.post(
            f"{self.url}/v1/codeq/test/clock",
            json={"advanceSeconds": wire.whole_seconds(span)},
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=_START_SECONDS,
        )
        answer.raise_for_status()


__all__ = ["DevServer", "InlineQueue", "InlineTask", "find_binary"]
