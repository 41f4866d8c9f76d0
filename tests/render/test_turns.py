"""A conversation of five answers, turn by turn: the exact prompts that two thinking families' templates demand.

The first answer calls two tools at once. Reasoning stays while the tool loop runs and is gone from finished turns. The
golden files hold the five prompts; write them anew with ``REGOLD=1 pytest tests/render/test_turns.py`` and read them.
"""

import os
from pathlib import Path

import pytest

from draftmill.records import Conversation, Message
from tests.render import families
from tests.render.test_parse import spelt, tool

GOLDEN = Path(__file__).parent / "golden"
TOOLS = [tool("get_weather", city={"type": "string"}), tool("bash", command={"type": "string"})]
USERS = ["Is it warmer in Paris or in Zürich?", "And the date?"]
# what the tools said when the conversation was recorded; None: the next user turn
RESULTS = [["21", "17"], ["4"], None, ["Sat Jan 31"], None]
ANSWERS = {
    "qwen3": [
        "<think>\nTwo cities.\n</think>\n\nLet me look."
        '\n⟨\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n⟩'
        '\n⟨\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n⟩■',
        '<think>\nThe difference.\n</think>\n\n⟨\n{"name": "bash", "arguments": {"command": "expr 21 - 17"}}\n⟩■',
        "<think>\nDone.\n</think>\n\nIn Paris, by 4 degrees.■",
        '<think>\nAsk the clock.\n</think>\n\n⟨\n{"name": "bash", "arguments": {"command": "date"}}\n⟩■',
        "<think>\nIt said so.\n</think>\n\nSaturday.■",
    ],
    "kimi": [
        "Two cities.</think>Let me look."
        '⟦⟨functions.get_weather:0¦{"city": "Paris"}⟩⟨functions.get_weather:1¦{"city": "Zürich"}⟩⟧■',
        'The difference.</think>⟦⟨functions.bash:2¦{"command": "expr 21 - 17"}⟩⟧■',
        "Done.</think>In Paris, by 4 degrees.■",
        'Ask the clock.</think>⟦⟨functions.bash:3¦{"command": "date"}⟩⟧■',
        "It said so.</think>Saturday.■",
    ],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_prompts_of_five_turns(name: str) -> None:
    model = families.plain_model(name)
    users = iter(USERS)
    messages: list[Message] = [{"role": "user", "content": next(users)}]
    prompts = []
    for answer, results in zip(ANSWERS[name], RESULTS, strict=True):
        text = model.dialect.text(Conversation(messages, TOOLS))
        prompts.append(text)
        parts = model.dialect.parts(model.ids(spelt(name, answer)), model.ids(text), TOOLS)
        assert parts.oddities == ()
        message = model.dialect.answer(parts, messages).message
        messages.append(message)
        calls = message.get("tool_calls", [])
        assert len(calls) == len(results or [])
        for made, result in zip(calls, results or [], strict=True):
            messages.append({"role": "tool", "content": result, "tool_call_id": made["id"]})
        if results is None and (question := next(users, None)):
            messages.append({"role": "user", "content": question})
    golden = GOLDEN / f"turns-{name}.txt"
    written = "\n".join(f"======== turn {n}\n{prompt}" for n, prompt in enumerate(prompts)) + "\n"
    if os.environ.get("REGOLD"):
        golden.write_text(written)
    assert written == golden.read_text()
