"""The launcher of the npm package: signals arrive once, and the exit code is that of the binary."""

import os
import pty
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from npm import LAUNCHER

#: How long anything that must happen may take.
PATIENCE = 30.0

#: Notes every signal, and ends a while after the first one, so that a second one would be noted.
BINARY = """#!/bin/sh
note() { echo "$1" >>"$NOTES"; }
trap 'note TERM; ended=7' TERM
trap 'note INT; ended=7' INT
case $1 in
  exit) exit 5 ;;
  die) kill -KILL $$ ;;
esac
note ready
until [ -n "$ended" ]; do sleep 0.05; done
sleep 0.5
exit "$ended"
"""


class LauncherTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.place = Path(scratch.name)
        self.notes = self.place / "notes"
        self.notes.touch()
        self.binary = self.place / "codeq"
        self.binary.write_text(BINARY)
        self.binary.chmod(0o755)
        (self.place / "launcher.js").write_text(LAUNCHER)
        (self.place / "index.js").write_text(f"exports.binaryPath = () => {str(self.binary)!r};")
        self.command = ["node", str(self.place / "launcher.js")]
        self.environment = {**os.environ, "NOTES": str(self.notes)}

    def noted(self) -> list[str]:
        return self.notes.read_text().split()

    def until_ready(self) -> None:
        end = time.monotonic() + PATIENCE
        while self.noted() != ["ready"]:
            assert time.monotonic() < end, "the binary does not start"
            time.sleep(0.02)

    def ended(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self.command, *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)

    def test_the_exit_code_is_that_of_the_binary(self) -> None:
        assert self.ended("exit").returncode == 5
        assert self.ended("die").returncode == 128 + signal.SIGKILL

    def test_a_binary_that_is_not_there_is_told_in_one_line(self) -> None:
        self.binary.unlink()
        told = self.ended()
        assert (told.returncode, told.stderr.count("\n")) == (1, 1), told.stderr
        (self.place / "index.js").write_text("exports.binaryPath = () => { throw new Error('no binary'); };")
        assert self.ended().stderr == "codeq: no binary\n"

    def test_a_signal_is_passed_on_once(self) -> None:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        launcher = subprocess.Popen(self.command, env=self.environment, **quiet)
        self.until_ready()
        launcher.send_signal(signal.SIGTERM)
        time.sleep(0.1)  # As npx does that was signalled as well.
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(PATIENCE) == 7
        assert self.noted() == ["ready", "TERM"]

    def test_an_interrupt_of_a_terminal_arrives_once(self) -> None:
        child, terminal = pty.fork()
        if child == 0:
            os.execvpe(self.command[0], self.command, self.environment)
        self.addCleanup(os.close, terminal)
        self.until_ready()
        os.write(terminal, b"\x03")
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert self.noted() == ["ready", "INT"]


if __name__ == "__main__":
    unittest.main()
