"""What a run's files say of its rows, of later turns and of rows that are passed through too."""

from pathlib import Path

import numpy as np

from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.standing import load_standing
from draftmill.records import Prompt
from draftmill.verify.journaled import Files, Ledgered, key
from tests.watch.folders import append, completion, prompt_id


def test_a_later_turn_has_its_own_prompt_and_a_passed_row_its_own_mask(tmp_path: Path) -> None:
    folder = DatasetFolder(tmp_path / "d")
    folder.path.mkdir()
    prompts = [
        Prompt(prompt_id(0), 0, "short", [], [1, 2, 3]),
        Prompt(prompt_id(1), 1, "short", [], [4, 5, 6], loss_mask=[0, 1, 1]),
    ]
    folder.prompts.write_bytes(b"".join(encode(prompt) + b"\n" for prompt in prompts))
    append(folder.journal, completion(0, 1, more=True))
    append(folder.journal, completion(0, 2, turn=1, prompt_ids=[1, 2, 3, 7, 9], prompt_tokens=5))
    standing = load_standing(folder)
    counting = [(key(p, turn), o) for p, offsets in standing.counting() for turn, o in enumerate(offsets or [-1])]
    keys, offsets = (np.array(column, np.int64) for column in zip(*counting, strict=True))
    files = Files(Ledgered(folder.prompts, folder.journal, keys, offsets, np.array(standing.prompt_offsets, np.int64)))
    sent = [files.sent(place) for place in range(3)]
    files.close()
    assert [list(s.prompt) for s in sent] == [[1, 2, 3], [1, 2, 3, 7, 9], [4, 5, 6]]
    assert [None if s.answer is None else list(s.answer) for s in sent] == [[7], [7, 7], None]
    assert sent[2].mask is not None and list(sent[2].mask) == [0, 1, 1]
