"""What checks need of a model: its tokenizer and dialect, and a few bits for each id, so that most rows are looked at
without a text."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from draftmill.errors import RenderError
from draftmill.records import Conversation
from draftmill.render import tokenizer as tokenizers
from draftmill.render.dialect import Dialect
from draftmill.render.families import Role
from draftmill.render.markers import Custom, Markers
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer

STOP, ROLE, WHITE, PARTIAL, BEGINS, GOES_ON, THINKS, CALLS = (1 << n for n in range(8))
Flags = npt.NDArray[np.uint8]

_SHORTEST = 3  # a special token of one or two characters is ordinary text
_SILENT = "\0"
TAIL = 6  # ids of a generation prompt that tell where an answer begins
SCRIPTS = ("other", "latin", "han and kana", "hangul", "cyrillic", "arabic")
_BLOCKS = (  # first and last character of each script, by the blocks of Unicode
    (1, 0x41, 0x24F),
    (4, 0x400, 0x52F),
    (5, 0x600, 0x6FF),
    (2, 0x3040, 0x30FF),
    (2, 0x4E00, 0x9FFF),
    (3, 0xAC00, 0xD7AF),
)


@dataclass(frozen=True)
class ModelSpec:
    """Where a model's tokenizer lies and how its template is used: what another process needs to load it."""

    name: str
    date: str
    arguments: dict[str, Any]
    custom: Custom
    trust_remote_code: bool = False


class Model:
    """A model, loaded once somebody asks for what its ``markers`` and the bits of ids do not tell: most files need no
    tokenizer in the processes that look at their parts, and loading one takes seconds."""

    def __init__(self, spec: ModelSpec, markers: Markers | None = None) -> None:
        self._spec = spec
        self._markers = markers

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return tokenizers.load(self._spec.name, trust_remote_code=self._spec.trust_remote_code)

    @cached_property
    def template(self) -> ChatTemplate:
        return ChatTemplate(self.tokenizer, self._spec.date)

    @cached_property
    def dialect(self) -> Dialect:
        return Dialect(self.tokenizer, self.template, self._spec.arguments, self._spec.custom)

    @property
    def markers(self) -> Markers:
        return self._markers or self.dialect.markers

    @cached_property
    def texts(self) -> list[str]:
        """The text of each id alone; of a special token, none."""
        alone = [[id] for id in range(self.tokenizer.size)]
        texts = [
            str(text)
            for text in self.tokenizer.inner.batch_decode(
                alone, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        ]
        for id in self._whole:
            texts[id] = _SILENT
        return texts

    @cached_property
    def special(self) -> list[str]:
        """The texts that must stand as one id."""
        known = {*self.tokenizer.special, *self.markers.texts.values()}
        return sorted((text for text in known if len(text.strip()) >= _SHORTEST), key=len, reverse=True)

    @cached_property
    def flags(self) -> Flags:
        """A few bits for each id; one more entry, of none, for ids beyond the vocabulary."""
        flags = np.zeros(self.tokenizer.size + 1, np.uint8)
        inner = {text[i:j] for text in self.special for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
        heads = {text[:i] for text in self.special for i in range(1, len(text))}
        ends = {text[i:] for text in self.special for i in range(1, len(text))}
        longest = max(map(len, self.special), default=0)
        for id, text in enumerate(self.texts):
            if not text.strip():
                flags[id] |= WHITE
            if "\ufffd" in text:
                flags[id] |= PARTIAL
            if text == _SILENT:
                continue
            reach = range(1, min(len(text), longest) + 1)
            if any(text[-n:] in heads for n in reach):
                flags[id] |= BEGINS
            if text in inner or any(text[:n] in ends for n in reach):
                flags[id] |= GOES_ON
        for id in self.markers.stop_ids:
            flags[id] |= STOP
        for id, role in self.markers.roles.items():
            flags[id] |= ROLE
            if role in (Role.THINK_OPEN, Role.THINK_CLOSE):
                flags[id] |= THINKS
            else:
                flags[id] |= CALLS
        return flags

    @cached_property
    def scripts(self) -> npt.NDArray[np.uint8]:
        """The script of each id, an index into ``SCRIPTS``."""
        return np.array([_script(text) for text in self.texts], np.uint8)

    @cached_property
    def tails(self) -> frozenset[tuple[int, ...]]:
        """The last ids of what the template writes where an answer begins, with thinking as it may be set."""
        found = set()
        asked = Conversation([{"role": "user", "content": "a"}])
        for thinking in ({}, {"enable_thinking": True}, {"enable_thinking": False}):
            arguments = self._spec.arguments | thinking
            try:
                whole, without = self.template.text(asked, arguments), self.template.finished(asked, arguments)
            except RenderError:
                continue
            if whole.startswith(without) and whole != without:
                found.add(tuple(self.tokenizer.encode([whole[len(without) :]])[0][-TAIL:]))
        return frozenset(found)

    @cached_property
    def _whole(self) -> set[int]:
        return {*self.tokenizer.special.values(), *self.markers.texts}


_loaded: dict[str, Model] = {}


def shared(spec: ModelSpec, markers: Markers | None = None) -> Model:
    """The model of a spec, the same for all datasets of a run that have the same."""
    key = repr(spec)
    if key not in _loaded:
        _loaded[key] = Model(spec, markers)
    return _loaded[key]


def _script(text: str) -> int:
    for character in text:
        code = ord(character)
        if character.isalpha():
            return next((script for script, first, last in _BLOCKS if first <= code <= last), 0)
    return 0


def without_model(stops: frozenset[int]) -> Flags:
    """The bits of ids where only the ends of answers are known."""
    flags = np.zeros(max(stops, default=0) + 2, np.uint8)
    flags[list(stops)] |= STOP
    return flags
