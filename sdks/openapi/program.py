"""A task from start to end over the client that openapi-python-client makes of /openapi.json.

Type-checked by `mypy --strict` before it runs: a payload and a result are plain JSON, and every call has its type.
"""

import io
import json
import sys
from collections.abc import Mapping
from http import HTTPStatus

from codeq_api.api.admin import export_tasks, import_tasks
from codeq_api.api.produce import create_task, create_tasks
from codeq_api.api.read import get_result
from codeq_api.api.work import claim_task, claim_tasks, submit_result, submit_results
from codeq_api.client import AuthenticatedClient
from codeq_api.models import (
    Claim,
    ClaimBatch,
    ClaimBatchAnswer,
    CreateTask,
    CreateTasks,
    CreateTasksAnswer,
    ImportAnswer,
    ResultRecord,
    SubmitItem,
    SubmitResult,
    SubmitResults,
    SubmitResultsAnswer,
    Task,
    TaskResult,
)
from codeq_api.models.submit_item_status import SubmitItemStatus
from codeq_api.models.submit_result_status import SubmitResultStatus
from codeq_api.types import File, Unset


def finish_one(client: AuthenticatedClient) -> None:
    created = create_task.sync(client=client, body=CreateTask(command="generated", payload={"n": 1}))
    assert isinstance(created, Task), created

    claimed = claim_task.sync(client=client, body=Claim(commands=["generated"], wait_seconds=5))
    assert isinstance(claimed, Task) and claimed.id == created.id, claimed
    assert isinstance(claimed.payload, str) and json.loads(claimed.payload) == {"n": 1}

    report = SubmitResult(
        status=SubmitResultStatus.COMPLETED, result={"ok": True}, attempt=attempt_of(claimed)
    )
    ended = submit_result.sync(id=str(claimed.id), client=client, body=report)
    assert isinstance(ended, ResultRecord), ended

    read = get_result.sync(id=str(created.id), client=client, wait_seconds=5)
    assert isinstance(read, TaskResult) and not isinstance(read.result.result, Unset)
    assert fields(read.result.result.to_dict()) == {"ok": True}


def finish_batch(client: AuthenticatedClient) -> None:
    tasks = [CreateTask(command="generated", payload=n) for n in range(3)]
    created = create_tasks.sync(client=client, body=CreateTasks(tasks=tasks))
    assert isinstance(created, CreateTasksAnswer) and len(created.results) == 3, created

    claimed = claim_tasks.sync(client=client, body=ClaimBatch(count=10, commands=["generated"]))
    assert isinstance(claimed, ClaimBatchAnswer) and len(claimed.tasks) == 3, claimed

    reports = [
        SubmitItem(task_id=str(task.id), status=SubmitItemStatus.FAILED, error="no", attempt=attempt_of(task))
        for task in claimed.tasks
    ]
    ended = submit_results.sync(client=client, body=SubmitResults(results=reports))
    assert isinstance(ended, SubmitResultsAnswer) and len(ended.results) == 3, ended


def move(client: AuthenticatedClient) -> None:
    kept = create_task.sync(client=client, body=CreateTask(command="moved", payload=["a", None]))
    assert isinstance(kept, Task)
    exported = export_tasks.sync_detailed(client=client, command="moved")
    assert exported.status_code == HTTPStatus.OK
    taken = import_tasks.sync(client=client, body=File(payload=io.BytesIO(exported.content)))
    assert isinstance(taken, ImportAnswer) and taken.existing == 1 and taken.refused == [], taken


def attempt_of(task: Task) -> int:
    assert isinstance(task.attempts, int)
    return task.attempts


def fields(value: Mapping[str, object]) -> dict[str, object]:
    return dict(value)


def main(url: str) -> None:
    client = AuthenticatedClient(base_url=url, token="dev-token")
    finish_one(client)
    finish_batch(client)
    move(client)


main(sys.argv[1])
