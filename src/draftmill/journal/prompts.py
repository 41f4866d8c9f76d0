"""Read ``prompts.jsonl``: the prompts of one dataset, in position order, one line each."""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from draftmill import ids
from draftmill.errors import StorageError
from draftmill.journal.files import replacing
from draftmill.journal.index import WORTH, PromptIndex, read_prompt_index, write_prompt_index
from draftmill.records import Message, Tool, Turn

T = TypeVar("T")

_RESTORE = "the prompts decide what every answer belongs to: restore the file, or start a new run"


class PromptHead(msgspec.Struct, frozen=True):
    """A prompt without its conversation: what the mill holds while it is in flight."""

    id: str
    position: int
    lane: str
    prompt_ids: Sequence[int]
    where: str = ""
    turn: int = 0
    fault: str = ""
    loss_mask: list[int] | None = None


class PromptId(msgspec.Struct, frozen=True):
    """A prompt's identity alone, and the mask of one that is passed through."""

    id: str
    position: int
    loss_mask: list[int] | None = None


class PromptText(msgspec.Struct, frozen=True):
    """A prompt as the dataset gave it, beside what it was rendered to."""

    id: str
    messages: list[Message]
    prompt_ids: list[int]
    tools: list[Tool] | None = None
    fault: str = ""
    loss_mask: list[int] | None = None


class PromptTurns(msgspec.Struct, frozen=True):
    """A prompt as the dataset gave it, with the turns that follow."""

    messages: list[Message]
    prompt_ids: list[int]
    tools: list[Tool] | None = None
    later: list[Turn] = []


class _Head(msgspec.Struct, frozen=True):
    """A prompt's head whose ids are left as they stand: thousands are held at once, as long as they are in flight."""

    id: str
    position: int
    lane: str
    prompt_ids: msgspec.Raw
    where: str = ""
    turn: int = 0
    fault: str = ""
    loss_mask: list[int] | None = None


_head = ids.Apart(_Head, "prompt_ids")
_turns = msgspec.json.Decoder(PromptTurns)


def read_heads(path: Path) -> Iterator[PromptHead]:
    """Every prompt of a dataset without its messages."""
    return _read(path, msgspec.json.Decoder(PromptHead))


def read_ids(path: Path) -> Iterator[PromptId]:
    """The ids of a dataset's prompts, in position order."""
    return _read(path, msgspec.json.Decoder(PromptId))


def index_of(
    path: Path, index: Path, worth: int = WORTH, seal: Path | None = None, sealing: bool = False
) -> PromptIndex:
    """The ids of a dataset's prompts and their places. Raises StorageError where positions do not follow each other.

    ``seal`` holds the SHA-256 of the file as a run first found it, so that nothing changed in it becomes another row;
    ``sealing`` writes it where there is none. An index stands for a file that was held against its seal.
    """
    sealed = _sealed(seal)
    if (sealed or not sealing) and (found := read_prompt_index(path, index)):
        return found
    hash = hashlib.sha256()
    known, offsets, offset = bytearray(), array("q"), 0
    tokens, supervised = array("I"), array("I")
    decoder = msgspec.json.Decoder(PromptId)
    with path.open("rb") as file:
        for number, line in enumerate(file):
            prompt = _decoded(decoder, line, path, number + 1)
            if prompt.position != number:
                raise StorageError(f"{path}:{number + 1}: position {prompt.position} stands where {number} belongs")
            known += bytes.fromhex(prompt.id)
            offsets.append(offset)
            offset += len(line)
            hash.update(line)
            tokens.append(len(prompt.loss_mask or ()))
            supervised.append(sum(prompt.loss_mask or ()))
    if sealed and sealed != hash.hexdigest():
        changed = f"{path}: was changed since the run began: its SHA-256 is not that in {seal}"
        raise StorageError(changed, _RESTORE)
    if seal and sealing and not sealed:
        _write_seal(seal, hash.hexdigest(), path.name)
    passed = any(tokens)
    made = PromptIndex(bytes(known), offsets, tokens if passed else None, supervised if passed else None)
    write_prompt_index(path, index, made, worth)
    return made


def _sealed(seal: Path | None) -> str:
    """What a seal says, or "" where there is none."""
    try:
        return seal.read_text().partition(" ")[0] or "damaged" if seal else ""
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        return "damaged"


def _write_seal(seal: Path, digest: str, name: str) -> None:
    """As sha256sum writes and checks it. One that cannot be written is done without."""
    try:
        with replacing(seal) as temporary:
            temporary.write_text(f"{digest}  {name}\n")
    except StorageError:
        pass


class Heads:
    """Prompts by position, out of an open file; ``offsets`` says where their lines start, where that is known.

    Positions that grow need no offsets: the lines between are passed over unread.
    """

    def __init__(self, path: Path, offsets: Sequence[int] = ()) -> None:
        self._path = path
        self._offsets = offsets
        self._file: IO[bytes] | None = None
        self._next = 0

    def at(self, position: int) -> PromptHead:
        if self._file is None:
            self._file = self._path.open("rb")
        if position != self._next and position < len(self._offsets):
            self._file.seek(self._offsets[position])
        else:
            for _ in range(self._next, position):
                self._file.readline()
        self._next = position + 1
        line, number = self._file.readline(), position + 1
        try:
            head, apart = _head.decode(line)
            prompt_ids = ids.unread(ids.text_of(head.prompt_ids, apart))
        except msgspec.DecodeError as error:
            raise _no_prompt(self._path, number, error) from None
        return PromptHead(
            head.id, head.position, head.lane, prompt_ids, head.where, head.turn, head.fault, head.loss_mask
        )

    def turns_at(self, position: int) -> PromptTurns:
        """The whole conversation at a position."""
        with self._path.open("rb") as file:
            file.seek(self._offsets[position])
            return _decoded(_turns, file.readline(), self._path, position + 1)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def read_texts(path: Path) -> Iterator[PromptText]:
    """Every prompt of a dataset with its conversation and its ids."""
    return _read(path, msgspec.json.Decoder(PromptText))


def read_turns(path: Path) -> Iterator[PromptTurns]:
    """Every prompt of a dataset as the dataset gave it, in position order."""
    return _read(path, _turns)


def _read(path: Path, decoder: "msgspec.json.Decoder[T]") -> Iterator[T]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield _decoded(decoder, line, path, number)


def _decoded(decoder: "msgspec.json.Decoder[T]", line: bytes, path: Path, number: int) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise _no_prompt(path, number, error) from None


def _no_prompt(path: Path, number: int, error: msgspec.DecodeError) -> StorageError:
    return StorageError(f"{path}:{number}: is not a prompt: {error}", _RESTORE)
