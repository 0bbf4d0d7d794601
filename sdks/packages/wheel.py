"""Packs a codeq binary into the wheel `codeq-cli`: `pip install codeq-cli` puts `codeq` on the PATH.

usage: wheel.py BINARY VERSION PLATFORM_TAGS OUTPUT_DIRECTORY
(manylinux_2_17_x86_64, macosx_11_0_arm64, ...; several with dots between)

The binary is the one that goes into the archive and the npm package, too: it is built and checked once.
"""

import base64
import hashlib
import stat
import sys
import zipfile
from pathlib import Path

METADATA = """Metadata-Version: 2.4
Name: codeq-cli
Version: {version}
Summary: codeQ, a durable task queue in one binary: server, client and worker.
License-Expression: Apache-2.0
Project-URL: Repository, https://github.com/codeq/codeq
Requires-Python: >=3.8
Description-Content-Type: text/markdown

`pip install codeq-cli && codeq dev` runs a task queue on this machine. `pip install codeq-client` is the SDK.
"""

WHEEL = "Wheel-Version: 1.0\nGenerator: codeq\nRoot-Is-Purelib: false\n{tags}"


def pack(binary: Path, version: str, tag: str, output: Path) -> Path:
    info, scripts = f"codeq_cli-{version}.dist-info", f"codeq_cli-{version}.data/scripts"
    name = "codeq.exe" if tag.startswith("win") else "codeq"
    files = {
        f"{scripts}/{name}": binary.read_bytes(),
        f"{info}/METADATA": METADATA.format(version=version).encode(),
        f"{info}/WHEEL": WHEEL.format(tags="".join(f"Tag: py3-none-{one}\n" for one in tag.split("."))).encode(),
    }
    record = "".join(f"{path},sha256={digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    output.mkdir(parents=True, exist_ok=True)
    wheel = output / f"codeq_cli-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            # A fixed time, so that the same binary gives the same wheel.
            entry = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if path.startswith(scripts) else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, data)
    return wheel


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])))
