import pytest

from draftmill.errors import CapacityFault, EngineError, PromptFault, ReplyFault, SetupFault, TransportFault
from draftmill.journal.prompts import PromptHead
from draftmill.mill.work import ALONE_AFTER, Then, Work, decide, delay

PROMPT = PromptHead("id", 0, "short", [1])


@pytest.mark.parametrize(
    ("fault", "faults", "alone", "then"),
    [
        (CapacityFault("full"), 0, False, Then.AGAIN),
        (CapacityFault("full"), 99, True, Then.AGAIN),
        (SetupFault("401"), 0, False, Then.AGAIN),
        (PromptFault("too long"), 0, False, Then.ERROR),
        (ReplyFault("counts"), 0, False, Then.SUSPECT),
        (TransportFault("reset"), 0, False, Then.LATER),
        (TransportFault("reset"), ALONE_AFTER - 2, False, Then.LATER),
        (TransportFault("reset"), ALONE_AFTER - 1, False, Then.ALONE),
        (TransportFault("reset"), ALONE_AFTER, True, Then.ERROR),
        (EngineError("odd"), 0, False, Then.LATER),
    ],
)
def test_the_path_of_each_fault(fault: EngineError, faults: int, alone: bool, then: Then) -> None:
    assert decide(fault, Work(0, PROMPT, faults, alone)) is then


def test_the_pause_doubles_and_is_bounded() -> None:
    assert [delay(n) for n in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert delay(50) == 30.0


def test_no_prompt_is_blamed_while_the_engine_answers_nobody() -> None:
    alone = Work(0, PROMPT, ALONE_AFTER, True, seen=5)
    assert decide(TransportFault("500"), alone, answers=5) is Then.LATER
    assert decide(TransportFault("500"), alone, answers=6) is Then.ERROR
