"""Prepare a dataset: source rows → conversations in the dataset's order → prompt ids in ``prompts.jsonl``.

The source is read once as a stream, its conversations go to a spool on disk, and only digests, ranks and places stay in
memory. Then the head of the order is rendered until ``samples`` are kept. Both passes go over all cores in chunks, and
what a pass has done is found again after a kill. The file appears whole or not at all, and is the same byte for byte
however many processes made it, and whenever they were stopped.
"""

import hashlib
import shutil
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from draftmill import __version__
from draftmill.errors import RunError, SourceError, StorageError
from draftmill.ids import encode
from draftmill.journal.files import disk_advice, replacing
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.prompts import read_ids
from draftmill.journal.reader import Entry, scan
from draftmill.ledger.order import ID_BYTES, canonical, conversation_id, rank
from draftmill.mill.copies import EXACT, Copies
from draftmill.mill.crew import Crew
from draftmill.mill.parts import Parts
from draftmill.mill.prepared import NOT_SAMPLED, UNREAD, Prepared, reasons
from draftmill.mill.reading import KEY_BYTES, Chunk, Reading, Spooled, chunks, skipped
from draftmill.mill.rendering import Batch, Copy, Figures, Rendering, line
from draftmill.recipe import Dataset
from draftmill.records import UnreadRow
from draftmill.render.dialect import Dialect
from draftmill.render.tokenizer import Tokenizer
from draftmill.sources import Source
from draftmill.sources.duplicates import Seen

_BATCH = 256  # prompts rendered at once
_DECIDED = 4096  # rows of which it is decided at once, so that their wording is known when near copies are looked for
_BATCH_BYTES = 4 << 20  # of the spool; the conversations of agents can be megabytes
_MADE = 1  # of what the passes leave on disk; another number, and nothing of before is used

_pack = msgspec.msgpack.Encoder().encode
_chunk = msgspec.msgpack.Decoder(Chunk)


class _Done(msgspec.Struct):
    """The note of a rendered batch."""

    ids: bytes
    looked: int
    dropped: dict[str, int]
    figures: Figures


_done = msgspec.msgpack.Decoder(_Done)


class Preparation:
    """Prepares one dataset. ``on_progress`` hears (rows read, prompts written) now and then.

    ``rivals``: rows of other datasets that this one gives way to; ``before``: the datasets that stand before it;
    ``wanted``: levels at which others may ask for its rows; ``copy``: what worker processes take the tokenizer from.
    """

    def __init__(
        self,
        dataset: Dataset,
        folder: DatasetFolder,
        *,
        seed: int,
        tokenizer: Tokenizer,
        dialect: Dialect,
        copy: Copy | None = None,
        crew: Crew | None = None,
        rivals: dict[str, Seen] | None = None,
        before: list[str] | None = None,
        wanted: set[str] | None = None,
        context: int | None = None,
        on_progress: Callable[[int, int], None] = lambda _read, _written: None,
    ) -> None:
        self._dataset = dataset
        self._folder = folder
        self._work = folder.path / ".prepare"
        self._seed = seed
        self._tokenizer = tokenizer
        self._level = dataset.duplicates or "keep"
        self._rivals = rivals or {}
        self._before = before or []
        self._wanted = wanted or set()
        self._context = context
        self._rendering = Rendering(dataset, tokenizer, dialect, context, copy)
        self._crew = crew or Crew(1)
        self._progress = on_progress
        self._read = self._lifted = self._repeated = 0
        self._unread: list[UnreadRow] = []
        self._dropped: Counter[str] = Counter()  # rows
        self._ids = bytearray()
        self._ranks = array("Q")
        self._offsets = array("Q")
        self._lengths = array("I")
        self._seen: dict[bytes, int] = {}
        self._waiting: list[Chunk] = []
        self._decided = self._spooled = 0  # rows and bytes of the spool that were decided of
        signed = self._wanted | ({self._level} if self._level != "keep" else set())
        self._sign = "near" if "near" in signed else "exact" if signed else "keep"
        self._copies = Copies(self._level, self._wanted, self._rivals) if signed else None

    def run(self, source: Source) -> Prepared:
        """Read, order, render, write. Raises SourceError when nothing can be read, RunError when prompts that this run
        already has are no longer the head of the order."""
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            key = self.key(source)
            with Parts(self._work / "spool", key.encode()) as spool:
                self._spool(source, spool)
                prepared = self._write(source, spool, key)
            shutil.rmtree(self._work)
        except OSError as error:
            raise StorageError(
                f"{self._folder.path}: cannot be written: {error.strerror or error}", disk_advice(error)
            ) from error
        except (SourceError, _OtherHead):
            shutil.rmtree(self._work, ignore_errors=True)
            raise
        finally:
            self._rendering.close()
        return prepared

    def sign(self, source: Source) -> None:
        """Read the rows only to keep them for datasets that give way to this one."""
        assert self._copies is not None
        work = self._work.with_name(".sign")
        try:
            work.mkdir(parents=True, exist_ok=True)
            with Parts(work / "spool", self.key(source).encode()) as spool:
                self._spool(source, spool)
            self._copies.save(self._folder, self.key(source))
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def key(self, source: Source) -> str:
        """What decides which rows are read and kept: what was made for another key is of no use."""
        ignored = {"samples", "share", "budget", "budget_counts", "lane", "long_prompts", "sampling", "incomplete"}
        settings = self._dataset.model_dump(exclude=ignored)
        decided = (
            *(_MADE, __version__, self._seed, settings, source.format, source.fingerprint()),
            *(self._tokenizer.digest(), self._before, sorted(self._rivals), sorted(self._wanted)),
        )
        return hashlib.blake2b(msgspec.json.encode(decided, order="sorted"), digest_size=8).hexdigest()

    # the first pass

    def _spool(self, source: Source, spool: Parts) -> None:
        """Every readable conversation to disk, its id, rank and place to memory."""
        before = source.fingerprint()
        for note in spool.found():
            self._take(_chunk.decode(note), spool.path)
        reading = Reading(self._dataset, source.format, self._tokenizer.size, self._sign)
        for chunk, lines in self._crew.map(reading, chunks(skipped(source.raw(), self._read))):
            spool.add(lines, _pack(chunk))
            self._take(chunk, spool.path)
            self._progress(self._read, 0)
        self._decide(spool.path)
        self._seen.clear()
        name = self._dataset.name
        if source.fingerprint() != before:
            raise SourceError(f"dataset {name}: its source was written to while it was read", "run it again")
        if (lost := [row for row in self._unread if row.lost]) and self._dataset.incomplete == "refuse":
            more = f" (and {len(lost) - 1} more files)" if len(lost) > 1 else ""
            raise SourceError(
                f"dataset {name}: the rest of {lost[0].where.file} is missing: line {lost[0].where.line}: "
                f"{lost[0].reason}{more}",
                f"get the whole file; or write `incomplete: accept` for {name} to make do with the rows that are there",
            )
        if not self._ids:
            raise self._none_left(self._dropped)

    def _take(self, chunk: Chunk, spool: Path) -> None:
        """Count a chunk, whose lines stand next in the spool, and decide of its rows once there are enough of them."""
        self._read += chunk.rows
        self._unread += chunk.unread
        self._dropped.update(chunk.dropped)
        self._lifted += chunk.lifted
        self._waiting.append(chunk)
        if sum(len(each.lengths) for each in self._waiting) >= _DECIDED * self._lengths.itemsize:
            self._decide(spool)

    def _decide(self, spool: Path) -> None:
        """Which of the rows that wait are copies, and the ids of the others."""
        width = self._dataset.n * ID_BYTES
        signatures = [signature for chunk in self._waiting for signature in chunk.signatures]
        whys = iter(self._copies.why(signatures, self._decided) if self._copies else repeat(None))
        for chunk in self._waiting:
            lengths = array("I")
            lengths.frombytes(chunk.lengths)
            self._decided += len(lengths)
            for number, length in enumerate(lengths):
                if (why := next(whys)) is not None:
                    self._dropped[why] += 1
                    self._repeated += why == EXACT
                else:
                    key = chunk.keys[number * KEY_BYTES : (number + 1) * KEY_BYTES]
                    self._keep(key, chunk.ids[number * width : (number + 1) * width], length, spool)
                self._spooled += length
        self._waiting.clear()

    def _keep(self, key: bytes, ids: bytes, length: int, spool: Path) -> None:
        """A row that stays: its ids, one for each answer that is asked of it."""
        n = self._dataset.n
        if earlier := self._seen.get(key, 0):
            self._repeated += 1
            ids = self._later_ids(spool, self._spooled, length, earlier)
        if self._level == "keep":
            self._seen[key] = earlier + n
        for each in range(n):
            id = ids[each * ID_BYTES : (each + 1) * ID_BYTES]
            self._ids += id
            self._ranks.append(rank(self._seed, id.hex()))
            self._offsets.append(self._spooled)
            self._lengths.append(length)

    def _later_ids(self, spool: Path, offset: int, length: int, earlier: int) -> bytes:
        """The ids of a conversation that stood ``earlier`` times before."""
        with spool.open("rb") as file:
            file.seek(offset)
            spooled = msgspec.json.decode(file.read(length), type=Spooled)
        masked = spooled.loss_mask is not None
        content = canonical((spooled.input_ids, spooled.loss_mask or []) if masked else spooled.conversation)
        occurrences = range(earlier, earlier + self._dataset.n)
        return b"".join(bytes.fromhex(conversation_id(self._dataset.name, content, each)) for each in occurrences)

    def _none_left(self, dropped: "Counter[str]") -> SourceError:
        parts = [f"{rows} dropped as {why}" for why, rows in dropped.items()]
        if self._unread:
            parts.append(
                f"{len(self._unread)} cannot be read, the first: {self._unread[0].where}: {self._unread[0].reason}"
            )
        why = "; ".join(parts) or "there are none"
        return SourceError(f"dataset {self._dataset.name}: none of its {self._read} rows is left as a prompt: {why}")

    # the second pass

    def _write(self, source: Source, spool: Parts, key: str) -> Prepared:
        """Render the head of the order until there are enough prompts, and put all files in their places."""
        dataset, folder = self._dataset, self._folder
        order = np.argsort(np.frombuffer(self._ranks, np.uint64), kind="stable")
        if not (dataset.min_prompt_tokens or dataset.max_prompt_tokens):
            order = order[: dataset.samples]
        shape = encode((key, dataset.samples, self._context, dataset.lane, dataset.model_dump()["long_prompts"]))
        head = _Head(folder, dataset.name)
        looked = positions = 0
        figures = Figures()
        lengths: Counter[str] = Counter()
        with Parts(self._work / "prompts", shape) as prompts:
            for done in self._rendered(order, spool.path, prompts):
                head.check(done.ids)
                positions += len(done.ids) // ID_BYTES
                looked += done.looked
                lengths.update(done.dropped)
                figures.add(done.figures)
                self._progress(self._read, positions)
            head.ends()
            if not positions:
                raise self._none_left(self._dropped + lengths)
            available = len(self._ranks)
            dropped = Counter({UNREAD: len(self._unread), **self._dropped})
            dropped = Counter({why: rows * dataset.n for why, rows in dropped.items()})
            dropped += lengths + Counter({NOT_SAMPLED: available - looked})
            prepared = self._report(source, figures, positions, dict(dropped), looked == available)
            if not prepared.adds_up():
                raise RuntimeError(f"dataset {dataset.name}: its rows do not add up: {prepared}")
            self._place(prompts, prepared, key)
        return prepared

    def _rendered(self, order: Any, spool: Path, prompts: Parts) -> Iterator[_Done]:
        """Each batch of the order rendered and in the file, those first that were there already."""
        looked = position = 0
        for note in prompts.found():
            done = _done.decode(note)
            looked += done.looked
            position += len(done.ids) // ID_BYTES
            yield done
        most = self._dataset.samples
        given: deque[Batch] = deque()
        for rendered in self._crew.map(self._rendering, _noted(self._batches(order, looked, spool), given)):
            batch = given.popleft()
            if most is not None and position >= most:
                return
            # looked at is what stands up to the last one that is kept, however large batches are
            if most is not None and position + len(rendered.tails) >= most:
                rendered = self._rendering(msgspec.structs.replace(batch, most=most - position))
            lines = [
                line(rendered.ids[n * ID_BYTES : (n + 1) * ID_BYTES], position + n, tail)
                for n, tail in enumerate(rendered.tails)
            ]
            done = _Done(rendered.ids, rendered.looked, rendered.dropped, rendered.figures)
            prompts.add(b"".join(lines), _pack(done))
            position += len(lines)
            yield done

    def _batches(self, order: Any, start: int, spool: Path) -> Iterator[Batch]:
        """The order from ``start`` on, in batches."""
        while start < len(order):
            size, indices = 0, []
            for index in order[start : start + _BATCH].tolist():
                indices.append(index)
                size += self._lengths[index]
                if size > _BATCH_BYTES:
                    break
            yield Batch(
                str(spool),
                [self._offsets[index] for index in indices],
                [self._lengths[index] for index in indices],
                b"".join(self._ids[index * ID_BYTES : (index + 1) * ID_BYTES] for index in indices),
            )
            start += len(indices)

    def _report(
        self, source: Source, figures: Figures, positions: int, dropped: dict[str, int], exhausted: bool
    ) -> Prepared:
        longest, longest_where = figures.longest[0] if figures.longest else (0, "")
        return Prepared(
            format=source.format,
            why=source.why,
            read=self._read,
            unread=len(self._unread),
            unread_reasons=reasons(self._unread),
            available=len(self._ranks),
            positions=positions,
            repeated=self._repeated,
            refused=figures.refused,
            special_text=dict(Counter(figures.special).most_common()),
            special_text_rows=figures.special_rows,
            special_text_first=figures.special_first,
            prompt_tokens=figures.tokens,
            longest=longest,
            longest_where=longest_where,
            with_tools=figures.with_tools,
            turns=figures.turns,
            most_turns=figures.most_turns,
            passed_through=figures.passed_through,
            without_special=figures.without_special,
            concerns=dict(sorted(figures.concerns.items())),
            tools_lifted=self._lifted,
            tools_as_text=figures.tools_as_text,
            tools_as_text_first=figures.tools_as_text_first,
            n=self._dataset.n,
            dropped=dropped,
            exhausted=exhausted,
            lengths=dict(sorted(figures.lengths.items())),
            longest_prompts=figures.longest,
            context=self._context,
            over_context=figures.over_context,
            duplicates=self._level,
            before=self._before,
            against=list(self._rivals),
            source=source.fingerprint(),
            lost=[f"{row.where}: {row.reason}" for row in self._unread if row.lost],
        )

    def _place(self, prompts: Parts, prepared: Prepared, key: str) -> None:
        if self._copies:
            self._copies.save(self._folder, key)
        prompts.place(self._folder.prompts)
        with replacing(self._folder.unread) as temporary, temporary.open("wb", buffering=1 << 20) as out:
            out.writelines(encode(row) + b"\n" for row in self._unread)
        with replacing(self._folder.prepared) as temporary:
            temporary.write_bytes(msgspec.json.format(encode(prepared), indent=2) + b"\n")


def _noted(batches: Iterator[Batch], given: "deque[Batch]") -> Iterator[Batch]:
    """The batches, each noted when it is given out."""
    for batch in batches:
        given.append(batch)
        yield batch


class _OtherHead(RunError):
    """The prompts are not those that the run has begun with."""


class _Head:
    """What stands at which position of a run that has begun: in its prompts, or where these are gone in its journal."""

    def __init__(self, folder: DatasetFolder, name: str) -> None:
        self._name = name
        self._position = 0
        self._old = folder.prompts.exists()
        if self._old:
            self._ids = b"".join(bytes.fromhex(prompt.id) for prompt in read_ids(folder.prompts))
            self._known: dict[int, bytes] = {}
        else:
            entries = [entry for entry in scan(folder.journal) if isinstance(entry, Entry)]
            self._ids = b""
            self._known = {entry.position: bytes.fromhex(entry.id) for entry in entries}
        self._last = max(self._known, default=-1)

    def check(self, ids: bytes) -> None:
        """The next ids of the order. Raises RunError where another one belongs."""
        start = self._position * ID_BYTES
        if self._ids[start : start + len(ids)] != ids[: max(0, len(self._ids) - start)] or self._known:
            for number in range(len(ids) // ID_BYTES):
                position = self._position + number
                at = position * ID_BYTES
                known = self._ids[at : at + ID_BYTES] or self._known.get(position)
                if known and known != ids[number * ID_BYTES : (number + 1) * ID_BYTES]:
                    self._refuse(position)
        self._position += len(ids) // ID_BYTES

    def ends(self) -> None:
        """The order has no more. Raises RunError where prompts are missing behind it."""
        if self._position < len(self._ids) // ID_BYTES or self._last >= self._position:
            self._refuse(self._position)

    def _refuse(self, position: int) -> None:
        if self._old:
            raise _OtherHead(
                f"dataset {self._name}: its source changed since this run began (position {position} is another "
                "conversation now)",
                "restore the source, keep `samples` as it was, or start a new run",
            )
        raise _OtherHead(
            f"dataset {self._name}: its prompts.jsonl is gone, and its source no longer gives the prompts that its "
            f"journal answers (position {position} is another conversation now); nothing was written",
            "put prompts.jsonl back, or the source as it was; or start a new run",
        )
