from typing import Any

import pytest

from draftmill.mill.dialogue import Dialogue, Talk, behind
from draftmill.records import Ended, Finish, Message, Turn
from tests.render import families
from tests.render.test_parse import spelt, tool

TOOLS = [tool("get_weather", city={"type": "string"}), tool("bash", command={"type": "string"})]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str = "", *calls: Message, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **more}


def call(name: str, id: str = "", **arguments: Any) -> Message:
    return {**({"id": id} if id else {}), "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text: str, id: str = "") -> Message:
    return {"role": "tool", "content": text, **({"tool_call_id": id} if id else {})}


PARIS, ROME = call("get_weather", "a", city="Paris"), call("get_weather", "b", city="Rome")
SUN, RAIN = result("sun", "a"), result("rain", "b")


def made(*calls: Message) -> Message:
    return said("", *({**c, "id": f"call_{n}"} for n, c in enumerate(calls)))


@pytest.mark.parametrize(
    ("answer", "turn", "follows"),
    [
        (said("b"), Turn([user("c")], [said("x")]), [user("c")]),
        (made(PARIS), Turn([SUN], [said("", PARIS)]), [result("sun", "call_0")]),
        (made(PARIS), Turn([SUN, user("c")], [said("", PARIS)]), [result("sun", "call_0"), user("c")]),
        # parallel calls, in another order than recorded: each result goes to its own call
        (
            made(ROME, PARIS),
            Turn([SUN, RAIN], [said("", PARIS, ROME)]),
            [result("rain", "call_0"), result("sun", "call_1")],
        ),
        # results recorded in another order than their calls, told by their ids
        (
            made(PARIS, ROME),
            Turn([RAIN, SUN], [said("", PARIS, ROME)]),
            [result("sun", "call_0"), result("rain", "call_1")],
        ),
        # results without ids stand in the order of their calls
        (
            made(PARIS, ROME),
            Turn([result("sun"), result("rain")], [said("", call("get_weather", city="Paris"), ROME)]),
            [result("sun", "call_0"), result("rain", "call_1")],
        ),
        # the same call twice
        (
            made(PARIS, PARIS),
            Turn([SUN, RAIN], [said("", PARIS, call("get_weather", "b", city="Paris"))]),
            [result("sun", "call_0"), result("rain", "call_1")],
        ),
        # equal as values
        (
            made(call("f", x=1, y=[2])),
            Turn([result("r")], [said("", call("f", y=[2.0], x=1))]),
            [result("r", "call_0")],
        ),
        (made(call("f", x=1)), Turn([result("r")], [said("", call("f", x=True))]), Ended.OTHER_CALLS),
        (made(ROME), Turn([SUN], [said("", PARIS)]), Ended.OTHER_CALLS),
        (made(PARIS, ROME), Turn([SUN], [said("", PARIS)]), Ended.OTHER_CALLS),
        (made(PARIS), Turn([SUN, RAIN], [said("", PARIS, ROME)]), Ended.OTHER_CALLS),
        (made(PARIS, ROME), Turn([SUN], [said("", PARIS, ROME)]), Ended.OTHER_CALLS),  # one result is missing
        (made(call("bash", command="ls")), Turn([SUN], [said("", PARIS)]), Ended.OTHER_CALLS),
        (said("It is sunny."), Turn([SUN], [said("", PARIS)]), Ended.NO_CALLS),
        (made(PARIS), Turn([user("c")], [said("x")]), Ended.UNRECORDED),
        (made(PARIS), Turn([user("c")]), Ended.UNRECORDED),
    ],
)
def test_what_follows_an_answer(answer: Message, turn: Turn, follows: object) -> None:
    assert behind(answer, turn) == follows


@pytest.fixture
def model() -> families.Model:
    return families.plain_model("qwen3")


def step(model: families.Model, answer: str, finish: Finish = Finish.STOP, history: Any = "served") -> tuple[Any, Talk]:
    talk = Talk([user("weather?")], TOOLS, [Turn([SUN], [said("", PARIS)]), Turn([user("thanks")], [said("Sun.")])])
    dialogue = Dialogue(model.dialect, model.tokenizer, history)
    return dialogue.answered(talk, dialogue.prompt(talk), model.ids(spelt("qwen3", answer)), finish), talk


CALL = '⟨\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n⟩'


@pytest.mark.parametrize(
    ("answer", "finish", "ended"),
    [
        (f"<think>\nHm.\n</think>\n\n{CALL}■", Finish.STOP, None),
        (f"<think>\nHm.\n</think>\n\n{CALL}", Finish.LENGTH, Ended.TRUNCATED),
        ("<think>\nHm. I wonder■", Finish.STOP, Ended.THINKING),
        ("<think>\nHm.\n</think>\n\n⟨\n{nonsense}\n⟩■", Finish.STOP, Ended.UNREADABLE),
        (f"<think>\nHm.\n</think>\n\n{CALL[:-1]}■", Finish.STOP, Ended.UNREADABLE),
        ("<think>\nHm.\n</think>\n\nSunny.■", Finish.STOP, Ended.NO_CALLS),
    ],
)
def test_what_an_answer_is_decides_whether_it_goes_on(
    model: families.Model, answer: str, finish: Finish, ended: Ended | None
) -> None:
    reason, talk = step(model, answer, finish)
    assert reason is ended
    assert talk.turn == (ended is None) and len(talk.messages) == (3 if ended is None else 1)


def test_a_recorded_history_does_not_look_at_the_answer(model: families.Model) -> None:
    reason, talk = step(model, "<think>\nno end", Finish.LENGTH, "recorded")
    assert reason is None and talk.messages == [user("weather?"), said("", PARIS), SUN]
