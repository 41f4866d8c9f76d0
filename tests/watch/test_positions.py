"""The watcher's states and cut are the ledger's, whatever stands in the journal and however it comes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.journal.folder import DatasetFolder
from draftmill.journal.index import entries, read_indexed
from draftmill.journal.prompts import index_of
from draftmill.journal.reader import UnknownLine, scan
from draftmill.ledger.standing import load_standing, read_failures
from draftmill.records import Failure, Finish
from draftmill.watch.positions import RECORD, Positions
from tests.watch.folders import append, completion, failure, prompt_id, write_prompts

PROMPTS = 8
numbers = st.integers(0, PROMPTS - 1)
plain = st.builds(
    lambda n, tokens, finish, redrawn, continued, limit: completion(
        n, tokens, finish_reason=finish, redrawn=redrawn, continued=continued, limit=limit
    ),
    numbers,
    st.integers(0, 300),
    st.sampled_from([Finish.STOP, Finish.LENGTH]),
    st.booleans(),
    st.sampled_from([0, 4]),
    st.sampled_from([300, 400, 500]),
)
partial = st.builds(
    lambda n, tokens, before: completion(n, tokens, partial=True, continued=before, finish_reason=Finish.ABORT),
    numbers,
    st.integers(0, 9),
    st.integers(0, 20),
)
turn = st.builds(
    lambda n, turn, more, tokens: completion(n, tokens, turn=turn, more=more, prompt_ids=[1, 2, 3]),
    numbers,
    st.integers(0, 2),
    st.booleans(),
    st.integers(1, 9),
)
stray = st.builds(lambda n, m: completion(n, position=m), numbers, st.integers(0, PROMPTS + 3))
odd = st.sampled_from([b'{"nothing": 1}\n', b"no json\n"])
damaged = st.builds(lambda n: completion(n, 5, completion_tokens=6), numbers)
lines = st.lists(plain | partial | turn | stray | odd | damaged, max_size=30)
failures = st.lists(st.builds(lambda n, turn: failure(n, turn=turn), numbers, st.integers(0, 2)), max_size=6)
budgets = st.none() | st.integers(1, 900)


def take_failures(positions: Positions, folder: DatasetFolder) -> None:
    for row in read_failures(folder.errors):
        if isinstance(row, Failure):
            positions.fail(row)


def compare(folder: DatasetFolder, positions: Positions, samples: int | None, budget: int | None, counts: str) -> None:
    standing = load_standing(folder, samples=samples, budget=budget, counts=counts)  # type: ignore[arg-type]
    assert positions.tally() == standing.tally()
    assert positions.rows == sum(len(turns) or 1 for _, turns in standing.counting())
    assert positions.finishes == standing.finishes
    said = (positions.continued, positions.redrawn, positions.strays, positions.orphans, positions.cut_at)
    assert said == (standing.continued, standing.redrawn, standing.strays, standing.orphans, standing.cut_at)
    assert positions.generated == positions.lengths.total


@settings(deadline=None, max_examples=150)
@given(lines, failures, budgets, st.none() | st.integers(1, PROMPTS), st.sampled_from(["generated", "all"]), st.data())
def test_the_same_sums_as_the_ledger(journal, errors, budget, samples, counts, data) -> None:  # type: ignore[no-untyped-def]
    """Some lines through an index at once, the rest one by one, error rows in between."""
    with TemporaryDirectory() as place:
        folder = DatasetFolder(Path(place) / "d")
        write_prompts(folder, PROMPTS)
        cut = data.draw(st.integers(0, len(journal)))
        append(folder.journal, *journal[:cut])
        list(entries(folder.journal, folder.journal_index, worth=1))
        positions = Positions(index_of(folder.prompts, folder.prompts_index), samples, budget, counts)
        indexed = read_indexed(folder.journal, folder.journal_index)
        positions.load(np.frombuffer(indexed.records, dtype=RECORD))
        append(folder.errors, *errors)
        rest = list(scan(folder.journal))[indexed.lines :]
        append(folder.journal, *journal[cut:])
        rest = list(scan(folder.journal))[indexed.lines :]
        when = data.draw(st.integers(0, len(rest)))
        for number, entry in enumerate(rest):
            if number == when:
                take_failures(positions, folder)
            if not isinstance(entry, UnknownLine):
                positions.add(entry)
        if when == len(rest):
            take_failures(positions, folder)
        compare(folder, positions, samples, budget, counts)
        other = data.draw(budgets)
        positions.set_cut(samples, other)
        compare(folder, positions, samples, other, counts)


def test_what_grows(tmp_path: Path) -> None:
    folder = DatasetFolder(tmp_path / "d")
    write_prompts(folder, 3)
    positions = Positions(index_of(folder.prompts, folder.prompts_index), None, None, "generated")
    positions.add(completion(0, 4, partial=True))  # type: ignore[arg-type]
    positions.add(completion(0, 3, partial=True, continued=4))  # type: ignore[arg-type]
    positions.add(completion(2, 5, partial=True))  # type: ignore[arg-type]
    assert (positions.growing, positions.growing_answers, positions.generated) == (12, 2, 0)
    positions.add(completion(0, 9, continued=7))  # type: ignore[arg-type]
    assert (positions.growing, positions.growing_answers, positions.generated) == (5, 1, 9)
    assert prompt_id(0) != prompt_id(1)
