"""Runs the examples of the SDKs against a real server: email, images with artifacts, an API with a limit, cron, a batch.

usage: examples.py --server BINARY [LANGUAGE ...]

The mail server and the API are ours: the first one refuses a mail for good, the second one asks for a pause once. The
examples in TypeScript are those that its tests have compiled.
"""

import argparse
import http.server
import json
import os
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
#: How long anything that must happen may take; machines that build beside us are slow.
PATIENCE = 60.0
#: What the API and the mail service answer at first.
BUSY = {"status": 429, "left": 1}


class Mail(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs: takes everything but mail for nobody."""

    def handle(self) -> None:
        self.say("220 mail")
        while line := self.rfile.readline().decode().strip():
            verb = line[:4].upper()
            if verb == "DATA":
                self.say("354 go on")
                while self.rfile.readline() != b".\r\n":
                    pass
            elif verb == "QUIT":
                return self.say("221 bye")
            self.say("550 no such mailbox" if verb == "RCPT" and "nobody" in line else "250 ok")
        return None

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class Web(http.server.BaseHTTPRequestHandler):
    """The mail service of examples that speak HTTP, and the API with a limit."""

    def do_GET(self) -> None:
        busy = BUSY["left"] > 0
        BUSY["left"] -= 1
        self.answer(429 if busy else 200)

    def do_POST(self) -> None:
        said = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(422 if b"nobody" in said else 200)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


def serving(server: socketserver.TCPServer) -> str:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host, port = server.server_address[:2]
    return f"{host!s}:{port}"


class Examples:
    """The examples of one language; `start` and `run` give the command of one of them."""

    def __init__(self, language: str, url: str, scratch: Path) -> None:
        self.language, self.url, self.scratch = language, url, scratch
        mail = serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail))
        self.api = "http://" + serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web))
        host, port = mail.split(":")
        places = {"SMTP_HOST": host, "SMTP_PORT": port, "SMTP_ADDR": mail, "MAIL_API": self.api}
        self.environment = {**os.environ, **places, "CODEQ_URL": url, "CODEQ_TOKEN": "dev-token"}
        BUSY["left"] = 1
        self.workers: list[subprocess.Popen[bytes]] = []

    def command(self, name: str, is_worker: bool) -> tuple[list[str], Path]:
        if self.language == "python":
            module = f"examples.{name.replace('-', '_')}"
            how = ["codeq.cli", f"{module}:app"] if is_worker else [module]
            return [sys.executable, "-m", *how], REPOSITORY / "sdks/python"
        if self.language == "typescript":
            return ["node", f"build/examples/{name}.js"], REPOSITORY / "sdks/typescript"
        built = self.scratch / name
        if not built.exists():
            subprocess.run(["go", "build", "-o", str(built), f"./examples/{name}"], cwd=REPOSITORY / "sdks/go", check=True)
        return [str(built)], REPOSITORY

    def work(self, name: str) -> subprocess.Popen[bytes]:
        command, place = self.command(name, True)
        self.workers.append(subprocess.Popen(command, cwd=place, env=self.environment))
        return self.workers[-1]

    def run(self, name: str, *arguments: str) -> str:
        command, place = self.command(name, False)
        command = [*command, *arguments]
        done = subprocess.run(command, cwd=place, env=self.environment, timeout=PATIENCE, check=True, stdout=subprocess.PIPE)
        return done.stdout.decode()

    def printed(self, name: str, *arguments: str) -> str:
        """What an example prints that is producer and worker in one; in Python it has a worker beside it."""
        if self.language != "python":
            return self.run(name, *arguments)
        worker = self.work(name)
        try:
            return self.run(name, *arguments)
        finally:
            end(worker)

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": "Bearer dev-token"}
        request = urllib.request.Request(f"{self.url}/v1/codeq{path}", data, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    def ended(self, task: Any) -> tuple[str, str]:
        result = self.ask(f"/tasks/{task['id']}/result?waitSeconds=60")["result"]
        return result["status"], result.get("error", "")

    def create(self, command: str, payload: Any, **more: Any) -> Any:
        return self.ask("/tasks", {"command": command, "payload": payload, **more})

    # -- the examples

    def send_email(self) -> None:
        worker = self.work("send-email")
        mail = {"to": "ada@example.com", "subject": "Hello", "text": "It works."}
        sent, refused = (self.create("send_email", one) for one in (mail, {**mail, "to": "nobody@example.com"}))
        assert self.ended(sent) == ("COMPLETED", "")
        status, error = self.ended(refused)
        assert status == "FAILED" and error.startswith("refused: "), (status, error)
        end(worker)

    def image_pipeline(self) -> None:
        printed = self.printed("image-pipeline")
        assert "4109 bytes" in printed, printed

    def rate_limited_api(self) -> None:
        worker = self.work("rate-limited-api")
        url = f"{self.api}/items/1"
        task = self.create("api.fetch", {"url": url} if self.language == "typescript" else url, lane="api")
        assert self.ended(task) == ("COMPLETED", "")
        kept = self.ask(f"/tasks/{task['id']}")
        # The pause that the API asked for cost no attempt.
        assert (kept["attempts"], kept["refunds"]) == (2, 1), kept
        end(worker)

    def cron(self) -> None:
        worker = self.work("cron")
        if self.language == "python":
            self.run("cron")
        until(lambda: self.ask("/schedules")["items"], "there is a schedule")
        assert self.ended(self.ask("/schedules/nightly-report/trigger", {})) == ("COMPLETED", "")
        end(worker)

    def batch_then(self) -> None:
        pages = [self.scratch / f"page-{number}.txt" for number in range(3)]
        for number, page in enumerate(pages):
            page.write_text("word " * (number + 1))
        printed = self.printed("batch-then", *map(str, pages))
        assert "6" in printed, printed


def end(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    assert worker.wait(PATIENCE) == 0, "the worker did not end in order"


def until(holds: Any, what: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit, f"not in {PATIENCE} s: {what}"
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=str(REPOSITORY / "target/debug/codeq"))
    parser.add_argument("languages", nargs="*", default=["python", "typescript", "go"])
    options = parser.parse_args()
    for language in options.languages:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="codeq-examples-") as scratch:
            command = [str(Path(options.server).resolve()), "dev", "--memory", "--port", "0"]
            server = subprocess.Popen(command, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert server.stdout is not None
            examples = None
            try:
                url = next(line.split("listening on ")[1].strip() for line in server.stdout if "listening on " in line)
                threading.Thread(target=server.stdout.read, daemon=True).start()
                examples = Examples(language, url, Path(scratch))
                for example in ("send_email", "image_pipeline", "rate_limited_api", "cron", "batch_then"):
                    getattr(examples, example)()
            finally:
                for process in [*(examples.workers if examples else []), server]:
                    process.kill()
                    process.wait()
        print(f"{language:<11} examples ran in {time.monotonic() - started:.1f} s", flush=True)


main()
