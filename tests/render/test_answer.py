"""Parts → the message of the next turn: what it holds, and that the template gives the same ids back for it."""

from typing import Any

import pytest

from draftmill.records import Conversation, Message
from draftmill.render.answer import equal, same_call
from draftmill.render.parts import Call, Parts
from tests.render import families
from tests.render.families import Model
from tests.render.test_parse import TOOLS, USER, spelt


def call(name: str, arguments: Any, id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def parts_of(model: Model, ids: list[int], messages: list[Message]) -> Parts:
    prompt = model.ids(model.dialect.text(Conversation(messages, TOOLS)))
    return model.dialect.parts(ids, prompt, TOOLS)


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("smollm2", " hi \n■", {"content": " hi \n"}),
        ("smollm2", "hi", {"content": "hi"}),
        ("smollm2", "■", {"content": ""}),
        ("qwen3", "<think>\na\n</think>\n\nb■", {"content": "b", "reasoning_content": "a"}),
        ("qwen3", "<think>\n\n</think>\n\nb■", {"content": "b"}),
        ("qwen3", "<think>a</think>b■", {"content": "b", "reasoning_content": "a"}),
        ("qwen3", "<think>\n\n a\n\n</think>\n\n\nb■", {"content": "\nb", "reasoning_content": "\n a\n"}),
        ("qwen3", "\n\nb■", {"content": "\n\nb"}),  # no thinking before it: the white space is the answer's
        ("qwen3", "<think>a", {"content": "", "reasoning_content": "a"}),
        (
            "qwen3",
            '<think>\na\n</think>\n\n⟨\n{"name": "f", "arguments": {"x": 1}}\n⟩\n⟨\n{"name": "g"}\n⟩■',
            {
                "content": "",
                "reasoning_content": "a",
                "tool_calls": [call("f", {"x": 1}, "call_0"), call("g", {}, "call_1")],
            },
        ),
        (
            "qwen3",
            'b\n⟨{"name": "f", "arguments": {"x": "a',
            {
                "content": "b",
                "tool_calls": [call("f", '{"x": "a', "call_0")],  # as it was written
            },
        ),
        ("qwen3", '⟨{"name": "f", "arguments": "ls"}⟩■', {"content": "", "tool_calls": [call("f", "ls", "call_0")]}),
        ("kimi", "a\n</think>b■", {"content": "b", "reasoning_content": "a\n"}),
        (
            "kimi",
            "a</think>⟦⟨functions.f:9¦{}⟩⟨functions.g.h:9¦{}⟩⟧■",
            {
                "content": "",
                "reasoning_content": "a",
                "tool_calls": [call("f", {}, "functions.f:0"), call("g.h", {}, "functions.g.h:1")],
            },
        ),
        (
            "glm",
            "\n<think>a</think>\nb\n⟨f\n<arg_key>code</arg_key>\n<arg_value>7</arg_value>\n⟩□",
            {
                "content": "b",
                "reasoning_content": "a",
                "tool_calls": [call("f", {"code": "7"}, "call_0")],
            },
        ),
        ("minimax", "\na\n</think>\n\nb■", {"content": "b", "reasoning_content": "\na"}),  # the prompt has the line end
        (
            "gpt-oss",
            "@analysis|a;▸@analysis|b;▸@commentary|c;▸@final|d■",
            {
                "content": "c\nd",
                "reasoning_content": "a\nb",
            },
        ),
        (
            "llama3",
            '{"name": "f", "parameters": {"x": "1"}}■',
            {
                "content": "",
                "tool_calls": [call("f", {"x": "1"}, "call_0")],
            },
        ),
    ],
)
def test_the_message_of_an_answer(name: str, answer: str, message: Message) -> None:
    model = families.plain_model(name)
    parts = parts_of(model, model.ids(spelt(name, answer)), [USER])
    found = model.dialect.answer(parts, [USER])
    assert found.message == {"role": "assistant", **message}
    assert found.lost == ""


def test_what_stands_behind_a_call_is_lost_and_told() -> None:
    model = families.plain_model("qwen3")
    answer = spelt("qwen3", 'a⟨{"name": "f"}⟩ b ⟨{"name": "g"}⟩c■')
    found = model.dialect.answer(parts_of(model, model.ids(answer), [USER]), [])
    assert found.message["content"] == "a"
    assert found.lost == " b c"


def test_call_ids_count_through_the_conversation() -> None:
    model = families.plain_model("kimi")
    history: list[Message] = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [call("f", {}, "x"), call("f", {}, "y")]},
        {"role": "tool", "content": "1", "tool_call_id": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call("f", {}, "z")]},
    ]
    parts = parts_of(model, model.ids(spelt("kimi", "</think>⟦⟨functions.bash:0¦{}⟩⟧■")), history)
    assert model.dialect.answer(parts, history).message["tool_calls"][0]["id"] == "functions.bash:3"


BOTH = {"content": "Well.", "reasoning_content": "I should look."}
ROUND_TRIPS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("kimi", {}, {"content": "Well."}),
    ("kimi", {"thinking": False}, {"content": "Well."}),
    ("kimi", {}, {**BOTH, "tool_calls": [call("f", {"x": "ü"}, "functions.f:0"), call("g", {}, "functions.g:1")]}),
    ("qwen3", {}, BOTH),
    ("qwen3", {"enable_thinking": False}, {"content": "Well."}),
    ("qwen3", {}, {**BOTH, "tool_calls": [call("f", {"x": "ü", "days": 3}, "call_0"), call("g", {}, "call_1")]}),
    ("qwen3", {}, {**BOTH, "content": "", "tool_calls": [call("f", {"code": None}, "call_0")]}),
    ("hermes", {}, {"content": "Well."}),
    ("hermes", {}, {"content": "Well.", "tool_calls": [call("f", {"x": [1]}, "call_0"), call("g", {}, "call_1")]}),
    ("hermes", {}, {"content": "", "tool_calls": [call("f", {}, "call_0")]}),
    ("deepseek-v3.1", {}, {"content": "Well."}),
    ("deepseek-v3.1", {}, {"content": "Well.", "tool_calls": [call("f", {"x": 1}, "call_0"), call("g", {}, "call_1")]}),
    ("gpt-oss", {}, BOTH),
    ("gpt-oss", {}, {"content": "", "reasoning_content": "Look.", "tool_calls": [call("f", {"x": 1}, "call_0")]}),
    ("glm", {}, BOTH),
    ("glm", {}, {**BOTH, "tool_calls": [call("f", {"code": "7", "days": 7}, "call_0"), call("g", {}, "call_1")]}),
    ("glm", {}, {**BOTH, "content": "", "tool_calls": [call("bash", {"command": "ls\n-l"}, "call_0")]}),
    ("minimax", {}, BOTH),
    ("minimax", {}, {**BOTH, "tool_calls": [call("f", {"code": "7", "days": 7}, "call_0"), call("g", {}, "call_1")]}),
    ("llama3", {}, {"content": "Well."}),
    ("llama3", {}, {"content": "", "tool_calls": [call("f", {"days": 7}, "call_0")]}),
    ("gemma", {}, {"content": "Well."}),
    ("smollm2", {}, {"content": " Well. \n"}),
]


@pytest.mark.parametrize(("name", "arguments", "message"), ROUND_TRIPS)
def test_parts_to_template_to_ids(name: str, arguments: dict[str, Any], message: Message) -> None:
    """What the template writes is read as the same message, and that is written as the same ids."""
    model = families.model(name, **arguments)
    message = {"role": "assistant", **message}
    prompt = model.ids(model.dialect.text(Conversation([USER], TOOLS)))
    whole = model.ids(model.dialect.finished(Conversation([USER, message], TOOLS)))
    assert whole[: len(prompt)] == prompt
    parts = model.dialect.parts(whole[len(prompt) :], prompt, TOOLS)
    answer = model.dialect.answer(parts, [USER])
    assert answer.message == message
    assert not [c for c in parts.calls if not c.usable]
    assert model.ids(model.dialect.finished(Conversation([USER, answer.message], TOOLS))) == whole


def test_every_family_that_allows_it_makes_the_round_trip() -> None:
    """DeepSeek R1's template puts an empty answer behind calls, and drops reasoning with the marker that opens it."""
    assert {name for name, _, _ in ROUND_TRIPS} == families.FIXTURES.keys() - {"deepseek-r1"}


def recorded(name: str, arguments: Any) -> dict[str, Any]:
    return call(name, arguments, "recorded")


@pytest.mark.parametrize(
    ("answer", "other", "same"),
    [
        ('⟨{"name": "f", "arguments": {"x": 1, "y": [1, {"z": null}]}}⟩■', {"y": [1, {"z": None}], "x": 1.0}, True),
        ('⟨{"name": "f", "arguments": {"command": "ls"}}⟩■', {"command": "ls "}, False),
        ('⟨{"name": "f", "arguments": {"x": 1}}⟩■', {"x": True}, False),
        ('⟨{"name": "f", "arguments": {"x": 1}}⟩■', {"x": "1"}, False),
        ('⟨{"name": "f", "arguments": {"x": 1}}⟩■', {"x": 1, "y": None}, False),
        ('⟨{"name": "f", "arguments": {"x": [1, 2]}}⟩■', {"x": [2, 1]}, False),
        ('⟨{"name": "g", "arguments": {"x": 1}}⟩■', {"x": 1}, False),
        ('⟨{"name": "f", "arguments": {"x": 1}}', {"x": 1}, False),  # never ended
        ('⟨{"name": "f", "arguments": {"x": 1}⟩■', {"x": 1}, False),
        ('⟨{"name": "f"}⟩■', {}, True),
    ],
)
def test_a_call_that_does_what_was_recorded(answer: str, other: dict[str, Any], same: bool) -> None:
    model = families.plain_model("qwen3")
    (made,) = parts_of(model, model.ids(spelt("qwen3", answer)), [USER]).calls
    assert isinstance(made, Call)
    assert same_call(made, recorded("f", other)) is same


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [(0, False, False), (1.0, 1, True), ([], {}, False), ("", None, False), ([[1]], [[1.0]], True), (None, None, True)],
)
def test_equal_values(a: Any, b: Any, same: bool) -> None:
    assert equal(a, b) is same
    assert equal(b, a) is same
