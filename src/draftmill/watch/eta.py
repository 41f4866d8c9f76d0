"""When a run will be done: remaining tokens over the rate since the last start, with a range."""

import msgspec

from draftmill.watch.figures import DatasetFigures, EngineFigures, Eta


def foresee(
    datasets: list[DatasetFigures], total: DatasetFigures, engines: list[EngineFigures]
) -> tuple[list[DatasetFigures], DatasetFigures]:
    """The same figures with their ETAs."""
    left = [_remaining(d) for d in datasets]
    rate = total.rates.start
    if not rate or None in left:
        return datasets, total
    remaining = sum(x for x in left if x is not None)
    seconds = remaining / rate
    made = Eta(seconds, seconds * 0.8, seconds * 1.2, remaining)
    return datasets, msgspec.structs.replace(total, eta=made)


def _remaining(d: DatasetFigures) -> float | None:
    """Tokens that a dataset is still to generate."""
    if d.owed is None:
        return None
    if not d.owed:
        return 0.0
    mean = d.lengths.mean if d.lengths else None
    by_prompts = d.owed * mean if mean else None
    if d.budget is None:
        return by_prompts
    by_budget = float(max(0, d.budget - d.counted))
    return by_budget if by_prompts is None else min(by_budget, by_prompts)
