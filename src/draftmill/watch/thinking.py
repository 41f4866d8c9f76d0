"""How much of an answer is thinking, by ids alone: a tokenizer is loaded for gpt-oss only, whose channels are words."""

from pathlib import Path

import msgspec

from draftmill.journal.folder import DatasetFolder
from draftmill.render.families import FAMILIES, THINKING, Body, Role

_NEAR = 4  # tokens in front of the opening marker that an answer may have: white space


class ThinkingIds(msgspec.Struct, frozen=True):
    """The markers of one model. ``added`` are all ids of its added tokens."""

    open: int
    close: int
    added: frozenset[int]

    def opened(self, prompt_ids: list[int]) -> bool:
        """Whether an answer behind this prompt begins inside thinking (as ``render.markers`` tells)."""
        last = next((id for id in reversed(prompt_ids) if id in self.added), None)
        return last == self.open

    def of(self, ids: list[int], opened: bool) -> tuple[int, bool]:
        """(tokens of thinking with its markers, whether it never ended) of one answer."""
        start = 0 if opened else next((n for n, id in enumerate(ids[:_NEAR]) if id == self.open), None)
        if start is None:
            return 0, False
        try:
            return ids.index(self.close, start) + 1 - start, False
        except ValueError:
            return len(ids) - start, True


class HarmonyIds(msgspec.Struct, frozen=True):
    """The markers of gpt-oss, whose thinking is the messages on the channel ``analysis`` that are to nobody.

    ``analysis``: the ids of that header; ``ends``: those that a message ends before or with.
    """

    channel: int
    message: int
    analysis: list[int]
    ends: frozenset[int]

    def opened(self, prompt_ids: list[int]) -> bool:
        """No prompt opens the thinking: each message has a header of its own."""
        return False

    def of(self, ids: list[int], opened: bool) -> tuple[int, bool]:
        """(tokens of thinking with their headers, whether the last of it never ended) of one answer."""
        tokens, begins = 0, None
        header = [self.channel, *self.analysis, self.message]
        for n, id in enumerate(ids):
            if id == self.message and ids[n + 1 - len(header) : n + 1] == header:
                begins = n + 1 - len(header)
            elif begins is not None and id in self.ends:
                tokens, begins = tokens + n + 1 - begins, None
        return (tokens, False) if begins is None else (tokens + len(ids) - begins, True)


Thinks = ThinkingIds | HarmonyIds


class _Added(msgspec.Struct):
    id: int
    content: str


class _Tokenizer(msgspec.Struct):
    added_tokens: list[_Added] = []


class _FirstPrompt(msgspec.Struct):
    prompt_ids: list[int] = []


def find(tokenizer: Path, own: tuple[str, str] | None = None) -> Thinks | None:
    """The thinking markers in a run's own tokenizer; ``own`` are the recipe's. None where the model has none."""
    try:
        known = msgspec.json.decode((tokenizer / "tokenizer.json").read_bytes(), type=_Tokenizer).added_tokens
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None
    by_text = {token.content: token.id for token in known}
    for begins, ends in (own,) if own else THINKING:
        if begins in by_text and ends in by_text:
            return ThinkingIds(by_text[begins], by_text[ends], frozenset(by_text.values()))
    harmony = next(family for family in FAMILIES if family.body is Body.HARMONY)
    channel, message = (by_text.get(harmony.markers[role]) for role in (Role.CHANNEL, Role.MESSAGE))
    if channel is None or message is None:
        return None
    from tokenizers import Tokenizer

    analysis = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).encode("analysis", add_special_tokens=False).ids
    texts = (harmony.markers[Role.MESSAGE_END], harmony.markers[Role.START], *harmony.turn_ends)
    return HarmonyIds(channel, message, analysis, frozenset(by_text[text] for text in texts if text in by_text))


def opened(ids: Thinks, folder: DatasetFolder) -> bool:
    """Whether the answers of a dataset begin inside thinking: what its first prompt says."""
    try:
        with folder.prompts.open("rb") as file:
            return ids.opened(msgspec.json.decode(file.readline(), type=_FirstPrompt).prompt_ids)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return False
