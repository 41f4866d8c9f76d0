"""Completions decoded on demand: every id of an answer in one span, by what it is."""

from pathlib import Path

import pytest

from draftmill.errors import DraftmillError
from draftmill.journal.folder import RunFolder
from draftmill.records import Prompt
from draftmill.watch import thinking
from draftmill.watch.completions import Completions
from draftmill.watch.stats import RunWatch
from tests.render import families
from tests.watch.folders import append, begin, completion, prompt_id

ANSWER = (
    "So it is.</think>Let me look.<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0"
    '<|tool_call_argument_begin|>{"at": "the sea"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>'
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run of a model that thinks, whose prompts open the thinking, with one answer that calls a tool."""
    model = families.plain_model("kimi")
    made = begin(tmp_path, {"name": "d", "prompts": 0})
    made.tokenizer.mkdir()
    model.tokenizer.save(made.tokenizer)
    prompt = model.ids("<|im_user|>user<|im_middle|>Where?<|im_end|><|im_assistant|>assistant<|im_middle|><think>")
    append(made.dataset("d").prompts, Prompt(prompt_id(0), 0, "short", [], prompt))
    ids = model.ids(ANSWER)
    append(made.dataset("d").journal, completion(0, len(ids), output_ids=ids))
    return made


def test_every_part_by_its_kind(folder: RunFolder) -> None:
    (recent,) = RunWatch(folder.path).refresh().recent
    decoded = Completions(folder).decode(recent)
    assert decoded.prompt.endswith("<think>")
    kinds = [span.kind for span in decoded.answer]
    assert kinds[0] == "reasoning" and kinds[-1] == "end" and {"content", "call", "frame"} <= set(kinds)
    assert "".join(span.text for span in decoded.answer) == ANSWER
    assert decoded.answer[0].text == "So it is.</think>"


def test_the_thinking_share_needs_no_tokenizer(folder: RunFolder) -> None:
    found = thinking.find(folder.tokenizer)
    assert found and thinking.opened(found, folder.dataset("d"))
    total = RunWatch(folder.path).refresh().total
    ids = families.plain_model("kimi").ids
    assert total.thinking and total.lengths
    assert total.thinking.share == pytest.approx(len(ids("So it is.</think>")) / total.lengths.tokens)


def test_without_a_tokenizer_it_is_said(folder: RunFolder) -> None:
    (recent,) = RunWatch(folder.path).refresh().recent
    for file in folder.tokenizer.iterdir():
        file.unlink()
    folder.tokenizer.rmdir()
    with pytest.raises(DraftmillError, match="no tokenizer of its own"):
        Completions(folder).decode(recent)
