"""Runs the scenarios of sdks/scenarios with the runners of every language against real servers.

usage: exam.py --server BINARY [--languages python,typescript,go,go-stream,rust] [--store embedded|kvrocks] [--short] [NAME ...]

A scenario is a list of steps: a server is started, workers and producers run as processes of their own, things are
killed and cut, and then the server is asked what became of the tasks. A runner has two modes, `worker FILE` and
`produce FILE`; the file says what to do. Handlers do what the payload says and write a line when they start and end.
`go-stream` is Go whose workers and creates go over streams. A scenario that `needs` a route is left out while openapi.json does not describe it.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from cutter import Cutter
from receiver import SECRET, Receiver

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
#: How long anything that must happen may take; machines that build beside us are slow.
PATIENCE = 60.0
TOKEN = "dev-token"


def runner(language: str) -> list[str]:
    commands = {
        "python": [sys.executable, str(HERE / "runner.py")],
        "typescript": ["node", str(HERE / "runner.mjs")],
        "go": [str(REPOSITORY / "target/sdks/exam-go")],
        "go-stream": [str(REPOSITORY / "target/sdks/exam-go")],
        "rust": [str(Path(os.environ.get("CODEQ_BIN", REPOSITORY / "target/debug/codeq")).parent / "examples/exam")],
    }
    return commands[language]


class Exam:
    """One scenario in one language."""

    def __init__(self, scenario: dict[str, Any], language: str, options: argparse.Namespace, scratch: Path) -> None:
        self.scenario, self.language, self.scratch = scenario, language, scratch
        self.binary, self.store = str(Path(options.server).resolve()), options.store
        self.log = scratch / "handlers.log"
        self.log.touch()
        self.processes: list[subprocess.Popen[str]] = []
        self.workers: list[subprocess.Popen[str]] = []
        self.server: subprocess.Popen[str] | None = None
        self.url = self.way = ""
        self.port = 0
        self.redis_address = ""
        self.made: list[dict[str, Any]] = []
        self.receiver: Receiver | None = None
        self.works = 0
        names = ("worker", "producer") if language == "go-stream" else ()
        self.streams = {name: f"127.0.0.1:{free_port()}" for name in names}

    def run(self) -> None:
        try:
            for step in self.scenario["steps"]:
                ((verb, argument),) = step.items()
                getattr(self, f"step_{verb}")(argument)
        finally:
            for process in [*self.workers, *self.processes]:
                process.kill()
                process.wait()
            if self.receiver is not None:
                self.receiver.close()

    # -- what a scenario can do

    def step_serve(self, options: dict[str, Any]) -> None:
        environment = {**os.environ, "WEBHOOK_HMAC_SECRET": SECRET}
        environment |= {f"{name.upper()}_STREAM_ADDR": address for name, address in self.streams.items()}
        environment |= {name: str(value) for name, value in options.get("environment", {}).items()}
        if self.store == "kvrocks":
            place = []
            environment |= {"CODEQ_PERSISTENCE_PROVIDER": "redis", "CODEQ_PERSISTENCE_CONFIG_ADDR": self.redis()}
        else:
            kept = ["--data-dir", str(self.scratch / "data")]
            place = {"disk": kept, "memory": ["--memory"], "clock": ["--test-clock"]}[options["store"]]
        command = [self.binary, "dev", "--port", str(self.port), *place]
        output = open(self.scratch / "server.log", "a+")  # noqa: SIM115 it lives as long as the process
        start = output.tell()
        self.server = subprocess.Popen(
            command, cwd=self.scratch, stdout=output, stderr=output, text=True, env=environment
        )
        self.processes.append(self.server)

        def listening() -> bool:
            output.seek(start)
            said = output.read()
            assert self.server is not None and self.server.poll() is None, said
            if "listening on http" in said:
                self.url = self.way = said.split("listening on ")[1].split()[0]
            return bool(self.url) and "listening on http" in said

        until(listening, "the server listens")
        self.port = int(self.url.rsplit(":", 1)[1])
        self.serving = options

    def redis(self) -> str:
        """The store's server, which outlives ours."""
        if not self.redis_address:
            port = free_port()
            command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(self.scratch)]
            self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True))
            until(lambda: connects(port), "redis-server listens")
            self.redis_address = f"127.0.0.1:{port}"
        return self.redis_address

    def step_receive(self, options: dict[str, Any]) -> None:
        self.receiver = Receiver(options["refuse"])

    def step_cut(self, options: dict[str, Any]) -> None:
        self.way = Cutter(self.url, options["when"], options["times"]).url

    def step_work(self, options: dict[str, Any]) -> None:
        file = self.order({"log": str(self.log), "worker": self.works, **options})
        self.works += 1
        output = open(self.scratch / "worker.log", "a")  # noqa: SIM115 it lives as long as the process
        worker = subprocess.Popen([*runner(self.language), "worker", file], stdout=output, stderr=output, text=True)
        self.workers.append(worker)

    def step_pause(self, seconds: float) -> None:
        """Lets time pass that the scenario is about, such as a claim that waits longer than a lease."""
        time.sleep(seconds)

    def step_produce(self, options: dict[str, Any]) -> None:
        creates = [one for part in options["tasks"] for one in [part] * part.get("times", 1)]
        creates = [{**one, "payloadText": json.dumps(one["payload"])} for one in creates]
        for one in creates:
            if one.pop("webhook", False):
                assert self.receiver is not None
                one["webhook"] = self.receiver.url
        more = {"tokens": options["tokens"]} if "tokens" in options else {}
        made = self.produce({"tasks": creates, "many": options.get("many", False), **more})
        assert len(made) == len(creates), f"{len(made)} answers to {len(creates)} creates"
        self.made += made

    def step_batch(self, options: dict[str, Any]) -> None:
        """Members, closed, and a task after them."""
        members = [options["members"]["payload"]] * options["members"]["times"]
        self.made += self.produce({"batch": {"members": members, "then": options["then"]}})

    def step_schedule(self, options: dict[str, Any]) -> None:
        self.produce({"schedule": options})

    def step_advance(self, seconds: int) -> None:
        self.ask("POST", "/test/clock", {"advanceSeconds": seconds})

    def produce(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        command = [*runner(self.language), "produce", self.order({"tasks": [], "many": False, **order})]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def step_started(self, count: int) -> None:
        until(lambda: len(self.events("start")) >= count, f"{count} handlers started")

    def step_kill(self, who: str) -> None:
        process = self.server if who == "server" else self.workers.pop()
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.wait()

    def step_restart(self, _: object) -> None:
        self.step_serve(self.serving)

    def step_stop(self, options: dict[str, Any]) -> None:
        worker = self.workers.pop()
        worker.send_signal(signal.SIGTERM)
        code = worker.wait(options.get("within", PATIENCE))
        assert code == 0, f"the worker ended with {code}"

    def step_cancel(self, asked: int | dict[str, Any]) -> None:
        """By an operator at once, or by the SDK with grace."""
        if isinstance(asked, int):
            self.ask("POST", f"/admin/tasks/{self.made[asked]['id']}/cancel")
            return
        ids = [self.made[index]["id"] for index in asked["tasks"]]
        self.produce({"cancel": {"ids": ids, "grace": asked["grace"], "reason": asked["reason"]}})

    def step_expect(self, wanted: dict[str, Any]) -> None:
        for index, fields in wanted.get("tasks", {}).items():
            self.expect_task(self.made[index], fields)
        if "all" in wanted:
            self.expect_all(wanted["all"])
        if "refusals" in wanted:
            assert [one.get("code") for one in self.made] == wanted["refusals"], self.made
            assert all(one.get("type") for one in self.made), self.made
        if "distinct" in wanted:
            assert len({made["id"] for made in self.made}) == wanted["distinct"], "other ids than expected"
        if "queued" in wanted:
            stats = self.ask("GET", "/admin/queues/exam")
            assert {name: stats[name] for name in wanted["queued"]} == wanted["queued"], stats
        if "starts" in wanted:
            assert len(self.events("start")) == wanted["starts"], f"{len(self.events('start'))} starts"
        if "starters" in wanted:
            assert [one["worker"] for one in self.events("start")] == wanted["starters"], self.events("start")
        if "callbacks" in wanted:
            self.expect_callbacks(wanted["callbacks"], wanted["deliveries"])
        if "lastStart" in wanted:
            assert self.events("start")[-1]["task"] == self.made[wanted["lastStart"]]["id"], "another task was last"
        if "listed" in wanted:
            count, status = wanted["listed"]["count"], wanted["listed"]["status"]
            until(lambda: [one["status"] for one in self.listed().values()] == [status] * count, f"{count} {status}")
        if "mostAtOnce" in wanted:
            assert self.most_at_once() == wanted["mostAtOnce"], f"{self.most_at_once()} at once"
        if "stopped" in wanted:
            until(lambda: len(self.events("stopped")) == wanted["stopped"], "the handlers saw their signal")

    # -- what it needs for that

    def order(self, fields: dict[str, Any]) -> str:
        tokens = fields.pop("tokens", [TOKEN])
        path = self.scratch / f"order-{time.monotonic_ns()}.json"
        path.write_text(json.dumps({"url": self.way, "streams": self.streams, "tokens": tokens, **fields}))
        return str(path)

    def expect_task(self, made: dict[str, Any], wanted: dict[str, Any]) -> None:
        assert "id" in made, made
        if wanted.get("status") in ("COMPLETED", "FAILED"):
            until(
                lambda: self.ask("GET", f"/tasks/{made['id']}")["status"] == wanted["status"], f"{made['id']} {wanted}"
            )
        if "progress" in wanted:
            until(lambda: "progress" in self.ask("GET", f"/tasks/{made['id']}"), f"{made['id']} tells its progress")
        task = self.ask("GET", f"/tasks/{made['id']}")
        got = {"refunds": 0, "attempts": 0, **task}
        if "result" in wanted or "failureReason" in wanted:
            got = {**got, **self.ask("GET", f"/tasks/{made['id']}/result")["result"]}
        for name, value in wanted.items():
            assert got.get(name) == value, f"{name} is {got.get(name)!r}, not {value!r}, of {got}"

    def expect_all(self, wanted: dict[str, Any]) -> None:
        """As expect_task for every task that was made, by listing them."""

        def others() -> list[dict[str, Any]]:
            tasks = self.listed()
            assert all("id" in made for made in self.made), self.made
            all_made = [{"refunds": 0, "attempts": 0, **tasks[made["id"]]} for made in self.made]
            return [task for task in all_made if any(task.get(name) != value for name, value in wanted.items())]

        until(lambda: not others(), f"every task is {wanted}")

    def expect_callbacks(self, wanted: dict[int, dict[str, Any]], deliveries: int) -> None:
        """One per task with a webhook, signed; what was refused came again under the id it had."""
        receiver = self.receiver
        assert receiver is not None
        until(lambda: len(receiver.taken) >= len(wanted), f"{len(wanted)} callbacks arrive")
        got = {body["taskId"]: body for body in receiver.taken.values()}
        assert set(got) == {self.made[index]["id"] for index in wanted}, got
        for index, fields in wanted.items():
            body = got[self.made[index]["id"]]
            assert {name: body[name] for name in fields} == fields, body
        assert not receiver.faults, receiver.faults
        assert receiver.refused <= set(receiver.taken), "a refused callback came back under another id"
        assert receiver.deliveries == deliveries, f"{receiver.deliveries} deliveries"

    def listed(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        cursor = ""
        while True:
            page = self.ask("GET", f"/admin/tasks?command=exam&limit=500{cursor}")
            found.update({task["id"]: task for task in page["items"]})
            if not page.get("next"):
                return found
            cursor = f"&cursor={page['next']}"

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["event"] == kind]

    def most_at_once(self) -> int:
        now = most = 0
        for line in self.log.read_text().splitlines():
            now += {"start": 1, "end": -1}.get(json.loads(line)["event"], 0)
            most = max(most, now)
        return most

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        url = f"{self.url}/v1/codeq{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, method=method, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def until(holds: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"not in {PATIENCE} s: {what}"
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=str(REPOSITORY / "target/debug/codeq"))
    parser.add_argument("--languages", default="python,typescript,go,go-stream,rust")
    parser.add_argument("--store", default="embedded", choices=["embedded", "kvrocks"])
    parser.add_argument("--short", action="store_true", help="only the scenarios marked as short")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    scenarios = [yaml.safe_load(path.read_text()) for path in sorted((HERE.parent / "scenarios").glob("*.yaml"))]
    known = {scenario["name"] for scenario in scenarios}
    if unknown := set(options.names) - known:
        sys.exit(f"no such scenario: {', '.join(sorted(unknown))}")
    routes = (REPOSITORY / "crates/api/openapi.json").read_text()
    chosen = [
        one
        for one in scenarios
        if (one["name"] in options.names or not options.names)
        and (one["short"] or not options.short)
        and options.store in one.get("stores", [options.store])
        and one.get("needs", "") in routes
    ]
    failures = 0
    for language in options.languages.split(","):
        for scenario in chosen:
            started = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="codeq-exam-") as scratch:
                try:
                    Exam(scenario, language, options, Path(scratch)).run()
                    outcome = "passed"
                except (AssertionError, subprocess.SubprocessError, urllib.error.URLError) as error:
                    failures += 1
                    outcome = f"FAILED: {error!r}"
                    for name in ("worker.log", "server.log"):
                        log = Path(scratch) / name
                        outcome += f"\n--- {name}\n{log.read_text()[-2000:]}" if log.exists() else ""
            print(f"{language:<11} {scenario['name']:<42} {time.monotonic() - started:6.1f} s  {outcome}", flush=True)
    if failures:
        sys.exit(f"{failures} scenarios failed")


main()
