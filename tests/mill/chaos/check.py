"""What must hold of a run's files after every start, however that ended.

Worked out from the files alone by a reader of its own: nothing here comes from the code that wrote them but the
simulated model, which says what the answer to a prompt is.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftmill.engines.simulated import Answers, Draw

STATES = ("counting", "surplus", "passed_through", "error", "owed", "not_needed")
STOP = 2


@dataclass
class Asked:
    """What was asked of one dataset: ``limits`` are the token limits that its starts had, by the context too.

    ``guilty`` are the positions that deserve an error row, each with the kinds that it deserves; no other does.
    """

    folder: Path
    model: Answers
    limits: set[int]
    budget: int | None = None
    guilty: dict[int, set[str]] = field(default_factory=dict)
    longest: int = 1 << 31  # tokens of prompt and answer together that the servers take


@dataclass
class Found:
    """What stands in a dataset's files. ``violations`` are what must not be, in words."""

    violations: list[str] = field(default_factory=list)
    prompts: list[dict[str, Any]] = field(default_factory=list)
    whole: dict[int, dict[str, Any]] = field(default_factory=dict)
    begun: dict[int, list[int]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    tally: dict[str, int] = field(default_factory=dict)
    cut: int = 0

    @property
    def marks(self) -> Counter[str]:
        """How many answers there are, and how many of them were continued or drawn again."""
        lines = self.whole.values()
        continued, redrawn = (sum(bool(line.get(mark)) for line in lines) for mark in ("continued", "redrawn"))
        return Counter(answers=len(self.whole), continued=continued, redrawn=redrawn)


def look(asked: Asked) -> Found:
    """Read a dataset's files and hold them against what was asked."""
    found = Found()
    found.prompts = _lines(asked.folder / "prompts.jsonl", found)
    for line in _lines(asked.folder / "raw_responses.jsonl", found):
        _journal_line(line, asked, found)
    for line in _lines(asked.folder / "errors.jsonl", found):
        _error_line(line, asked, found)
    if (asked.folder / "suspects.jsonl").exists():
        found.violations.append("a reply was set aside, though every server tells the truth")
    _count(asked, found)
    return found


def promise_broken(promised: Mapping[Path, bytes]) -> list[str]:
    """Files that do not begin with what was synced before, byte for byte."""
    broken = []
    for path, before in promised.items():
        now = path.read_bytes() if path.exists() else b""
        if not now.startswith(before):
            at = next((i for i, (a, b) in enumerate(zip(now, before, strict=False)) if a != b), len(now))
            broken.append(
                f"{path.name}: {len(before)} bytes were synced, and from byte {at} on they are gone or others"
            )
    return broken


def drawn_again(before: Found, now: Found) -> list[str]:
    """Answers that were not continued from what was known of them when the start began."""
    known = {p: len(before.begun[p]) for p in now.whole.keys() - before.whole.keys() if before.begun.get(p)}
    drawn = {p: now.whole[p].get("continued", 0) for p, ids in known.items()}
    return [f"position {p}: {known[p]} ids were known, {drawn[p]} continued" for p in known if drawn[p] < known[p]]


def tally_differs(found: Found, told: Mapping[str, int]) -> list[str]:
    """Where the states that the mill tells of a dataset are not those that its files give."""
    names = ("positions", *STATES, "counting_tokens")
    wrong = [
        f"{name}: told {told[name]}, found {found.tally[name]}" for name in names if told[name] != found.tally[name]
    ]
    if sum(told[state] for state in STATES) != told["positions"]:
        wrong.append(f"the states do not add up: {dict(told)}")
    return wrong


def incomplete(asked: Asked, found: Found) -> list[str]:
    """What a finished run may not lack: nothing owed, the guilty told, the rows those that count."""
    wrong = [f"{found.tally['owed']} positions are owed at the end"] if found.tally["owed"] else []
    end = found.cut
    wrong += [
        f"position {p} has no error row: {k}" for p, k in asked.guilty.items() if p < end and p not in found.errors
    ]
    wanted = [_row(asked, found, position) for position in range(end) if position in found.whole]
    rows = _lines(asked.folder / "tokenized_data.jsonl", found)
    if rows != wanted:
        at = next(
            (i for i, (a, b) in enumerate(zip(rows, wanted, strict=False)) if a != b), min(len(rows), len(wanted))
        )
        wrong.append(f"{len(rows)} rows, {len(wanted)} count; they part at row {at}")
    if asked.model.draw is Draw.NEVER and len(asked.limits) == 1 and (straight := _straight_cut(asked, found)) != end:
        wrong.append(f"{end} positions count, undisturbed it would be {straight}")
    return wrong


def _lines(path: Path, found: Found) -> list[dict[str, Any]]:
    """Every whole line; what a kill left of the last one is none, unless it lacks its newline alone."""
    lines: list[dict[str, Any]] = []
    *whole, rest = path.read_bytes().split(b"\n") if path.exists() else [b""]
    for number, text in enumerate(whole, start=1):
        try:
            lines.append(dict(json.loads(text)))
        except ValueError:
            found.violations.append(f"{path.name}:{number} is no line: {text[:60]!r}")
    try:
        lines += [dict(json.loads(rest))] if rest else []
    except ValueError:
        pass
    return lines


def _journal_line(line: dict[str, Any], asked: Asked, found: Found) -> None:
    position, ids, continued = line["position"], line["output_ids"], line.get("continued", 0)
    where = f"position {position}"
    wrong = found.violations.append
    if not 0 <= position < len(found.prompts) or found.prompts[position]["id"] != line["id"]:
        wrong(f"{where}: the line belongs to no prompt")
        return
    prompt = found.prompts[position]["prompt_ids"]
    begun = found.begun.get(position, [])
    if position in found.whole:
        wrong(f"{where}: " + ("goes on behind its whole answer" if line.get("partial") else "stands there twice"))
    if (line["prompt_tokens"], line["completion_tokens"]) != (len(prompt), len(ids)):
        wrong(f"{where}: its counts are not those of its ids")
    if continued > len(begun):
        wrong(f"{where}: continues from {continued} ids, {len(begun)} are known")
    if line.get("partial"):
        found.begun[position] = begun = begun[:continued] + ids
        if begun and (why := asked.model.check(prompt, begun)):
            wrong(f"{where}: a beginning of {len(begun)} ids is wrong: {why}")
        return
    found.whole[position] = line
    if ids[: len(begun)] != begun:
        wrong(f"{where}: its answer is not the one that had begun")
    if why := _wrong_answer(line, prompt, asked):
        wrong(f"{where}: {why}")


def _wrong_answer(line: dict[str, Any], prompt: list[int], asked: Asked) -> str | None:
    """Why this is not the answer to its prompt, whole or cut at the limit that it names."""
    ids, limit = line["output_ids"], line["limit"]
    if limit not in {min(lane, asked.longest - len(prompt)) for lane in asked.limits} and limit != line.get(
        "continued"
    ):
        return f"its limit was {limit}"  # a lowered limit leaves what is there already, and calls that the limit
    if asked.model.draw is Draw.NEVER:
        answer = asked.model.of(prompt)
        if ids != answer.ids(0, min(answer.length, limit)):
            return f"its {len(ids)} ids are not the answer of {answer.length}, cut at {limit}"
    elif why := asked.model.check(prompt, ids):
        return why
    stopped = ids[-1] == STOP
    if line["finish_reason"] != ("stop" if stopped else "length") or not (stopped or len(ids) == limit):
        return f"ended by {line['finish_reason']} after {len(ids)} ids, the last {ids[-1]}, the limit {limit}"
    return None


def _error_line(line: dict[str, Any], asked: Asked, found: Found) -> None:
    position, kind = line["position"], line["kind"]
    if position in found.errors:
        found.violations.append(f"position {position}: two error rows")
    if position in found.whole:
        found.violations.append(f"position {position}: an answer and an error row")
    if kind not in asked.guilty.get(position, ()):
        found.violations.append(f"position {position} is blamed and not guilty: {kind}: {line['reason']}")
    found.errors[position] = kind


def _count(asked: Asked, found: Found) -> None:
    """The state of every position: shortest prefix of the order that reaches the budget, errors passed over."""
    count, whole, errors = len(found.prompts), found.whole, found.errors.keys() - found.whole.keys()
    tokens, cut = 0, 0
    while cut < count and (asked.budget is None or tokens < asked.budget):
        tokens += whole[cut]["completion_tokens"] if cut in whole else 0
        cut += 1
    open_ = [p for p in range(count) if p not in whole and p not in errors]
    found.cut = cut
    found.tally = {
        "positions": count,
        "counting": sum(p < cut for p in whole),
        "surplus": sum(p >= cut for p in whole),
        "passed_through": 0,
        "error": len(errors),
        "owed": sum(p < cut for p in open_),
        "not_needed": sum(p >= cut for p in open_),
        "counting_tokens": tokens,
    }


def _row(asked: Asked, found: Found, position: int) -> dict[str, Any]:
    prompt, line = found.prompts[position], found.whole[position]
    before, after = prompt["prompt_ids"], line["output_ids"]
    return {
        "input_ids": before + after,
        "loss_mask": [0] * len(before) + [1] * len(after),
        "id": prompt["id"],
        "position": position,
        "turn": 0,
        "dataset": asked.folder.name,
        "prompt_tokens": len(before),
        "completion_tokens": len(after),
        "finish_reason": line["finish_reason"],
    }


def _straight_cut(asked: Asked, found: Found) -> int:
    """Where the budget would be reached if nothing had ever gone wrong, from the model alone."""
    (lane,), tokens = asked.limits, 0
    for prompt in found.prompts:
        if asked.budget is not None and tokens >= asked.budget:
            return int(prompt["position"])
        if prompt["position"] not in asked.guilty:
            ids = prompt["prompt_ids"]
            tokens += min(asked.model.of(ids).length, lane, asked.longest - len(ids))
    return len(found.prompts)
