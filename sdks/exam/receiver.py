"""Who receives callbacks, and checks who they are from."""

import base64
import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "a secret of the exam"


class Receiver:
    """Answers the first deliveries with 500, and keeps the bodies of the others by their id."""

    def __init__(self, refuse: int) -> None:
        self.left, self.lock = refuse, threading.Lock()
        self.refused: set[str] = set()
        self.taken: dict[str, dict[str, Any]] = {}
        self.deliveries = 0
        self.faults: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(receiver.receive(dict(self.headers.items()), body))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/callback"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def receive(self, headers: dict[str, str], body: bytes) -> int:
        with self.lock:
            known = {name.lower(): value for name, value in headers.items()}
            self.deliveries += 1
            if fault := wrong(known, body):
                self.faults.append(fault)
            if self.left > 0:
                self.left -= 1
                self.refused.add(known["webhook-id"])
                return 500
            self.taken[known["webhook-id"]] = json.loads(body)
            return 204

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def wrong(headers: dict[str, str], body: bytes) -> str:
    """What is wrong with the signatures; nothing if nothing is."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    ours = "v1," + base64.b64encode(hmac.digest(SECRET.encode(), signed, hashlib.sha256)).decode()
    if not hmac.compare_digest(ours, headers["webhook-signature"]):
        return f"webhook-signature is {headers['webhook-signature']}, not {ours}"
    signed = f"{headers['x-codeq-timestamp']}.".encode() + body
    ours = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(ours, headers["x-codeq-signature"]):
        return f"x-codeq-signature is {headers['x-codeq-signature']}, not {ours}"
    return ""
