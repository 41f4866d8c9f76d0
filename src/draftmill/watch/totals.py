"""All datasets of a run as one."""

from collections import Counter

from draftmill.watch import rates
from draftmill.watch.dataset import DatasetWatch
from draftmill.watch.figures import DatasetFigures, Thinking
from draftmill.watch.lengths import Histogram


def together(each: list[tuple[DatasetFigures, DatasetWatch]]) -> DatasetFigures:
    """The figures of all datasets as those of one, named "all"."""
    datasets, watches = [d for d, _ in each], [w for _, w in each]

    def whole(field: str) -> int | None:
        values = [getattr(d, field) for d in datasets]
        return None if not values or None in values else sum(values)

    def known(field: str) -> int:
        return sum(getattr(d, field) or 0 for d in datasets)

    finishes = sum((Counter(d.finishes) for d in datasets), Counter[str]())
    answers = known("answers")
    thought = [d.thinking for d in datasets if d.thinking]
    tokens = [(t, d.lengths.tokens if d.lengths else 0) for d in datasets if (t := d.thinking)]
    weight = sum(n for _, n in tokens)
    reasons = sorted((r for d in datasets for r in d.error_reasons), key=lambda r: -r.count)
    return DatasetFigures(
        name="all",
        prompts=whole("prompts"),
        rows=known("rows"),
        counting=whole("counting"),
        surplus=whole("surplus"),
        passed_through=whole("passed_through"),
        errors=known("errors"),
        owed=whole("owed"),
        not_needed=whole("not_needed"),
        budget=whole("budget"),
        counted=known("counted"),
        exhausted=any(d.exhausted for d in datasets),
        answers=answers,
        generated=known("generated"),
        prompt_tokens=known("prompt_tokens"),
        growing=known("growing"),
        growing_answers=known("growing_answers"),
        finishes=dict(finishes),
        truncated=finishes["length"] / answers if answers else None,
        lengths=Histogram().merged(w.lengths() for w in watches).figures(),
        prompt_lengths=Histogram().merged(w.prompt_lengths() for w in watches).figures(),
        thinking=Thinking(
            sum(t.answers for t in thought),
            sum(t.share * n for t, n in tokens) / weight,
            sum(t.unclosed for t in thought),
        )
        if weight
        else None,
        continued=known("continued"),
        redrawn=known("redrawn"),
        strays=known("strays"),
        older_shape=known("older_shape"),
        torn=any(d.torn for d in datasets),
        rates=rates.together([d.rates for d in datasets]),
        error_reasons=reasons[:5],
        recent_errors=known("recent_errors"),
        recent_answers=known("recent_answers"),
        unread=[unread for d in datasets for unread in d.unread],
    )
