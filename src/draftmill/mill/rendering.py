"""The second pass over a dataset: conversations of the spool, in the dataset's order → lines of ``prompts.jsonl``."""

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec

from draftmill.errors import RenderError
from draftmill.ids import encode
from draftmill.ledger.order import ID_BYTES
from draftmill.mill.reading import Spooled
from draftmill.recipe import Dataset
from draftmill.records import Prompt
from draftmill.render import tokenizer as tokenizers
from draftmill.render.dialect import Dialect
from draftmill.render.findings import Concern, concerns
from draftmill.render.markers import Custom
from draftmill.render.special import SpecialText
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer
from draftmill.sources.tool_text import has_tool_text

TOO_SHORT, TOO_LONG = "too short", "too long"
LONGEST = 5  # prompts that the report names

_decoder = msgspec.json.Decoder(Spooled)
_HEAD = len(encode(Prompt("0" * 2 * ID_BYTES, 0, "", [], [])).partition(b"0,")[0]) + 1  # up to the position and with it


class Figures(msgspec.Struct):
    """What is counted of prompts; those of several batches add up. ``lengths`` are by the power of two above them."""

    refused: int = 0
    tokens: int = 0
    lengths: dict[int, int] = {}
    longest: list[tuple[int, str]] = []
    with_tools: int = 0
    turns: int = 0
    most_turns: int = 1
    passed_through: int = 0
    without_special: int = 0
    special: dict[str, int] = {}
    special_rows: int = 0
    special_first: str = ""
    concerns: dict[str, int] = {}
    tools_as_text: int = 0
    tools_as_text_first: str = ""
    over_context: int = 0

    def add(self, later: "Figures") -> None:
        """Take in what was counted of the prompts behind."""
        for name in ("refused", "tokens", "with_tools", "turns", "passed_through", "without_special", "special_rows"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.tools_as_text += later.tools_as_text
        self.over_context += later.over_context
        for name in ("lengths", "special", "concerns"):
            setattr(self, name, _sum(getattr(self, name), getattr(later, name)))
        self.most_turns = max(self.most_turns, later.most_turns)
        self.longest = sorted([*self.longest, *later.longest], key=lambda each: -each[0])[:LONGEST]
        self.special_first = self.special_first or later.special_first
        self.tools_as_text_first = self.tools_as_text_first or later.tools_as_text_first


class Batch(msgspec.Struct):
    """Conversations to render: their places in the spool, their ids (16 bytes each), and how many are kept at most."""

    spool: str
    offsets: list[int]
    lengths: list[int]
    ids: bytes
    most: int | None = None


class Rendered(msgspec.Struct):
    """What became of a batch: of every prompt that is kept the ``ids`` and the rest of its line behind its position
    (``tails``); how many were ``dropped``, and why; and how many of the batch were ``looked`` at."""

    ids: bytes
    tails: list[bytes]
    dropped: dict[str, int]
    figures: Figures
    looked: int


@dataclass(frozen=True)
class Copy:
    """A run's own copy of its tokenizer, which any process can open."""

    folder: str
    date: str
    arguments: dict[str, Any]
    custom: Custom
    trust_remote_code: bool = False

    def open(self) -> tuple[Tokenizer, Dialect]:
        loaded = tokenizers.load(self.folder, trust_remote_code=self.trust_remote_code)
        return loaded, Dialect(loaded, ChatTemplate(loaded, self.date), self.arguments, self.custom)


class Rendering:
    """Renders batches of one dataset. ``copy`` is what other processes make theirs of; None: there are none."""

    def __init__(
        self,
        dataset: Dataset,
        tokenizer: Tokenizer,
        dialect: Dialect,
        context: int | None = None,
        copy: Copy | None = None,
    ) -> None:
        self._dataset = dataset
        self._tokenizer = tokenizer
        self._dialect = dialect
        self._context = context
        self._copy = copy
        self._special = SpecialText(tokenizer.special)
        self._special_ids = set(tokenizer.special.values())
        self._spool: tuple[str, int] | None = None

    def __reduce__(self) -> Any:
        if self._copy is None:
            raise RuntimeError("a rendering without a copy of its tokenizer cannot leave its process")
        return _elsewhere, (self._dataset, self._context, self._copy)

    def __call__(self, batch: Batch) -> Rendered:
        spooled = self._read(batch)
        low, high = self._dataset.min_prompt_tokens or 0, self._dataset.max_prompt_tokens
        figures = Figures()
        special: Counter[str] = Counter()
        concerned: Counter[str] = Counter()
        dropped: dict[str, int] = {}
        kept: list[bytes] = []
        tails: list[bytes] = []
        looked = 0
        for number, (s, (ids, fault)) in enumerate(zip(spooled, self._encoded(spooled), strict=True)):
            if len(tails) == batch.most:
                break
            looked += 1
            length = len(ids)
            if not fault and (length < low or (high and length > high)):
                why = TOO_SHORT if length < low else TOO_LONG
                dropped[why] = dropped.get(why, 0) + 1
                continue
            id = batch.ids[number * ID_BYTES : (number + 1) * ID_BYTES]
            kept.append(id)
            tails.append(self._line(id, s, ids, fault)[_HEAD:])
            self._count(figures, s, ids, fault, special, concerned)
        figures.special, figures.concerns = dict(special), {str(k): v for k, v in concerned.items()}
        figures.longest = sorted(figures.longest, key=lambda each: -each[0])[:LONGEST]
        return Rendered(b"".join(kept), tails, dropped, figures, looked)

    def _line(self, id: bytes, s: Spooled, ids: list[int], fault: str) -> bytes:
        return encode(
            Prompt(
                id=id.hex(),
                position=0,
                lane=self._dataset.lane_of(len(ids)),
                messages=s.conversation.messages,
                prompt_ids=ids,
                tools=s.conversation.tools,
                where=s.where,
                fault=fault,
                later=s.conversation.later,
                loss_mask=s.loss_mask,
            )
        )

    def _count(
        self, figures: Figures, s: Spooled, ids: list[int], fault: str, special: Counter[str], concerned: Counter[str]
    ) -> None:
        figures.refused += bool(fault)
        figures.tokens += (length := len(ids))
        figures.over_context += self._context is not None and s.loss_mask is None and length >= self._context
        if not fault:
            bound = 1 << max(0, length - 1).bit_length()
            figures.lengths[bound] = figures.lengths.get(bound, 0) + 1
            if len(figures.longest) < LONGEST or length > figures.longest[-1][0]:
                figures.longest = sorted([*figures.longest, (length, s.where)], key=lambda each: -each[0])[:LONGEST]
        conversation = s.conversation
        figures.with_tools += conversation.tools is not None
        figures.turns += (turns := 1 + len(conversation.later))
        figures.most_turns = max(figures.most_turns, turns)
        if s.loss_mask is not None:
            figures.passed_through += 1
            figures.without_special += bool(self._special_ids) and self._special_ids.isdisjoint(ids)
            return
        concerned.update(concerns(conversation) - {Concern.ALL})
        if has_tool_text(conversation):
            figures.tools_as_text += 1
            figures.tools_as_text_first = figures.tools_as_text_first or s.where
        if found := self._special.found(conversation):
            special.update(found)
            figures.special_rows += 1
            figures.special_first = figures.special_first or s.where

    def _read(self, batch: Batch) -> list[Spooled]:
        if self._spool is None or self._spool[0] != batch.spool:
            self.close()
            self._spool = batch.spool, os.open(batch.spool, os.O_RDONLY | os.O_CLOEXEC)
        file = self._spool[1]
        return [
            _decoder.decode(os.pread(file, length, offset))
            for offset, length in zip(batch.offsets, batch.lengths, strict=True)
        ]

    def close(self) -> None:
        if self._spool is not None:
            os.close(self._spool[1])
        self._spool = None

    def _encoded(self, spooled: list[Spooled]) -> list[tuple[list[int], str]]:
        """(ids, "") or ([], why the template refuses it) of each conversation; the ids of what has them already."""
        texts = self._dialect.texts([s.conversation for s in spooled if s.loss_mask is None])
        encoded = iter(self._tokenizer.encode_many([text for text in texts if isinstance(text, str)]))
        made = iter([([], text.message) if isinstance(text, RenderError) else (next(encoded), "") for text in texts])
        return [next(made) if s.loss_mask is None else (s.input_ids, "") for s in spooled]


def _elsewhere(dataset: Dataset, context: int | None, copy: Copy) -> Rendering:
    return Rendering(dataset, *copy.open(), context, copy)


def line(id: bytes, position: int, tail: bytes) -> bytes:
    """A whole line of ``prompts.jsonl``."""
    return b'{"id":"%s","position":%d%s\n' % (id.hex().encode(), position, tail)


def _sum(one: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (one | other)}
