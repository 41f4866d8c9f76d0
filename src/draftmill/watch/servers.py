"""The engines of a run: what its samples, its events and their own logs say of each, as figures."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from draftmill.journal.folder import ServeFolder
from draftmill.journal.lock import holder_lives
from draftmill.recipe import Recipe, is_embedded, named
from draftmill.watch.events import Events
from draftmill.watch.figures import EngineFigures
from draftmill.watch.loads import Loads
from draftmill.watch.serverlog import ServerLog

_SILENT = 60.0  # seconds behind the newest sample after which an engine is no longer in the run
_QUIET = 60.0  # the same of a line of a server's log, which writes none while nothing is decoded


def figures(
    loads: Loads,
    events: Events,
    recipe: Recipe | None,
    slots: dict[str, int | None],
    logs: Sequence[ServerLog],
    now: float,
    kept: dict[str, str],
) -> list[EngineFigures]:
    """Every engine of the last start that was not taken out, those that are away included; what is old is unknown."""
    specs = named(recipe.engines if recipe else [])
    governed = {name: spec.concurrency == "auto" for name, spec in specs.items()}
    newest = max((e.time for e in loads.engines.values()), default=0.0)
    shown = []
    for name, engine in loads.engines.items():
        if name in events.left or (engine.time < newest - _SILENT and name not in events.why):
            continue
        engine.slots = engine.slots or slots.get(name)
        figures = engine.figures(events.why.get(name, ""), events.cap_why.get(name, ""))
        if now - engine.time > loads.patience:
            figures = _old(figures)
        shown.append(msgspec.structs.replace(figures, auto=governed.get(name)))
    shown = [msgspec.structs.replace(e, kept=kept.get(e.name, "")) for e in shown]
    away = (specs.keys() or {n for n in events.why if "://" in n or is_embedded(n)}) - {e.name for e in shown}
    absent = [name for name in events.why if name in away - events.left]
    shown += [
        EngineFigures(name=name, state="absent", why=events.why[name], kept=kept.get(name, "")) for name in absent
    ]
    for log in logs:
        shown = _with_log(shown, log, now)
    return shown


_NOW = ("running", "queued", "kv_used", "kv_use", "rate")


def past(engine: EngineFigures) -> EngineFigures:
    """An engine of a run that is not on: its last sample is not what it does now."""
    state = "" if engine.state == "open" else engine.state
    gone = dict.fromkeys((*_NOW, "in_flight", "cap"))
    return msgspec.structs.replace(engine, state=state, cap_why="", history=[], **gone)


def _old(engine: EngineFigures) -> EngineFigures:
    """An engine that has not been heard of for a while, a server that is started again for one."""
    return msgspec.structs.replace(engine, history=[], **dict.fromkeys(_NOW))


class _Told(msgspec.Struct):
    kind: str
    subject: str
    message: str


_STARTING = re.compile(r"process \d+ at (?P<url>\S+), log (?P<log>.+)")


def kept(folder: ServeFolder) -> dict[str, str]:
    """The URLs of the servers that are kept alive from this folder now, each with its log. Those given up are not."""
    if not holder_lives(folder.lock):
        return {}
    found: dict[str, tuple[str, str]] = {}
    for line in _lines(folder.events):
        if line.kind == "starting" and (match := _STARTING.fullmatch(line.message)):
            found[line.subject] = match["url"], match["log"]
        elif line.kind in ("given up", "ended"):
            found.pop(line.subject, None)
    return dict(found.values())


def _lines(path: Path) -> list[_Told]:
    lines = []
    with suppress(OSError):
        for line in path.read_bytes().splitlines():
            with suppress(msgspec.DecodeError, msgspec.ValidationError):
                lines.append(msgspec.json.decode(line, type=_Told))
    return lines


class _Engine(msgspec.Struct):
    name: str
    slots: int | None = None


def slots(path: Path) -> dict[str, int | None]:
    """How many requests each engine runs at once at most, as it said of itself."""
    try:
        return {e.name: e.slots for e in msgspec.json.decode(path.read_bytes(), type=list[_Engine])}
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return {}


def _with_log(engines: list[EngineFigures], log: ServerLog, now: float) -> list[EngineFigures]:
    """Engines with what a server's log says: of the engine that it belongs to (the only one, where it is not said) if
    the run itself knows nothing of it, else as one more. Of one that is away the log tells only what was."""
    said = log.refresh().figures()
    target = log.engine or (engines[0].name if len(engines) == 1 else None)
    own = next((e for e in engines if e.name == target), None)
    if own and own.state != "open":
        return engines
    if own and own.in_flight and said.time and now - said.time > _QUIET:
        said = _old(said)
    mute = next(
        (n for n, e in enumerate(engines) if e.name == target and e.running is None and e.state == "open"), None
    )
    if mute is None:
        return [*engines, said]
    own = engines[mute]
    kept = {f: getattr(own, f) for f in ("name", "state", "why", "in_flight", "cap", "cap_why", "auto")}
    return [*engines[:mute], msgspec.structs.replace(said, **kept), *engines[mute + 1 :]]
