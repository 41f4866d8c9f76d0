"""What test renders find out about a template: for the families, and for templates with one trait each."""

from typing import Any

import pytest

from draftmill.errors import RenderError
from draftmill.records import Conversation
from draftmill.render.findings import Finding
from draftmill.render.form import Form, Padding
from tests.render import families
from tests.render.families import FIXTURES

TAGS = Padding(before_reasoning="\n", after_reasoning="\n", before_content="\n\n", before_calls="\n")
RC = "reasoning_content"
FAMILIES: list[tuple[str, dict[str, Any], Form, list[str]]] = [
    ("kimi", {}, Form(RC, False, "object"), ["thinking-opened", "reasoning-dropped"]),
    ("kimi", {"thinking": False}, Form(RC, False, "object"), ["thinking-closed", "reasoning-dropped"]),
    ("qwen3", {}, Form(RC, False, "object", TAGS), ["reasoning-dropped"]),
    ("qwen3", {"enable_thinking": False}, Form(RC, False, "object", TAGS), ["thinking-closed", "reasoning-dropped"]),
    ("hermes", {}, Form(None, False, "object", Padding(before_calls="\n")), []),
    (
        "deepseek-r1",
        {},
        Form(None, False, "text"),
        ["thinking-opened", "tools-ignored", "arguments-as-text", "reasoning-dropped", "reasoning-dropped-in-loop"],
    ),
    (
        "deepseek-v3.1",
        {},
        Form(None, False, "text"),
        ["thinking-closed", "arguments-as-text", "reasoning-dropped", "reasoning-dropped-in-loop"],
    ),
    ("gpt-oss", {}, Form(RC, False, "object"), ["parallel-ignored", "reasoning-dropped", "date-inserted"]),
    (
        "glm",
        {},
        Form(RC, False, "object", Padding(before_content="\n", before_calls="\n", before_thinking="\n")),
        ["reasoning-dropped"],
    ),
    (
        "minimax",
        {},
        Form(RC, False, "object", Padding("\n", "\n", "\n\n", "\n", in_prompt="\n")),
        ["thinking-opened", "reasoning-dropped"],
    ),
    ("gemma", {}, Form(), ["tools-ignored", "calls-refused", "turns-must-alternate"]),
    ("llama3", {}, Form(None, False, "object"), ["parallel-refused", "date-inserted"]),
    ("smollm2", {}, Form(), ["tools-ignored", "calls-ignored"]),
]


@pytest.mark.parametrize(("name", "arguments", "form", "codes"), FAMILIES)
def test_what_a_familys_template_does(name: str, arguments: dict[str, Any], form: Form, codes: list[str]) -> None:
    dialect = families.model(name, **arguments).dialect
    assert dialect.form == form
    assert [finding.code for finding in dialect.findings] == codes
    assert (not dialect.lacks_native_tools) is ("tools-ignored" not in codes and dialect.markers.calls)


@pytest.mark.parametrize("name", [n for n in FIXTURES if not families.plain_model(n).dialect.lacks_native_tools])
def test_tools_come_out_in_the_familys_own_form(name: str) -> None:
    """As BFCL has them: several, with dots in their names and nested schemas."""
    schema = {
        "type": "object",
        "properties": {"side": {"type": "integer", "description": "Zürich ≥ 3"}},
        "required": [],
    }
    named = ["triangle_properties.get", "circle_properties.get"]
    tools = [{"type": "function", "function": {"name": n, "description": n, "parameters": schema}} for n in named]
    user = {"role": "user", "content": "zqx"}
    text = families.plain_model(name).dialect.text(Conversation([user], tools))
    plain = families.plain_model(name).dialect.text(Conversation([user]))
    assert all(f"{n}" in text for n in named)
    assert len(text) > len(plain)
    assert text[text.index("zqx") :] == plain[plain.index("zqx") :]


def test_every_finding_says_what_it_means() -> None:
    findings = {f for name in FIXTURES for f in families.plain_model(name).dialect.findings}
    assert all(len(f.message) > 20 and len(f.meaning) > 20 and not f.meaning.endswith(".") for f in findings)


LINES = """\
{%- for m in messages -%}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}ANSWER{% else %}{{ m.content }}{% endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""


def told(template: str, **arguments: Any) -> tuple[Form, dict[str, Finding]]:
    dialect = families.made(FIXTURES["qwen3"]._replace(template=template), **arguments).dialect
    return dialect.form, {finding.code: finding for finding in dialect.findings}


def test_a_template_that_keeps_reasoning() -> None:
    form, codes = told(LINES.replace("ANSWER", "<think>{{ m.reasoning_content }}</think>{{ m.content }}"))
    assert (form.reasoning_key, form.needs_reasoning) == ("reasoning_content", False)
    assert "reasoning-kept" in codes
    assert "reasoning-dropped" not in codes


def test_a_template_that_needs_reasoning_gets_it() -> None:
    template = LINES.replace("ANSWER", "{{ '<think>' + m.reasoning_content + '</think>' + m.content }}")
    model = families.made(FIXTURES["qwen3"]._replace(template=template))
    assert model.dialect.form.needs_reasoning
    assert "reasoning-needed" in {f.code for f in model.dialect.findings}
    turn = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    with pytest.raises(RenderError):
        model.template.text(Conversation(turn), {})
    assert "<think></think>b<|im_end|>" in model.dialect.text(Conversation(turn))
    turn[1]["reasoning_content"] = "r"
    assert "<think>r</think>b<|im_end|>" in model.dialect.text(Conversation(turn))


def test_a_template_that_refuses_tools_or_system_prompts() -> None:
    _, codes = told("{{ raise_exception('no tools') if tools }}" + LINES.replace("ANSWER", "{{ m.content }}"))
    assert codes["tools-refused"].message == "the chat template refuses `tools`"
    _, codes = told(
        "{{ raise_exception('no') if messages[0].role == 'system' }}" + LINES.replace("ANSWER", "{{ m.content }}")
    )
    assert "system-refused" in codes


def test_a_template_that_stamps_the_date() -> None:
    _, codes = told("{{ strftime_now('%Y') }}" + LINES.replace("ANSWER", "{{ m.content }}"))
    assert families.DAY in codes["date-inserted"].meaning


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("c.function.arguments | tojson", "object"),
        ("(c.function.arguments if c.function.arguments is string else c.function.arguments | tojson)", "object"),
        ("'' + c.function.arguments", "text"),
        ("c.function.arguments", "text"),  # an object would come out in Python's notation
        ("c.function.arguments.items() | list", None),  # no JSON in any form
    ],
)
def test_how_arguments_are_handed_over(written: str, arguments: str | None) -> None:
    calls = "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ " + written + " }}{% endfor %}"
    form, codes = told(LINES.replace("ANSWER", "{{ m.content }}" + calls))
    assert form.arguments == arguments
    assert ("arguments-as-text" in codes) is (arguments == "text")


def test_a_template_that_refuses_everything_is_no_crash() -> None:
    form, codes = told("{{ raise_exception('never') }}")
    assert form == Form()
    assert "calls-refused" in codes


def test_messages_in_the_templates_form() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": "ü"}}}
    raw = {"id": "2", "type": "function", "function": {"name": "f", "arguments": "as it was"}}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [call, raw]},
    ]
    fitted = Form("thinking", False, "text").fitted(messages)
    assert fitted[0] is messages[0]
    assert fitted[1]["thinking"] == "r"
    assert "reasoning_content" not in fitted[1]
    assert [c["function"]["arguments"] for c in fitted[1]["tool_calls"]] == ['{"x": "ü"}', "as it was"]
    assert messages[1]["tool_calls"][0] is call
    assert call["function"]["arguments"] == {"x": "ü"}
    assert Form("reasoning_content", False, "object").fitted(messages) == messages
