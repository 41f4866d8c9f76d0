"""Simulated servers as processes of their own, over HTTP, that are troubled, killed and started again."""

import json
import random
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter

from draftmill.engines.simulated import Kind
from tests.cli.command import environment

_SECONDS = 5.0  # for a server to answer about itself


class Served:
    """One server on a port that it keeps. ``struck`` counts what its troubles hit, as far as it could be asked."""

    def __init__(self, *options: str) -> None:
        self.struck: Counter[str] = Counter()
        self._options = options
        self._port = 0
        self._now: Counter[str] = Counter()
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, or start it again where it has died."""
        if self._process is not None:
            return
        command = [sys.executable, "-m", "draftmill.engines.simulated", "--port", str(self._port), *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        if not told:
            raise RuntimeError(f"the simulated server did not start: {command}")
        self._port = int(told.rpartition(":")[2])

    def strike(self, kind: Kind, seconds: float, count: int) -> None:
        """Trouble it, where it lives."""
        self._ask({"kind": kind.name, "seconds": seconds, "count": count})

    def look(self) -> None:
        """Ask it what its troubles have hit."""
        if (said := self._ask(None)) is not None:
            self._now = Counter(json.loads(said))

    def kill(self) -> None:
        """``kill -9``."""
        self.look()
        self.struck, self._now = self.struck + self._now, Counter()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _ask(self, body: dict[str, object] | None) -> bytes | None:
        if self._process is None:
            return None
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/trouble", data, timeout=_SECONDS) as reply:
                said: bytes = reply.read()
                return said
        except (OSError, urllib.error.URLError):
            return None


def trouble(draw: random.Random) -> tuple[Kind, float, int]:
    """One that is over in seconds. A refused key, which pauses a server for half a minute, is rare."""
    kinds = [kind for kind in Kind for _ in range(1 if kind is Kind.DENIED else 4)]
    return draw.choice(kinds), draw.uniform(0.1, 1.5), draw.randint(1, 6)
