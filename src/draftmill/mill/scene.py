"""What is rehearsed: datasets given as numbers, lanes, simulated servers; and the reference run as one of them."""

from collections.abc import Iterator

import msgspec

from draftmill.engines.simulated import Answers, Draw, Lengths, ServerSpec
from draftmill.ledger.order import conversation_id
from draftmill.recipe import Lane, Order
from draftmill.records import Prompt

_FIRST_ID = 100  # of the first dataset's prompts: tells the simulated model whose lengths to draw
_FIRST_DIGIT, _BASE, _DIGITS = 4, 6, 12
_SEED_STEP = 10_000_000  # more prompts than any dataset has


class SceneDataset(msgspec.Struct, frozen=True):
    """``prompts`` prompts of ``prompt_tokens`` tokens each (at least 13), whose answers are ``answers`` long.

    Where ``lengths`` are given, the prompts have these lengths one by one.
    """

    name: str
    prompts: int
    prompt_tokens: int
    answers: Lengths
    lane: str = "short"
    budget: int | None = None
    lengths: tuple[int, ...] = ()


class Scene(msgspec.Struct, frozen=True):
    """``concurrency`` is each server's own. ``seed`` gives other prompts, so other lengths, of the same make."""

    datasets: tuple[SceneDataset, ...]
    lanes: dict[str, Lane]
    servers: tuple[ServerSpec, ...] = (ServerSpec(),)
    concurrency: int | str = "auto"
    order: Order = "together"
    seed: int = 0
    draw: Draw = Draw.NEVER
    vocab_size: int = 1000

    def scaled(self, share: float) -> "Scene":
        """The same with a share of every dataset's prompts and budget."""
        datasets = tuple(
            msgspec.structs.replace(
                d, prompts=round(d.prompts * share), budget=None if d.budget is None else round(d.budget * share)
            )
            for d in self.datasets
        )
        return msgspec.structs.replace(self, datasets=datasets)

    def answers(self, salt: int = 0) -> Answers:
        """The model that all servers of the scene serve."""
        by_first = {_FIRST_ID + i: d.answers for i, d in enumerate(self.datasets)}
        return Answers(by_first=by_first, draw=self.draw, salt=salt, vocab_size=self.vocab_size)

    def prompts(self, index: int) -> Iterator[Prompt]:
        """The prompts of one dataset in their order: short ids, since millions of them are written and read."""
        dataset = self.datasets[index]
        for position in range(dataset.prompts):
            tokens = dataset.lengths[position] if dataset.lengths else dataset.prompt_tokens
            filler = [_FIRST_DIGIT] * (tokens - 1 - _DIGITS)
            ids = [_FIRST_ID + index, *_digits(self.seed * _SEED_STEP + position), *filler]
            name = conversation_id(dataset.name, b"%d/%d" % (self.seed, position), 0)
            yield Prompt(name, position, dataset.lane, [], ids, where=f"{dataset.name}:{position + 1}")


def _digits(number: int) -> list[int]:
    digits = []
    for _ in range(_DIGITS):
        number, digit = divmod(number, _BASE)
        digits.append(_FIRST_DIGIT + digit)
    return digits


def _reference() -> Scene:
    table = (  # name, prompts, prompt tokens, mean answer, lane
        ("B1_glaive", 10_000, 600, 1577.04, "short"),
        ("B2_opencodeinstruct", 14_714, 400, 3793.63, "short"),
        ("B3", 14_000, 200, 900.0, "short"),
        ("B4", 10_002, 300, 1200.0, "short"),
        ("B5", 7_000, 300, 2200.0, "short"),
        ("B6_ultrachat", 15_000, 200, 1000.0, "short"),
        ("B7", 9_000, 300, 1500.0, "short"),
        ("B8_sweagent", 3_572, 8000, 6000.0, "long"),
    )
    return Scene(
        datasets=tuple(
            SceneDataset(name, prompts, length, Lengths(mean, 0.9), lane, 10_000_000)
            for name, prompts, length, mean, lane in table
        ),
        lanes={
            "short": Lane(max_new_tokens=10_240, concurrency=150),
            "long": Lane(max_new_tokens=16_384, concurrency=32),
        },
        concurrency=182,
    )


# Eight datasets of 10 M tokens each on eight cards at once: 83,288 prompts, of which the sizes of B3, B4, B5 and B7,
# all prompt lengths and most means are set here, since the run's notes leave them open.
REFERENCE = _reference()
