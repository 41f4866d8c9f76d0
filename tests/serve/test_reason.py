"""What servers wrote when they died, word for word, and the reason that follows."""

import signal
from pathlib import Path

import pytest

from draftmill.serve.reason import Reason, failed, why

# exit code, reason, line: SGLang 0.5.23, vLLM 0.32 and llama.cpp as they wrote it here, or as it stands in their source
TABLE = Path(__file__).with_name("deaths.tsv").read_text().splitlines()
LOGS = [(int(code), line, Reason(reason)) for code, reason, line in (row.split("\t") for row in TABLE)]


@pytest.mark.parametrize(("code", "line", "reason"), LOGS, ids=[line[:40] for _, line, _ in LOGS])
def test_the_reason_of_a_log(code: int, line: str, reason: Reason) -> None:
    death = why(code, ["INFO: loading", line, "INFO: leaving"] if line else [])
    assert death.reason is reason
    if reason not in (Reason.SIGNAL, Reason.UNKNOWN, Reason.HOST_MEMORY):
        assert death.evidence == line[:300].strip()


KILLED = "Out of memory: Killed process 4242 (python3) total-vm:98304000kB, anon-rss:23000000kB"


@pytest.mark.parametrize(
    ("code", "tail", "reason"),
    [
        (-signal.SIGKILL, ["INFO: 200 OK"], Reason.HOST_MEMORY),
        (137, [], Reason.HOST_MEMORY),  # a shell between
        (1, ["Rank 0 scheduler is dead.", "Exit code: -9"], Reason.HOST_MEMORY),
        (-signal.SIGSEGV, ["INFO: 200 OK"], Reason.SIGNAL),  # the kernel killed somebody else meanwhile
        (2, ["x.py: error: unrecognized arguments: --foo"], Reason.FLAG),
    ],
)  # fmt: skip
def test_what_the_kernel_says_counts_for_what_was_killed(code: int, tail: list[str], reason: Reason) -> None:
    assert why(code, tail, [KILLED]).reason is reason


def test_a_server_that_served_did_not_die_of_what_only_a_start_dies_of() -> None:
    tail = ["WARNING: [Errno 98] Address already in use", "POST /generate: No module named 'x'"]
    assert why(-9, tail, served=True).reason is Reason.SIGNAL
    assert why(1, ["torch.OutOfMemoryError: CUDA out of memory."], served=True).reason is Reason.GPU_MEMORY


def test_the_evidence_is_no_line_of_source() -> None:
    tail = [
        "    raise LocalEntryNotFoundError(",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder",
    ]
    assert why(1, tail).evidence == tail[1]


def test_the_signal_is_named_and_the_last_error_of_an_unknown_death() -> None:
    assert why(-11, []).evidence == "ended by SIGSEGV"
    assert why(1, ["KeyError: 'x'", "  warnings.warn('resource_tracker')"]).evidence == "exit code 1: KeyError: 'x'"


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (["INFO: loading weights"], None),
        (
            ["ERROR [core.py:1510] EngineCore failed to start.", "Exception: WorkerProc initialization failed"],
            "unknown",
        ),
        (["torch.OutOfMemoryError: CUDA out of memory.", "[shutdown] Executor: waiting for worker exit"], "gpu_memory"),
    ],
)
def test_a_server_that_hangs_at_its_own_end_has_failed_already(tail: list[str], reason: str | None) -> None:
    death = failed(tail)
    assert (death and death.reason.value) == reason


def test_a_server_that_kills_itself_was_not_killed() -> None:
    tail = ["ValueError: no such thing", "Received sigquit from a child process. It usually means the child failed."]
    death = why(-9, tail)
    assert death.reason is Reason.UNKNOWN and "ValueError: no such thing" in death.evidence
