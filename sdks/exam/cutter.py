"""Connections that break at a chosen time."""

import socket
import threading


class Cutter:
    """A proxy that loses the first requests for creates: before the server sees them, or their answers."""

    def __init__(self, target: str, when: str, times: int) -> None:
        self.host, self.port = target.removeprefix("http://").split(":")
        self.when, self.left, self.lock = when, times, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        request = client.recv(65536)
        while request and not whole(request):
            request += client.recv(65536)
        with self.lock:
            cuts = self.left > 0
            self.left -= 1
        if cuts and self.when == "before":
            client.close()
            return
        with socket.create_connection((self.host, int(self.port))) as server:
            server.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            answer = b""
            while part := server.recv(65536):
                answer += part
        if not cuts:
            client.sendall(answer)
        client.close()


def whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return bool(end) and len(body) >= int(line.split(b":")[1])
    return bool(end)
