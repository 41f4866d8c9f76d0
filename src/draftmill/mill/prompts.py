"""Prepare a dataset: source rows → conversations in the dataset's order → prompt ids in ``prompts.jsonl``.

The source is read once as a stream, its conversations go to a spool on disk, and only digests, ranks and places stay in
memory. Then the head of the order is rendered until ``samples`` are kept. Both passes go over all cores in chunks, and
what a pass has done is found again after a kill. The file appears whole or not at all, and is the same byte for byte
however many processes made it, and whenever they were stopped.
"""

import hashlib
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from draftmill import __version__
from draftmill.errors import SourceError, StorageError
from draftmill.ids import encode
from draftmill.journal.files import disk_advice, replacing
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.order import ID_BYTES
from draftmill.mill.copies import Copies
from draftmill.mill.crew import Crew
from draftmill.mill.head import Head, OtherHead
from draftmill.mill.parts import Parts
from draftmill.mill.prepared import NOT_SAMPLED, UNREAD, Prepared, reasons
from draftmill.mill.reading import Reading
from draftmill.mill.rendering import Batch, Copy, Figures, Rendering, line
from draftmill.mill.spool import Spool
from draftmill.recipe import Dataset
from draftmill.render.dialect import Dialect
from draftmill.render.tokenizer import Tokenizer
from draftmill.sources import Source
from draftmill.sources.duplicates import Seen

_BATCH = 256  # prompts rendered at once
_BATCH_BYTES = 4 << 20  # of the spool; the conversations of agents can be megabytes
_MADE = 1  # of what the passes leave on disk; another number, and nothing of before is used

_pack = msgspec.msgpack.Encoder().encode


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
        signed = self._wanted | ({self._level} if self._level != "keep" else set())
        self._sign = "near" if "near" in signed else "exact" if signed else "keep"
        self._copies = Copies(self._level, self._wanted, self._rivals) if signed else None
        self._spool = Spool(dataset, seed, self._copies)

    def run(self, source: Source) -> Prepared:
        """Read, order, render, write. Raises SourceError when nothing can be read, RunError when prompts that this run
        already has are no longer the head of the order."""
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            key = self.key(source)
            with Parts(self._work / "spool", key.encode()) as spool:
                self._fill(source, spool)
                prepared = self._write(source, spool, key)
            shutil.rmtree(self._work)
        except OSError as error:
            raise StorageError(
                f"{self._folder.path}: cannot be written: {error.strerror or error}", disk_advice(error)
            ) from error
        except (SourceError, OtherHead):
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
                self._fill(source, spool)
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

    def _fill(self, source: Source, parts: Parts) -> None:
        reading = Reading(self._dataset, source.format, self._tokenizer.size, self._sign)
        self._spool.fill(source, parts, reading, self._crew, lambda read: self._progress(read, 0))

    def _write(self, source: Source, spool: Parts, key: str) -> Prepared:
        """Render the head of the order until there are enough prompts, and put all files in their places."""
        dataset, folder = self._dataset, self._folder
        order = self._spool.order()
        if not (dataset.min_prompt_tokens or dataset.max_prompt_tokens):
            order = order[: dataset.samples]
        shape = encode((key, dataset.samples, self._context, dataset.lane, dataset.model_dump()["long_prompts"]))
        head = Head(folder, dataset.name)
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
                self._progress(self._spool.read, positions)
            head.ends()
            if not positions:
                raise self._spool.none_left(lengths)
            available = len(self._spool)
            dropped = Counter({UNREAD: len(self._spool.unread), **self._spool.dropped})
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
            batch, taken = self._spool.batch(order[start : start + _BATCH], spool, _BATCH_BYTES)
            yield batch
            start += taken

    def _report(
        self, source: Source, figures: Figures, positions: int, dropped: dict[str, int], exhausted: bool
    ) -> Prepared:
        longest, longest_where = figures.longest[0] if figures.longest else (0, "")
        return Prepared(
            format=source.format,
            why=source.why,
            read=self._spool.read,
            unread=len(self._spool.unread),
            unread_reasons=reasons(self._spool.unread),
            available=len(self._spool),
            positions=positions,
            repeated=self._spool.repeated,
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
            tools_lifted=self._spool.lifted,
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
            lost=[f"{row.where}: {row.reason}" for row in self._spool.unread if row.lost],
        )

    def _place(self, prompts: Parts, prepared: Prepared, key: str) -> None:
        if self._copies:
            self._copies.save(self._folder, key)
        prompts.place(self._folder.prompts)
        with replacing(self._folder.unread) as temporary, temporary.open("wb", buffering=1 << 20) as out:
            out.writelines(encode(row) + b"\n" for row in self._spool.unread)
        with replacing(self._folder.prepared) as temporary:
            temporary.write_bytes(msgspec.json.format(encode(prepared), indent=2) + b"\n")


def _noted(batches: Iterator[Batch], given: "deque[Batch]") -> Iterator[Batch]:
    """The batches, each noted when it is given out."""
    for batch in batches:
        given.append(batch)
        yield batch
