"""One small shell over aiohttp for all clients: JSON in, typed JSON out, every failure an EngineError.

A generation may wait for hours in the server's queue, so it has no timeout; a host that vanishes is noticed by TCP
keepalive instead. Control calls have a timeout and connections of their own, so that thousands of waiting
generations cannot starve them. The API key lives in the sessions' headers only; a server that repeats it in an error
has it cut out.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from draftmill import ids
from draftmill.engines import faults
from draftmill.errors import EngineError, SetupFault, TransportFault

T = TypeVar("T")

CONTROL_SECONDS = 30.0
CONNECT_SECONDS = 60.0  # for one TCP connect, once it is its turn
# Connections are kept between two calls for less time than any server keeps an idle one, so that a request never meets
# its close: uvicorn, which SGLang and vLLM run on, waits 5 s. llama.cpp's server may close at once: none is kept there.
KEPT_SECONDS = {"sglang": 2.0, "vllm": 2.0}
# That wait unread of one connection until its server is held back. A client that is short of CPU reads all that has
# come on each of thousands of them before it looks at any.
STREAM_BYTES = 1 << 14
END_SECONDS = 1.0  # for the end of a stream behind its last event
CONNECTS_AT_ONCE = 64  # below every server's accept backlog, so that 2,000 requests at once drop no SYN
_JSON = "application/json"
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}  # a vanished host is noticed in 90 s


class Http:
    """The calls to one server. ``name`` is how messages call it; ``key`` goes out as a Bearer token."""

    def __init__(self, engine: str, url: str, key: str | None = None, name: str | None = None) -> None:
        if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
            raise SetupFault(f"{name or url}: the API key is empty or holds characters that no header can carry")
        self.engine = engine
        self.url = url.rstrip("/")
        self.name = name or self.url
        self._key = key
        self._generating: aiohttp.ClientSession | None = None
        self._controlling: aiohttp.ClientSession | None = None
        self._closed = False
        self._urls: dict[str, URL] = {}

    def __repr__(self) -> str:
        return f"Http({self.engine} at {self.name})"

    async def get(self, path: str, reply: type[T]) -> T:
        """A control call without a body. What it says is never quoted: SGLang's launch arguments hold its API keys."""
        return self._decode(await self._call("GET", path, None, patient=False), reply, quote=False)

    async def get_text(self, path: str) -> str:
        return (await self._call("GET", path, None, patient=False)).decode("utf-8", "replace")

    async def post(self, path: str, body: Mapping[str, Any], reply: type[T], patient: bool = False) -> T:
        """Send JSON. ``patient`` waits as long as the server takes."""
        return self._decode(await self._call("POST", path, ids.encode(body), patient), reply)

    async def ask(self, path: str, body: Mapping[str, Any], reply: ids.Apart[T]) -> tuple[T, bytes]:
        """Send JSON and wait as long as the server takes. Returns what ``reply`` makes of the answer."""
        status, said = await self._send("POST", path, ids.encode(body), patient=True)
        if status != 200:
            raise faults.of_status(self.engine, self.name, status, self._clean(said))
        try:
            return reply.decode(said)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unreadable(said, error) from None

    async def send(self, path: str, body: Mapping[str, Any]) -> None:
        """A control call whose answer says nothing."""
        await self._call("POST", path, ids.encode(body), patient=False)

    async def stream(self, path: str, body: Mapping[str, Any], hear: Callable[[bytes], bool]) -> None:
        """Send JSON and give ``hear`` the server-sent events of the answer as they come, until it says that one was the
        last. Waits as long as the server takes."""
        data, hearing = ids.encode(body), False
        try:
            call = self._session(True).post(
                self.url + path, data=data, allow_redirects=False, read_bufsize=STREAM_BYTES
            )
            async with call as response:
                if response.status != 200:
                    said = self._clean(await response.read())
                    raise faults.of_status(self.engine, self.name, response.status, said)
                lines, ended = _Lines(), False
                while not ended:
                    piece = await response.content.readany()
                    ended = not piece
                    for line in lines.of(piece or b"\n"):
                        if not line.startswith(b"data:") or (said := line[5:].strip()) == b"[DONE]":
                            continue
                        hearing = True
                        last = hear(said)
                        hearing = False
                        if last:
                            await _read_to_end(response)
                            return
                    piece = line = said = b""  # not kept while it waits for the next: there may be thousands
        except EngineError:
            raise
        except Exception as error:  # as in _send
            if hearing:
                raise
            raise faults.of_exception(self.name, error) from None

    async def status(self, path: str) -> tuple[int, bytes]:
        """What a GET answers, whatever its status. Raises for a server that does not answer at all."""
        return await self._send("GET", path, None, patient=False)

    async def close(self) -> None:
        """For good: a call that comes later, of somebody who still holds the engine, must not open a session again."""
        self._closed = True
        for session in (self._generating, self._controlling):
            if session is not None:
                await session.close()
        self._generating = self._controlling = None

    async def _call(self, method: str, path: str, data: bytes | None, patient: bool) -> bytes:
        status, body = await self._send(method, path, data, patient)
        if status != 200:
            raise faults.of_status(self.engine, self.name, status, self._clean(body))
        return body

    async def _send(self, method: str, path: str, data: bytes | None, patient: bool) -> tuple[int, bytes]:
        try:
            session = self._session(patient)
            body = data and aiohttp.BytesPayload(data, content_type=_JSON)  # else aiohttp looks for its kind every time
            response = await session.request(method, self._at(path), data=body, allow_redirects=False)
            return response.status, await response.read()  # which lets go of the connection, however it ends
        except EngineError:
            raise
        except Exception as error:  # the cause is dropped: aiohttp's exceptions carry the request's headers
            raise faults.of_exception(self.name, error) from None

    def decode(self, said: bytes, event: type[T]) -> T:
        """One event of a stream. Raises the same faults as a reply that cannot be read."""
        return self._decode(said, event)

    def ids(self, raw: msgspec.Raw, apart: bytes = b"") -> Sequence[int]:
        """The ids in a reply, or those cut ``apart`` from it. Raises the same faults as a reply that cannot be read."""
        text = ids.text_of(raw, apart)
        try:
            return ids.read(text)
        except msgspec.DecodeError as error:
            raise faults.of_body(self.name, error, self._clean(text)) from None

    def _decode(self, body: bytes, reply: type[T], quote: bool = True) -> T:
        try:
            return msgspec.json.decode(body, type=reply)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unreadable(body if quote else b"", error) from None

    def _unreadable(self, body: bytes, error: msgspec.DecodeError | UnicodeDecodeError) -> EngineError:
        fault = error if isinstance(error, msgspec.DecodeError) else msgspec.DecodeError("invalid UTF-8")
        return faults.of_body(self.name, fault, self._clean(body))

    def _clean(self, body: bytes) -> bytes:
        return body.replace(self._key.encode(), b"***") if self._key else body

    def _at(self, path: str) -> URL:
        found = self._urls.get(path)
        if found is None:
            found = self._urls[path] = URL(self.url + path)
        return found

    def _session(self, patient: bool) -> aiohttp.ClientSession:
        session = self._generating if patient else self._controlling
        if self._closed:
            raise TransportFault(f"{self.name}: is not used any more: its connections are closed")
        if session is None:
            headers = {"Content-Type": _JSON}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            kept = KEPT_SECONDS.get(self.engine) if patient else None
            keeping: dict[str, Any] = {"keepalive_timeout": kept} if kept else {"force_close": True}
            connector = _PacedConnector(limit=0, socket_factory=_socket, **keeping)
            total = None if patient else CONTROL_SECONDS
            session = aiohttp.ClientSession(
                connector=connector,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_SECONDS),
                read_bufsize=2**20,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            if patient:
                self._generating = session
            else:
                self._controlling = session
        return session


class _PacedConnector(aiohttp.TCPConnector):
    """Opens a bounded number of connections at once and any number in all."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._turn = asyncio.Semaphore(CONNECTS_AT_ONCE)

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        async with self._turn:  # not in ``connect``, through which every request goes
            return await super()._create_connection(req, traces, timeout)


class _Lines:
    """Lines of any length out of the pieces in which they come."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def of(self, piece: bytes) -> list[bytes]:
        """The lines that end in this piece."""
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._begun, lines[0]])
            self._begun = []
        if rest:
            self._begun.append(rest)
        return lines


async def _read_to_end(response: aiohttp.ClientResponse) -> None:
    """So that the connection can be used again; a server that does not end its stream costs no more than that."""
    try:
        async with asyncio.timeout(END_SECONDS):
            while await response.content.readany():
                pass
    except (TimeoutError, aiohttp.ClientError):
        response.close()


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STREAM_BYTES)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):  # macOS calls the first one otherwise
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
