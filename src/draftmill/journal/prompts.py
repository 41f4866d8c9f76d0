"""Read ``prompts.jsonl``: the prompts of one dataset, in position order, one line each."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from draftmill.errors import StorageError
from draftmill.records import Message, Tool

T = TypeVar("T")


class PromptHead(msgspec.Struct, frozen=True):
    """A prompt without its conversation: what the mill holds while it is in flight."""

    id: str
    position: int
    lane: str
    prompt_ids: list[int]
    where: str = ""
    turn: int = 0
    fault: str = ""


class PromptId(msgspec.Struct, frozen=True):
    """A prompt's identity alone."""

    id: str
    position: int


class PromptText(msgspec.Struct, frozen=True):
    """A prompt as the dataset gave it, beside what it was rendered to."""

    id: str
    messages: list[Message]
    prompt_ids: list[int]
    tools: list[Tool] | None = None
    fault: str = ""


def read_heads(path: Path) -> Iterator[PromptHead]:
    """Every prompt of a dataset without its messages."""
    return _read(path, msgspec.json.Decoder(PromptHead))


def read_ids(path: Path) -> Iterator[PromptId]:
    """The ids of a dataset's prompts, in position order."""
    return _read(path, msgspec.json.Decoder(PromptId))


def read_texts(path: Path) -> Iterator[PromptText]:
    """Every prompt of a dataset with its conversation and its ids."""
    return _read(path, msgspec.json.Decoder(PromptText))


def _read(path: Path, decoder: "msgspec.json.Decoder[T]") -> Iterator[T]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                advice = "the prompts decide what every answer belongs to: restore the file, or start a new run"
                raise StorageError(f"{path}:{number}: is not a prompt: {error}", advice) from None
