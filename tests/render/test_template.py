"""Chat templates: what they render, refuse and reach, and the ids that they end a turn with."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from draftmill.errors import RenderError
from draftmill.records import Conversation
from draftmill.render import tokenizer as tokenizers
from draftmill.render.template import ChatTemplate
from tests.render import tiny

HI = Conversation([{"role": "user", "content": "hi"}])
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def load(folder: Path, template: str | None = tiny.TEMPLATE, day: str = "2026-01-31", **options: Any) -> ChatTemplate:
    return ChatTemplate(tokenizers.load(str(tiny.directory(folder, template, **options))), day)


def test_a_conversation_ends_where_the_answer_begins(tmp_path: Path) -> None:
    assert load(tmp_path).text(HI, {}) == "<|start|>user: hi<|end|><|start|>assistant:"


def test_tools_calls_and_arguments_reach_the_template(tmp_path: Path) -> None:
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich"}}}
    conversation = Conversation(
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "sun"},
        ],
        [TOOL],
    )
    assert load(tmp_path).text(conversation, {"enable_thinking": True}) == (
        '<|start|>tool {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}<|end|>'
        "<|start|>user: hi<|end|>"
        '<|start|>assistant: <|call|>weather {"city": "Zürich"}<|end|>'
        "<|start|>tool: sun<|end|><|start|>assistant: think"
    )


def test_the_small_models_template(small_model: Path) -> None:
    template = ChatTemplate(tokenizers.load(str(small_model)), "2026-01-31")
    text = template.text(Conversation([{"role": "system", "content": "Be brief."}, *HI.messages]), {})
    assert text == ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert template.stop_ids == (2,)


def test_a_conversation_that_the_template_refuses(tmp_path: Path) -> None:
    template = load(tmp_path)
    with pytest.raises(RenderError, match="the chat template refuses this conversation: no role critic"):
        template.text(Conversation([{"role": "critic", "content": "hm"}]), {})


@pytest.mark.parametrize(
    "template",
    ["{{ messages[0].nothing.at.all }}", "{{ messages[99].content }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ 1 // 0 }}"],
)
def test_whatever_a_template_raises_is_told_in_one_line(template: str, tmp_path: Path) -> None:
    loaded = load(tmp_path, template)
    with pytest.raises(RenderError, match=r"the chat template refuses this conversation: .") as caught:
        loaded.text(HI, {})
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("source", ["directory", "gguf"])
def test_no_chat_template(source: str, tmp_path: Path) -> None:
    if source == "gguf":
        model = tiny.gguf_file(tmp_path / "m.gguf", template=None)
    else:
        model = tiny.directory(tmp_path, template=None)
    with pytest.raises(RenderError, match="has no chat template") as caught:
        ChatTemplate(tokenizers.load(str(model)), "2026-01-31")
    assert str(model) in caught.value.message
    assert "chat_template.jinja" in caught.value.advice


def test_the_date_is_the_runs(tmp_path: Path) -> None:
    source = "{% macro today() %}{{ strftime_now('%d %B') }}{% endmacro %}{{ strftime_now('%Y-%m-%d') }}, {{ today() }}"
    old = load(tmp_path / "a", source, day="2001-02-03")
    assert old.text(HI, {}) == "2001-02-03, 03 February"
    # transformers keeps one compiled template for all with the same source: each still has its own date
    new = load(tmp_path / "b", source, day="2026-01-31")
    assert new.text(HI, {}) == "2026-01-31, 31 January"
    assert old.text(HI, {}) == "2001-02-03, 03 February"
    assert date.today().isoformat() != "2001-02-03"


ENDLESS = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.mark.parametrize(
    ("template", "options", "stop_ids"),
    [
        (tiny.TEMPLATE, {}, (tiny.END,)),
        (tiny.TEMPLATE, {"eos": None}, (tiny.END,)),  # the template alone knows
        (tiny.TEMPLATE, {"eos": "<|start|>"}, (tiny.START, tiny.END)),
        (
            tiny.TEMPLATE,
            {"eos": "<|start|>", "generation_config": {"eos_token_id": [tiny.CALL, 7]}},
            (tiny.CALL, 7, tiny.START, tiny.END),
        ),
        (ENDLESS, {}, (tiny.END,)),  # the files alone know
        ("<|start|>{{ raise_exception('never') }}", {}, (tiny.END,)),
        # an answer that is left out ends nowhere: the first marker of the text is no end of turn
        ("<|start|>{{ messages[0].content }}<|call|>", {}, (tiny.END,)),
        # parts are wanted, a text is given: rendered as nothing
        (
            "<|start|>{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
            {},
            (tiny.END,),
        ),
        # the marker of the next turn ends this one where nothing else does
        ("{% for m in messages %}{{ m.content }}\n<|call|>{% endfor %}", {}, (tiny.END, tiny.CALL)),
    ],
)
def test_stop_ids(template: str, options: Any, stop_ids: tuple[int, ...], tmp_path: Path) -> None:
    assert load(tmp_path, template, **options).stop_ids == stop_ids


def test_nothing_ends_an_answer(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match="neither the model's files nor its chat template name a token") as caught:
        load(tmp_path, ENDLESS, eos=None)
    assert "generation_config.json" in caught.value.advice


def test_stop_ids_of_a_runs_own_copy(tmp_path: Path) -> None:
    first = load(tmp_path / "a", eos="<|start|>", generation_config={"eos_token_id": [tiny.CALL]})
    first._tokenizer.save(tmp_path / "b")
    again = ChatTemplate(tokenizers.load(str(tmp_path / "b")), "2026-01-31")
    assert again.stop_ids == first.stop_ids
    assert again.digest() == first.digest()


def test_another_template_has_another_digest(tmp_path: Path) -> None:
    assert load(tmp_path / "a").digest() != load(tmp_path / "b", tiny.TEMPLATE + " ").digest()


def test_an_argument_that_the_template_never_reads_is_refused(tmp_path: Path) -> None:
    """Jinja ignores it, and a whole run would be made in the wrong mode."""
    template = load(tmp_path)
    template.refuse_unknown({"enable_thinking": True})
    with pytest.raises(RenderError, match=r"template.enable_thinkng: .* did you mean enable_thinking\?"):
        template.refuse_unknown({"enable_thinkng": True})
    with pytest.raises(RenderError, match="it reads"):
        template.refuse_unknown({"zzz": 1})


def test_a_template_that_is_no_jinja_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match=r"the chat template of '.*' is not valid: ."):
        load(tmp_path, "{% for m in messages %}{{ m.content }}{% endfo")
