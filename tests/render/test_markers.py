"""Markers found in live tokenizers and templates, never from ids that are written down."""

import pytest

from draftmill.errors import RenderError
from draftmill.render.families import Body, Role
from draftmill.render.findings import Concern
from draftmill.render.markers import Custom, Thinking
from tests.render import families
from tests.render.families import FIXTURES, Fixture

FOUND = {  # family, body, thinking, first and last marker of calls, turn ends, other stops
    "kimi": ("kimi", Body.KIMI, (163606, 163607), (163595, 163599), {163586}, {163585}),
    "qwen3": ("qwen3", Body.JSON, (151667, 151668), (151657, 151658), {151645}, {151643}),
    "hermes": ("hermes", Body.JSON, None, (151657, 151658), {151645}, set()),
    "deepseek-r1": ("deepseek", Body.DEEPSEEK, (128798, 128799), (128806, 128809), {1}, set()),
    "deepseek-v3.1": ("deepseek", Body.DEEPSEEK, (128798, 128799), (128806, 128809), {1}, set()),
    "gpt-oss": ("gpt-oss", Body.HARMONY, None, None, {200002, 200012}, {199999}),
    "glm": ("glm", Body.KEYS, (151350, 151351), (151352, 151353), {151329, 151336, 151338}, set()),
    "minimax": ("minimax", Body.INVOKE, (200050, 200051), (200052, 200053), {200020}, set()),
    "gemma": ("gemma", None, None, None, {106}, {1}),
    "llama3": ("llama3", Body.PYTHON_TAG, None, (128010, None), {128008, 128009}, {128001}),
    "smollm2": ("plain", None, None, None, {2}, set()),
}


@pytest.mark.parametrize("name", FIXTURES)
def test_the_markers_of_a_family(name: str) -> None:
    family, body, thinking, calls, ends, stops = FOUND[name]
    markers = families.plain_model(name).dialect.markers
    assert (markers.family, markers.body) == (family, body)
    assert (markers.id(Role.THINK_OPEN), markers.id(Role.THINK_CLOSE)) == (thinking or (None, None))
    first = markers.id(Role.SECTION_OPEN) or markers.id(Role.CALL_OPEN)
    assert (first, markers.id(Role.CALL_CLOSE)) == (calls or (None, None))
    assert (markers.turn_ends, markers.stops) == (ends, stops)
    assert markers.stop_ids == tuple(sorted(ends | stops))
    assert all(FIXTURES[name].markers[text] == id for id, text in markers.texts.items())
    assert markers.thinks is (thinking is not None or name == "gpt-oss")
    assert markers.calls is (body is not None)


def test_the_ids_are_the_tokenizers() -> None:
    """The same family with other ids, as its next version might have."""
    moved = FIXTURES["kimi"]._replace(markers={text: id + 7 for text, id in FIXTURES["kimi"].markers.items()})
    markers = families.made(moved).dialect.markers
    assert markers.roles == {id + 7: role for id, role in families.plain_model("kimi").dialect.markers.roles.items()}


@pytest.mark.parametrize(
    ("name", "arguments", "tail", "thinking"),
    [
        ("kimi", {}, "", Thinking.OPENED),
        ("kimi", {"thinking": False}, "", Thinking.CLOSED),
        ("qwen3", {}, "", Thinking.UNSAID),
        ("qwen3", {"enable_thinking": False}, "", Thinking.CLOSED),
        ("deepseek-r1", {}, "", Thinking.OPENED),
        ("deepseek-v3.1", {}, "", Thinking.CLOSED),
        ("deepseek-v3.1", {"thinking": True}, "", Thinking.OPENED),
        ("glm", {}, "", Thinking.UNSAID),
        ("minimax", {}, "", Thinking.OPENED),
        ("gpt-oss", {}, "", Thinking.UNSAID),
        ("smollm2", {}, "", Thinking.UNSAID),
        ("qwen3", {}, "<think>", Thinking.UNSAID),  # a user typed it
        ("qwen3", {}, "</think>", Thinking.UNSAID),
    ],
)
def test_what_a_prompt_says_about_thinking(name: str, arguments: dict, tail: str, thinking: Thinking) -> None:  # type: ignore[type-arg]
    from draftmill.records import Conversation

    model = families.model(name, **arguments)
    prompt = model.ids(model.dialect.text(Conversation([{"role": "user", "content": "hi" + tail}])))
    assert model.dialect.markers.thinking_at_end(prompt) is thinking
    assert model.dialect.markers.opened(prompt) is (thinking is Thinking.OPENED)


def without(name: str, *texts: str) -> Fixture:
    """A family whose vocabulary lacks these markers, as fine-tunes on another base do."""
    fixture = FIXTURES[name]
    return fixture._replace(markers={text: id for text, id in fixture.markers.items() if text not in texts})


@pytest.mark.parametrize(
    ("name", "lacking", "told", "thinks", "calls"),
    [
        ("qwen3", ("<think>", "</think>"), {"</think>": Concern.TURNS, "<think>": Concern.TURNS}, False, True),
        ("qwen3", ("</think>",), {"</think>": Concern.TURNS}, False, True),
        (
            "qwen3",
            ("<tool_call>", "</tool_call>"),
            {"<tool_call>": Concern.CALLS, "</tool_call>": Concern.CALLS},
            True,
            False,
        ),
        ("minimax", ("<minimax:tool_call>",), {"<minimax:tool_call>": Concern.CALLS}, True, False),
        (
            "deepseek-r1",  # as its distillations on Qwen's vocabulary
            (
                "<｜tool▁calls▁begin｜>",
                "<｜tool▁calls▁end｜>",
                "<｜tool▁call▁begin｜>",
                "<｜tool▁call▁end｜>",
                "<｜tool▁sep｜>",
            ),
            dict.fromkeys(
                (
                    "<｜tool▁calls▁begin｜>",
                    "<｜tool▁calls▁end｜>",
                    "<｜tool▁call▁begin｜>",
                    "<｜tool▁call▁end｜>",
                    "<｜tool▁sep｜>",
                ),
                Concern.CALLS,
            ),
            True,
            False,
        ),
        ("hermes", (), {}, False, True),
    ],
)
def test_a_marker_that_is_not_one_token_is_told(
    name: str, lacking: tuple[str, ...], told: dict[str, Concern], thinks: bool, calls: bool
) -> None:
    dialect = families.made(without(name, *lacking)).dialect
    findings = [f for f in dialect.findings if f.code == "marker-split"]
    assert {f.message.split("'")[1]: f.concern for f in findings} == told
    assert all(" tokens in this tokenizer, not one" in f.message and f.meaning for f in findings)
    assert (dialect.markers.thinks, dialect.markers.calls) == (thinks, calls)


def test_the_template_goes_before_the_vocabulary() -> None:
    """Hermes on Llama 3: its vocabulary has ``<|python_tag|>``, its template calls in tags."""
    fixture = FIXTURES["hermes"]._replace(markers=FIXTURES["hermes"].markers | {"<|python_tag|>": 9, "<|eom_id|>": 8})
    assert families.made(fixture).dialect.markers.family == "hermes"


def test_a_template_that_says_nothing_leaves_it_to_the_vocabulary() -> None:
    template = FIXTURES["smollm2"].template
    for name, family in (("kimi", "kimi"), ("qwen3", "qwen3"), ("hermes", "hermes"), ("llama3", "llama3")):
        fixture = FIXTURES[name]._replace(template=template.replace("<|im_end|>", FIXTURES[name].stops[-1]))
        assert families.made(fixture).dialect.markers.family == family


CUSTOM = FIXTURES["smollm2"]._replace(
    markers={
        **FIXTURES["smollm2"].markers,
        "<r>": 20,
        "</r>": 21,
        "<c>": 22,
        "</c>": 23,
        "<a>": 24,
        "<s>": 25,
        "</s>": 26,
    }
)


def test_markers_that_a_person_names() -> None:
    custom = Custom(thinking=("<r>", "</r>"), call=("<c>", "</c>"), section=("<s>", "</s>"), body=Body.FUNCTION)
    markers = families.made(CUSTOM, custom).dialect.markers
    assert markers.family == "plain (custom)"
    assert markers.roles == {
        20: Role.THINK_OPEN,
        21: Role.THINK_CLOSE,
        22: Role.CALL_OPEN,
        23: Role.CALL_CLOSE,
        25: Role.SECTION_OPEN,
        26: Role.SECTION_CLOSE,
    }
    assert markers.body is Body.FUNCTION


def test_a_person_starts_from_a_known_family() -> None:
    custom = Custom(family="kimi", call=("<c>", "</c>"), separator="<a>", turn_ends=("<|endoftext|>",))
    markers = families.made(CUSTOM, custom).dialect.markers
    assert markers.body is Body.KIMI
    assert markers.roles == {22: Role.CALL_OPEN, 23: Role.CALL_CLOSE, 24: Role.CALL_SEPARATOR}
    assert markers.turn_ends == {0, 2}  # what the person says, and what the template writes
    assert markers.stop_ids == (0, 2)
    with pytest.raises(RenderError, match="no family of markers 'kimmi'") as caught:
        families.made(CUSTOM, Custom(family="kimmi"))
    assert "kimi" in caught.value.advice


def test_a_person_names_what_is_no_token() -> None:
    dialect = families.made(CUSTOM, Custom(thinking=("<mind>", "</mind>"), call=("<c>", "</nothing>"))).dialect
    told = [f.message.split("'")[1] for f in dialect.findings if f.code == "marker-split"]
    assert sorted(told) == ["</mind>", "</nothing>", "<mind>"]
    assert dialect.markers.roles == {22: Role.CALL_OPEN}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<no such end>", "the marker '<no such end>' (turn ends) is"),
        ("</c>", "the marker '</c>' (tool call ends) cannot end a turn as well"),
    ],
)
def test_a_turn_end_that_no_engine_can_stop_at_is_told(text: str, why: str) -> None:
    custom = Custom(call=("<c>", "</c>"), turn_ends=(text,)) if text == "</c>" else Custom(turn_ends=(text,))
    dialect = families.made(CUSTOM, custom).dialect
    (told,) = [f for f in dialect.findings if f.code == "marker-split"]
    assert told.message.startswith(why) and "no engine is asked to stop there" in told.meaning
    assert told.concern is Concern.ALL and told.advice
    assert dialect.markers.stop_ids == (2,)


def test_a_turn_end_that_the_template_writes_and_the_vocabulary_lacks_is_told() -> None:
    """A ChatML template on a vocabulary without its tokens: every answer would run to its limit."""
    fixture = without("qwen3", "<|im_end|>")._replace(stops=("<|endoftext|>",))
    told = [f.message for f in families.made(fixture).dialect.findings if f.code == "marker-split"]
    assert len(told) == 1 and told[0].startswith("the marker '<|im_end|>' (turn ends) is ")
