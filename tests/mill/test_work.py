import pytest

from draftmill.errors import CapacityFault, EngineError, PromptFault, ReplyFault, SetupFault, TransportFault
from draftmill.journal.prompts import PromptHead
from draftmill.mill.work import ALONE_AFTER, GROWTH, TRIALS, Then, Work, decide, delay

PROMPT = PromptHead("id", 0, "short", [1])


@pytest.mark.parametrize(
    ("fault", "faults", "trials", "heard", "then"),  # trials None: not alone
    [
        (CapacityFault("full"), 0, None, 0, Then.AGAIN),
        (CapacityFault("full"), 99, 0, 0, Then.ALONE),
        (SetupFault("401"), 0, None, 0, Then.AGAIN),
        (SetupFault("401"), 99, TRIALS, 0, Then.ALONE),
        (PromptFault("too long"), 0, None, 0, Then.ERROR),
        (ReplyFault("counts"), 0, None, 0, Then.SUSPECT),
        (TransportFault("reset"), 0, None, 0, Then.LATER),
        (TransportFault("reset"), ALONE_AFTER - 2, None, 0, Then.LATER),
        (TransportFault("reset"), ALONE_AFTER - 1, None, 0, Then.ALONE),
        (TransportFault("reset"), 99, None, GROWTH, Then.LATER),
        (TransportFault("reset"), ALONE_AFTER, 0, 0, Then.ALONE),
        (TransportFault("reset"), 99, TRIALS - 2, 0, Then.ALONE),
        (TransportFault("reset"), 99, TRIALS - 1, 0, Then.ERROR),
        (TransportFault("reset"), 99, TRIALS - 1, GROWTH, Then.LATER),
        (EngineError("odd"), 0, None, 0, Then.LATER),
    ],
)
def test_the_path_of_each_fault(fault: EngineError, faults: int, trials: int | None, heard: int, then: Then) -> None:
    work = Work(0, PROMPT, faults, alone=trials is not None, trials=trials or 0)
    assert decide(fault, work, heard) is then


def test_an_answer_that_grew_clears_its_prompt() -> None:
    work = Work(0, PROMPT)
    work.count(answers=5, heard=0)
    work.alone = True
    work.count(answers=7, heard=GROWTH - 1)
    assert (work.faults, work.trials, work.seen, work.redrawn) == (2, 1, 7, True)
    work.count(answers=7, heard=GROWTH)
    assert (work.faults, work.trials) == (0, 0)


def test_the_pause_doubles_and_is_bounded() -> None:
    assert [delay(n) for n in (0, 1, 2, 3)] == [0.5, 0.5, 1.0, 2.0]
    assert delay(50) == 30.0
