"""What the servers really drew: how often an answer was begun anew, whether or not its line says so."""

from collections import Counter
from collections.abc import Iterable

from draftmill.engines.simulated import Host
from draftmill.engines.simulated.sequence import Sequence
from draftmill.mill.trial import WITNESS_TOKENS
from tests.mill.chaos.check import Found


class Draws:
    """Every generation of every start that began at an answer's beginning."""

    def __init__(self) -> None:
        self._drawn: list[Sequence] = []

    def watch(self, host: Host) -> None:
        submit = host.server.submit

        def recorded(tag: str, prompt_ids: list[int], limit: int, now: int, seed: int | None = None) -> Sequence:
            sequence = submit(tag, prompt_ids, limit, now, seed)
            if limit != WITNESS_TOKENS:
                self._drawn.append(sequence)
            return sequence

        host.server.submit = recorded  # type: ignore[method-assign]

    def figures(self, founds: Iterable[Found]) -> Counter[str]:
        """Answers of which more than one draw had come into being, and how many of them are not marked as drawn again
        or were continued; and those that are marked although nothing had been drawn before."""
        times: Counter[tuple[int, ...]] = Counter()
        for sequence in self._drawn:
            if sequence.generated:
                times[tuple(sequence.prompt_ids)] += 1
        figures: Counter[str] = Counter()
        for found in founds:
            for position, line in found.whole.items():
                twice = times[tuple(found.prompts[position]["prompt_ids"])] > 1
                figures["drawn twice"] += twice
                figures["of them unmarked"] += twice and not line.get("redrawn") and not line.get("continued")
                figures["marked in vain"] += line.get("redrawn", False) and not twice
        return figures
