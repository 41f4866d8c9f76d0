"""A completion as text, decoded when somebody asks: its prompt, and the answer in its parts."""

from typing import Any

import msgspec

from draftmill.errors import StorageError
from draftmill.journal.folder import RunFolder
from draftmill.journal.prompts import Heads, index_of
from draftmill.journal.reader import completion_at
from draftmill.ledger.settings import read_settings
from draftmill.recipe import Recipe
from draftmill.records import Completion
from draftmill.render import markers, parse, tokenizer
from draftmill.render.families import Body
from draftmill.render.markers import Custom, Markers
from draftmill.render.parts import Kind
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer
from draftmill.watch.figures import Recent

_NO_INDEX = 1 << 62  # bytes of prompts from which an index is written: never here


class Span(msgspec.Struct, frozen=True):
    """A piece of an answer: ``reasoning``, ``content``, ``call``, ``frame``, ``end`` or ``after`` (render.parts)."""

    kind: str
    text: str


class Decoded(msgspec.Struct, frozen=True):
    """``prompt`` is not learnt from; ``answer`` is the supervised part, every id of it in one span."""

    prompt: str
    answer: list[Span]


class Completions:
    """Decodes completions of one run by their place. The tokenizer is loaded for the first one, which takes seconds."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._loaded: tuple[Tokenizer, Markers] | None = None
        self._heads: dict[str, Heads] = {}

    def decode(self, recent: Recent) -> Decoded:
        """Raises DraftmillError where the line, the prompt or the tokenizer cannot be read."""
        if recent.older_shape:
            return self._older(recent)
        with self._folder.dataset(recent.dataset).journal.open("rb") as file:
            completion = completion_at(file, recent.offset)
        prompt_ids = completion.prompt_ids or self._prompt(recent.dataset, completion)
        tokens, marks = self._load()
        ids = completion.output_ids
        parts = parse.parse(ids, marks, opened=marks.opened(prompt_ids), decode=tokens.decode)
        spans = [Span(part.kind.value, tokens.decode(ids[part.start : part.end])) for part in parts.parts]
        return Decoded(tokens.decode(prompt_ids), spans)

    def _prompt(self, dataset: str, completion: Completion) -> list[int]:
        files = self._folder.dataset(dataset)
        if dataset not in self._heads:
            offsets = index_of(files.prompts, files.prompts_index, worth=_NO_INDEX).offsets
            self._heads[dataset] = Heads(files.prompts, offsets)
        return list(self._heads[dataset].at(completion.position).prompt_ids)

    def _older(self, recent: Recent) -> Decoded:
        """A line of another version: whatever text it has."""
        with self._folder.dataset(recent.dataset).journal.open("rb") as file:
            file.seek(recent.offset)
            line: dict[str, Any] = msgspec.json.decode(file.readline())
        line = line.get("response") or line
        choice = (line.get("choices") or [{}])[0]
        message = choice.get("message") or {}
        thinking = message.get("reasoning_content") or ""
        text = message.get("content") or choice.get("text") or line.get("text") or ""
        spans = [Span(Kind.REASONING.value, str(thinking))] if thinking else []
        if calls := message.get("tool_calls"):
            spans.append(Span(Kind.CALL.value, msgspec.json.encode(calls).decode()))
        return Decoded("", [*spans, Span(Kind.CONTENT.value, str(text))])

    def _load(self) -> tuple[Tokenizer, Markers]:
        if self._loaded is None:
            settings = read_settings(self._folder)
            if settings is None or not self._folder.tokenizer.is_dir():
                raise StorageError(f"{self._folder.path}: has no tokenizer of its own, so its ids cannot be read")
            recipe = Recipe.model_validate(settings.recipe)
            loaded = tokenizer.load(str(self._folder.tokenizer.resolve()), trust_remote_code=recipe.trust_remote_code)
            said = recipe.markers.model_dump()
            custom = Custom(**(said | {"body": Body(said["body"]) if said["body"] else None}))
            found, _ = markers.find(loaded, ChatTemplate(loaded, settings.date), custom)
            self._loaded = loaded, found
        return self._loaded
