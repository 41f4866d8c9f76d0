"""How much of an answer is thinking, by the marker ids alone: no tokenizer is loaded for it."""

from pathlib import Path

import msgspec

from draftmill.journal.folder import DatasetFolder
from draftmill.render.families import THINKING

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


class _Added(msgspec.Struct):
    id: int
    content: str


class _Tokenizer(msgspec.Struct):
    added_tokens: list[_Added] = []


class _FirstPrompt(msgspec.Struct):
    prompt_ids: list[int] = []


def find(tokenizer: Path, own: tuple[str, str] | None = None) -> ThinkingIds | None:
    """The thinking markers in a run's own tokenizer; ``own`` are the recipe's. None where the model has none."""
    try:
        known = msgspec.json.decode((tokenizer / "tokenizer.json").read_bytes(), type=_Tokenizer).added_tokens
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None
    by_text = {token.content: token.id for token in known}
    for begins, ends in (own,) if own else THINKING:
        if begins in by_text and ends in by_text:
            return ThinkingIds(by_text[begins], by_text[ends], frozenset(by_text.values()))
    return None


def opened(ids: ThinkingIds, folder: DatasetFolder) -> bool:
    """Whether the answers of a dataset begin inside thinking: what its first prompt says."""
    try:
        with folder.prompts.open("rb") as file:
            return ids.opened(msgspec.json.decode(file.readline(), type=_FirstPrompt).prompt_ids)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return False
