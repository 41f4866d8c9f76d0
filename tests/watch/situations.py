"""Figures of a run as they are in some situation."""

from typing import Any

from draftmill.watch.figures import DatasetFigures, EngineFigures, ErrorReason, Lengths, Phase, RunFigures
from draftmill.watch.finding import Finding, Level, Verdict

NOW = 10_000.0
BUSY = {"running": 60, "queued": 1, "kv_use": 0.75, "rate": 900.0, "in_flight": 61, "cap": 64}


def dataset(**fields: Any) -> DatasetFigures:
    mean = Lengths(500, 750_000, 1500.0, 300, 1200, 3000, 6000, 9000)
    known = {"name": "B1", "lane": "short", "limit": 10_240, "prompts": 6000, "owed": 5000, "rows": 500, "answers": 500}
    known["written"] = fields.get("rows", 500)
    return DatasetFigures(**known | {"generated": 750_000, "lengths": mean} | fields)


def engine(**fields: Any) -> EngineFigures:
    return EngineFigures(**{"name": "http://a", "time": NOW, "mean_rate": fields.get("rate")} | fields)


def run(*engines: EngineFigures, data: DatasetFigures | None = None, **fields: Any) -> RunFigures:
    data = data or dataset()
    total = DatasetFigures(
        name="all",
        prompts=data.prompts,
        owed=data.owed,
        answers=data.answers,
        rates=data.rates,
        generated=data.generated,
        rows=data.rows,
    )
    known = {"path": "runs/k", "time": NOW, "phase": Phase.RUNNING, "started": 0.0, "seen": NOW - 1}
    return RunFigures(**known | {"datasets": [data], "total": total, "engines": list(engines)} | fields)


def reason(text: str = "the engine refuses it") -> list[ErrorReason]:
    return [ErrorReason("prompt", text, 30, text, "x.jsonl:7")]


# what is seen, then what the first finding is, and what stands in its message and in its advice
Situation = tuple[RunFigures, Verdict, Level, str, str]


def holds(situation: Situation, found: Finding) -> None:
    """Fails where this is not what is to be found."""
    _, verdict, level, message, advice = situation
    assert (found.verdict, found.level) == (verdict, level), found
    assert message in found.message, found.message
    assert advice in found.advice, found.advice
    assert found.advice or level not in (Level.BAD, Level.WARN)
