"""Tool definitions in system prompts, lifted into ``tools``."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.records import Conversation, Tool, Turn
from draftmill.sources.tool_text import has_tool_text, lift

GLAIVE = "You are a helpful assistant with access to the following functions. Use them if required -"
WEATHER = {
    "name": "get_weather",
    "description": "The weather {now} in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
NEWS = {"name": "get_news", "description": "News", "parameters": {}}
ASKED = {"role": "user", "content": "hi"}


def tool(function: dict[str, Any]) -> Tool:
    return {"type": "function", "function": function}


def system(text: str, tools: list[Tool] | None = None) -> Conversation:
    return Conversation([{"role": "system", "content": text}, ASKED], tools)


PRETTY = json.dumps(WEATHER, indent=4)
FLAT = json.dumps(NEWS)
HERMES = (
    "You are a function calling AI model. You are provided with function signatures within <tools></tools> XML tags."
    ' Here are the available tools:<tools> [%s] </tools>Use the schema: {"title": "FunctionCall", "properties":'
    ' {"name": {"type": "string"}}} and answer\n<tool_call>\n{tool_call}\n</tool_call>'
)


@pytest.mark.parametrize(
    ("text", "prose", "functions"),
    [
        (f"{GLAIVE}\n{PRETTY}\n\n{FLAT}\n", "You are a helpful assistant.", [WEATHER, NEWS]),
        (f"{GLAIVE}\n{PRETTY}{FLAT}", "You are a helpful assistant.", [WEATHER, NEWS]),  # no separator
        (f"{GLAIVE} {FLAT}, {PRETTY}", "You are a helpful assistant.", [NEWS, WEATHER]),
        (f"{GLAIVE}\n[{FLAT}, {PRETTY}]", "You are a helpful assistant.", [NEWS, WEATHER]),
        (f"{GLAIVE}\n{FLAT}\n{FLAT}", "You are a helpful assistant.", [NEWS]),
        (f"Be brief.\n\n{FLAT}", "Be brief.", [NEWS]),
        (f"{FLAT}\nBe brief.", "Be brief.", [NEWS]),
        (f'Be brief. {{"tools": [{FLAT}]}}', "Be brief.", [NEWS]),
        (json.dumps(tool(NEWS)), None, [NEWS]),  # nothing is left of the system prompt
        (HERMES % json.dumps(tool(WEATHER)), None, [WEATHER]),
        (f"Be brief. {HERMES % FLAT}", "Be brief.", [NEWS]),
        (f'{GLAIVE}\n{{"name": "f", "description": "two\nlines"}}', "You are a helpful assistant.",
         [{"name": "f", "description": "two\nlines"}]),
    ],
)  # fmt: skip
def test_definitions_are_lifted(text: str, prose: str | None, functions: list[dict[str, Any]]) -> None:
    lifted = lift(system(text))
    assert lifted.conversation.tools == [tool(function) for function in functions]
    assert lifted.tools == len(functions)
    head = [{"role": "system", "content": prose}] if prose is not None else []
    assert lifted.conversation.messages == [*head, ASKED]
    assert lifted.fault == ""
    assert has_tool_text(system(text))
    assert not has_tool_text(lifted.conversation)


@pytest.mark.parametrize(
    "text",
    [
        "You are a helpful assistant, with no access to external functions.",
        "",
        'Answer as {"name": "…"}.',
        'An example: {"name": "Ada", "age": 36}',
        "[1, 2, 3] {} [] {{{{ [[[[",
        '{"name": {"title": "Name"}, "parameters": 1}',
        '[{"name": "f", "parameters": {}}, {"no": "definition"}]',
    ],
)
def test_what_is_no_definition_stays(text: str) -> None:
    conversation = system(text)
    assert lift(conversation).conversation is conversation
    assert (lift(conversation).tools, lift(conversation).fault) == (0, "")
    assert not has_tool_text(conversation)


def test_all_or_none() -> None:
    broken = '{"name": "g", "description": "never ends", "parameters": {"type": '
    conversation = system(f"{GLAIVE}\n{FLAT}\n{broken}")
    lifted = lift(conversation)
    assert lifted.conversation is conversation
    assert "not JSON" in lifted.fault


def test_tools_that_are_there_already_stay() -> None:
    """Hermes has its tools twice, in a column and in the text."""
    lifted = lift(system(f"Be brief.\n{FLAT}", [tool(WEATHER)]))
    assert lifted.conversation == system("Be brief.", [tool(WEATHER)])


def test_later_turns_stay() -> None:
    conversation = system(f"Be brief.\n{FLAT}")
    later = [Turn([ASKED])]
    lifted = lift(Conversation(conversation.messages, None, later)).conversation
    assert (lifted.later, lifted.tools) == (later, [tool(NEWS)])


def test_only_system_prompts_are_looked_at() -> None:
    conversation = Conversation([{"role": "user", "content": FLAT}])
    assert lift(conversation).conversation is conversation


@given(st.text(alphabet='{}[]",:ab \n', max_size=60), st.booleans())
def test_any_text_is_read(text: str, with_definition: bool) -> None:
    conversation = system(text + (FLAT if with_definition else ""))
    lifted = lift(conversation)
    assert lifted.tools or lifted.conversation is conversation
