"""A hub on this machine: the few calls of its API that loading a dataset makes, over the files of a folder.

The client reads its endpoint when it is imported, so whole datasets are loaded in a process with ``environment()``.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

REPOSITORY = "owner/name"
REVISION = "c0ffee" * 6 + "abcd"
_API = f"/api/datasets/{REPOSITORY}"


class FakeHub(ThreadingHTTPServer):
    """Serves one dataset. ``refuses``: (status, error code) of every answer; ``hangs_up``: no answer at all."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.refuses: tuple[int, str] | None = None
        self.hangs_up = False
        self.asked: list[str] = []

    def environment(self, home: Path) -> dict[str, str]:
        """Of a process that knows no other hub, and nothing that was fetched before."""
        return {"HF_ENDPOINT": f"http://127.0.0.1:{self.server_port}", "HF_HOME": str(home), "PATH": os.environ["PATH"]}


@contextmanager
def serving(folder: Path) -> Iterator[FakeHub]:
    hub = FakeHub(folder)
    thread = threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield hub
    hub.shutdown()
    hub.server_close()
    thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(self.path.split("?")[0])
        self.server.asked.append(path)
        if self.server.hangs_up:
            self.close_connection = True
        elif self.server.refuses:
            status, code = self.server.refuses
            self._send(status, b'{"error": "refused"}', {"X-Error-Code": code})
        elif path in (_API, f"{_API}/revision/{REVISION}"):
            self._send_json(
                {"id": REPOSITORY, "sha": REVISION, "private": False, "tags": [], "siblings": self._siblings()}
            )
        elif path.startswith(f"{_API}/tree/{REVISION}"):
            self._send_tree(path.removeprefix(f"{_API}/tree/{REVISION}").strip("/"))
        elif path.startswith(f"/datasets/{REPOSITORY}/resolve/{REVISION}/"):
            self._send_file(path.removeprefix(f"/datasets/{REPOSITORY}/resolve/{REVISION}/"))
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_POST = do_GET

    def _siblings(self) -> list[dict[str, str]]:
        folder = self.server.folder
        return [{"rfilename": str(p.relative_to(folder))} for p in sorted(folder.rglob("*")) if p.is_file()]

    def _send_tree(self, relative: str) -> None:
        folder = self.server.folder / relative
        if not folder.is_dir():
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        entries = [
            {
                "type": "file" if path.is_file() else "directory",
                "oid": hashlib.sha1(str(path).encode()).hexdigest(),
                "size": path.stat().st_size if path.is_file() else 0,
                "path": str(path.relative_to(self.server.folder)),
            }
            for path in sorted(folder.iterdir())
        ]
        self._send_json(entries)

    def _send_file(self, relative: str) -> None:
        path = self.server.folder / relative
        if not path.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": REVISION})
            return
        data, status, headers = path.read_bytes(), 200, {"X-Repo-Commit": REVISION, "Accept-Ranges": "bytes"}
        headers["ETag"] = f'"{hashlib.sha1(data).hexdigest()}"'
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) if last else len(data) - 1, len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            data, status = data[start : end + 1], 206
        self._send(status, data, headers)

    def _send_json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
