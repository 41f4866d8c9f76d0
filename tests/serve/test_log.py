"""What is read of a server's log."""

from pathlib import Path

from draftmill.serve.log import StartLog


def test_only_what_came_since_the_start_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("an earlier start\n")
    log = StartLog(path)
    assert (log.beginning(), log.tail()) == ([], [])
    with path.open("a") as file:
        file.write("one\n10%\r20%\rtwo\n")
    assert log.beginning() == log.tail() == ["one", "10%", "20%", "two"]


def test_a_debuggers_backtrace_does_not_push_the_reason_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = StartLog(path)
    said = "0.03.053.108 E ggml_aligned_malloc: insufficient memory (attempted to allocate  41.96 MB)"
    frames = [
        f"#{n}  0x00007f5424645305 in main () at main.c:{n}\n90\t./main.c: No such file or directory."
        for n in range(999)
    ]
    path.write_text(
        "\n".join([said, *(f"[New LWP {n}]" for n in range(999)), *frames, "[Inferior 1 (process 1) detached]"])
    )
    assert log.tail() == [said, "[Inferior 1 (process 1) detached]"]


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert StartLog(tmp_path / "none").tail() == []
