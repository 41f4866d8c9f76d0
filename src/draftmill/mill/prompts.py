"""Prepare a dataset: source rows → conversations in the dataset's order → prompt ids in ``prompts.jsonl``.

The source is read once as a stream. Its conversations go to a spool on disk, only ids and ranks stay in memory; then
the first ``samples`` of the order are rendered, batch by batch. The file appears whole or not at all.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from draftmill.errors import RenderError, RunError, SourceError, StorageError
from draftmill.ids import encode
from draftmill.journal.files import disk_advice, replacing
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.prompts import read_ids
from draftmill.ledger.order import canonical, conversation_id, rank
from draftmill.recipe import Dataset
from draftmill.records import Conversation, Prompt, TokenizedRow, UnreadRow
from draftmill.render.dialect import Dialect
from draftmill.render.findings import Concern, concerns
from draftmill.render.special import SpecialText
from draftmill.render.tokenizer import Tokenizer
from draftmill.sources import Source
from draftmill.sources.tool_text import has_tool_text, lift

_BATCH = 256  # prompts tokenized at once: enough for the tokenizer's own threads
_REASONS = 5  # kinds of unread rows that the report shows


class Prepared(msgspec.Struct, frozen=True):
    """The report of a prepared dataset. read = available / n + unread, and positions ≤ available."""

    format: str
    why: str
    read: int
    unread: int
    unread_reasons: list[tuple[str, int, str]]  # reason, rows, first place
    available: int
    positions: int
    repeated: int
    refused: int
    special_text: dict[str, int]  # special token typed as text → rows
    special_text_rows: int
    special_text_first: str
    prompt_tokens: int
    longest: int
    longest_where: str
    with_tools: int
    turns: int = 0  # that the recordings ask for, over all positions
    most_turns: int = 1  # of one position
    passed_through: int = 0
    without_special: int = 0  # of those passed through, rows in which not one of the target's special tokens stands
    concerns: dict[str, int] = {}  # prompts that the findings of each concern matter to
    tools_lifted: int = 0  # rows whose tools were taken out of the system prompt
    tools_as_text: int = 0  # prompts that have theirs there
    tools_as_text_first: str = ""


class _Spooled(msgspec.Struct):
    """One conversation on its way through the spool, or a row that is tokenized already."""

    where: str
    conversation: Conversation
    input_ids: list[int] = []
    loss_mask: list[int] | None = None


_NO_CONVERSATION = Conversation([])


class Preparation:
    """Prepares one dataset. ``on_progress`` hears (rows read, prompts written) now and then."""

    def __init__(
        self,
        dataset: Dataset,
        folder: DatasetFolder,
        *,
        seed: int,
        tokenizer: Tokenizer,
        dialect: Dialect,
        on_progress: Callable[[int, int], None] = lambda _read, _written: None,
    ) -> None:
        self._dataset = dataset
        self._folder = folder
        self._seed = seed
        self._tokenizer = tokenizer
        self._dialect = dialect
        self._progress = on_progress
        self._special = SpecialText(tokenizer.special)
        self._special_ids = set(tokenizer.special.values())
        self._ids: list[str] = []
        self._ranks = array("Q")
        self._offsets = array("Q")
        self._lifted = 0

    def run(self, source: Source) -> Prepared:
        """Read, order, render, write. Raises SourceError when nothing can be read, RunError when prompts that this run
        already has are no longer the head of the order."""
        folder = self._folder
        folder.path.mkdir(parents=True, exist_ok=True)
        spool = folder.path / ".prepare.spool"
        try:
            read, unread = self._spool(source, spool)
            order = sorted(range(len(self._ids)), key=self._ranks.__getitem__)[: self._dataset.samples]
            self._refuse_other_head(order)
            prepared = self._write(order, spool, source, read, unread)
        except OSError as error:
            raise StorageError(
                f"{folder.path}: cannot be written: {error.strerror or error}", disk_advice(error)
            ) from error
        finally:
            spool.unlink(missing_ok=True)
        return prepared

    def _spool(self, source: Source, spool: Path) -> tuple[int, list[UnreadRow]]:
        """Every readable conversation to disk, its id, rank and offset to memory."""
        seen: Counter[bytes] = Counter()
        unread: list[UnreadRow] = []
        read = offset = 0
        with spool.open("wb", buffering=1 << 20) as file:
            for read, row in enumerate(source.rows(), start=1):
                if read % 2048 == 0:
                    self._progress(read, 0)
                if isinstance(row, TokenizedRow):
                    row = self._fitting(row)
                if isinstance(row, UnreadRow):
                    unread.append(row)
                    continue
                if isinstance(row, TokenizedRow):
                    key = canonical((row.input_ids, row.loss_mask))
                    spooled = _Spooled(str(row.where), _NO_CONVERSATION, row.input_ids, row.loss_mask)
                else:
                    conversation = self._native(row.conversation)
                    key = canonical(conversation)
                    spooled = _Spooled(str(row.where), conversation)
                for _ in range(self._dataset.n):
                    id = conversation_id(self._dataset.name, key, seen[key])
                    seen[key] += 1
                    self._ids.append(id)
                    self._ranks.append(rank(self._seed, id))
                    self._offsets.append(offset)
                line = encode(spooled) + b"\n"
                file.write(line)
                offset += len(line)
        self._repeated = sum(count - self._dataset.n for count in seen.values())
        if not self._ids:
            first = f"; the first: {unread[0].where}: {unread[0].reason}" if unread else ""
            raise SourceError(f"dataset {self._dataset.name}: none of its {read} rows could be read as a prompt{first}")
        return read, unread

    def _native(self, conversation: Conversation) -> Conversation:
        """The conversation, with tools that stand as text in its system prompt lifted out where that is asked for."""
        if not self._dataset.native_tools:
            return conversation
        lifted = lift(conversation)
        self._lifted += lifted.tools > 0
        return lifted.conversation

    def _fitting(self, row: TokenizedRow) -> TokenizedRow | UnreadRow:
        """The row, or why its ids are not the target's. Raises SourceError for settings that ask for answers to it."""
        asked = [f"n: {self._dataset.n}"] if self._dataset.n > 1 else []
        asked += ["system"] if self._dataset.system is not None else []
        if asked:
            name, what = self._dataset.name, " and ".join(asked)
            raise SourceError(f"dataset {name}: its rows are tokenized already: {what} cannot apply", "take it out")
        highest = max(row.input_ids)
        if highest < self._tokenizer.size:
            return row
        place = f"item {row.input_ids.index(highest) + 1} of 'input_ids' is {highest}"
        return UnreadRow(row.where, f"{place}: the model's vocabulary ends at {self._tokenizer.size - 1}")

    def _refuse_other_head(self, order: list[int]) -> None:
        if not self._folder.prompts.exists():
            return
        for number, old in enumerate(read_ids(self._folder.prompts)):
            if number >= len(order) or self._ids[order[number]] != old.id:
                raise RunError(
                    f"dataset {self._dataset.name}: its source changed since this run began (position {number} is "
                    "another conversation now)",
                    "restore the source, keep `samples` as it was, or start a new run",
                )

    def _write(self, order: list[int], spool: Path, source: Source, read: int, unread: list[UnreadRow]) -> Prepared:
        refused = tokens = longest = with_tools = special_rows = passed = without_special = turns = as_text = 0
        most_turns = 1
        longest_where = special_first = as_text_first = ""
        special: Counter[str] = Counter()
        concerned: Counter[str] = Counter()
        with replacing(self._folder.prompts) as temporary, temporary.open("wb", buffering=1 << 20) as out:
            for prompt in self._prompts(order, spool):
                out.write(encode(prompt) + b"\n")
                length = len(prompt.prompt_ids)
                refused += bool(prompt.fault)
                tokens += length
                with_tools += prompt.tools is not None
                turns += 1 + len(prompt.later)
                most_turns = max(most_turns, 1 + len(prompt.later))
                if length > longest:
                    longest, longest_where = length, prompt.where
                if prompt.loss_mask is not None:
                    passed += 1
                    without_special += self._special_ids.isdisjoint(prompt.prompt_ids)
                conversation = Conversation(prompt.messages, prompt.tools, prompt.later)
                concerned.update(concerns(conversation) - {Concern.ALL})
                if has_tool_text(conversation):
                    as_text += 1
                    as_text_first = as_text_first or prompt.where
                found = self._special.found(conversation)
                special.update(found)
                special_rows += bool(found)
                special_first = special_first or (prompt.where if found else "")
                if prompt.position % _BATCH == 0:
                    self._progress(read, prompt.position)
        prepared = Prepared(
            format=source.format,
            why=source.why,
            read=read,
            unread=len(unread),
            unread_reasons=_reasons(unread),
            available=len(self._ids),
            positions=len(order),
            repeated=self._repeated,
            refused=refused,
            special_text=dict(special.most_common()),
            special_text_rows=special_rows,
            special_text_first=special_first,
            prompt_tokens=tokens,
            longest=longest,
            longest_where=longest_where,
            with_tools=with_tools,
            turns=turns,
            most_turns=most_turns,
            passed_through=passed,
            without_special=without_special if self._special_ids else 0,
            concerns=dict(sorted(concerned.items())),
            tools_lifted=self._lifted,
            tools_as_text=as_text,
            tools_as_text_first=as_text_first,
        )
        with replacing(self._folder.unread) as temporary:
            temporary.write_bytes(b"".join(encode(row) + b"\n" for row in unread))
        with replacing(self._folder.prepared) as temporary:
            temporary.write_bytes(msgspec.json.format(encode(prepared), indent=2) + b"\n")
        return prepared

    def _prompts(self, order: list[int], spool: Path) -> Iterator[Prompt]:
        """The dataset's prompts in order, rendered in batches."""
        decoder = msgspec.json.Decoder(_Spooled)
        with spool.open("rb") as file:
            for batch in _batches(enumerate(order)):
                spooled = []
                for _, index in batch:
                    file.seek(self._offsets[index])
                    spooled.append(decoder.decode(file.readline()))
                for (position, index), s, (ids, fault) in zip(batch, spooled, self._encoded(spooled), strict=True):
                    yield Prompt(
                        id=self._ids[index],
                        position=position,
                        lane=self._dataset.lane_of(len(ids)),
                        messages=s.conversation.messages,
                        prompt_ids=ids,
                        tools=s.conversation.tools,
                        where=s.where,
                        fault=fault,
                        later=s.conversation.later,
                        loss_mask=s.loss_mask,
                    )

    def _encoded(self, spooled: list[_Spooled]) -> Iterator[tuple[list[int], str]]:
        """(ids, "") or ([], why the template refuses it) of each conversation; the ids of what has them already."""
        texts = [("", "") if s.loss_mask is not None else self._text(s.conversation) for s in spooled]
        due = [text for s, (text, fault) in zip(spooled, texts, strict=True) if s.loss_mask is None and not fault]
        encoded = iter(self._tokenizer.encode(due))
        for s, (_, fault) in zip(spooled, texts, strict=True):
            if s.loss_mask is not None:
                yield s.input_ids, ""
            else:
                yield ([] if fault else next(encoded)), fault

    def _text(self, conversation: Conversation) -> tuple[str, str]:
        """(rendered text, "") or ("", why the template refuses it)."""
        try:
            return self._dialect.text(conversation), ""
        except RenderError as error:
            return "", error.message


def read_prepared(folder: DatasetFolder) -> Prepared | None:
    """The report of an earlier preparation, or None where there is none (or only half of one)."""
    try:
        prepared = msgspec.json.decode(folder.prepared.read_bytes(), type=Prepared)
    except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
        return None
    return prepared if folder.prompts.exists() else None


def covers(prepared: Prepared, samples: int | None) -> bool:
    """Whether an earlier preparation already holds all the prompts that are wanted now."""
    wanted = prepared.available if samples is None else min(samples, prepared.available)
    return prepared.positions >= wanted


def _batches(items: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    iterator = iter(items)
    while batch := list(islice(iterator, _BATCH)):
        yield batch


def _reasons(unread: list[UnreadRow]) -> list[tuple[str, int, str]]:
    """The commonest reasons, each with its number of rows and the first place."""
    counts = Counter(row.reason for row in unread)
    first = {row.reason: str(row.where) for row in reversed(unread)}
    return [(reason, count, first[reason]) for reason, count in counts.most_common(_REASONS)]
