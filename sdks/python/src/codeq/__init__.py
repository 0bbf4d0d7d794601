"""Producers and workers for codeQ, the durable task queue.

Start with :class:`App` and its :meth:`~App.task` decorator; :class:`Client` and :class:`SyncClient` are producers
without handlers.
"""

from . import errors
from ._version import __version__
from .app import App, Middleware, TaskDefinition
from .client import Artifact, Batch, Client, Result, Task, new_task
from .context import Context, ContextBase, SyncContext
from .errors import CodeqError, NotFinished, Refused, TaskFailed, Unavailable
from .options import CreateOptions, Unique
from .outcome import Fail, Retry
from .payload import PayloadError
from .sync import SyncClient, SyncTask
from .transport import Token
from .worker import Worker

__all__ = [
    "App",
    "Artifact",
    "Batch",
    "Client",
    "CodeqError",
    "Context",
    "ContextBase",
    "CreateOptions",
    "Fail",
    "Middleware",
    "NotFinished",
    "PayloadError",
    "Refused",
    "Result",
    "Retry",
    "SyncClient",
    "SyncContext",
    "SyncTask",
    "Task",
    "TaskDefinition",
    "TaskFailed",
    "Token",
    "Unavailable",
    "Unique",
    "Worker",
    "__version__",
    "errors",
    "new_task",
]
