"""Which findings matter to a conversation."""

from typing import Any

import pytest

from draftmill.records import Conversation, Turn
from draftmill.render.findings import Code, Concern, concerns, tools_as_text

TOOL = {"type": "function", "function": {"name": "f"}}
CALLS = [{"type": "function", "function": {"name": "f", "arguments": {}}}]
USER, SYSTEM, RESULT = ({"role": role, "content": "a"} for role in ("user", "system", "tool"))
SAID: dict[str, Any] = {"role": "assistant", "content": "b"}


@pytest.mark.parametrize(
    ("conversation", "found"),
    [
        (Conversation([USER]), set()),
        (Conversation([SYSTEM, USER]), {"system"}),
        (Conversation([USER], [TOOL]), {"tools"}),
        (Conversation([USER, SAID, USER]), {"answers"}),
        (Conversation([USER, {**SAID, "tool_calls": CALLS}, RESULT]), {"answers", "calls"}),
        (Conversation([USER, USER]), {"alternation"}),
        (Conversation([USER], later=[Turn([USER], [SAID])]), {"answers", "turns"}),
        (Conversation([USER], later=[Turn([USER])]), {"answers", "turns"}),
        (Conversation([USER], later=[Turn([USER, USER])]), {"answers", "turns", "alternation"}),
        (Conversation([USER], later=[Turn([RESULT])]), {"answers", "turns", "calls"}),
        (Conversation([USER], later=[Turn([USER], [{**SAID, "tool_calls": CALLS}])]), {"answers", "turns", "calls"}),
        (Conversation([USER], [TOOL], [Turn([USER])]), {"answers", "turns", "tools", "calls"}),  # it may make some
    ],
)
def test_concerns(conversation: Conversation, found: set[str]) -> None:
    assert concerns(conversation) == {Concern.ALL, *found}


def test_tools_that_stay_as_text_get_another_advice() -> None:
    asked, left = tools_as_text(3, 10, "a.jsonl:1"), tools_as_text(3, 10, "a.jsonl:1", lifted=True)
    assert asked.code is left.code is Code.TOOLS_AS_TEXT
    assert "--native-tools" in asked.advice and "not JSON" in left.advice and "a.jsonl:1" in left.message
