"""Runs docs/guides/*-worker.md as pasted, with packages made of this tree.

usage: run.py --server BINARY [LANGUAGE ...]

The packages come from indexes of our own on this machine (a directory of wheels, an npm registry, a Go proxy, this
repository for cargo), so that `pip install codeq-client` in a guide installs what is here. In a guide, a block after a line that names a file is that
file, sh blocks are run in order in one shell, and the text block is what the last command prints.
"""

import argparse
import base64
import hashlib
import http.server
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import time
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "sdks/packages"))
import npm  # noqa: E402
import wheel  # noqa: E402

VERSION = "0.1.0"
#: How long a guide may take; cargo compiles everything once.
PATIENCE = 900


def wheels(directory: Path, binary: Path) -> dict[str, str]:
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    wheel.pack(binary, VERSION, tag, directory)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--wheel-dir", str(directory), str(REPOSITORY / "sdks/python")], check=True)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(directory), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def npm_registry(directory: Path, binary: Path) -> dict[str, str]:
    npm.pack(VERSION, directory, {"linux-x64": binary})
    source = REPOSITORY / "sdks/typescript"
    subprocess.run(["npm", "pack", "--silent", "--pack-destination", str(directory)], cwd=source, check=True, stdout=subprocess.DEVNULL)
    packages = {}
    for path in directory.glob("*.tgz"):
        with tarfile.open(path) as archive:
            about = json.loads(archive.extractfile("package/package.json").read())  # type: ignore[union-attr]
        packages[about["name"]] = (about, path)

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/").split("/-/")[0]
            if name not in packages:
                self.send_error(404)
                return
            about, path = packages[name]
            data = path.read_bytes()
            if "/-/" not in self.path:
                integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
                tarball = f"http://{self.headers['Host']}/{name}/-/{path.name}"
                version = {**about, "dist": {"tarball": tarball, "integrity": integrity}}
                data = json.dumps({"name": name, "dist-tags": {"latest": VERSION}, "versions": {VERSION: version}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cache = str(directory / "cache")
    return {"npm_config_registry": f"http://127.0.0.1:{server.server_port}/", "npm_config_cache": cache, "npm_config_audit": "false"}


def go_proxy(directory: Path) -> dict[str, str]:
    module, source = "github.com/codeq/codeq/sdks/go", REPOSITORY / "sdks/go"
    place = directory / module / "@v"
    place.mkdir(parents=True)
    (place / "list").write_text(f"v{VERSION}\n")
    (place / f"v{VERSION}.info").write_text(json.dumps({"Version": f"v{VERSION}", "Time": "2026-01-01T00:00:00Z"}))
    (place / f"v{VERSION}.mod").write_bytes((source / "go.mod").read_bytes())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in [source / "go.mod", *source.rglob("*.go")]:
            inside = path.relative_to(source)
            if inside.parts[0] not in ("stream", "codeqotel", "examples") and not path.name.endswith("_test.go"):
                archive.write(path, f"{module}@v{VERSION}/{inside}")
    (place / f"v{VERSION}.zip").write_bytes(packed.getvalue())
    cache = directory / "modules"
    return {"GOPROXY": directory.as_uri(), "GONOSUMDB": "*", "GONOSUMCHECK": "1", "GOFLAGS": "-modcacherw", "GOSUMDB": "off", "GOMODCACHE": str(cache)}


def cargo_source(directory: Path) -> dict[str, str]:
    """What git would fetch comes from a repository of the tree as it stands, committed or not."""
    origin = directory / "origin"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "Cargo.*", "crates", "proto", "docs", "tests"],
        cwd=REPOSITORY, check=True, capture_output=True, text=True,
    ).stdout.split("\0")
    for name in filter(None, files):
        if (REPOSITORY / name).is_file():
            (origin / name).parent.mkdir(parents=True, exist_ok=True)
            (origin / name).write_bytes((REPOSITORY / name).read_bytes())
    git = ["git", "-c", "user.name=guide", "-c", "user.email=guide@localhost", "-C", str(origin)]
    for step in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "the tree"]):
        subprocess.run([*git, *step], check=True)
    return {
        "CARGO_NET_GIT_FETCH_WITH_CLI": "true",
        "CARGO_TARGET_DIR": str(REPOSITORY / "target/sdks/rust-guide"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{origin.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/codeq/codeq",
    }


def blocks(text: str) -> tuple[dict[str, str], list[str], str]:
    """Files by name, lines for the shell, and what is printed at the end."""
    files: dict[str, str] = {}
    shell: list[str] = []
    printed, name = "", None
    for before, kind, code in re.findall(r"(.*?)```(\w+)[\w,]*\n(.*?)```", text, re.DOTALL):
        named = re.search(r"`([\w./]+)`[^\n]*:\s*$", before)
        name = named[1] if named else None
        if kind == "sh":
            shell.append(code)
        elif kind == "text":
            printed = code.strip()
        else:
            assert name, f"a block of {kind} without a file"
            files[name] = code
    return files, shell, printed


def follow(language: str, environment: dict[str, str], binary: Path, scratch: Path) -> float:
    files, shell, printed = blocks((REPOSITORY / f"docs/guides/{language}-worker.md").read_text())
    # In Rust's guide the files belong to the package that its first lines make.
    written = "".join(f"cat >{name} <<'EOF'\n{code}EOF\n" for name, code in files.items())
    shell.insert(1 if language == "rust" else 0, written)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    place = {"PORT": port, "CODEQ_URL": f"http://127.0.0.1:{port}"}
    # These guides begin with a server that is there; jobs of the shell end with it.
    there = f"{binary} dev --memory >server.log 2>&1 &\n" if language in ("go", "rust") else ""
    script = "set -e\n" + there + "\n".join(shell)
    started = time.monotonic()
    printing = scratch / "printed.log"
    with printing.open("w") as output:
        # What the guide leaves in the background ends with its session.
        pasted = subprocess.Popen(
            ["bash", "-c", script], cwd=scratch, env={**os.environ, **environment, **place}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, start_new_session=True,
        )
        try:
            code = pasted.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = -1
        seconds = time.monotonic() - started
        os.killpg(pasted.pid, signal.SIGKILL)
    said = printing.read_text()
    assert code == 0 and printed in said, f"{language}: ended with {code}\n{said}"
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=str(REPOSITORY / "target/debug/codeq"))
    parser.add_argument("languages", nargs="*", default=["python", "typescript", "go", "rust"])
    options = parser.parse_args()
    binary = Path(options.server).resolve()
    with tempfile.TemporaryDirectory(prefix="codeq-guides-") as scratch:
        for language in options.languages:
            index, place = Path(scratch) / f"{language}-index", Path(scratch) / language
            index.mkdir()
            place.mkdir()
            make = {
                "python": wheels,
                "typescript": npm_registry,
                "go": lambda where, _: go_proxy(where),
                "rust": lambda where, _: cargo_source(where),
            }
            seconds = follow(language, make[language](index, binary), binary, place)
            print(f"{language:<11} guide followed as pasted in {seconds:.1f} s", flush=True)


main()
