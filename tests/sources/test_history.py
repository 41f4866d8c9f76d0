import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.records import Conversation, Message, Turn
from draftmill.sources.fault import RowFault
from draftmill.sources.history import asked, asked_in_turn, before_last_answer, recorded, split, with_system

LETTERS = {"s": "system", "u": "user", "a": "assistant", "c": "assistant", "t": "tool"}
CALL = {"type": "function", "function": {"name": "f", "arguments": {}}}


def talk(letters: str) -> list[Message]:
    """s(ystem), u(ser), a(ssistant), c: an assistant that calls, t(ool)."""
    return [
        {"role": LETTERS[letter], "content": f"{letter}{n}", **({"tool_calls": [CALL]} if letter == "c" else {})}
        for n, letter in enumerate(letters)
    ]


@pytest.mark.parametrize(
    ("said", "prompt"),
    [
        ("u", "u"),
        ("ua", "u"),
        ("sua", "su"),
        ("suauaa", "suau"),
        ("auua", "auu"),
        ("uact", "uact"),
        ("uctcta", "uctct"),
        ("uas", "u"),
        ("us", "u"),
        ("uc", "u"),
    ],
)
def test_the_prompt_ends_with_the_last_message_that_asks(said: str, prompt: str) -> None:
    read = recorded({}, talk(said))
    assert read.prompt.messages == talk(said)[: len(prompt)]
    assert read.prompt.messages + read.later == talk(said)


@pytest.mark.parametrize(("said", "reason"), [("", "no messages"), ("s", "no user or tool"), ("sa", "no user or tool")])
def test_nothing_asks(said: str, reason: str) -> None:
    with pytest.raises(RowFault, match=reason):
        recorded({}, talk(said))


@pytest.mark.parametrize(
    ("said", "end"), [("suctct", 4), ("sua", 2), ("suauaua", 6), ("usaa", 1), ("su", None), ("au", None)]
)
def test_an_episode_ends_before_its_last_answer(said: str, end: int | None) -> None:
    assert before_last_answer(talk(said)) == end
    read = recorded({}, talk(said), end=end)
    assert len(read.prompt.messages) == (end or len(said)) and read.prompt.messages + read.later == talk(said)


@pytest.mark.parametrize(
    ("said", "empty", "reason"),
    [
        ("u", 0, "message 1 (user) is empty: no content"),
        ("uau", 2, "message 3 (user) is empty: no content"),
        ("uau", 0, "message 1 (user) is empty: no content"),
        ("uau", 1, "message 2 (assistant) is empty: no content"),
    ],
)
def test_turns_in_which_nothing_is_said(said: str, empty: int, reason: str) -> None:
    messages = talk(said)
    messages[empty]["content"] = " \n"
    with pytest.raises(RowFault) as caught:
        recorded({}, messages)
    assert caught.value.reason == reason


@pytest.mark.parametrize(("said", "empty"), [("ua", 1), ("ucta", 1), ("uct", 2), ("su", 0)])
def test_what_may_be_empty(said: str, empty: int) -> None:
    """An answer that is not part of the prompt, one that only calls, a command without output, a system prompt."""
    messages = talk(said)
    messages[empty]["content"] = ""
    assert recorded({}, messages).prompt


@pytest.mark.parametrize("said", ["ta", "uat", "uata", "uctt", "uctat", "utcta"])
def test_a_result_of_no_call(said: str) -> None:
    with pytest.raises(RowFault, match=r"message \d \(tool\) is the result of no call: no tool_calls before it"):
        recorded({}, talk(said))


def test_parallel_calls_have_as_many_results() -> None:
    messages = talk("uctta")
    messages[1]["tool_calls"] = [CALL, CALL]
    assert len(recorded({}, messages).prompt.messages) == 4
    messages[1]["tool_calls"] = [CALL]
    with pytest.raises(RowFault, match="message 4"):
        recorded({}, messages)


@given(st.text("suact", max_size=12))
def test_prompt_and_later_are_the_whole(letters: str) -> None:
    try:
        read = recorded({}, talk(letters))
    except RowFault:
        assert not set(letters) & {"u", "t"} or "t" in letters
        return
    assert read.prompt.messages + read.later == talk(letters)
    assert read.prompt.messages[-1]["role"] in ("user", "tool")
    assert not {m["role"] for m in read.later} & {"user", "tool"}


def test_rounds_without_recorded_answers() -> None:
    read = asked_in_turn({"system": "s"}, [talk("u"), talk("uu"), talk("u")])
    assert read.prompt.messages == [{"role": "system", "content": "s"}, *talk("u")]
    blank = {"role": "assistant", "content": ""}
    assert read.later == [blank, *talk("uu"), blank, *talk("u")]


@pytest.mark.parametrize(
    ("said", "system", "result"),
    [
        ("u", "new", "Su"),
        ("su", "new", "Su"),
        ("ssu", "new", "Su"),
        ("susu", "new", "Susu"),
        ("su", "", "u"),
        ("u", "", "u"),
    ],
)
def test_a_system_prompt_replaces_those_at_the_head(said: str, system: str, result: str) -> None:
    found = with_system(talk(said), system)
    assert "".join("S" if m["content"] == "new" else m["role"][0] for m in found) == result


def test_a_system_column_counts_where_the_messages_have_none() -> None:
    read = recorded({"system": "be brief"}, talk("ua"))
    assert read.prompt.messages[0] == {"role": "system", "content": "be brief"} and read.later == talk("ua")[1:]
    assert recorded({"system_prompt": "be brief"}, talk("su")).prompt.messages == talk("su")
    for empty in ({"system": " "}, {"system": None}, {"system": ["x"]}, {}):
        assert recorded(empty, talk("u")).prompt.messages == talk("u")


@pytest.mark.parametrize(
    ("said", "head", "turns"),
    [
        ("u", "u", []),
        ("sua", "su", []),
        ("sauau", "sau", [("a", "u")]),
        ("uauau", "u", [("a", "u"), ("a", "u")]),
        ("uuaaua", "uu", [("aa", "u")]),
        ("uctauct", "u", [("c", "t"), ("a", "u"), ("c", "t")]),
        ("ucttu", "u", [("c", "ttu")]),
    ],
)
def test_a_recording_falls_into_turns(said: str, head: str, turns: list[tuple[str, str]]) -> None:
    def letters(messages: list[Message]) -> str:
        return "".join(m["content"][0] if m["content"] else "c" for m in messages)

    first, later = split(talk(said))
    assert letters(first) == head
    assert [(letters(t.recorded), letters(t.then)) for t in later] == turns
    whole = [*first, *(m for t in later for m in (*t.recorded, *t.then))]
    assert whole == talk(said)[: len(whole)] and not {m["role"] for m in talk(said)[len(whole) :]} & {"user", "tool"}


def test_what_a_recipe_asks_of_a_conversation() -> None:
    said = talk("uaua")
    read = recorded({}, said)
    assert asked(read, "last") == Conversation(said[:3])
    assert asked(read, "first") == Conversation(said[:1])
    assert asked(read, "all") == Conversation(said[:1], later=[Turn([said[2]], [said[1]])])


def test_what_it_asks_of_rounds_that_nobody_answered() -> None:
    read = asked_in_turn({}, [talk("u"), talk("uu")])
    assert asked(read, "last") == asked(read, "first") == Conversation(talk("u"))
    assert asked(read, "all") == Conversation(talk("u"), later=[Turn(talk("uu"))])


def test_an_episode_is_asked_for_its_recorded_answers_only() -> None:
    said = talk("uctct")
    assert len(asked(recorded({}, said, end=before_last_answer(said)), "all").later) == 1
