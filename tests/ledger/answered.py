"""A dataset of four prompts with some answers."""

import json
from pathlib import Path

from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.order import conversation_id
from draftmill.records import Completion, Finish, Prompt

IDS = [conversation_id("b", b"%d" % i, 0) for i in range(4)]


def files(path: Path, answers: dict[int, list[int]]) -> DatasetFolder:
    folder = DatasetFolder(path)
    prompt_lines = [encode(Prompt(id, n, "short", [], [10 + n, 11])) for n, id in enumerate(IDS)]
    folder.prompts.write_bytes(b"".join(line + b"\n" for line in prompt_lines))
    completions = [
        Completion(IDS[n], n, 0, ids, 2, len(ids), Finish.STOP, 2, 0, 0.1, "e", 64) for n, ids in answers.items()
    ]
    folder.journal.write_bytes(b"".join(encode(c) + b"\n" for c in completions))
    return folder


def answers(folder: DatasetFolder) -> list[list[int]]:
    return [json.loads(line)["input_ids"][2:] for line in folder.rows.read_text().splitlines()]
