"""What a run's own files say of a row: its prompt, its conversation, the answer in the journal."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import numpy.typing as npt

from draftmill.errors import StorageError
from draftmill.journal.reader import line_at
from draftmill.records import Message, Tool
from draftmill.verify.lines import Ids, Mask, as_ids, as_mask

_TURNS = 1 << 20  # above every number of a turn

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ledgered:
    """Which rows a dataset of a run should have: ``keys`` (position and turn, ascending), where their lines start in
    the journal (-1 of one that is passed through), and where prompts do."""

    prompts: Path
    journal: Path
    keys: Places
    offsets: Places
    prompt_offsets: Places

    def line(self, place: int) -> str:
        """File and line of the journal where the answer of the row at a place stands."""
        return f"{self.journal}:{line_at(self.journal, int(self.offsets[place]))}"

    def named(self, place: int) -> str:
        """Position and turn of the row at a place."""
        position, turn = divmod(int(self.keys[place]), _TURNS)
        return f"position {position}, turn {turn}"

    def place(self, position: Any, turn: Any) -> int | None:
        """The index of a row that counts, or None."""
        if not isinstance(position, int) or not isinstance(turn, int) or position < 0:
            return None
        wanted = key(position, turn)
        at = int(np.searchsorted(self.keys, wanted))
        return at if at < len(self.keys) and self.keys[at] == wanted else None


def key(position: int, turn: int) -> int:
    return position * _TURNS + turn


class _Prompt(msgspec.Struct):
    id: str
    lane: str
    prompt_ids: msgspec.Raw
    messages: list[Message]
    tools: list[Tool] | None = None
    fault: str = ""
    loss_mask: msgspec.Raw = msgspec.Raw()  # no union: msgspec takes `Raw | None` for None alone


class _Answer(msgspec.Struct):
    id: str
    turn: int
    output_ids: msgspec.Raw
    finish_reason: str
    limit: int
    prompt_ids: msgspec.Raw = msgspec.Raw()


@dataclass
class Sent:
    """What was sent and what came: ``answer`` is None where the row was passed through, whose ``mask`` is its own.
    ``astray`` is the id in the journal's line where that is not the prompt's."""

    id: str
    lane: str
    turn: int
    messages: list[Message]
    tools: list[Tool] | None
    prompt: Ids
    first_prompt: Ids
    answer: Ids | None
    mask: Mask | None
    finish: str | None = None
    limit: int | None = None
    astray: str = ""


@dataclass
class Files:
    """The open prompts and journal of one dataset."""

    ledgered: Ledgered
    _open: dict[Path, IO[bytes]] = field(default_factory=dict)

    def sent(self, place: int) -> Sent:
        """What belongs to the row at a place. Raises StorageError for a line that changed since it was counted."""
        ledgered = self.ledgered
        position, offset = int(ledgered.keys[place]) // _TURNS, int(ledgered.offsets[place])
        prompt = self._line(ledgered.prompts, int(ledgered.prompt_offsets[position]), _prompt)
        first = as_ids(bytes(prompt.prompt_ids))
        if offset < 0:
            mask = as_mask(bytes(prompt.loss_mask) or b"[]")[0]
            return Sent(prompt.id, prompt.lane, 0, [], None, first, first, None, mask)
        answer = self._line(ledgered.journal, offset, _answer)
        own = as_ids(bytes(answer.prompt_ids)) if answer.turn and bytes(answer.prompt_ids) else first
        return Sent(
            prompt.id,
            prompt.lane,
            answer.turn,
            prompt.messages,
            prompt.tools,
            own,
            first,
            as_ids(bytes(answer.output_ids)),
            None,
            answer.finish_reason,
            answer.limit,
            answer.id if answer.id != prompt.id else "",
        )

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _line(self, path: Path, offset: int, decoder: Any) -> Any:
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = path.open("rb")
        file.seek(offset)
        try:
            return decoder.decode(file.readline())
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise StorageError(f"{path}: cannot be read at byte {offset}: {error}", "restore the file") from None


_prompt = msgspec.json.Decoder(_Prompt)
_answer = msgspec.json.Decoder(_Answer)
