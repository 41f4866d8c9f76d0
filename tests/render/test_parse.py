"""Generated ids → parts: a table of answers for every family, and what holds for any ids at all."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.records import Conversation, Tool
from draftmill.render.parts import End, Kind, Part, Parts
from tests.render import answers, families
from tests.render.answers import CASES, SIGNS, Case


def tool(name: str, **properties: Any) -> Tool:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


TOOLS = [
    tool(
        "f", days={"type": "integer"}, code={"type": "string"}, city={"type": "string"}, x={"type": ["string", "null"]}
    ),
    tool("g"),
    tool("bash", command={"type": "string"}),
]
USER = {"role": "user", "content": "hi"}
ALL = [pytest.param(name, case, id=f"{name}: {case.answer!r}") for name, cases in CASES.items() for case in cases]


def spelt(name: str, text: str) -> str:
    return text.translate(str.maketrans(SIGNS[name]))


def signed(name: str, text: str) -> str:
    for sign, marker in SIGNS[name].items():
        text = text.replace(marker, sign)
    return text


def parsed(name: str, answer: str) -> tuple[list[int], Parts]:
    model = families.model(name, **answers.THINKING.get(name, {}))
    prompt = model.ids(model.dialect.text(Conversation([USER], TOOLS)))
    ids = model.ids(spelt(name, answer))
    return ids, model.dialect.parts(ids, prompt, TOOLS)


def shown(part: Part) -> list[str]:
    dots = "" if part.closed else "…"
    words = {Kind.REASONING: "think", Kind.CONTENT: "say", Kind.FRAME: "frame", Kind.AFTER: "after"}
    if part.kind in words:
        return [f"{words[part.kind]}{dots} {part.text!r}"]
    lines = []
    for call in part.calls:
        assert call.closed is part.closed
        said = call.reading
        value = f"! {said.raw!r}" if said.fault else json.dumps(said.value, ensure_ascii=False)
        lines.append(f"call{dots} {said.name} {value}")
    return lines


@pytest.mark.parametrize(("name", "case"), ALL)
def test_the_parts_of_an_answer(name: str, case: Case) -> None:
    ids, parts = parsed(name, case.answer)
    lines = [line for part in parts.parts for line in (shown(part) if part.kind is not Kind.END else [])]
    end = {End.TURN: ["end"], End.STOP: ["stop"], End.CUT: []}[parts.end]
    at = len(lines) - len(parts.of(Kind.AFTER))
    assert [signed(name, line) for line in [*lines[:at], *end, *lines[at:]]] == case.parts
    assert " ".join(sorted(oddity.name for oddity, _ in parts.oddities)) == " ".join(sorted(case.odd.split()))
    assert tiles(parts) == list(range(len(ids)))


@pytest.mark.parametrize("name", CASES)
def test_every_family_has_its_dozen(name: str) -> None:
    assert len(CASES[name]) >= 12


def tiles(parts: Parts) -> list[int]:
    """The indices that the spans cover, in order."""
    return [i for part in parts.parts for i in range(part.start, part.end)]


def any_ids(name: str) -> st.SearchStrategy[list[int]]:
    model = families.plain_model(name)
    plain = model.ids('{"name": "f", "arguments": {"x": 1}} to=functions.f analysis\n```json\n<invoke name="f"> Zürich')
    markers = sorted({*model.dialect.markers.roles, *model.tokenizer.special.values()})
    return st.lists(st.sampled_from(markers) | st.sampled_from(plain), max_size=40)


@pytest.mark.parametrize("name", families.FIXTURES)
@given(data=st.data(), opened=st.booleans())
def test_no_token_is_lost_or_invented(name: str, data: st.DataObject, opened: bool) -> None:
    from draftmill.render.parse import parse

    model = families.plain_model(name)
    ids = data.draw(any_ids(name))
    parts = parse(ids, model.dialect.markers, opened=opened, decode=model.tokenizer.decode, tools=TOOLS)
    assert [i for part in parts.parts for i in ids[part.start : part.end]] == ids
    assert tiles(parts) == list(range(len(ids)))
    assert all(part.start < part.end for part in parts.parts)
    assert all(bool(part.calls) is (part.kind is Kind.CALL) for part in parts.parts)
    assert all(0 <= index <= len(ids) for _, index in parts.oddities)
    ends = parts.of(Kind.END)
    assert (parts.end is End.CUT) is (not ends)
    assert [ids[end.start] in model.dialect.markers.turn_ends for end in ends] == [parts.end is End.TURN] * len(ends)
    message = model.dialect.answer(parts, []).message
    assert len(message.get("tool_calls", [])) == len(parts.calls)
