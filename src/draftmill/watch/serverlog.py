"""A server's own log as a source of its figures: SGLang's batch lines and vLLM's throughput lines, of all versions.

Fields are read by their names, never by their places: order, commas and company differ between versions. A line that
announces figures and has none that is known is counted and told.
"""

import re
from datetime import datetime
from pathlib import Path

import msgspec

from draftmill.watch.figures import Unread
from draftmill.watch.loads import EngineLoad, Sample
from draftmill.watch.tail import Tail

_RECENT = 8 << 20  # bytes at the end of a log that are read when it is opened: hours of it
_START = 1 << 20  # bytes at its beginning, where the start-up lines stand
_TOGETHER = 60.0  # seconds in which several ranks' lines are of one moment

_STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)")
_VLLM_STAMP = re.compile(r"\b(\d\d-\d\d \d\d:\d\d:\d\d)\b")
_RANK = re.compile(r"\bDP(\d+)\b|Engine (\d+)")
_SGLANG = re.compile(r"(Decode|Prefill) batch\b")
_VLLM = re.compile(r"Avg generation throughput")
_RETRACTED = re.compile(r"#retracted_reqs: (\d+)")
_PREEMPTED = re.compile(r"total_num_cumulative_preemption=(\d+)|Preemptions: (\d+)")
_POOL = re.compile(r"max_total_num_tokens=(\d+)|#tokens: (\d+)|GPU KV cache size: ([\d,]+) tokens")
_SLOTS = re.compile(r"max_running_requests=(\d+)|max_num_seqs[=:]\s?(\d+)")
_FIELDS = {
    "running": re.compile(r"#running-req: (\d+)|Running: (\d+) reqs?"),
    "queued": re.compile(r"#queue-req: (\d+)|(?:Waiting|Pending): (\d+) reqs?"),
    "tokens": re.compile(r"#(?:full )?token: (\d+)"),
    "use": re.compile(r"(?:^|, ?)(?:full )?token usage: ([\d.]+)"),
    "percent": re.compile(r"GPU KV cache usage: ([\d.]+)%"),
    "rate": re.compile(r"gen throughput \(token/s\): ([\d.]+)|Avg generation throughput: ([\d.]+) tokens/s"),
}


class Said(msgspec.Struct, frozen=True):
    """What one line says; None where it does not. ``kv_use`` is a share, ``rank`` the data-parallel rank or engine."""

    time: float | None
    rank: int = 0
    running: int | None = None
    queued: int | None = None
    tokens: int | None = None
    kv_use: float | None = None
    rate: float | None = None


def read(line: str) -> Said | str | None:
    """The figures of a line; None where it announces none; why, where it does and none of them is known."""
    if not (_SGLANG.search(line) or _VLLM.search(line)):
        return None
    found = {name: _first(pattern, line) for name, pattern in _FIELDS.items()}
    if found["running"] is None and found["rate"] is None:
        return "no figures that are known"
    use = float(found["use"]) if found["use"] else float(found["percent"]) / 100 if found["percent"] else None
    return Said(
        _time(line),
        int(_first(_RANK, line) or 0),
        _whole(found["running"]),
        _whole(found["queued"]),
        _whole(found["tokens"]),
        use,
        float(found["rate"]) if found["rate"] else None,
    )


class ServerLog:
    """One server's log as it grows. ``engine`` is the URL that it belongs to, where that is known."""

    def __init__(self, path: Path, engine: str | None = None) -> None:
        self.path = path
        self.engine = engine
        self._tail = Tail(path)
        self._bad = (0, 0, "")
        self._begin()

    def refresh(self) -> EngineLoad:
        """Read what came since the last look. Raises OSError where the log cannot be read at the first one."""
        for number, _, text in self._tail.lines():
            line = text.decode("utf-8", "replace")
            self._note(line)
            said = read(line)
            if isinstance(said, Said):
                self._take(said)
            elif said:
                lines, first, reason = self._bad
                self._bad = (lines + 1, first or number, reason or said)
        if self._tail.replaced:
            self._begin()
            return self.refresh()
        return self.load

    def unread(self) -> list[Unread]:
        lines, first, reason = self._bad
        return [Unread(self.path.name, lines, first, reason)] if lines else []

    def _begin(self) -> None:
        self.load = EngineLoad(self.engine or self.path.name, str(self.path))
        self._ranks: dict[int, Said] = {}
        self._retracted = 0
        self._pool: int | None = None
        self._bad = (0, 0, "")
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            for line in file.read(min(size, _START)).decode("utf-8", "replace").splitlines():
                self._note_start(line)
            start = max(0, size - _RECENT)
            if start:
                file.seek(start)
                start += len(file.readline())
        self._tail = Tail(self.path, start)

    def _note(self, line: str) -> None:
        """What stands in other lines: retractions, and a server that starts anew."""
        if found := _first(_RETRACTED, line):
            self._retracted += int(found)
        elif found := _first(_PREEMPTED, line):
            self._retracted = max(self._retracted, int(found))
        self._note_start(line)

    def _note_start(self, line: str) -> None:
        if pool := _first(_POOL, line):
            self._pool = int(pool.replace(",", ""))
        if slots := _first(_SLOTS, line):
            self.load.slots = int(slots)

    def _take(self, said: Said) -> None:
        before = self._ranks.get(said.rank, Said(None))
        kept = {f: new if (new := getattr(said, f)) is not None else getattr(before, f) for f in Said.__struct_fields__}
        now = Said(**kept)
        self._ranks[said.rank] = now
        ranks = [r for r in self._ranks.values() if (now.time or 0) - (r.time or 0) < _TOGETHER]
        use = [r.kv_use for r in ranks if r.kv_use is not None]
        total = self._pool * len(ranks) if self._pool else None
        share = sum(use) / len(use) if use else None
        tokens = [r.tokens for r in ranks if r.tokens is not None]
        self.load.add(
            now.time or self.path.stat().st_mtime,
            Sample(
                running=sum(r.running or 0 for r in ranks),
                queued=sum(r.queued or 0 for r in ranks),
                kv_used=sum(tokens) if tokens else None,
                kv_total=total,
                generation_rate=sum(r.rate for r in ranks if r.rate is not None),
                preemptions=self._retracted,
                share=share,
            ),
        )


def _first(pattern: "re.Pattern[str]", line: str) -> str | None:
    found = pattern.search(line)
    return next((group for group in found.groups() if group is not None), None) if found else None


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


def _time(line: str) -> float | None:
    """Unix seconds of a line's stamp, in this machine's time zone; vLLM leaves the year out: this one's."""
    if found := _STAMP.search(line):
        return datetime.fromisoformat(found[1].replace(",", ".")).timestamp()
    if found := _VLLM_STAMP.search(line):
        now = datetime.now()
        stamp = datetime.strptime(f"{now.year}-{found[1]}", "%Y-%m-%d %H:%M:%S")
        return (stamp if stamp <= now else stamp.replace(year=now.year - 1)).timestamp()
    return None
