import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.sources import thinking


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>a</think>b", "b"),
        ("\n<think>\na\n</think>\n\nb\n", "b\n"),
        ("<think></think>b", "b"),
        ("<thinking>a</thinking> b", "b"),
        ("◁think▷a◁/think▷b", "b"),
        ("<|begin_of_thought|>a<|end_of_thought|>b", "b"),
        ("<|begin_of_thought|>a<|end_of_thought|><|begin_of_solution|> b <|end_of_solution|>", "b"),
        ("<|begin_of_solution|>b", "b"),
        ("<think>a</think><think>b</think>c", "c"),
        ("<think>a </thinking> b", ""),
        ("a\n</think>\n\nb", "b"),
        ("</think>\nb", "b"),
    ],
)
def test_thinking_is_left_out(text: str, rest: str) -> None:
    assert thinking.is_in(text) or text.startswith("<|begin_of_solution|>")
    assert thinking.without(text) == rest


@pytest.mark.parametrize(
    "text", ["", " a ", "b <think>a</think>", "Write `</think>` to end it.", "a < b\n</thinker>", "x </think> y"]
)
def test_prose_stays_as_it_is(text: str) -> None:
    assert not thinking.is_in(text)
    assert thinking.without(text) == text


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "\n", "a", " ", "<|begin_of_solution|>", "<|end_of_thought|>"]))
)
def test_nothing_is_left_to_take_out(pieces: list[str]) -> None:
    rest = thinking.without("".join(pieces))
    assert not thinking.is_in(rest) and thinking.without(rest) == rest


def test_a_system_prompt_that_prescribes_marks() -> None:
    assert thinking.is_prescribed("Think between <think> and </think>.")
    assert not thinking.is_prescribed("Never write <think>.")
