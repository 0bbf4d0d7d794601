"""Installs servers and clients from the package registries of this machine. What cannot be had is named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from field import HERE, NODE, PLACE, PYTHON, REPOSITORY
from servers import POSTGRES, find

NATS = "github.com/nats-io/nats-server/v2@latest"
#: Debian's package of each server, and how to see that it is there.
DEBIAN = {
    "redis-server": lambda: find("redis-server"),
    "beanstalkd": lambda: find("beanstalkd"),
    "rabbitmq-server": lambda: find("rabbitmq-server", Path("/usr/lib/rabbitmq/bin")),
    "postgresql": lambda: POSTGRES,
    "strace": lambda: find("strace"),
}


def run(*command: str, place: Path = REPOSITORY, **environment: str) -> str:
    """Runs a command; gives the reason if it fails."""
    try:
        done = subprocess.run(
            command, cwd=place, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    said = (done.stderr or done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else " ".join(said[-2:]) or f"exit {done.returncode}"


def debian() -> None:
    wanted = [name for name, is_there in DEBIAN.items() if not is_there()]
    if not wanted or not shutil.which("apt-get"):
        return
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    # Their services must not start: the race starts servers of its own.
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]
    run(*root, "apt-get", "update", "-qq")
    for name in wanted:
        run(*root, *quiet, "apt-get", "install", "-y", "-qq", "--no-install-recommends", name)


def go(missing: dict[str, str]) -> None:
    if reason := run("go", "build", "-o", str(PLACE / "go-peers"), ".", place=HERE / "go"):
        missing["go"] = reason
    if not find("nats-server", PLACE / "bin"):
        run("go", "install", NATS, GOBIN=str(PLACE / "bin"))


def node(missing: dict[str, str]) -> None:
    """Each in a directory of its own, so that one that cannot be had does not take the others with it."""
    if not shutil.which("npm"):
        missing.update(dict.fromkeys(["node", *NODE], "npm is not installed"))
        return
    sdk = REPOSITORY / "sdks/typescript"
    if not (sdk / "node_modules/typescript").exists():
        run("npm", "ci", "--silent", "--no-audit", "--no-fund", place=sdk)
    if reason := run("npm", "run", "--silent", "build", place=sdk):
        missing["node"] = reason
    for name in ("codeq", *NODE):
        place = PLACE / "node" / name
        place.mkdir(parents=True, exist_ok=True)
        for script in ("bench.mjs", "job.mjs", f"{name}.mjs"):
            shutil.copy(HERE / "node" / script, place)
        libraries, package = ((str(sdk),), "codeq-client") if name == "codeq" else (NODE[name], name)
        if not (place / "node_modules" / package).exists():
            (place / "package.json").write_text('{"private": true, "type": "module"}\n')
            if reason := run("npm", "install", "--silent", "--no-audit", "--no-fund", *libraries, place=place):
                missing["node" if name == "codeq" else name] = reason


def python(missing: dict[str, str]) -> None:
    pip = PLACE / "python/bin/pip"
    if not pip.exists() and (reason := run(sys.executable, "-m", "venv", str(PLACE / "python"))):
        missing.update(dict.fromkeys(["python", *PYTHON], reason))
        return
    for name, package in (("python", str(REPOSITORY / "sdks/python")), *PYTHON.items()):
        if reason := run(str(pip), "--disable-pip-version-check", "-q", "install", package):
            missing[name] = reason


def install() -> dict[str, str]:
    """Gives what is missing, with the reason."""
    PLACE.mkdir(parents=True, exist_ok=True)
    missing: dict[str, str] = {}
    debian()
    go(missing)
    node(missing)
    python(missing)
    return missing
