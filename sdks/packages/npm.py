"""Packs codeq binaries into npm packages: one per platform, and `codeq-cli`, which depends on all of them as optional.

usage: npm.py VERSION OUTPUT_DIRECTORY PLATFORM=BINARY ... (linux-x64, linux-x64-musl, darwin-arm64, ...)

npm installs the package that fits the machine and leaves out the others; there is no install script.
"""

import gzip
import io
import json
import sys
import tarfile
from pathlib import Path

LAUNCHER = """#!/usr/bin/env node
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { binaryPath } = require("./index.js");

function fail(error) {
  console.error(`codeq: ${error.message}`);
  process.exit(1);
}

let binary;
try {
  binary = binaryPath();
} catch (error) {
  fail(error);
}

// A second signal ends codeq at once, so it must get each only once. What a terminal sends (SIGINT, and SIGHUP when it
// is closed) reaches the child by itself. npx passes on what we get, too, if all of us are signalled. There is no
// moment in which the child runs and a signal ends us alone.
const hasTerminal = [0, 1, 2].some((file) => require("node:tty").isatty(file));
const passedOn = new Map();
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) {
  process.on(signal, () => {
    const isNew = Date.now() - (passedOn.get(signal) ?? 0) > 1000;
    if (!isNew || (hasTerminal && signal !== "SIGTERM")) return;
    passedOn.set(signal, Date.now());
    child.kill(signal);
  });
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
child.on("error", fail);
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
"""

INDEX = """"use strict";
/** Where the binary for this machine is. */
exports.binaryPath = function binaryPath() {
  const name = `codeq-cli-${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "codeq.exe" : "codeq";
  // npm installs the one that fits the C library of the machine; the one for musl is static and runs with any.
  for (const one of [name, `${name}-musl`]) {
    try {
      return require.resolve(`${one}/bin/${file}`);
    } catch {}
  }
  throw new Error(`codeq-cli has no binary for ${process.platform} on ${process.arch} (${name} is not installed)`);
};
"""

TYPES = "/** Where the binary for this machine is. */\nexport function binaryPath(): string;\n"


def pack(version: str, output: Path, binaries: dict[str, Path]) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    common = {
        "version": version,
        "license": "Apache-2.0",
        "repository": {"type": "git", "url": "git+https://github.com/codeq/codeq.git"},
    }
    made = []
    for platform, binary in binaries.items():
        system, machine, *library = platform.split("-")
        name = f"codeq-cli-{platform}"
        file = "codeq.exe" if system == "win32" else "codeq"
        about = {"name": name, "description": f"The codeq binary for {platform}.", **common}
        about |= {"os": [system], "cpu": [machine], "files": ["bin"], "preferUnplugged": True}
        if system == "linux":
            about["libc"] = library or ["glibc"]
        files = {"package.json": (text(about), 0o644), f"bin/{file}": (binary.read_bytes(), 0o755)}
        made.append(tarball(output / f"{name}-{version}.tgz", files))
    about = {"name": "codeq-cli", "description": "codeQ, a durable task queue in one binary.", **common}
    about |= {
        "bin": {"codeq": "launcher.js", "codeq-cli": "launcher.js"},
        "main": "index.js",
        "types": "index.d.ts",
        "engines": {"node": ">=18"},
        "optionalDependencies": {f"codeq-cli-{platform}": version for platform in binaries},
    }
    files = {
        "package.json": (text(about), 0o644),
        "launcher.js": (LAUNCHER.encode(), 0o755),
        "index.js": (INDEX.encode(), 0o644),
        "index.d.ts": (TYPES.encode(), 0o644),
    }
    made.append(tarball(output / f"codeq-cli-{version}.tgz", files))
    return made


def text(about: dict[str, object]) -> bytes:
    return (json.dumps(about, indent=2) + "\n").encode()


def tarball(path: Path, files: dict[str, tuple[bytes, int]]) -> Path:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    # No time inside, so that the same binary gives the same package.
    path.write_bytes(gzip.compress(plain.getvalue(), 6, mtime=0))
    return path


if __name__ == "__main__":
    given = dict(one.split("=", 1) for one in sys.argv[3:])
    for package in pack(sys.argv[1], Path(sys.argv[2]), {name: Path(path) for name, path in given.items()}):
        print(package)
