import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.records import Conversation, Message, Turn
from draftmill.sources.fault import RowFault
from draftmill.sources.history import asked, conversation, prompt_part, split, with_system

LETTERS = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


def talk(letters: str) -> list[Message]:
    return [{"role": LETTERS[letter], "content": f"{letter}{n}"} for n, letter in enumerate(letters)]


@pytest.mark.parametrize(
    ("recorded", "kept"),
    [
        ("u", "u"),
        ("ua", "u"),
        ("sua", "su"),
        ("suauaa", "suau"),
        ("auua", "auu"),
        ("uaat", "uaat"),
        ("uatta", "uatt"),
        ("uas", "u"),
        ("us", "u"),
        ("ta", "t"),
    ],
)
def test_up_to_the_last_message_that_asks(recorded: str, kept: str) -> None:
    assert prompt_part(talk(recorded)) == talk(kept)


@pytest.mark.parametrize(
    ("recorded", "reason"), [("", "no messages"), ("s", "no user or tool"), ("sa", "no user or tool")]
)
def test_nothing_asks(recorded: str, reason: str) -> None:
    with pytest.raises(RowFault, match=reason):
        prompt_part(talk(recorded))


def test_an_empty_question() -> None:
    with pytest.raises(RowFault, match="last user message is empty"):
        prompt_part([*talk("ua"), {"role": "user", "content": " \n"}])
    assert prompt_part([*talk("ua"), {"role": "tool", "content": ""}])[-1]["content"] == ""


@given(st.text("suat", max_size=12))
def test_a_prompt_is_a_prefix_without_an_answer_at_its_end(letters: str) -> None:
    try:
        kept = prompt_part(talk(letters))
    except RowFault:
        assert not set(letters) & {"u", "t"}
        return
    assert kept == talk(letters)[: len(kept)]
    assert kept[-1]["role"] in ("user", "tool")
    assert not set(letters[len(kept) :]) & {"u", "t"}


@pytest.mark.parametrize(
    ("recorded", "system", "result"),
    [
        ("u", "new", "Su"),
        ("su", "new", "Su"),
        ("ssu", "new", "Su"),
        ("susu", "new", "Susu"),
        ("su", "", "u"),
        ("u", "", "u"),
    ],
)
def test_a_system_prompt_replaces_those_at_the_head(recorded: str, system: str, result: str) -> None:
    found = with_system(talk(recorded), system)
    assert "".join("S" if m["content"] == "new" else m["role"][0] for m in found) == result.replace("tool", "t")


def test_a_system_column_counts_where_the_messages_have_none() -> None:
    assert conversation({"system": "be brief"}, talk("ua")).messages[0] == {"role": "system", "content": "be brief"}
    assert conversation({"system_prompt": "be brief"}, talk("su")).messages == talk("su")
    for empty in ({"system": " "}, {"system": None}, {"system": ["x"]}, {}):
        assert conversation(empty, talk("u")).messages == talk("u")


@pytest.mark.parametrize(
    ("recorded", "head", "turns"),
    [
        ("u", "u", []),
        ("sua", "su", []),
        ("sauau", "sau", [("a", "u")]),
        ("uauau", "u", [("a", "u"), ("a", "u")]),
        ("uuaaua", "uu", [("aa", "u")]),
        ("uatauat", "u", [("a", "t"), ("a", "u"), ("a", "t")]),
        ("uattu", "u", [("a", "ttu")]),
    ],
)
def test_a_recording_falls_into_turns(recorded: str, head: str, turns: list[tuple[str, str]]) -> None:
    def letters(messages: list[Message]) -> str:
        return "".join(m["content"][0] for m in messages)

    first, later = split(prompt_part(talk(recorded)))
    assert letters(first) == head
    assert [(letters(t.recorded), letters(t.then)) for t in later] == turns
    whole = [*first, *(m for t in later for m in (*t.recorded, *t.then))]
    assert whole == prompt_part(talk(recorded))


def test_what_a_recipe_asks_of_a_conversation() -> None:
    recorded = Conversation(talk("uau"))
    assert asked(recorded, "last") == recorded
    assert asked(recorded, "first") == Conversation(talk("u"))
    assert asked(recorded, "all") == Conversation(talk("u"), later=[Turn([talk("uau")[2]], [talk("uau")[1]])])
    unanswered = Conversation(talk("u"), later=[Turn(talk("u"))])
    assert asked(unanswered, "all") == unanswered
    assert asked(unanswered, "last") == asked(unanswered, "first") == Conversation(talk("u"))
