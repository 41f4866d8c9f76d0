"""What the recipe asks of the servers, dataset by dataset, and where each figure comes from."""

from collections.abc import Callable
from math import ceil

import msgspec

from draftmill.capacity.decodes import Part
from draftmill.capacity.duration import prompts_for
from draftmill.capacity.lengths import Lengths, assumed
from draftmill.plan.history import Seen
from draftmill.recipe import Dataset, Recipe

PROMPT = 500.0  # tokens of a prompt of which nothing is known
ANSWER = 1500.0  # and of an answer, where the limit allows it: the middle of what chat, code and tool data showed


class Demand(msgspec.Struct, frozen=True):
    """One dataset. ``needed`` prompts reach its budget; ``enough`` is whether it has as many, None where nobody knows.

    ``prompt`` and ``answers`` come from ``prompt_from`` and ``answers_from``: observed, given or assumed. ``settled``:
    nothing of it is owed.
    """

    name: str
    lane: str
    limit: int
    available: int | None
    needed: int
    enough: bool | None
    prompt: float
    prompt_from: str
    longest: int
    longest_where: str
    answers: Lengths
    answers_from: str
    done: int = 0
    prompts: list[int] = []
    settled: bool = False

    @property
    def tokens(self) -> float:
        """Tokens to generate in all, what is done already included."""
        return self.needed * self.answers.mean

    @property
    def left(self) -> float:
        """Tokens that are still to be generated."""
        return 0.0 if self.settled else max(0.0, self.tokens - self.done)

    @property
    def part(self) -> Part:
        return Part(self.needed, self.prompt, self.answers)


def demands(recipe: Recipe, look: Callable[[Dataset], Seen | None]) -> list[Demand]:
    """What each dataset of the recipe asks for. ``look`` gives what the run's folder knows of one."""
    return [_demand(recipe, dataset, look(dataset)) for dataset in recipe.datasets]


def _demand(recipe: Recipe, dataset: Dataset, seen: Seen | None) -> Demand:
    limit = recipe.lanes[dataset.lane].max_new_tokens
    prompt, prompt_from = _prompt(recipe, dataset, seen)
    answers, answers_from = _answers(recipe, dataset, seen, limit)
    available = len(seen.prompts) if seen else dataset.samples
    if dataset.budget is None:
        needed, enough = available or 0, None if available is None else True
    else:
        worth = answers.mean + (prompt if dataset.budget_counts == "all" else 0)
        wanted = prompts_for(dataset.budget, worth)
        needed = wanted if available is None else min(wanted, available)
        enough = None if seen is None else wanted <= len(seen.prompts)
    return Demand(
        name=dataset.name,
        lane=dataset.lane,
        limit=limit,
        available=available,
        needed=needed,
        enough=enough,
        prompt=prompt,
        prompt_from=prompt_from,
        longest=seen.longest if seen else ceil(prompt),
        longest_where=seen.longest_where if seen else prompt_from,
        answers=answers,
        answers_from=answers_from,
        done=seen.done if seen else 0,
        prompts=seen.prompts if seen else [],
        settled=seen is not None and seen.settled,
    )


def _prompt(recipe: Recipe, dataset: Dataset, seen: Seen | None) -> tuple[float, str]:
    if seen:
        return seen.mean, "prepared"
    if given := _given(recipe.plan.prompts, dataset.name):
        return given, "given"
    return PROMPT, "assumed"


def _answers(recipe: Recipe, dataset: Dataset, seen: Seen | None, limit: int) -> tuple[Lengths, str]:
    if given := _given(recipe.plan.answers, dataset.name):
        return assumed(given, limit), "given"
    if seen and seen.answers:
        return seen.answers, f"{seen.answers.seen:,} {'first ' if seen.early else ''}answers"
    return assumed(min(ANSWER, limit / 2), limit), "assumed"


def _given(table: dict[str, float], name: str) -> float | None:
    return next((value for key, value in table.items() if key.lower() == name.lower()), None)
