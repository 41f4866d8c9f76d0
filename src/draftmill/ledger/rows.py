"""Training rows: the counting completions behind their prompts, in position order. Derived, always rebuildable."""

from collections.abc import Iterator
from pathlib import Path

from draftmill.errors import StorageError
from draftmill.journal.files import replacing
from draftmill.journal.prompts import PromptHead, read_heads
from draftmill.journal.reader import completion_at, encode
from draftmill.ledger.standing import Standing
from draftmill.records import Completion, Row


def row(dataset: str, prompt: PromptHead, completion: Completion) -> Row:
    """One row: the prompt's ids masked 0, the generated ids, stop token included, masked 1."""
    if completion.id != prompt.id or completion.prompt_tokens != len(prompt.prompt_ids):
        raise StorageError(
            f"dataset {dataset}: the completion of position {completion.position} does not belong to its prompt",
            "the prompts or the journal were changed by hand; restore them, or start a new run",
        )
    return Row(
        input_ids=prompt.prompt_ids + completion.output_ids,
        loss_mask=[0] * len(prompt.prompt_ids) + [1] * len(completion.output_ids),
        id=prompt.id,
        position=prompt.position,
        turn=completion.turn,
        dataset=dataset,
        prompt_tokens=len(prompt.prompt_ids),
        completion_tokens=len(completion.output_ids),
        finish_reason=completion.finish_reason,
    )


def rows(dataset: str, prompts: Path, journal: Path, standing: Standing) -> Iterator[Row]:
    """Every counting row of a dataset, in position order, one in memory at a time."""
    counting = standing.counting()
    due = next(counting, None)
    if due is None:
        return
    with journal.open("rb") as file:
        for prompt in read_heads(prompts):
            if prompt.position != due[0]:
                continue
            yield row(dataset, prompt, completion_at(file, due[1]))
            due = next(counting, None)
            if due is None:
                return


def write_rows(dataset: str, prompts: Path, journal: Path, standing: Standing, target: Path) -> int:
    """Write ``tokenized_data.jsonl`` whole or not at all. Returns the number of rows."""
    count = 0
    with replacing(target) as temporary, temporary.open("wb") as file:
        for each in rows(dataset, prompts, journal, standing):
            file.write(encode(each) + b"\n")
            count += 1
    return count
