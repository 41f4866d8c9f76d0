"""What follows from each reason, where a setting stops being lowered, and where restarts end."""

from typing import Any

import pytest

from draftmill.capacity.launch import Launch
from draftmill.serve import remedy
from draftmill.serve.reason import Death, Reason
from draftmill.serve.remedy import ADVICE, Again, Past, Stop, after, backed_off

GIB = float(2**30)


def launch(**values: Any) -> Launch:
    return Launch(**({"kind": "sglang", "model": "m", "context": 4096, "fraction": 0.88} | values))


@pytest.mark.parametrize(
    ("values", "reason", "field", "value"),
    [
        ({}, Reason.GPU_MEMORY, "fraction", 0.86),
        ({"fraction": None}, Reason.GPU_MEMORY, "fraction", 0.85),  # the default below, less a step
        ({"fraction": 0.11}, Reason.GPU_MEMORY, "", None),
        ({"kind": "vllm"}, Reason.GPU_MEMORY, "fraction", 0.85),
        ({"kind": "vllm", "kv_space": 10 * GIB}, Reason.GPU_MEMORY, "kv_space", 8 * GIB),
        ({"kind": "vllm", "kv_space": 3 * GIB, "on_gpu": False}, Reason.HOST_MEMORY, "kv_space", 2 * GIB),
        ({"kind": "vllm", "kv_space": GIB, "on_gpu": False}, Reason.HOST_MEMORY, "", None),
        ({"hicache": 48.0}, Reason.HOST_MEMORY, "hicache", 36.0),
        ({"hicache": 48.0}, Reason.GPU_MEMORY, "fraction", 0.86),
        ({}, Reason.HOST_MEMORY, "", None),  # nothing of the GPU helps the host
        ({"on_gpu": False}, Reason.HOST_MEMORY, "fraction", 0.86),
        ({"kind": "llamacpp", "slots": 9}, Reason.HOST_MEMORY, "slots", 4),
        ({"kind": "llamacpp", "slots": 1}, Reason.GPU_MEMORY, "", None),
    ],
)
def test_the_next_lower_setting(values: dict[str, Any], reason: Reason, field: str, value: float | None) -> None:
    lower = backed_off(launch(**values), reason, 0.87)
    if value is None:
        assert lower is None
        assert after(Death(reason, ""), launch(**values), Past(1, 0, 1), default=0.87) == Stop(ADVICE[reason])
    else:
        assert lower is not None and getattr(lower[0], field) == value
        assert after(Death(reason, ""), launch(**values), Past(1, 0, 1), default=0.87) == Again(
            *lower[:1], 1.0, lower[1]
        )


@pytest.mark.parametrize("reason", [Reason.FLAG, Reason.PORT, Reason.MODEL, Reason.COMMAND, Reason.NO_POOL])
def test_what_only_a_person_can_mend_ends_it(reason: Reason) -> None:
    assert after(Death(reason, ""), launch(), Past(1, 1, 0)) == Stop(ADVICE[reason])


def test_a_setting_is_lowered_so_many_times_and_no_more() -> None:
    now, past, seen = launch(), Past(), []
    while isinstance(
        step := after(Death(Reason.GPU_MEMORY, ""), now, past := past.after(served=5, memory=True)), Again
    ):
        now = step.launch
        seen.append(now.fraction)
    assert seen == [0.86, 0.84, 0.82]


def test_crashes_are_followed_by_longer_and_longer_pauses_and_end() -> None:
    past, pauses = Past(), []
    while isinstance(
        step := after(Death(Reason.SIGNAL, ""), launch(), past := past.after(served=5, memory=False)), Again
    ):
        assert step.launch == launch()
        pauses.append(step.pause)
    assert pauses == [1, 2, 5, 15, 60]


def test_a_crash_after_long_service_is_a_new_story() -> None:
    past = Past(crashes=remedy.CRASHES).after(served=remedy.STEADY, memory=False)
    assert past.crashes == 1 and isinstance(after(Death(Reason.SIGNAL, ""), launch(), past), Again)


def test_a_server_that_never_gets_ready_is_given_up_sooner() -> None:
    past, tries = Past(), 0
    while isinstance(after(Death(Reason.UNKNOWN, ""), launch(), past := past.after(served=None, memory=False)), Again):
        tries += 1
    assert tries == remedy.FAILED_STARTS


def test_every_reason_has_an_advice() -> None:
    assert set(ADVICE) == set(Reason)
