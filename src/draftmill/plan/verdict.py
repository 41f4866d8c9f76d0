"""What a plan says in words beside its figures: what binds, and what the figures rest on."""

from collections.abc import Sequence

from draftmill.capacity import lengths, pool
from draftmill.capacity.headroom import GIB, gib
from draftmill.capacity.speed import Speed
from draftmill.plan.demand import Demand
from draftmill.plan.facts import Facts
from draftmill.plan.pace import GUESSED


def binds(
    running: int,
    fits: int,
    most: int,
    states: int | None,
    cap: int | None,
    pace: Speed | None,
    facts: Facts,
    sizes: dict[str, float],
) -> str:
    """What holds the rate down, in words. ``most`` is the server's own limit of requests, ``sizes`` bytes on disk."""
    if not running:
        return "nothing runs: the KV cache does not hold one request"
    needed = sizes["prompts"] + sizes["journal"] + sizes["rows"]
    if facts.disk is not None and needed > facts.disk:
        return f"the disk: {needed / 1e9:,.1f} GB are needed, {facts.disk / 1e9:,.1f} GB are free"
    if cap is not None and running == cap and fits > cap:
        what = f"the concurrency of {cap}: the KV cache would hold {fits}"
    elif states is not None and running == states:
        what = f"the states of the linear layers: {states} sequences"
    elif running == most:
        what = f"the server's limit of {most} requests"
    else:
        what = f"the KV cache: {running} requests fill it"
    if pace and pace.per_sequence * running > pace.base:
        gain = pace.rate(2 * running) / pace.rate(running) - 1
        return f"{what}; beyond it compute: twice as many at once would give {gain:.0%} more"
    if pace and pace.per_sequence:
        return f"{what}; twice as many at once would give {pace.rate(2 * running) / pace.rate(running) - 1:.0%} more"
    return what


def notes(
    demands: Sequence[Demand], tokens: int, context: int, pace_from: str, sizes: dict[str, float], facts: Facts
) -> list[str]:
    """What a person should know of the figures."""
    said = []
    if assumed := [d.name for d in demands if d.answers_from == "assumed"]:
        said.append(
            f"answers of {', '.join(assumed)} are assumed (log-normal, σ {lengths.SIGMA}): `run --limit 40` shows "
            "them, or give their means in `plan: answers`"
        )
    if assumed := [d.name for d in demands if d.prompt_from == "assumed"]:
        said.append(f"prompts of {', '.join(assumed)} are assumed: `draftmill prepare` makes them")
    if early := [d.name for d in demands if "first" in d.answers_from]:
        said.append(f"the answers seen of {', '.join(early)} are the first to finish, so rather short")
    if pace_from == GUESSED:
        said.append("the speed is a guess from the card's bandwidth: give two observed loads in `plan: loads`")
    if short := [d.name for d in demands if d.enough is False]:
        said.append(f"{', '.join(short)}: fewer prompts than the budget needs; it will end exhausted")
    room = pool.longest_prompt(tokens, context) if tokens else 0
    if cut := [d.name for d in demands if d.longest < room < d.longest + d.limit and d.limit <= room]:
        said.append(f"the longest prompts of {', '.join(cut)} leave less than their lane's limit in the context")
    taken = [gpu for gpu in facts.machine.gpus if gpu.memory - gpu.free > 2 * GIB]
    if taken and facts.card and facts.card.name == taken[0].name:
        most = max(gpu.memory - gpu.free for gpu in taken)
        said.append(f"{len(taken)} GPUs here are in use, by up to {gib(most)}: the plan takes them as free")
    if facts.disk is not None and sizes["hidden_states"] > facts.disk:
        said.append("the hidden states of all rows would not fit this disk: take them in parts")
    return said
