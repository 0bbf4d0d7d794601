"""What a worker costs as a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from codeq.testing import DevServer

#: What an idle worker may hold in memory.
IDLE_BYTES = 60_000_000

APP = """
from codeq import App

app = App()

@app.task("py-idle")
async def idle(_: object) -> None: ...
"""


def test_idle_worker_is_small_and_ends_on_sigterm(codeq_server: DevServer, tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text(APP)
    environment = {**os.environ, "CODEQ_URL": codeq_server.url, "CODEQ_TOKEN": codeq_server.token}
    command = [sys.executable, "-m", "codeq.cli", "idle:app", "--name", "idle-worker"]
    worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        until_listed(codeq_server, "idle-worker")
        kilobytes = subprocess.check_output(["ps", "-o", "rss=", "-p", str(worker.pid)], text=True)
        assert int(kilobytes) * 1024 < IDLE_BYTES
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    finally:
        worker.kill()
        worker.wait()


def until_listed(server: DevServer, name: str) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    for _ in range(600):
        listed = httpx.get(f"{server.url}/v1/codeq/admin/workers", headers=headers).json()["items"]
        if any(one["worker"] == name for one in listed):
            return
        time.sleep(0.05)
    raise AssertionError(f"{name} does not claim")
