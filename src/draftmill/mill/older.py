"""The folder of an older run, whoever made it: its files, its lines, and which prompt an answer in them belongs to."""

import hashlib
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from draftmill.errors import StorageError, UsageFault
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.legacy import Answer, read_tokenized
from draftmill.ledger.order import canonical
from draftmill.records import Conversation
from draftmill.sources import canonical as canon
from draftmill.sources.fault import RowFault

NO_PROMPT = "its prompt does not stand in it, nor in another file beside it"
SEVERAL = "other prompts have the same answer, and it does not say which is its own"

T = TypeVar("T")


def files_of(old: Path) -> list[DatasetFolder]:
    """The folder itself, and those in it, that hold responses or rows."""
    if not old.is_dir():
        raise UsageFault(f"{old}: is no folder")
    found = [DatasetFolder(each) for each in [old, *sorted(p for p in old.iterdir() if p.is_dir())]]
    return [each for each in found if each.journal.is_file() or each.rows.is_file()]


def lines_of(path: Path, read: Callable[[bytes], T]) -> Iterator[tuple[str, T]]:
    """Every line of a file, with its place."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}:{number}", read(line)
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error


def prompt_of(answer: Answer, prompts: dict[str, bytes], known: dict[bytes, bytes | None]) -> bytes | str:
    """The digest of an answer's prompt, by what is surest; or why there is none."""
    if answer.prompt_ids:
        return digest_of(answer.prompt_ids)
    if answer.id in prompts:
        return prompts[answer.id]
    if answer.messages is not None:
        try:
            return talk_of(Conversation(canon.messages(answer.messages), canon.tools(answer.tools)))
        except RowFault:
            return NO_PROMPT
    digest = digest_of(answer.output_ids)
    if digest not in known:
        return NO_PROMPT
    return known[digest] or SEVERAL


class _OldPrompt(msgspec.Struct):
    id: str
    prompt_ids: list[int]


def prompts_by_id(path: Path) -> dict[str, bytes]:
    """The prompts that an older run keeps in a file of its own, where it does."""
    found: dict[str, bytes] = {}
    for _, prompt in lines_of(path, _old_prompt):
        if prompt is not None and prompt.prompt_ids:
            found[prompt.id] = digest_of(prompt.prompt_ids)
    return found


def _old_prompt(line: bytes) -> _OldPrompt | None:
    try:
        return msgspec.json.decode(line, type=_OldPrompt)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def prompts_by_answer(path: Path) -> dict[bytes, bytes | None]:
    """The prompts that stand in tokenized rows, by the answer behind them; None where several have the same answer."""
    found: dict[bytes, bytes | None] = {}
    for _, read in lines_of(path, read_tokenized):
        if isinstance(read.answer, Answer) and read.answer.prompt_ids:
            key, prompt = digest_of(read.answer.output_ids), digest_of(read.answer.prompt_ids)
            found[key] = prompt if found.get(key, prompt) == prompt else None
    return found


def digest_of(ids: list[int]) -> bytes:
    try:
        return hashlib.blake2b(array("I", ids).tobytes(), digest_size=16).digest()
    except OverflowError:
        return b""


def talk_of(conversation: Conversation) -> bytes:
    return hashlib.blake2b(canonical(conversation), digest_size=16).digest()
