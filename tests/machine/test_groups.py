"""How many processes control groups have had killed, in both versions."""

from pathlib import Path

import pytest

from draftmill.machine.groups import kills

EVENTS = "low 0\nhigh 0\nmax 12\noom 2\noom_kill {}\noom_group_kill 0\n"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 0),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.events": EVENTS.format(3)}, 3),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.events": EVENTS.format(1),
                "sys/fs/cgroup/a/memory.events": EVENTS.format(4),
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n0::/\n",
                "sys/fs/cgroup/memory/x/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            },
            2,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom_kill many\n"}, 0),
    ],
)
def test_kills(tmp_path: Path, files: dict[str, str], count: int) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert kills(tmp_path) == count
